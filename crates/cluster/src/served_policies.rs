//! Whether the API server serves MutatingAdmissionPolicy. Discovery tells, which every account may read: the operator has no right to
//! the policies themselves, and cannot know whether one is installed.

use crate::client::Fault;
use crate::send::Call;
use kube::Client;
use serde_json::Value;
use std::time::Duration;

const RESOURCE: &str = "mutatingadmissionpolicies";

/// Kubernetes 1.36 serves v1. 1.34 and 1.35 serve v1beta1 where it is switched on.
const GROUP_VERSIONS: [&str; 2] = ["admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"];

const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks for the resources of one version after the other.
pub async fn serves_mutating_policies(client: &Client) -> Result<bool, Fault> {
    for group_version in GROUP_VERSIONS {
        if lists(client, group_version).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn lists(client: &Client, group_version: &str) -> Result<bool, Fault> {
    let other = |message: String| Fault::Other { verb: "get", resource: RESOURCE, message };
    let answer = Call::get(format!("/apis/{group_version}")).send(client, TIMEOUT).await;
    let answer = answer.map_err(|error| other(error.to_string()))?;
    if answer.code == 404 {
        return Ok(false);
    }
    if !answer.is_success() {
        return Err(Fault::from_status("get", RESOURCE, answer.code, &answer.message()));
    }
    let found: Value = serde_json::from_slice(&answer.body).map_err(|error| other(error.to_string()))?;
    Ok(found["resources"].as_array().is_some_and(|served| served.iter().any(|one| one["name"] == RESOURCE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use serde_json::json;

    /// The answer where `version` is the one that serves the kind, and others are there or not.
    async fn ask(version: &'static str, others: u16) -> Result<bool, Fault> {
        let server = Scripted::start(move |asked| async move {
            let name = if asked.path.ends_with(version) { RESOURCE } else { "validatingadmissionpolicies" };
            let code = if asked.path.ends_with(version) { 200 } else { others };
            Reply::json(code, json!({"resources": [{"name": name}]}))
        })
        .await;
        serves_mutating_policies(&server.client()).await
    }

    #[tokio::test]
    async fn either_version_will_do_and_a_refusal_says_nothing() {
        assert_eq!(ask("/v1", 404).await, Ok(true));
        assert_eq!(ask("/v1beta1", 200).await, Ok(true));
        assert_eq!(ask("/none", 200).await, Ok(false));
        assert_eq!(ask("/none", 404).await, Ok(false));
        assert!(ask("/none", 403).await.is_err());
    }
}
