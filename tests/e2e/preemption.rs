//! Pods that make room for pods of higher priority: no kubelet runs here, so a victim with a grace period stays until the
//! test takes it away as a kubelet would, and one without goes at once.

use berth_lab::{ControlPlane, NodeSpec, Operator, Patch};
use serde_json::{Value, json};

use crate::cluster::{namespace, own_plane, serving, start};
use crate::objects::{self, PROFILES, condition, pod, pod_path, profile, wait_bound, wait_event_that, wait_reason};
use crate::refused::{CLUSTER_ROLE, restore, wait_allowed, withdraw};
use crate::world::World;
use crate::{LATER, SOON};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// The classes of these tests, by their value.
pub(crate) fn class(plane: &ControlPlane, value: i64) -> String {
    let name = format!("preemption-{value}");
    let object = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    });
    // Another test may have made it.
    let answer = plane.api.request("POST", CLASSES, Some(&object)).unwrap();
    assert!(answer.is_success() || answer.status == 409, "{answer:?}");
    // Admission knows it a moment later.
    let mut probe = pod("default", "probe", "nobody", "0");
    probe["spec"]["priorityClassName"] = json!(name);
    let known = || {
        let answer = plane.api.request("POST", &format!("{}?dryRun=All", pod_path("default", "")), Some(&probe))?;
        Ok((!answer.body.to_string().contains("no PriorityClass")).then_some(()))
    };
    plane.wait_for("the PriorityClass", SOON, known).unwrap();
    name
}

impl World {
    /// A pod of this priority; `grace` is how long it takes to go, in seconds.
    pub(crate) fn ranked(
        &self,
        name: &str,
        cpu: &str,
        priority: i64,
        grace: i64,
        further: impl FnOnce(&mut Value),
    ) -> Value {
        let class = class(self.plane, priority);
        self.pod(name, cpu, |pod| {
            pod["spec"]["priorityClassName"] = json!(class);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
            further(pod);
        })
    }

    /// Fills a node of 4 CPUs with pods of 1 CPU each.
    fn fill(&self, node: &str, grace: i64, labels: &Value) {
        for i in 0..4 {
            let name = format!("low-{node}-{i}");
            self.ranked(&name, "1", 10, grace, |pod| {
                pod["metadata"]["labels"] = labels.clone();
                pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": self.node_name(node)});
            });
            self.bound(&name);
        }
    }

