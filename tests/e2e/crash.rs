//! Killed again and again in the middle of the work: nothing is lost, nothing is done twice.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use berth_lab::{ControlPlane, Driver, NodeSpec};
use serde_json::{Value, json};

use crate::audit::Audit;
use crate::cluster::{namespace, own_plane, serving, start};
use crate::history::{Recorder, summed};
use crate::minor;
use crate::objects::{PROFILES, ask_for, pod, pod_path, profile, wait_reason};

const PODS: usize = 5_000;
const NODES: usize = 200;
/// Each kill costs the 5 s that a container restarted in its pod waits for requests of the one before it, and interrupts up to 64
/// binds at another stage of the work: the first while pods are still created, the last when more than half of the nodes are full.
const KILLS: usize = 5;
/// Milli-CPU of a node: 30 pods, 6,000 in all.
const ROOM: u64 = 3_000;
/// One pod in so many has a claim of a device.
const CLAIMS: usize = 10;
/// One pod in so many asks for a device by an extended resource: its claim is made before the bind.
const EXTENDED: usize = 20;
/// Of a node. A full one has four or five pods with devices in the mean.
const DEVICES: usize = 6;
const DRIVER: &str = "devices.crash.berth.dev";
/// Longest run: minutes where the machine is shared.
const LIMIT: Duration = Duration::from_mins(5);

/// A kill may lose a pod, or leave a bind that succeeded without an answer to its sender: the next process must neither bind that
/// pod again nor give its capacity to another one. The same of devices: a claim may be allocated, and not yet reserved, or its pod not bound.
#[test]
fn five_kills_during_five_thousand_pods_lose_none_bind_none_twice_and_overbook_no_node() {
    let audit = Audit::new("crash");
    let plane = own_plane(audit.flags());
    namespace(&plane, "crash");
    plane.create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), "zone-a", "3", "64Gi")).unwrap();
    let driver = plane.start_driver(DRIVER, &(0..NODES).map(|i| format!("n{i}")).collect::<Vec<_>>(), DEVICES).unwrap();
    plane.create_objects(&claims(), PODS / CLAIMS, 16, |i| claim(&format!("p{}", i * CLAIMS))).unwrap();
    let mut operator = serving(&plane, "berth-0", &[]);
    // Nodes filled one after the other: each fill is a chance to overbook.
    plane.api.post(PROFILES, &profile("crash", &json!({"preset": "BinPack"}))).unwrap();
    wait_reason(&plane, "crash", "Ready", "Serving");
    let recorder = Recorder::start(&plane, "crash");
    let began = Instant::now();
    thread::scope(|scope| {
        let made = scope.spawn(|| {
            plane.create_objects(&pod_path("crash", ""), PODS, 16, |i| {
                let name = format!("p{i}");
                let mut pod = pod("crash", &name, "crash", "100m");
                if i.is_multiple_of(CLAIMS) {
                    pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": name}]);
                }
                if asks_by_resource(i) {
                    ask_for(&mut pod, &Driver::resource(DRIVER));
                }
                pod
            })
        });
        for kill in 1..=KILLS {
            // The last kill leaves so many pods that it cannot come too late.
            let reached = kill * PODS / (KILLS + 2);
            plane
                .wait_for(&format!("{reached} pods bound"), LIMIT, || {
                    assert!(operator.process.ended().unwrap().is_none(), "{}", operator.process.log_tail(30));
                    Ok((recorder.bound() >= reached).then_some(()))
                })
                .unwrap_or_else(|error| panic!("{error}\n{}", operator.process.log_tail(30)));
            operator.process.kill().unwrap();
            assert!(recorder.bound() < PODS, "kill {kill} came when all was done");
            operator = start(&plane, "berth-0", &[]);
        }
        made.join().unwrap().unwrap();
    });
    plane
        .wait_for("all pods bound", LIMIT, || Ok((recorder.bound() == PODS).then_some(())))
        .unwrap_or_else(|error| panic!("{error}: {} are\n{}", recorder.bound(), operator.process.log_tail(30)));
    let took = began.elapsed();
    // What a process made and did not come to use is deleted by a later one.
    let none_left = || Ok((list(&plane, &claims()).len() == claimed()).then_some(()));
    plane.wait_for("claims that nobody uses to be deleted", LIMIT, none_left).unwrap();
    let history = recorder.finish(&plane);
    drop(operator);

    assert_eq!(history.moved, Vec::<String>::new(), "a pod's node changed");
    assert_eq!(history.landings.len(), PODS);
    let (used, waiting) = summed(&plane);
    assert_eq!(waiting, 1, "only the end of the recording has no node");
    let over: BTreeMap<_, _> = used.iter().filter(|(_, used)| **used > ROOM).collect();
    assert!(over.is_empty(), "overbooked: {over:?}");
    assert_eq!(used.values().sum::<u64>(), PODS as u64 * 100);
    assert_eq!(wrong_claims(&plane), Vec::<String>::new());
    let looked = || Ok((driver.admitted() + driver.refused() >= claimed()).then_some(()));
    plane.wait_for("the driver to look at all pods with claims", LIMIT, looked).unwrap();
    assert_eq!(driver.refused(), 0, "pods were bound without what they claim");

    // An answer to a process that was killed meanwhile is not a success in the audit log: such a bind landed unheard.
    let mut successes: BTreeMap<String, usize> = BTreeMap::new();
    let mut codes: BTreeMap<u64, usize> = BTreeMap::new();
    for bind in audit.binds() {
        *codes.entry(bind.code).or_default() += 1;
        *successes.entry(bind.pod).or_default() += usize::from(bind.code == 201);
    }
    assert_eq!(successes.len(), PODS, "a pod without a bind request");
    let twice: Vec<_> = successes.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "bound more than once: {twice:?}");
    let unheard = successes.values().filter(|count| **count == 0).count();
    println!(
        "crash: {PODS} pods, {KILLS} kills, {:.1} s; binds by the API server's code: {codes:?}, landed unheard: {unheard}",
        took.as_secs_f64()
    );
}

