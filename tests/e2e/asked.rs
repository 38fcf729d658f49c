//! The same extender, asked by kube-scheduler and by Berth about the same pods on the same nodes: the questions are equal, and so
//! is what comes of them.

use std::collections::{BTreeMap, BTreeSet};

use berth_lab::{ControlPlane, Extender, ExtenderOptions, NodeSpec};
use serde_json::{Map, Value, json};

use crate::SOON;
use crate::cluster::{namespace, own_plane, serving};
use crate::objects::{PROFILES, pod_path, profile, wait_bound};

const SPACE: &str = "asked";
const NODES: usize = 6;

/// Fields that say who asked, or when an object was made, and those that the asker itself writes: whether its next question is
/// asked before or after it has seen them is chance.
const ASIDE: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "schedulerName",
    "managedFields",
    "startTime",
    "nominatedNodeName",
    "conditions",
];

/// Pods that differ in what the extender, the filters and the preemption see of them.
fn pods(scheduler: &str) -> Vec<Value> {
    let make = |name: &str, further: &dyn Fn(&mut Value)| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": SPACE, "labels": {"app": name}, "annotations": {"note": "kept as it is"}},
            "spec": {
                "schedulerName": scheduler,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"example.com/gpu": "1"}}}],
            },
        });
        further(&mut pod);
        pod
    };
    vec![
        make("plain", &|_| {}),
        make("zonal", &|pod| pod["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "zone-a"})),
        make("tolerant", &|pod| pod["spec"]["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}])),
        make("several", &|pod| {
            let mut second = pod["spec"]["containers"][0].clone();
            second["name"] = json!("second");
            second["env"] = json!([{"name": "A", "value": "b"}]);
            pod["spec"]["containers"].as_array_mut().unwrap().push(second);
        }),
        make("urgent", &|pod| {
            pod["spec"]["priorityClassName"] = json!("asked-high");
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("7");
        }),
    ]
}

fn node(index: usize) -> NodeSpec {
    let zone = if index.is_multiple_of(2) { "zone-a" } else { "zone-b" };
    let spec = NodeSpec::new(&format!("asked-{index}"), zone, "8", "32Gi").resource("example.com/gpu", "8");
    if index == NODES - 1 { spec.taint("dedicated", "x", "NoSchedule") } else { spec }
}

/// Without what says who asked and when, and with lists of names or objects in one order.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| !ASIDE.contains(&key.as_str()) && !key.ends_with("Time"));
            Value::Object(kept.map(|(key, value)| (key.clone(), plain(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(plain).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// Names in the place of uids, which differ from run to run.
fn renamed(body: &Value, names: &BTreeMap<String, String>) -> Value {
    match body {
        Value::Object(fields) => {
            let one = |(key, value): (&String, &Value)| match (key.as_str(), value.as_str()) {
                ("UID" | "PodUID", Some(uid)) => (key.clone(), json!(names.get(uid))),
                _ => (key.clone(), renamed(value, names)),
            };
            Value::Object(fields.iter().map(one).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| renamed(item, names)).collect()),
        other => other.clone(),
    }
}

/// What a run of all pods gives: the first question of each verb about each pod, and where the pods went.
#[derive(Debug, PartialEq)]
struct Run {
    questions: BTreeMap<(String, String), String>,
    nodes: BTreeMap<String, String>,
}

/// Lets the scheduler of this name place all pods, one after the other.
fn run(plane: &ControlPlane, extender: &Extender, scheduler: &str) -> Run {
    extender.forget().unwrap();
    // Room for `urgent` is where a pod of low priority has to go; one matters least, so that there is one best choice.
    for index in 0..NODES {
        let filler = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("filler-{index}"), "namespace": SPACE, "labels": {"app": "filler"}},
            "spec": {"nodeName": format!("asked-{index}"), "priorityClassName": if index == 1 { "asked-lowest" } else { "asked-low" }, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "3"}}}]},
        });
        plane.api.post(&pod_path(SPACE, ""), &filler).unwrap();
    }
    let mut names = BTreeMap::new();
    let mut note = |pod: &Value| {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        names.insert(text("uid"), text("name"));
    };
    for filler in plane.api.get(&pod_path(SPACE, "")).unwrap()["items"].as_array().unwrap() {
        note(filler);
    }
    let mut nodes = BTreeMap::new();
    for pod in pods(scheduler) {
        let made = plane.api.post(&pod_path(SPACE, ""), &pod).unwrap();
        note(&made);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        nodes.insert(name.clone(), wait_bound(plane, SPACE, &name));
    }
    let mut questions = BTreeMap::new();
    for request in extender.requests().unwrap() {
        let body = &request["body"];
        let of = body["Pod"]["metadata"]["name"].as_str().or(body["PodName"].as_str()).unwrap_or_default().to_owned();
        let verb = request["verb"].as_str().unwrap().to_owned();
        let question = plain(&renamed(body, &names)).to_string();
        questions.entry((of, verb)).or_insert(question);
    }
    let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    plane.api.request("DELETE", &pod_path(SPACE, ""), Some(&at_once)).unwrap();
    let gone = plane.wait_for("the pods to go", SOON, || {
        Ok(plane.api.get(&pod_path(SPACE, ""))?["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    });
    gone.unwrap();
    Run { questions, nodes }
}

fn compare(plane: &ControlPlane, extender: &Extender, cacheable: bool) {
    let form = if cacheable { "names" } else { "full" };
    let (theirs, ours) = (format!("asked-kube-{form}"), format!("asked-berth-{form}"));
    let config = json!({
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": theirs}],
        "extenders": [{
            "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt",
            "bindVerb": "bind", "weight": 100, "nodeCacheCapable": cacheable,
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": false}],
        }],
    });
    let expected = {
        let _running = plane.start_kube_scheduler(&plane.kubeconfig, config).unwrap();
        run(plane, extender, &theirs)
    };
    let mut spec = extender.spec("ext");
    spec["weight"] = json!(100);
    spec["nodePayload"] = json!(if cacheable { "Names" } else { "Full" });
    spec["verbs"]["bind"] = json!({"path": "bind"});
    spec["managedResources"] = json!([{"name": "example.com/gpu"}]);
    let spec = json!({"nodes": {"percentageToScore": 100}, "extenders": [spec]});
    plane.api.post(PROFILES, &profile(&ours, &spec)).unwrap();
    let found = run(plane, extender, &ours);
    assert_eq!(expected.nodes, found.nodes, "{form}: where the pods went");
    let asked = |run: &Run| run.questions.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(asked(&expected), asked(&found), "{form}: what was asked about which pod");
    for (key, question) in &expected.questions {
        assert_eq!(question, &found.questions[key], "{form}: {key:?}");
    }
    let verbs: BTreeSet<&str> = expected.questions.keys().map(|(_, verb)| verb.as_str()).collect();
    assert_eq!(
        verbs,
        ["bind", "filter", "preempt", "prioritize"].into(),
        "{form}: a verb that nobody used says nothing"
    );
}

/// The bodies are equal as JSON but for who asks and when, and so are the placements.
#[test]
fn kube_scheduler_and_berth_ask_the_same_and_do_the_same() {
    let plane = own_plane(Vec::new());
    let kubeconfig = plane.kubeconfig.clone();
    let options = ExtenderOptions { kubeconfig: Some(&kubeconfig), ..ExtenderOptions::default() };
    let extender = plane.start_extender("extender-asked", &options).unwrap();
    // Every node has a score of its own, so that there is one best.
    let scores: BTreeMap<String, usize> = (0..NODES).map(|index| (format!("asked-{index}"), index + 1)).collect();
    extender.rule(&json!({"scores": scores, "refused": {"asked-4": "no license"}})).unwrap();
    let operator = serving(&plane, "berth-asked", &["--extender-allow-http=127.0.0.1"]);
    namespace(&plane, SPACE);
    plane.create_nodes(NODES, node).unwrap();
    for (name, value) in [("asked-high", 1000), ("asked-low", -10), ("asked-lowest", -20)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        plane.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).unwrap();
    }
    compare(&plane, &extender, true);
    compare(&plane, &extender, false);
    drop(operator);
}