    /// The names of its pods for which `wanted` holds.
    fn names(&self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let list = self.plane.api.get(&pod_path(&self.name, "")).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter(|pod| wanted(pod)).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn going(&self) -> Vec<String> {
        self.names(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    }

    /// Waits until so many of its pods are being deleted; their names.
    fn wait_going(&self, count: usize) -> Vec<String> {
        let going = || Ok(Some(self.going()).filter(|going| going.len() >= count));
        self.plane.wait_for(&format!("{count} victims in {}", self.name), SOON, going).unwrap()
    }
}

#[test]
fn lower_pods_go_and_say_why_and_the_higher_one_comes() {
    let world = World::with("preempting", &json!({}), 1);
    world.fill("0", 30, &json!({}));
    let high = world.ranked("high", "2", 1000, 0, |_| {});
    let going = world.wait_going(2);
    assert_eq!(going.len(), 2, "no more than it takes");
    for victim in &going {
        let (status, reason, message) = condition(&world.get(victim), "DisruptionTarget").unwrap();
        assert_eq!((&*status, &*reason), ("True", "PreemptionByScheduler"));
        assert_eq!(message, "preempting: preempting to accommodate a higher priority pod");
        let event = wait_event_that(world.plane, &world.name, "Preempted", |e| e["regarding"]["name"] == **victim);
        let uid = high["metadata"]["uid"].as_str().unwrap();
        assert_eq!(event["note"], format!("Preempted by pod {uid} on node preempting-0"));
        assert_eq!((&event["type"], &event["action"]), (&json!("Normal"), &json!("Preempting")));
        assert_eq!((&event["related"]["name"], &event["related"]["uid"]), (&json!("high"), &high["metadata"]["uid"]));
        assert_eq!(event["reportingController"], "preempting");
        let described = world.plane.kubectl_ok(&["describe", "pod", victim, "-n", &world.name]).unwrap();
        assert!(described.contains("Preempted") && described.contains("DisruptionTarget"), "{described}");
    }
    let nominated = || Ok((world.get("high")["status"]["nominatedNodeName"] == "preempting-0").then_some(()));
    world.plane.wait_for("the nomination", SOON, nominated).unwrap();
    world.says("high", "0/1 nodes are available: 1 Insufficient cpu.");
    world.delete(&going[0]);
    assert_eq!(world.get("high")["spec"]["nodeName"], Value::Null);
    world.delete(&going[1]);
    assert_eq!(world.bound("high"), "0");
    assert_eq!(world.going(), Vec::<String>::new(), "one preemption was enough");
    let measured = || {
        let (_, page) = world.operator.page("/metrics")?;
        let is = |line: &str| page.lines().any(|l| l == line);
        let counted = is("scheduler_preemption_victims_count{profile=\"preempting\"} 1")
            && is("scheduler_preemption_victims_sum{profile=\"preempting\"} 2.0");
        Ok(counted.then_some(()))
    };
    world.plane.wait_for("one preemption of two victims in the metrics", SOON, measured).unwrap();
    let counted = || Ok((world.profile_now()["status"]["totals"]["preemptionVictims"] == 2).then_some(()));
    world.plane.wait_for("the victims in the status", LATER, counted).unwrap();
}

#[test]
fn budgets_are_kept_where_there_is_a_choice_and_always_where_the_profile_says_so() {
    let world = World::with("budgets", &json!({}), 2);
    // No controller runs: nothing is allowed by it.
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "guarded"}}},
    });
    world.plane.api.post("/apis/policy/v1/namespaces/budgets/poddisruptionbudgets", &budget).unwrap();
    world.fill("0", 0, &json!({"app": "guarded"}));
    world.fill("1", 0, &json!({"app": "free"}));
    world.ranked("first", "4", 1000, 0, |_| {});
    assert_eq!(world.bound("first"), "1");
    world.change(&json!({"preemption": {"podDisruptionBudgets": "Strict"}}));
    wait_reason(world.plane, "budgets", "Ready", "Serving");
    world.ranked("second", "1", 1000, 0, |_| {});
    let message = world.unschedulable("second");
    assert!(message.contains("preemption: "), "{message}");
    assert_eq!(world.names(|pod| pod["metadata"]["labels"]["app"] == "guarded").len(), 4);
    world.change(&json!({"preemption": {"podDisruptionBudgets": "BestEffort"}}));
    assert_eq!(world.bound("second"), "0");
    assert_eq!(world.names(|pod| pod["metadata"]["labels"]["app"] == "guarded").len(), 3);
}

#[test]
fn two_profiles_that_want_the_same_room_evict_once() {
    let world = World::with("preemptors", &json!({}), 1);
    world.profile("preemptors-more", &json!({}));
    wait_reason(world.plane, "preemptors-more", "Ready", "Serving");
    world.fill("0", 30, &json!({}));
    world.ranked("one", "3", 1000, 0, |_| {});
    world.ranked("two", "3", 1000, 0, |pod| pod["spec"]["schedulerName"] = json!("preemptors-more"));
    let going = world.wait_going(3);
    world.unschedulable("one");
    world.unschedulable("two");
    assert_eq!(world.going().len(), 3, "the fourth can stay");
    for victim in going {
        world.delete(&victim);
    }
    let bound = || Ok(Some(world.names(|pod| pod["spec"]["nodeName"].is_string())).filter(|names| names.len() == 2));
    let bound = world.plane.wait_for("one of the two", SOON, bound).unwrap();
    assert_eq!(bound.iter().filter(|name| ["one", "two"].contains(&name.as_str())).count(), 1, "{bound:?}");
}

