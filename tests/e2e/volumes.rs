//! Volumes with the real volume controller: what a pod needs is bound, made, shared and counted as kube-scheduler would.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use berth_lab::{Managed, Provisioner};
use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::shared;
use crate::objects::{condition, of_filters, pod_path};
use crate::storage::{
    CSI_NODES, NOBODY, SELECTED_NODE, VOLUMES, changes_since, claim, claim_path, class, csi_volume, local_volume,
    mount, version, wait_claim_bound, wait_object,
};
use crate::world::World;

/// The driver whose provisioner runs beside the control plane.
const DRIVER: &str = "disk.lab.berth.dev";

const IMMEDIATE: &str = "Immediate";
const WAITS: &str = "WaitForFirstConsumer";

/// A corner of the shared control plane with a class of its own, and beside it the volume controller and a provisioner.
fn world(name: &str, spec: &Value, nodes: usize, provisioner: &str, mode: &str) -> World {
    static BESIDE: OnceLock<(Managed, Provisioner)> = OnceLock::new();
    let plane = &shared().plane;
    BESIDE.get_or_init(|| (plane.start_volume_controllers().unwrap(), plane.start_provisioner(DRIVER)));
    class(plane, name, provisioner, mode);
    World::with(name, spec, nodes)
}

impl World {
    fn volume(&self, volume: &Value) {
        self.plane.api.post(VOLUMES, volume).unwrap();
    }

    /// A local volume of this world on one of its nodes; the volume's name.
    fn local(&self, name: &str, node: &str) -> String {
        let name = format!("{}-{name}", self.name);
        self.volume(&local_volume(&name, &self.name, &self.node_name(node)));
        name
    }

    /// A claim of this world's class.
    fn claim(&self, name: &str) -> Value {
        claim(self.plane, &self.name, name, &self.name, |_| {})
    }

    fn pod_with(&self, name: &str, scheduler: &str, claims: &[&str]) {
        self.pod(name, "100m", |pod| {
            pod["spec"]["schedulerName"] = json!(scheduler);
            mount(pod, claims);
        });
    }

    fn claim_now(&self, name: &str) -> Value {
        self.plane.api.get(&claim_path(&self.name, name)).unwrap()
    }

    fn volume_now(&self, name: &str) -> Value {
        self.plane.api.get(&format!("{VOLUMES}/{name}")).unwrap()
    }
}

#[test]
fn a_bound_claim_takes_its_pod_to_its_volume() {
    let world = world("bound-claims", &json!({}), 3, NOBODY, IMMEDIATE);
    let volume = world.local("only", "1");
    world.claim("data");
    assert_eq!(wait_claim_bound(world.plane, &world.name, "data"), volume);
    world.pod_with("goes-there", "bound-claims", &["data"]);
    assert_eq!(world.bound("goes-there"), "1");
    world.pod("wants-elsewhere", "100m", |pod| {
        mount(pod, &["data"]);
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": world.node_name("2")});
    });
    world.says(
        "wants-elsewhere",
        "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 2 node(s) didn't match Pod's node affinity/selector.",
    );
    world.pod_with("wants-none", "bound-claims", &["nothing-of-the-kind"]);
    world.says("wants-none", "0/3 nodes are available: persistentvolumeclaim \"nothing-of-the-kind\" not found.");
}

