//! The features that a pod's node must declare, inferred from the pod's spec as kube-scheduler 1.36 does.
//! After `staging/src/k8s.io/component-helpers/nodedeclaredfeatures/features`.
//!
//! ```text
//!  feature                                    a pod needs it to be placed
//!  RestartAllContainersOnContainerExits       where the end of a container or init container restarts all
//!  UserNamespacesHostNetworkSupport           on the host's network in a user namespace of its own
//!  InPlacePodLevelResourcesVerticalScaling    never: asked of a node when a pod there is resized
//!  InPlacePodVerticalScalingInitContainers    never: likewise
//!  ExtendWebSocketsToKubelet                  never: between API server and kubelet
//! ```
//!
//! A feature may name the last version in which it is still required; in 1.36 none does.

use super::Decoder;
use super::findings::Findings;
use crate::slim::PodSpec;
use berth_core::model::Str;

const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const USER_NAMESPACE_ON_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

pub(super) fn required_features(decoder: &mut Decoder, spec: &PodSpec<'_>, findings: &mut Findings) -> Vec<Str> {
    let mut required = Vec::new();
    if restarts_all(spec, findings) {
        required.push(decoder.text(RESTART_ALL));
    }
    if spec.host_network && spec.host_users == Some(false) {
        required.push(decoder.text(USER_NAMESPACE_ON_HOST_NETWORK));
    }
    required
}

fn restarts_all(spec: &PodSpec<'_>, findings: &mut Findings) -> bool {
    let mut all = false;
    for rule in spec.containers.iter().chain(&spec.init_containers).flat_map(|c| &c.restart_policy_rules) {
        match &*rule.action {
            "RestartAllContainers" => all = true,
            "" | "Restart" => {}
            other => findings.unknown("spec.containers.restartPolicyRules.action", other),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::decode::{Decoder, Object};
    use crate::manifest::from_manifest;
    use crate::slim::{SlimPod, known, unknown};
    use serde_json::{Value, json};

    fn pod(spec: Value) -> berth_core::model::Pod {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": spec}).to_string();
        assert!(unknown::unknown_fields(object.as_bytes(), &known::POD).is_empty(), "{object}");
        Decoder::small().pod(&SlimPod::read(object.as_bytes())).unwrap()
    }

    #[test]
    fn required_features_follow_from_the_spec() {
        let (all, hosts) = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport");
        let rule = |action: &str| json!({"name": "c", "restartPolicyRules": [{"action": action, "exitCodes": {"operator": "In", "values": [1]}}]});
        for (spec, required) in [
            (json!({"containers": [{"name": "c"}]}), vec![]),
            (json!({"containers": [{"name": "c"}, rule("RestartAllContainers")]}), vec![all]),
            (json!({"initContainers": [rule("RestartAllContainers")], "containers": [{"name": "c"}]}), vec![all]),
            (json!({"containers": [rule("Restart")]}), vec![]),
            (json!({"hostNetwork": true, "hostUsers": false}), vec![hosts]),
            (json!({"hostNetwork": true, "hostUsers": true}), vec![]),
            (json!({"hostNetwork": true}), vec![]),
            (json!({"hostNetwork": null, "hostUsers": false}), vec![]),
            (
                json!({"hostNetwork": true, "hostUsers": false, "containers": [rule("RestartAllContainers")]}),
                vec![all, hosts],
            ),
            // Resizes and streams ask nothing of the node that a pod is placed on.
            (json!({"resources": {"requests": {"cpu": "1"}}, "initContainers": [{"name": "i"}]}), vec![]),
        ] {
            let pod = pod(spec.clone());
            let inferred: Vec<&str> = pod.shape.row.required_features.iter().map(|f| &**f).collect();
            assert_eq!(inferred, required, "{spec}");
            assert!(pod.shape.held_by.is_empty(), "{spec}");
        }
    }

    #[test]
    fn an_action_from_the_future_holds_the_pod() {
        let pod = pod(json!({"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartNode"}]}]}));
        assert_eq!(
            pod.shape.held_by[0].to_string(),
            "an unknown value (spec.containers.restartPolicyRules.action=RestartNode)"
        );
    }

    #[test]
    fn a_bound_pod_needs_nothing_more() {
        assert!(
            pod(json!({"nodeName": "a", "hostNetwork": true, "hostUsers": false}))
                .shape
                .row
                .required_features
                .is_empty()
        );
    }

    #[test]
    fn the_controller_is_the_owner_marked_so() {
        let owners = json!([{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "0"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "7", "controller": true}]);
        let object = json!({"metadata": {"name": "a", "ownerReferences": owners}, "spec": {}}).to_string();
        let controller =
            Decoder::small().pod(&SlimPod::read(object.as_bytes())).unwrap().shape.controller.clone().unwrap();
        assert_eq!((&*controller.kind, &*controller.name, &*controller.uid), ("ReplicaSet", "web", "7"));
        assert_eq!(pod(json!({})).shape.controller, None);
    }

    #[test]
    fn pods_that_ask_for_nothing_are_best_effort() {
        let read = |spec: Value, status: Value| {
            let manifest =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec, "status": status});
            match &from_manifest(&mut Decoder::small(), &manifest)[0] {
                Ok(Object::Pod(pod)) => pod.shape.row.best_effort,
                other => panic!("{other:?}"),
            }
        };
        let asks = |resources: Value| json!([{"name": "c", "resources": resources}]);
        for (spec, best_effort) in [
            (json!({"containers": [{"name": "c"}]}), true),
            (json!({"containers": asks(json!({"requests": {"cpu": "0", "example.com/x": "1"}}))}), true),
            (json!({"containers": asks(json!({"requests": {"cpu": "1m"}}))}), false),
            (json!({"containers": asks(json!({"limits": {"memory": 5}}))}), false),
            (
                json!({"initContainers": asks(json!({"requests": {"memory": "1"}})), "containers": [{"name": "c"}]}),
                false,
            ),
            (json!({"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "c"}]}), false),
        ] {
            assert_eq!(read(spec.clone(), Value::Null), best_effort, "{spec}");
        }
        assert!(!read(json!({"containers": [{"name": "c"}]}), json!({"qosClass": "Burstable"})));
    }
}