#[test]
fn a_pod_that_its_kubelet_runs_is_no_victim_and_a_foreign_nominee_keeps_its_room() {
    let world = World::with("static", &json!({}), 1);
    let on = world.node_name("0");
    let mut mirror = pod("static", "mirror", "kubelet", "4");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "x"});
    let uid = world.plane.api.get(&format!("/api/v1/nodes/{on}")).unwrap()["metadata"]["uid"].clone();
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": on, "uid": uid, "controller": true}]);
    mirror["spec"]["nodeName"] = json!(on);
    mirror["spec"]["automountServiceAccountToken"] = json!(false);
    world.plane.api.post(&pod_path("static", ""), &mirror).unwrap();
    world.ranked("high", "2", 1000, 0, |_| {});
    let message = world.unschedulable("high");
    assert!(message.contains("preemption: 0/1 nodes are available: 1 No preemption victims found"), "{message}");
    world.delete("mirror");
    assert_eq!(world.bound("high"), "0");
    // Another scheduler has nominated a pod of its own to the node.
    world.ranked("theirs", "2", 1000, 0, |pod| pod["spec"]["schedulerName"] = json!("kube-scheduler-elsewhere"));
    let nominated = json!({"status": {"nominatedNodeName": on}});
    world.plane.api.patch(&format!("{}/status", pod_path("static", "theirs")), Patch::Merge, &nominated).unwrap();
    world.ranked("late", "1", 1000, 0, |_| {});
    let message = world.unschedulable("late");
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");
    world.delete("theirs");
    assert_eq!(world.bound("late"), "0");
}

/// The class of 130429: a foreign scheduler puts the same workload back each time.
#[test]
fn a_foreign_scheduler_that_refills_what_was_freed_ends_it_after_two_preemptions_130429() {
    let world = World::with("storm", &json!({}), 1);
    world.fill("0", 30, &json!({}));
    world.ranked("high", "4", 1000, 0, |_| {});
    for preemption in 0..2 {
        let victims = world.wait_going(4);
        for (i, victim) in victims.iter().enumerate() {
            // Theirs are there before the victim is gone, as a scheduler that does not count terminating pods puts them.
            let class = class(world.plane, 10);
            let mut theirs = pod("storm", &format!("theirs-{preemption}-{i}"), "kube-scheduler-elsewhere", "1");
            theirs["spec"]["priorityClassName"] = json!(class);
            world.plane.api.post(&pod_path("storm", ""), &theirs).unwrap();
            let bound =
                objects::bind(&world.plane.api, "storm", &format!("theirs-{preemption}-{i}"), &world.node_name("0"));
            assert!(bound.is_success(), "{bound:?}");
            world.delete(victim);
        }
    }
    let (status, message) = world.reason("SchedulingHealthy", "PreemptionStorm");
    assert_eq!(status, "False");
    assert!(message.contains("8 pods were evicted for pod storm/high in 2 preemptions"), "{message}");
    wait_event_that(world.plane, "default", "PreemptionStorm", |event| event["regarding"]["name"] == "storm");
    assert!(
        message.contains("scheduler kube-scheduler-elsewhere took the freed capacity on node storm-0"),
        "{message}"
    );
    assert!(world.unschedulable("high").contains("preemption: stopped after 2 preemptions"));
    assert_eq!(world.going(), Vec::<String>::new());
    // Something else happens: it is tried again, and nobody goes.
    world.node("1", "1", |node| node);
    world.settle("1");
    let told = || Ok(world.unschedulable("high").starts_with("0/2").then_some(()));
    world.plane.wait_for("another attempt", SOON, told).unwrap();
    assert_eq!(world.going(), Vec::<String>::new());
    assert_eq!(condition(&world.profile_now(), "Ready").unwrap().1, "Serving");
}

const HERE: &str = "evicting";
const VICTIMS: usize = 40;