fn claims() -> String {
    "/apis/resource.k8s.io/v1/namespaces/crash/resourceclaims".to_owned()
}

/// Older API servers drop the name by which a class can be had.
fn asks_by_resource(i: usize) -> bool {
    i % EXTENDED == 5 && minor::is_ours()
}

/// How many claims there are in the end, each with a device.
fn claimed() -> usize {
    PODS / CLAIMS + (0..PODS).filter(|i| asks_by_resource(*i)).count()
}

/// Of one device, for the pod of this name.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": DRIVER}}]}},
    })
}

fn list(plane: &ControlPlane, path: &str) -> Vec<Value> {
    plane.api.get(path).unwrap()["items"].as_array().unwrap().clone()
}

/// Claims that have not one device of their pod's node for it alone.
fn wrong_claims(plane: &ControlPlane) -> Vec<String> {
    let pods = list(plane, &pod_path("crash", "")).into_iter();
    let pods: BTreeMap<String, Value> = pods.map(|pod| (pod["metadata"]["name"].to_string(), pod)).collect();
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for claim in list(plane, &claims()) {
        let (metadata, status) = (&claim["metadata"], &claim["status"]);
        // One that was made for a pod has that for its owner, and the pod names it.
        let owner = &metadata["ownerReferences"][0]["name"];
        let name = if owner.is_null() { metadata["name"].to_string() } else { owner.to_string() };
        let pod = pods.get(&name).unwrap_or(&Value::Null);
        let is_named =
            owner.is_null() || pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == metadata["name"];
        let results = &status["allocation"]["devices"]["results"];
        let other = taken.insert(format!("{} {}", results[0]["pool"], results[0]["device"]), name.clone());
        let is_one = results.as_array().is_some_and(|results| results.len() == 1) && other.is_none();
        let is_reserved = status["reservedFor"].as_array().is_some_and(|users| users.len() == 1)
            && status["reservedFor"][0]["uid"] == pod["metadata"]["uid"];
        if !is_one || !is_reserved || !is_named || pod["spec"]["nodeName"] != results[0]["pool"] {
            wrong.push(format!("claim of {name}: {status}, as {other:?}"));
        }
    }
    wrong
}
