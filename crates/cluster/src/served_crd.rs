//! What the API server knows of our kind: not installed, not ready, older than this program, or as it should be.

use crate::client::Fault;
use crate::send::Call;
use kube::Client;
use serde_json::Value;
use std::time::Duration;

pub const CRD_NAME: &str = "schedulerprofiles.scheduling.berth.dev";

const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServedCrdError {
    #[error(
        "custom resource definition {CRD_NAME} is not installed: run `berth crd | kubectl apply --server-side -f -`, or install the chart with crds.enabled=true"
    )]
    NotInstalled,
    /// It is there and cannot be used yet, or its names are taken.
    #[error("custom resource definition {CRD_NAME} is not established: {0}; see `kubectl describe crd {CRD_NAME}`")]
    NotEstablished(String),
    #[error("custom resource definition {CRD_NAME}: {0}")]
    Unread(#[from] Fault),
}

/// Reads the installed definition and returns it with the fields that it lacks, as `missing` names them.
///
/// `missing` compares the served definition with our own. A definition newer than this program lacks nothing.
pub async fn served_crd(
    client: &Client,
    missing: impl FnOnce(&Value) -> Vec<String>,
) -> Result<Vec<String>, ServedCrdError> {
    let other = |message: String| Fault::Other { verb: "get", resource: RESOURCE, message };
    let call = Call::get(format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"));
    let answer = call.send(client, TIMEOUT).await.map_err(|e| other(e.to_string()))?;
    if answer.code == 404 {
        return Err(ServedCrdError::NotInstalled);
    }
    if !answer.is_success() {
        return Err(Fault::from_status("get", RESOURCE, answer.code, &answer.message()).into());
    }
    let served: Value = serde_json::from_slice(&answer.body).map_err(|e| other(e.to_string()))?;
    established(&served)?;
    Ok(missing(&served))
}

fn established(served: &Value) -> Result<(), ServedCrdError> {
    let conditions = served["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let find = |kind: &str| conditions.iter().find(|c| c["type"] == kind);
    if find("Established").is_some_and(|c| c["status"] == "True") {
        return Ok(());
    }
    let refused = find("NamesAccepted").filter(|c| c["status"] == "False").or_else(|| find("Established"));
    let why = refused.and_then(|c| c["message"].as_str()).unwrap_or("no condition yet");
    Err(ServedCrdError::NotEstablished(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use serde_json::json;

    async fn ask(code: u16, body: Value) -> Result<Vec<String>, ServedCrdError> {
        let server = Scripted::start(move |_| {
            let body = body.clone();
            async move { Reply::json(code, body) }
        })
        .await;
        let lacks = |served: &Value| if served["old"] == true { vec!["spec.nodes".to_owned()] } else { vec![] };
        served_crd(&server.client(), lacks).await
    }

    #[tokio::test]
    async fn each_state_of_the_definition_is_told_apart() {
        let ready = |old| json!({"old": old, "status": {"conditions": [{"type": "Established", "status": "True"}]}});
        assert_eq!(ask(200, ready(false)).await, Ok(vec![]));
        assert_eq!(ask(200, ready(true)).await, Ok(vec!["spec.nodes".to_owned()]));
        let absent = ask(404, json!({})).await.unwrap_err();
        assert!(absent.to_string().contains("berth crd | kubectl apply"), "{absent}");
        let taken = json!({"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "sprof is taken"}]}});
        assert_eq!(ask(200, taken).await, Err(ServedCrdError::NotEstablished("sprof is taken".into())));
        let refused = ask(403, json!({"message": "no"})).await.unwrap_err();
        assert!(refused.to_string().contains("`get` on `customresourcedefinitions"), "{refused}");
    }
}
