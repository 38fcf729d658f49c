//! Objects of other products that configure kube-scheduler: AKS' SchedulerConfiguration and OpenShift's Scheduler.

use super::InputError;
use super::documents::{Object, documents_in};
use berth_convert::import::{API_VERSION, KIND};
use serde_json::{Value, json};

/// The configurations that `object` contains or stands for; `None` if it is of another kind.
pub(super) fn configurations(object: &Object) -> Result<Option<Vec<Object>>, InputError> {
    match (object.api_version.split('/').next(), object.kind.as_str()) {
        (Some("aks.azure.com"), "SchedulerConfiguration") => {
            let spec = &object.value["spec"];
            if spec["profiles"].is_array() {
                // As in AKS' first preview: the fields of a configuration without apiVersion and kind.
                return Ok(Some(vec![synthesised(object, API_VERSION, spec.clone())]));
            }
            let text = spec["rawConfig"].as_str().unwrap_or_default();
            let found = documents_in(&object.origin, "spec.rawConfig", text, false)?;
            if found.is_empty() {
                let problem = "spec.rawConfig: holds no KubeSchedulerConfiguration: write one".to_owned();
                return Err(bad(object, problem));
            }
            Ok(Some(found))
        }
        (Some("config.openshift.io"), "Scheduler") => openshift(object).map(|found| Some(vec![found])),
        _ => Ok(None),
    }
}

fn bad(object: &Object, problem: String) -> InputError {
    InputError::Bad { origin: object.origin.clone(), object: object.kind.clone(), problem }
}

/// OpenShift's profiles are fixed configurations. A Policy, which older versions can name instead, wins over the profile.
fn openshift(object: &Object) -> Result<Object, InputError> {
    let spec = &object.value["spec"];
    let policy = spec["policy"]["name"].as_str().unwrap_or_default();
    let (api_version, value) = if policy.is_empty() {
        let profile = match spec["profile"].as_str().unwrap_or_default() {
            "" | "LowNodeUtilization" => json!({}),
            "HighNodeUtilization" => json!({
                "plugins": {"score": {
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}}}]}),
            "NoScoring" => json!({"plugins": {"preScore": {"disabled": [{"name": "*"}]},
                                              "score": {"disabled": [{"name": "*"}]}}}),
            other => {
                let fix = "write LowNodeUtilization, HighNodeUtilization or NoScoring";
                return Err(bad(object, format!("spec.profile: {other:?} is not known: {fix}")));
            }
        };
        (API_VERSION, json!({"profiles": [profile]}))
    } else {
        let map = json!({"namespace": "openshift-config", "name": policy});
        ("kubescheduler.config.k8s.io/v1alpha1", json!({"algorithmSource": {"policy": {"configMap": map}}}))
    };
    Ok(synthesised(object, api_version, value))
}

/// `value` with the version and kind of a configuration.
fn synthesised(object: &Object, api_version: &str, mut value: Value) -> Object {
    value["apiVersion"] = api_version.into();
    value["kind"] = KIND.into();
    Object {
        origin: object.origin.clone(),
        holder: None,
        api_version: api_version.to_owned(),
        kind: KIND.to_owned(),
        value,
    }
}
