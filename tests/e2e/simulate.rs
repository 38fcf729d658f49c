//! `berth simulate --call-extenders`: a real extender asked about manifests that no API server has seen.

use std::path::PathBuf;
use std::process::{Command, Output};

use berth_lab::{Extender, ExtenderOptions};
use serde_json::{Value, json};

use crate::cluster::{binary, shared};

struct Files {
    folder: PathBuf,
    extender: Extender,
}

impl Files {
    /// Two nodes, `a` with more capacity and a pod on it, `b` full of a pod of lower priority.
    fn new(name: &str) -> Self {
        let plane = &shared().plane;
        let folder = plane.dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let extender = plane.start_extender(name, &ExtenderOptions::default()).unwrap();
        let node = |name: &str, cpu: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"rack": "7"}},
                   "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})
        };
        let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [node("a", "8"), node("b", "2")]});
        let files = Self { folder, extender };
        files.write("nodes.json", &nodes);
        files
    }

    fn write(&self, name: &str, object: &Value) {
        std::fs::write(self.folder.join(name), object.to_string()).unwrap();
    }

    fn pod(&self, name: &str, cpu: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "schedulerName": "asking", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        change(&mut pod);
        self.write(&format!("pod-{name}.json"), &pod);
    }

    fn profile(&self, file: &str, extenders: &[Value]) {
        let profile = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
            "metadata": {"name": "asking"}, "spec": {"extenders": extenders}});
        self.write(file, &profile);
    }

    fn simulate(&self, args: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(["simulate", "-o", "json", "-f", "."]).args(args).current_dir(&self.folder);
        command.output().unwrap()
    }
}

/// What became of the pod `name`, of an answer that was one.
fn fate(output: &Output, name: &str) -> Value {
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", notes(output)));
    said["pods"].as_array().unwrap().iter().find(|pod| pod["name"] == name).unwrap().clone()
}

fn notes(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const CALL: [&str; 3] = ["--call-extenders", "--extender-allow-http", "127.0.0.1"];

#[test]
fn an_extender_is_called_where_that_is_asked_for_and_its_host_allowed() {
    let files = Files::new("sim-calls");
    files.profile("profile.json", &[files.extender.spec("ext")]);
    files.pod("web", "500m", |_| {});
    files.extender.rule(&json!({"refused": {"a": "no license"}})).unwrap();

    let output = files.simulate(&[]);
    assert!(notes(&output).contains("extender ext of SchedulerProfile asking concerns 1 pending pod and is not asked"));
    assert_eq!(fate(&output, "web")["node"], "a");
    assert!(files.extender.requests().unwrap().is_empty());

    let output = files.simulate(&["--call-extenders"]);
    assert_eq!(output.status.code(), Some(2));
    let refused = notes(&output);
    assert!(refused.contains("extender ext of SchedulerProfile asking was not called"), "{refused}");
    assert!(refused.contains("--extender-allow-http"), "{refused}");

    let output = files.simulate(&CALL);
    assert_eq!((fate(&output, "web")["node"].as_str(), notes(&output).as_str()), (Some("b"), ""));
    let verbs: Vec<Value> = files.extender.requests().unwrap().iter().map(|asked| asked["verb"].clone()).collect();
    assert_eq!(verbs, ["filter"], "one node is left: nobody is asked to score it");

    files.extender.rule(&json!({"error": "the license server is down"})).unwrap();
    let output = files.simulate(&CALL);
    assert_eq!(output.status.code(), Some(2));
    let message = fate(&output, "web")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("the license server is down"), "{message}");
    assert!(notes(&output).contains("1 of 1 calls to filter failed"), "{}", notes(&output));
}

#[test]
fn whole_nodes_and_victims_are_sent_as_the_manifests_have_them() {
    let files = Files::new("sim-whole");
    let mut spec = files.extender.spec("ext");
    spec["nodePayload"] = json!("Full");
    files.profile("profile.json", &[spec]);
    for (name, node, cpu) in [("on-a", "a", "8"), ("on-b", "b", "2")] {
        files.pod(name, cpu, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["metadata"]["annotations"] = json!({"note": format!("kept {node}")});
        });
    }
    files.pod("urgent", "1", |pod| pod["spec"]["priority"] = json!(100));
    files.extender.rule(&json!({"spared": ["simulated-pod-default-on-a"]})).unwrap();
    let output = files.simulate(&CALL);
    let urgent = fate(&output, "urgent");
    assert_eq!((&urgent["node"], &urgent["victims"]), (&json!("b"), &json!(["default/on-b"])), "{}", notes(&output));
    let asked = files.extender.requests().unwrap();
    let preempt = asked.iter().find(|asked| asked["verb"] == "preempt").unwrap();
    assert!(preempt["body"].to_string().contains("kept a"), "{preempt}");
    let filter = asked.iter().rfind(|asked| asked["verb"] == "filter").unwrap();
    assert!(filter["body"].to_string().contains("\"rack\":\"7\""), "{filter}");
}

#[test]
fn two_profiles_are_compared_with_the_extenders_of_each() {
    let files = Files::new("sim-pair");
    files.profile("with.yaml", &[files.extender.spec("ext")]);
    files.profile("without.yaml", &[]);
    files.pod("web", "500m", |_| {});
    files.extender.rule(&json!({"refused": {"a": "no", "b": "no"}})).unwrap();
    let pair = ["--profile", "without.yaml", "--profile", "with.yaml"];
    let output = files.simulate(&[&pair[..], &CALL].concat());
    assert_eq!(output.status.code(), Some(2), "{}", notes(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["noLongerFit"][0]["name"], "web", "{said}");
}