#[test]
fn a_claim_that_waits_gets_a_local_volume_where_its_pod_goes() {
    let world = world("local-volumes", &json!({}), 3, NOBODY, WAITS);
    let volumes: BTreeSet<String> = ["0", "2"].map(|node| world.local(node, node)).into();
    for name in ["a", "b", "c"] {
        world.claim(name);
    }
    assert_eq!(world.claim_now("a")["status"]["phase"], "Pending", "nobody binds it before its pod is placed");
    for name in ["a", "b"] {
        world.pod_with(name, "local-volumes", &[name]);
    }
    let mut taken = BTreeSet::new();
    for name in ["a", "b"] {
        let node = world.bound(name);
        let volume = wait_claim_bound(world.plane, &world.name, name);
        assert_eq!(volume, format!("local-volumes-{node}"), "the volume is where the pod is");
        let seen = world.volume_now(&volume);
        assert_eq!(seen["spec"]["claimRef"]["uid"], world.claim_now(name)["metadata"]["uid"]);
        assert_eq!(seen["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
        taken.insert(volume);
    }
    assert_eq!(taken, volumes);
    world.pod_with("c", "local-volumes", &["c"]);
    world.says("c", "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.");
    // A volume that comes wakes the pod.
    world.local("1", "1");
    assert_eq!(world.bound("c"), "1");
}

#[test]
fn a_volume_is_made_for_the_node_that_was_chosen() {
    let world = world("made-volumes", &json!({}), 3, DRIVER, WAITS);
    world.claim("data");
    world.pod("user", "100m", |pod| {
        mount(pod, &["data"]);
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": world.node_name("1")});
    });
    assert_eq!(world.bound("user"), "1");
    let volume = wait_claim_bound(world.plane, &world.name, "data");
    let now = world.claim_now("data");
    assert_eq!(now["metadata"]["annotations"][SELECTED_NODE], world.node_name("1"));
    assert_eq!(world.volume_now(&volume)["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], DRIVER);
    // Its claim is bound by now: the next pod of it must go there, and waits for nothing.
    world.pod_with("second", "made-volumes", &["data"]);
    assert_eq!(world.bound("second"), "1");
}

#[test]
fn a_pod_that_waits_for_its_volume_is_nominated_first() {
    // Nobody is called on for this class until the test says so.
    let world = world("nominated-first", &json!({}), 2, "later.lab.berth.dev", WAITS);
    let before = version(&world.claim("data"));
    world.pod_with("waits", "nominated-first", &["data"]);
    let path = pod_path(&world.name, "waits");
    let pod = wait_object(world.plane, &path, "nominated", |pod| pod["status"]["nominatedNodeName"].is_string());
    let node = pod["status"]["nominatedNodeName"].as_str().unwrap().to_owned();
    let claims = claim_path(&world.name, "");
    let chosen = |claim: &Value| claim["metadata"]["annotations"][SELECTED_NODE] == node;
    wait_object(world.plane, &format!("{claims}/data"), "node chosen", chosen);
    let nominated = changes_since(world.plane, &pod_path(&world.name, ""), before);
    let nominated = nominated.iter().find(|pod| pod["status"]["nominatedNodeName"] == node).map(version).unwrap();
    let written = changes_since(world.plane, &claims, before);
    let written = written.iter().find(|claim| chosen(claim)).map(version).unwrap();
    assert!(nominated < written, "nominated at {nominated}, claim written at {written}");
    assert!(world.get("waits")["spec"]["nodeName"].is_null());

    let _provisioner = world.plane.start_provisioner("later.lab.berth.dev");
    assert_eq!(world.node_name(&world.bound("waits")), node);
}

#[test]
fn two_profiles_race_for_volumes_and_none_is_given_twice() {
    const EACH: usize = 8;
    let world = world("volume-race", &json!({}), 2, NOBODY, WAITS);
    world.profile("volume-race-other", &json!({}));
    let objects = |index: usize| {
        let (name, node) = (format!("volume-race-{index}"), world.node_name(&(index % 2).to_string()));
        local_volume(&name, &world.name, &node)
    };
    world.plane.create_objects(VOLUMES, EACH, 8, objects).unwrap();
    let names: Vec<String> = (0..2 * EACH).map(|index| format!("p{index}")).collect();
    for name in &names {
        world.claim(name);
    }
    // Twice as many pods as volumes, at once, of two profiles.
    let pods = |index: usize| {
        let mut pod = crate::objects::pod(&world.name, &names[index], "volume-race", "10m");
        if index.is_multiple_of(2) {
            pod["spec"]["schedulerName"] = json!("volume-race-other");
        }
        mount(&mut pod, &[&names[index]]);
        pod
    };
    world.plane.create_objects(&pod_path(&world.name, ""), names.len(), 16, pods).unwrap();
    let mut seen = Vec::new();
    let settled = world.plane.wait_for("each pod bound or refused", SOON, || {
        let list = world.plane.api.get(&pod_path(&world.name, ""))?;
        seen = list["items"].as_array().unwrap().clone();
        let refused =
            |pod: &Value| condition(pod, "PodScheduled").is_some_and(|(_, reason, _)| reason == "Unschedulable");
        let (bound, rest): (Vec<Value>, Vec<Value>) =
            seen.iter().cloned().partition(|pod| pod["spec"]["nodeName"].is_string());
        Ok((bound.len() == EACH && rest.iter().all(refused)).then_some((bound, rest)))
    });
    let (bound, rest) =
        settled.unwrap_or_else(|error| panic!("{error}: {:#?}", seen.iter().map(outcome).collect::<Vec<_>>()));
    assert_eq!(rest.len(), EACH);
    let mut taken = BTreeSet::new();
    for pod in bound {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let volume = wait_claim_bound(world.plane, &world.name, name);
        let seen = world.volume_now(&volume);
        assert_eq!(seen["spec"]["claimRef"]["name"], name);
        let on = &seen["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0];
        assert_eq!(*on, pod["spec"]["nodeName"], "the pod is where its volume is");
        assert!(taken.insert(volume.clone()), "{volume} was given twice");
    }
    for pod in rest {
        let (_, _, message) = condition(&pod, "PodScheduled").unwrap();
        assert_eq!(
            of_filters(&message),
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        );
    }
}

/// What became of a pod, on one line.
fn outcome(pod: &Value) -> String {
    let (name, status) = (&pod["metadata"]["name"], &pod["status"]);
    let said = condition(pod, "PodScheduled");
    format!("{name} on {}, nominated {}, {said:?}", pod["spec"]["nodeName"], status["nominatedNodeName"])
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod() {
    let world = world("one-pod", &json!({}), 2, NOBODY, IMMEDIATE);
    let for_one_pod = |object: &mut Value| object["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let mut disk = csi_volume("one-pod-disk", "one-pod", "none.lab.berth.dev");
    for_one_pod(&mut disk);
    world.volume(&disk);
    claim(world.plane, &world.name, "data", &world.name, for_one_pod);
    wait_claim_bound(world.plane, &world.name, "data");
    world.pod_with("first", "one-pod", &["data"]);
    world.bound("first");
    world.pod_with("second", "one-pod", &["data"]);
    let message = world.unschedulable("second");
    assert!(
        message.contains("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"),
        "{message}"
    );
    world.delete("first");
    world.bound("second");
}

#[test]
fn a_nodes_limit_of_volumes_holds_for_pods_of_two_profiles_at_once() {
    const LIMIT: usize = 3;
    const PODS: usize = 8;
    let world = world("csi-limit", &json!({}), 1, NOBODY, IMMEDIATE);
    world.profile("csi-limit-other", &json!({}));
    let driver = "limited.lab.berth.dev";
    let node = world.node_name("0");
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": [{"name": driver, "nodeID": node, "allocatable": {"count": LIMIT}}]},
    });
    world.plane.api.post(CSI_NODES, &csi_node).unwrap();
    let names: Vec<String> = (0..PODS).map(|index| format!("p{index}")).collect();
    for name in &names {
        let volume = format!("csi-limit-{name}");
        world.volume(&csi_volume(&volume, "csi-limit", driver));
        claim(world.plane, &world.name, name, &world.name, |claim| claim["spec"]["volumeName"] = json!(volume));
    }
    for name in &names {
        wait_claim_bound(world.plane, &world.name, name);
    }
    let pods = |index: usize| {
        let mut pod = crate::objects::pod(&world.name, &names[index], "csi-limit", "10m");
        if index.is_multiple_of(2) {
            pod["spec"]["schedulerName"] = json!("csi-limit-other");
        }
        mount(&mut pod, &[&names[index]]);
        pod
    };
    world.plane.create_objects(&pod_path(&world.name, ""), PODS, 8, pods).unwrap();
    let full = "0/1 nodes are available: 1 node(s) exceed max volume count.";
    let settled = world.plane.wait_for("each pod bound or refused", SOON, || {
        let list = world.plane.api.get(&pod_path(&world.name, ""))?;
        let pods = list["items"].as_array().unwrap();
        let bound = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
        let refused =
            |pod: &&Value| condition(pod, "PodScheduled").is_some_and(|(_, _, message)| of_filters(&message) == full);
        let refused = pods.iter().filter(refused).count();
        Ok((bound + refused == PODS).then_some(bound))
    });
    assert_eq!(settled.unwrap(), LIMIT, "as many as the node takes, whoever places them");
}

/// What is written by us is seen by others: a claim that an administrator has tied to a volume is no business of ours.
#[test]
fn a_volume_that_is_meant_for_a_claim_is_left_to_it() {
    let world = world("meant-for", &json!({}), 1, NOBODY, WAITS);
    let mut meant = local_volume("meant-for-its-claim", "meant-for", &world.node_name("0"));
    meant["spec"]["claimRef"] = json!({"namespace": "meant-for", "name": "its-own"});
    world.volume(&meant);
    for name in ["its-own", "others"] {
        world.claim(name);
        world.pod_with(name, "meant-for", &[name]);
    }
    world.bound("its-own");
    assert_eq!(wait_claim_bound(world.plane, &world.name, "its-own"), "meant-for-its-claim");
    world.says("others", "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.");
}
