//! Whether the API server serves MutatingAdmissionPolicy. Discovery tells, which every account may read: the operator has no right to
//! the policies themselves, and cannot know whether one is installed.

use crate::client::Fault;
use crate::send::Call;
use kube::Client;
use serde_json::Value;
use std::time::Duration;

const RESOURCE: &str = "mutatingadmissionpolicies";

/// Kubernetes 1.36 serves the kind in v1, and the chart writes it so. The beta of 1.34 and 1.35 is off by default.
const GROUP_VERSION: &str = "/apis/admissionregistration.k8s.io/v1";

const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads what the API server lists in the group's version.
pub async fn serves_mutating_policies(client: &Client) -> Result<bool, Fault> {
    let other = |message: String| Fault::Other { verb: "get", resource: RESOURCE, message };
    let answer = Call::get(GROUP_VERSION.to_owned()).send(client, TIMEOUT).await;
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

    async fn ask(code: u16, listed: &'static [&'static str]) -> Result<bool, Fault> {
        let server = Scripted::start(move |_| async move {
            let resources: Vec<Value> = listed.iter().map(|name| json!({"name": name})).collect();
            Reply::json(code, json!({"resources": resources}))
        })
        .await;
        serves_mutating_policies(&server.client()).await
    }

    #[tokio::test]
    async fn what_is_not_listed_is_not_served_and_a_refusal_says_nothing() {
        assert_eq!(ask(200, &["validatingadmissionpolicies", RESOURCE]).await, Ok(true));
        assert_eq!(ask(200, &["validatingadmissionpolicies"]).await, Ok(false));
        assert_eq!(ask(404, &[]).await, Ok(false));
        assert!(ask(403, &[]).await.is_err());
    }
}
