//! Services and controllers: their selectors.

use berth_cluster::decode::{Decoder, Object};
use berth_cluster::manifest::from_manifest;
use berth_core::model::WorkloadKind;
use serde_json::{Value, json};

#[test]
fn services_and_controllers() {
    let decode = |object: Value| from_manifest(&mut Decoder::small(), &object).remove(0);
    let meta = json!({"name": "a", "namespace": "n"});
    let service =
        |spec: Value| match decode(json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})) {
            Ok(Object::Service(service)) => service,
            other => panic!("{other:?}"),
        };
    let selected = service(json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    assert_eq!((&*selected.namespace, &*selected.name), ("n", "a"));
    assert_eq!(selected.selector.unwrap().get("app").map(|v| &**v), Some("web"));
    assert_eq!((service(json!({})).selector, service(json!({"selector": null})).selector), (None, None));
    let workload = |version: &str, kind: &str, selector: Value| {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"selector": selector, "replicas": 3}});
        match decode(object) {
            Ok(Object::Workload(workload)) => (workload.kind, workload.selector.map(|s| s.requirements.len())),
            other => panic!("{other:?}"),
        }
    };
    let terms = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "v", "operator": "Exists"}]});
    assert_eq!(workload("apps/v1", "ReplicaSet", terms.clone()), (WorkloadKind::ReplicaSet, Some(2)));
    assert_eq!(workload("apps/v1", "StatefulSet", terms), (WorkloadKind::StatefulSet, Some(2)));
    assert_eq!(workload("apps/v1", "StatefulSet", Value::Null), (WorkloadKind::StatefulSet, None));
    let broken = json!({"matchExpressions": [{"key": "v", "operator": "Near"}]});
    assert_eq!(workload("apps/v1", "ReplicaSet", broken), (WorkloadKind::ReplicaSet, None), "it selects nothing");
    let labels = json!({"app": "web", "tier": "front"});
    assert_eq!(workload("v1", "ReplicationController", labels), (WorkloadKind::ReplicationController, Some(2)));
    let bad =
        decode(json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": 7}}}));
    assert_eq!(
        bad.unwrap_err().to_string(),
        "service n/a: spec.selector.app: invalid type: integer `7`, expected a string"
    );
}
