//! The operator's pods where clusters differ: labels, security contexts, networks, what is added to them; and the pod of `helm test`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{HOME, helm, object, rendered, repository, text, yaml};

fn template_of_the_pods(objects: &[Value]) -> &Value {
    &object(objects, "Deployment", "berth")["spec"]["template"]
}

#[test]
fn a_new_version_of_the_chart_alone_restarts_nothing() {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chart-of-another-version");
    drop(fs::remove_dir_all(&copy));
    assert!(Command::new("cp").arg("-R").arg(repository("charts/berth")).arg(&copy).status().unwrap().success());
    let mut about = yaml(&text("charts/berth/Chart.yaml"));
    about["version"] = json!("99.0.0");
    about["appVersion"] = json!("98.0.0");
    fs::write(copy.join("Chart.yaml"), about.to_string()).unwrap();
    let pinned = ["--set", "image.tag=pinned"];
    let template = ["template", "berth", copy.to_str().unwrap(), "--namespace", HOME];
    let newer = helm(&[&template[..], &pinned].concat());
    assert!(newer.success, "{}", newer.stderr);
    let newer: Vec<Value> = serde_saphyr::from_multiple(&newer.stdout).unwrap();
    let older = rendered(&pinned);
    let labels = |objects: &[Value]| object(objects, "Deployment", "berth")["metadata"]["labels"].clone();
    assert_ne!(labels(&older), labels(&newer), "the copy has another version");
    assert_eq!(template_of_the_pods(&older), template_of_the_pods(&newer));
}

/// OpenShift chooses the user itself and refuses a pod that names another one.
#[test]
fn security_contexts_can_be_left_to_the_cluster() {
    let objects = rendered(&["--set", "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null"]);
    let rest = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    for spec in [&template_of_the_pods(&objects)["spec"], &object(&objects, "Pod", "berth-test")["spec"]] {
        assert_eq!(spec["securityContext"], rest);
    }
    let objects = rendered(&["--set", "podSecurityContext=null,containerSecurityContext=null"]);
    for spec in [&template_of_the_pods(&objects)["spec"], &object(&objects, "Pod", "berth-test")["spec"]] {
        assert!(spec["securityContext"].is_null() && spec["containers"][0]["securityContext"].is_null(), "{spec}");
    }
}

#[test]
fn pods_go_to_nodes_that_run_linux() {
    let objects = rendered(&["--set", "nodeSelector.pool=system"]);
    let expected = json!({"kubernetes.io/os": "linux", "pool": "system"});
    assert_eq!(template_of_the_pods(&objects)["spec"]["nodeSelector"], expected);
    assert_eq!(object(&objects, "Pod", "berth-test")["spec"]["nodeSelector"], expected);
}

/// Extenders are found by the names of their Services.
#[test]
fn on_the_nodes_network_the_clusters_dns_is_still_asked() {
    for (set, is_on_the_node, policy) in [
        ("hostNetwork=false", Value::Null, Value::Null),
        ("hostNetwork=true", json!(true), json!("ClusterFirstWithHostNet")),
        ("hostNetwork=true,dnsPolicy=Default", json!(true), json!("Default")),
    ] {
        let objects = rendered(&["--set", set]);
        let spec = &template_of_the_pods(&objects)["spec"];
        assert_eq!((&spec["hostNetwork"], &spec["dnsPolicy"]), (&is_on_the_node, &policy), "{set}");
    }
}

/// On the node's network the loopback address is the node's: whoever has a process there would reach it.
#[test]
fn the_debug_pages_are_on_the_pods_own_loopback_address_or_nowhere() {
    for (set, is_there) in [("debug.port=9000", true), ("debug.port=0", false), ("hostNetwork=true", false)] {
        let objects = rendered(&["--set", set]);
        let args = template_of_the_pods(&objects)["spec"]["containers"][0]["args"].clone();
        let debug: Vec<&Value> =
            args.as_array().unwrap().iter().filter(|arg| arg.to_string().contains("debug")).collect();
        let wanted = json!("--debug-address=127.0.0.1:9000");
        assert_eq!(debug, if is_there { vec![&wanted] } else { Vec::new() }, "{set}");
    }
}

