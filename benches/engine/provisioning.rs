//! What pods cost that have a node and wait for their volumes.

use crate::manifests::PodSpec;
use crate::report::{Times, line};
use crate::waiting::{Change, Waiting, namespace_comes, one_pod, with_name};
use crate::workloads::PLAIN;
use crate::{Prepared, decode};
use berth_core::ledger::Ledger;
use berth_core::model::Str;
use serde_json::{Value, json};

const PODS: usize = 10_000;

/// How often each kind of change is made, 11 s apart: the pods wait for ten minutes.
const CHANGES: usize = 15;

/// Pods that have a node, whose claims a provisioner makes volumes for, one after the other: what they cost others, and each other.
pub(crate) fn row(name: &'static str) {
    let mut prepared = Prepared::of(&PLAIN);
    let others = std::mem::take(&mut prepared.pods);
    prepared.cluster.others.extend(decode(late_claims(PODS)).others);
    prepared.pods = decode((0..PODS).map(mounting)).pods;
    let (mut waiting, first) = Waiting::of(&prepared);
    line(name, &format!("their claims are written in {first:.1?}; {}", waiting.take_text()));
    let passes = |i: usize| one_pod(with_name(PodSpec::basic().manifest(i, None), &format!("passes-{i}")));
    let asked: Vec<(Str, Str)> = waiting.provisions.iter().take(CHANGES).cloned().collect();
    let changes: [(&str, Change<'_>); 3] = [
        ("a namespace comes", &namespace_comes),
        ("a pod of others comes", &|i, ledger| ledger.apply_pod(passes(i))),
        ("a volume is made", &|i, ledger| make(&asked[i], ledger)),
    ];
    for (what, change) in changes {
        let times = Times::of((0..CHANGES).map(|i| waiting.after(|ledger| change(i, ledger))).collect());
        line(name, &format!("{what}: {}", times.text()));
    }
    let at_once = waiting.provisions[CHANGES..2 * CHANGES].to_vec();
    let times = at_once.iter().map(|one| waiting.at_once(|ledger| make(one, ledger))).collect();
    line(name, &format!("a volume is made within the same second: {}", Times::of(times).text()));
    assert_eq!(waiting.bound, 2 * CHANGES, "pods whose volumes were made are bound");
    let looks = Times::of((0..CHANGES).map(|_| waiting.look()).collect());
    line(name, &format!("their state: {}", looks.text()));
    let (count, before) = (others.len(), waiting.bound);
    let took = waiting.after(|ledger| others.into_iter().for_each(|pod| ledger.apply_pod(pod)));
    assert_eq!(waiting.bound - before, count, "the others are placed beside them");
    line(name, &format!("{:.0} others/s beside them; {}", count as f64 / took.as_secs_f64(), waiting.take_text()));
}

/// The volume of the claim, and the claim bound to it.
fn make(claim: &(Str, Str), ledger: &mut Ledger) {
    decode(provisioned(claim).into_iter()).others.into_iter().for_each(|object| object.apply(ledger));
}

fn mounting(i: usize) -> Value {
    let claim = json!({"claimName": format!("claim-{i:05}")});
    let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": claim}]});
    let mut pod = PodSpec::basic().asking(volumes).manifest(i, None);
    pod["metadata"]["name"] = json!(format!("mounts-{i}"));
    pod["metadata"]["uid"] = json!(format!("mounts-{i}"));
    pod
}

/// A class whose claims are bound once a pod has a node, and `count` such claims.
fn late_claims(count: usize) -> impl Iterator<Item = Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    [class].into_iter().chain((0..count).map(|i| late_claim(&format!("claim-{i:05}"))))
}

fn late_claim(name: &str) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "late",
    });
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "sched-1", "uid": name, "resourceVersion": "1"},
        "spec": spec, "status": {"phase": "Pending"},
    })
}

/// The claim as it is once a volume was made for it, and the volume.
fn provisioned((claim, node): &(Str, Str)) -> [Value; 2] {
    let volume = format!("of-{claim}");
    let mut bound = late_claim(claim);
    bound["metadata"]["resourceVersion"] = json!("2");
    bound["metadata"]["annotations"] =
        json!({"volume.kubernetes.io/selected-node": node, "pv.kubernetes.io/bind-completed": "yes"});
    bound["spec"]["volumeName"] = json!(volume);
    bound["status"]["phase"] = json!("Bound");
    let made = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume, "resourceVersion": "1"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "csi": {"driver": "csi.example.com", "volumeHandle": volume},
            "claimRef": {"namespace": "sched-1", "name": claim, "uid": claim},
        },
        "status": {"phase": "Bound"},
    });
    [made, bound]
}