/// What an operator began and did not end, the next one finds in the cluster; and what it may not do, it says.
#[test]
fn an_operator_that_is_killed_in_the_middle_of_a_preemption_one_that_may_not_delete_and_one_whose_profile_goes() {
    let plane = own_plane(Vec::new());
    namespace(&plane, HERE);
    plane.create_nodes(2, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "4", "32Gi")).unwrap();
    let mut operator = serving(&plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile(HERE, &json!({}))).unwrap();
    wait_reason(&plane, HERE, "Ready", "Serving");
    let (low, high) = (class(&plane, 10), class(&plane, 1000));
    let make = |name: &str, cpu: &str, class: &str, node: &str| {
        let mut pod = pod(HERE, name, HERE, cpu);
        pod["spec"]["priorityClassName"] = json!(class);
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        plane.api.post(&pod_path(HERE, ""), &pod).unwrap();
    };
    for i in 0..VICTIMS {
        make(&format!("low-{i}"), "100m", &low, "n0");
    }
    make("bystander", "4", &low, "n1");
    for i in 0..VICTIMS {
        wait_bound(&plane, HERE, &format!("low-{i}"));
    }
    wait_bound(&plane, HERE, "bystander");
    make("first", "4", &high, "n0");
    plane.wait_for("a victim", SOON, || Ok((!going(&plane).is_empty()).then_some(()))).unwrap();
    operator.process.kill().unwrap();
    let begun = going(&plane).len();
    operator = start(&plane, "berth-0", &[]);
    plane.wait_until_serving(&mut operator).unwrap();
    // As the kubelet does, until the pod has its node.
    let bound = plane.wait_for("the pod", LATER, || {
        for victim in going(&plane) {
            delete_now(&plane, &victim);
        }
        Ok(plane.api.get(&pod_path(HERE, "first"))?["spec"]["nodeName"].as_str().map(str::to_owned))
    });
    assert_eq!(bound.unwrap(), "n0");
    println!("killed when {begun} of {VICTIMS} victims were going");
    let bystander = plane.api.get(&pod_path(HERE, "bystander")).unwrap();
    assert_eq!(bystander["metadata"]["deletionTimestamp"], Value::Null);
    one_that_may_not_delete(&plane, &|| make("second", "2", &high, "n1"));
    let higher = class(&plane, 2000);
    one_whose_profile_goes(&plane, operator, &|| make("third", "4", &higher, "n1"));
}

fn one_that_may_not_delete(plane: &ControlPlane, ask: &dyn Fn()) {
    let rules = withdraw(plane, CLUSTER_ROLE, "delete", "pods");
    ask();
    let told = plane.wait_for("why nobody goes", SOON, || {
        let message =
            condition(&plane.api.get(&pod_path(HERE, "second"))?, "PodScheduled").map(|(_, _, message)| message);
        Ok(message.filter(|m| m.contains("preemption: pod evicting/bystander not evicted: ")))
    });
    let told = told.unwrap();
    assert!(told.contains("cannot delete resource \"pods\""), "{told}");
    let (_, message) = objects::wait_reason_within(plane, HERE, "Programmed", "PermissionDenied", LATER);
    assert!(message.contains("may not delete pods"), "{message}");
    assert_eq!(wait_reason(plane, HERE, "Ready", "Serving").0, "True", "pods that evict nobody are placed");
    restore(plane, CLUSTER_ROLE, &rules);
    wait_allowed(plane, "delete", "pods", true);
    plane.wait_for("the victim", LATER, || Ok(going(plane).contains(&"bystander".to_owned()).then_some(()))).unwrap();
    delete_now(plane, "bystander");
    assert_eq!(wait_bound(plane, HERE, "second"), "n1");
}

/// A profile that is deleted while nobody leads: the next leader never serves its name, and no room is kept for its pods. What another
/// scheduler has nominated is left alone.
fn one_whose_profile_goes(plane: &ControlPlane, mut operator: Operator, ask: &dyn Fn()) {
    let nominated = |name: &str| {
        let pod = plane.api.get(&pod_path(HERE, name)).unwrap();
        pod["status"]["nominatedNodeName"].as_str().map(str::to_owned)
    };
    ask();
    plane.wait_for("a nomination", SOON, || Ok(nominated("third"))).unwrap();
    operator.process.kill().unwrap();
    plane.api.delete(&format!("{PROFILES}/{HERE}"), None).unwrap();
    plane.api.post(&pod_path(HERE, ""), &pod(HERE, "theirs", "another-scheduler", "4")).unwrap();
    let status = format!("{}/status?fieldManager=another-scheduler", pod_path(HERE, "theirs"));
    plane.api.patch(&status, Patch::Merge, &json!({"status": {"nominatedNodeName": "n1"}})).unwrap();
    assert_eq!(nominated("third").as_deref(), Some("n1"), "nobody is there to end it");
    let _next = serving(plane, "berth-0", &[]);
    let ended = || Ok(nominated("third").is_none().then_some(()));
    plane.wait_for("the end of a nomination that nobody looks after", LATER, ended).unwrap();
    assert_eq!(nominated("theirs").as_deref(), Some("n1"));
}

fn going(plane: &ControlPlane) -> Vec<String> {
    let list = plane.api.get(&pod_path(HERE, "")).unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let going = items.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_string());
    going.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn delete_now(plane: &ControlPlane, pod: &str) {
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    plane.api.delete(&pod_path(HERE, pod), Some(&now)).unwrap();
}