/// Two pods that want the same ports of a node: the new one would wait for ever where each node has one already.
#[test]
fn on_the_nodes_network_an_update_ends_one_pod_before_it_starts_the_next() {
    for (set, unavailable, surge) in [("hostNetwork=false", 0, 1), ("hostNetwork=true", 1, 0)] {
        let objects = rendered(&["--set", set]);
        let rolling = &object(&objects, "Deployment", "berth")["spec"]["strategy"]["rollingUpdate"];
        assert_eq!(*rolling, json!({"maxUnavailable": unavailable, "maxSurge": surge}), "{set}");
    }
}

/// Helm hands null on to templates: what is left out there is empty, not an error.
#[test]
fn values_that_are_null_are_as_empty_ones() {
    let nulls = "nodeSelector=null,commonLabels=null,commonAnnotations=null,podLabels=null,probes.liveness=null";
    let objects = rendered(&["--set", nulls]);
    let spec = &template_of_the_pods(&objects)["spec"];
    assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(spec["containers"][0]["livenessProbe"], json!({"httpGet": {"path": "/livez", "port": "probes"}}));
    let objects = rendered(&["--set", "terminationGracePeriodSeconds=null"]);
    let spec = &template_of_the_pods(&objects)["spec"];
    assert!(spec["terminationGracePeriodSeconds"].is_null(), "0 would end the leader before it gives the Lease back");
}

#[test]
fn what_is_added_stands_behind_the_charts_own() {
    let every = repository("charts/berth/ci/every-value.yaml");
    let objects = rendered(&["-f", every.to_str().unwrap()]);
    let deployment = object(&objects, "Deployment", "quay");
    let spec = &deployment["spec"]["template"]["spec"];
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&spec["containers"]), ["berth", "extender"]);
    assert_eq!(names(&spec["volumes"]), ["authorities"]);
    let own = &spec["containers"][0];
    assert_eq!(own["args"].as_array().unwrap().last().unwrap(), "--extender-allow-host=10.1.0.0/16");
    assert_eq!(names(&own["env"]), ["POD_NAME", "POD_NAMESPACE", "POD_UID", "SSL_CERT_FILE"]);
    assert_eq!(names(&own["volumeMounts"]), ["authorities"]);
    for added in ["quay-authorities", "berth-text"] {
        object(&objects, "ConfigMap", added);
    }
    let annotated = |object: &&Value| object["metadata"]["annotations"]["example.com/contact"] == "platform";
    let without: Vec<&Value> = objects.iter().filter(|object| !annotated(object)).collect();
    assert!(without.iter().all(|object| object["kind"] == "ConfigMap"), "no common annotation: {without:?}");
    assert_eq!(deployment["metadata"]["annotations"]["example.com/reload"], "true");
}

#[test]
fn the_example_of_an_extender_beside_the_operator_is_values_of_the_chart() {
    let values = repository("examples/policy/beside.yaml");
    let objects = rendered(&["-f", values.to_str().unwrap()]);
    let containers = &template_of_the_pods(&objects)["spec"]["containers"];
    assert_eq!(containers[1]["name"], "extender");
    let args = containers[0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--extender-allow-http=localhost")), "{args:?}");
}

/// What selects the operator's pods would otherwise count it: a budget, a monitor, a policy.
#[test]
fn the_pod_of_helm_test_is_none_of_the_operators_and_may_nothing() {
    let objects = rendered(&[]);
    let pod = object(&objects, "Pod", "berth-test");
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
    let selector = &object(&objects, "Deployment", "berth")["spec"]["selector"]["matchLabels"];
    let labels = &pod["metadata"]["labels"];
    assert!(selector.as_object().unwrap().iter().any(|(label, value)| labels[label] != *value), "{labels}");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    let image = &template_of_the_pods(&objects)["spec"]["containers"][0]["image"];
    assert_eq!(pod["spec"]["containers"][0]["image"], *image);
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["version"]));
}
