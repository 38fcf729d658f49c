use super::*;
use crate::limits::STORAGE_PER_POD;
use crate::model::{
    BindingWrite, ClaimRef, ClaimSelector, CsiDriver, CsiNode, CsiStorageCapacity, InTreePlugin, LabelSelector, Labels,
    Migration, NodeTest, NodeTestOperator, Pod, PodVolume, ProvisionWrite, Quantity, Requirement, RequirementOperator,
    StorageClass, VolumeWrites,
};
use crate::volume_testing::{
    GIB, answers, bound, claim, csi_node, key, mounting, node_in, only_in, reference, using, volume, waiting_class,
};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
}

const NODE: &str = "VolumeBinding: node(s) didn't match PersistentVolume's node affinity";
const BIND: &str = "VolumeBinding: node(s) didn't find available persistent volumes to bind";
const SPACE: &str = "VolumeBinding: node(s) did not have enough free storage";
const GONE: &str = "VolumeBinding: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// Nodes `a` in zone x and `b` in zone y; the class `local` has volumes made by hand, `made` has a provisioner.
fn cluster() -> Ledger {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node_in("a", "x"));
    ledger.apply_node(&node_in("b", "y"));
    ledger.apply_storage_class(waiting_class("local", "kubernetes.io/no-provisioner"));
    ledger.apply_storage_class(waiting_class("made", "driver"));
    ledger
}

fn of(ledger: &Ledger, pod: &Pod) -> String {
    answers(ledger, pod)
}

/// What the pod's claims get on `node`: `claim=volume` and `claim+` for a volume that is to be made.
fn plan(ledger: &Ledger, pod: &Pod, node: &str) -> String {
    let profile = crate::profile::CompiledProfile::default_preset("test");
    let cx = PluginContext { profile: &profile, ledger };
    let node = ledger.nodes().find(node).expect("a node");
    let plan = crate::plugins::volumes::plan(cx, pod, node, &mut Sought::default());
    let bindings = plan.bindings.iter().map(|(claim, volume)| format!("{}={volume}", claim.name));
    bindings.chain(plan.provisions.iter().map(|claim| format!("{}+", claim.name))).collect::<Vec<_>>().join(" ")
}

fn ephemeral(volume: &str) -> PodVolume {
    PodVolume::Ephemeral { volume: volume.into() }
}

#[test]
fn claims_that_can_never_be_used_are_refused_before_any_node() {
    let mut ledger = cluster();
    ledger.apply_storage_class(StorageClass {
        binding_mode: Some(BindingMode::Immediate),
        ..waiting_class("now", "driver")
    });
    ledger.apply_claim(PersistentVolumeClaim { lost: true, ..bound("lost", "v") });
    ledger.apply_claim(PersistentVolumeClaim { deleting: true, ..claim("going", "made", 1) });
    ledger.apply_claim(claim("unbound", "now", 1));
    ledger.apply_claim(claim("classless", "", 1));
    ledger.apply_claim(claim("of-no-class", "gone", 1));
    ledger.apply_claim(PersistentVolumeClaim { volume: Some("v".into()), ..claim("prebound", "made", 1) });
    ledger.apply_claim(claim("p-tmp", "made", 1));
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    for (pod, text) in [
        (using("p", &["lost"]), "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v\""),
        (using("p", &["going"]), "persistentvolumeclaim \"going\" is being deleted"),
        (using("p", &["unbound"]), unbound),
        (using("p", &["classless"]), unbound),
        (using("p", &["of-no-class"]), unbound),
        (using("p", &["prebound"]), unbound),
        (
            mounting("p", vec![ephemeral("new")]),
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-new\"",
        ),
        (
            mounting("p", vec![ephemeral("tmp")]),
            "PVC default/p-tmp was not created for pod default/p (pod is not owner)",
        ),
    ] {
        assert_eq!(of(&ledger, &pod), format!("a: VolumeBinding: {text}, b: VolumeBinding: {text}"));
    }
    ledger.apply_claim(PersistentVolumeClaim { controller: Some("p".into()), ..claim("p-tmp", "made", 1) });
    assert_eq!(of(&ledger, &mounting("p", vec![ephemeral("tmp")])), "a: fits, b: fits");
}

#[test]
fn a_class_that_does_not_say_when_fails_the_attempt() {
    let mut ledger = cluster();
    ledger.apply_storage_class(StorageClass { binding_mode: None, ..waiting_class("unset", "driver") });
    ledger.apply_claim(claim("c", "unset", 1));
    let text =
        "failed: running PreFilter plugin \"VolumeBinding\": VolumeBindingMode not set for StorageClass \"unset\"";
    assert_eq!(of(&ledger, &using("p", &["c"])), text);
}

#[test]
fn bound_claims_go_where_their_volumes_are() {
    let mut ledger = cluster();
    ledger.apply_volume(volume("everywhere", "", 1));
    ledger.apply_volume(PersistentVolume { affinity: Some(only_in("x")), ..volume("in-x", "", 1) });
    ledger.apply_volume(PersistentVolume { affinity: Some(VolumeAffinity::default()), ..volume("nowhere", "", 1) });
    for (claim, volume) in [("c", "everywhere"), ("x", "in-x"), ("n", "nowhere"), ("g", "gone")] {
        ledger.apply_claim(bound(claim, volume));
    }
    for (claims, on_a, on_b) in [
        (&["c"][..], "fits", "fits"),
        (&["c", "x"], "fits", NODE),
        (&["n"], NODE, NODE),
        // The first that fails ends it.
        (&["x", "n"], NODE, NODE),
    ] {
        assert_eq!(of(&ledger, &using("p", claims)), format!("a: {on_a}, b: {on_b}"), "{claims:?}");
    }
    let gone = "VolumeZone: persistentvolume \"gone\" not found";
    assert_eq!(of(&ledger, &using("p", &["g"])), format!("a: {gone}, b: {gone}"));
    let own = PersistentVolumeClaim { controller: Some("p".into()), ..bound("p-tmp", "gone") };
    ledger.apply_claim(own);
    assert_eq!(of(&ledger, &mounting("p", vec![ephemeral("tmp")])), format!("a: {GONE}, b: {GONE}"));
}

fn affinity(key: &str, value: &str) -> VolumeAffinity {
    let test = NodeTest { key: key.into(), operator: NodeTestOperator::In, values: vec![value.into()] };
    VolumeAffinity { terms: vec![vec![test]] }
}

#[test]
fn an_in_tree_volume_speaks_its_drivers_words_on_nodes_that_have_migrated() {
    let mut ledger = cluster();
    let migrated = |plugins: &[&str]| CsiNode {
        migrated_plugins: plugins.iter().map(|p| Str::from(*p)).collect(),
        ..csi_node("a", "d", None)
    };
    let in_tree = |translated: Result<Option<VolumeAffinity>, Str>| PersistentVolume {
        affinity: Some(affinity("zone", "x")),
        source: VolumeSource::InTree {
            attachable: None,
            migration: Migration { plugin: InTreePlugin::Ebs, affinity: translated },
            disk: "vol-1".into(),
        },
        ..volume("v", "", 1)
    };
    ledger.apply_claim(bound("c", "v"));
    ledger.apply_volume(in_tree(Ok(Some(affinity("csi/zone", "x")))));
    let fits = |ledger: &Ledger| of(ledger, &using("p", &["c"]));
    assert_eq!(fits(&ledger), format!("a: fits, b: {NODE}"), "no CSINode");
    ledger.apply_csi_node(migrated(&["kubernetes.io/cinder"]));
    assert_eq!(fits(&ledger), format!("a: fits, b: {NODE}"), "another plugin");
    ledger.apply_csi_node(migrated(&["kubernetes.io/aws-ebs", "kubernetes.io/cinder"]));
    assert_eq!(fits(&ledger), format!("a: {NODE}, b: {NODE}"), "the driver's label is not on the node");
    ledger.apply_volume(in_tree(Err("no such form".into())));
    let text = "failed: running \"VolumeBinding\" filter plugin: could not translate pv: no such form";
    assert_eq!(fits(&ledger), text);
}

fn selector(key: &str, value: &str) -> ClaimSelector {
    let operator = RequirementOperator::In;
    let requirement = Requirement { key: key.into(), operator, values: vec![value.into()] };
    ClaimSelector::Matching(LabelSelector { requirements: vec![requirement] })
}

fn sized(name: &str, gib: i64) -> PersistentVolume {
    volume(name, "local", gib)
}

fn taken_by(name: &str, uid: &str) -> ClaimRef {
    ClaimRef { key: key(name), uid: uid.into() }
}

#[test]
fn the_smallest_volume_that_fits_is_taken() {
    let ask = || claim("c", "local", 2);
    let labelled = |value: &str| [("disk", value)].into_iter().collect::<Labels>();
    let cases: Vec<(&str, PersistentVolumeClaim, Vec<PersistentVolume>, &str)> = vec![
        ("the smallest", ask(), vec![sized("big", 9), sized("fitting", 3), sized("small", 1)], "c=fitting"),
        ("of equals the first by name", ask(), vec![sized("w", 2), sized("v", 2)], "c=v"),
        ("too small", ask(), vec![sized("small", 1)], ""),
        ("no request takes any", PersistentVolumeClaim { request: None, ..ask() }, vec![sized("v", 1)], "c=v"),
        ("another class", ask(), vec![volume("v", "other", 5)], ""),
        ("not available", ask(), vec![PersistentVolume { available: false, ..sized("v", 5) }], ""),
        ("being deleted", ask(), vec![PersistentVolume { deleting: true, ..sized("v", 5) }], ""),
        ("block", ask(), vec![PersistentVolume { volume_mode: "Block".into(), ..sized("v", 5) }], ""),
        ("attributes", ask(), vec![PersistentVolume { attributes_class: "gold".into(), ..sized("v", 5) }], ""),
        (
            "the same attributes",
            PersistentVolumeClaim { attributes_class: "gold".into(), ..ask() },
            vec![PersistentVolume { attributes_class: "gold".into(), ..sized("v", 5) }, sized("w", 2)],
            "c=v",
        ),
        (
            "access modes",
            PersistentVolumeClaim { access_modes: vec!["ReadWriteMany".into()], ..ask() },
            vec![sized("v", 5)],
            "",
        ),
        (
            "more modes than asked for",
            ask(),
            vec![PersistentVolume {
                access_modes: vec!["ReadOnlyMany".into(), "ReadWriteOnce".into()],
                ..sized("v", 5)
            }],
            "c=v",
        ),
        (
            "selector",
            PersistentVolumeClaim { selector: selector("disk", "ssd"), ..ask() },
            vec![
                PersistentVolume { labels: labelled("hdd"), ..sized("v", 2) },
                PersistentVolume { labels: labelled("ssd"), ..sized("w", 5) },
            ],
            "c=w",
        ),
        (
            "meant for another claim",
            ask(),
            vec![
                PersistentVolume { claim: Some(reference("other")), ..sized("v", 2) },
                PersistentVolume { claim: Some(taken_by("c", "an older one")), ..sized("w", 2) },
            ],
            "",
        ),
        (
            "meant for this claim: whatever its size, phase, modes and labels",
            PersistentVolumeClaim { selector: selector("disk", "ssd"), ..ask() },
            vec![
                PersistentVolume {
                    claim: Some(taken_by("c", "")),
                    available: false,
                    access_modes: vec![],
                    ..sized("v", 9)
                },
                PersistentVolume { labels: labelled("ssd"), ..sized("w", 2) },
            ],
            "c=v",
        ),
        (
            "meant for this claim, but too small",
            ask(),
            vec![PersistentVolume { claim: Some(reference("c")), ..sized("v", 1) }, sized("w", 2)],
            "c=w",
        ),
    ];
    cases.into_iter().for_each(matches);
}

/// Whether a claim is bound as wanted where those volumes are there.
fn matches((case, claim, volumes, wanted): (&str, PersistentVolumeClaim, Vec<PersistentVolume>, &str)) {
    let mut ledger = cluster();
    ledger.apply_claim(claim);
    for volume in volumes {
        ledger.apply_volume(volume);
    }
    let pod = using("p", &["c"]);
    let verdict = if wanted.is_empty() { BIND } else { "fits" };
    assert_eq!(of(&ledger, &pod), format!("a: {verdict}, b: {verdict}"), "{case}");
    assert_eq!(plan(&ledger, &pod, "a"), wanted, "{case}");
}

#[test]
fn volumes_are_matched_where_they_can_be_used() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "local", 1));
    ledger.apply_volume(PersistentVolume { affinity: Some(only_in("x")), ..sized("in-x", 1) });
    let pod = using("p", &["c"]);
    assert_eq!(of(&ledger, &pod), format!("a: fits, b: {BIND}"));
    ledger.apply_volume(PersistentVolume { affinity: Some(only_in("y")), ..sized("in-y", 4) });
    assert_eq!(of(&ledger, &pod), "a: fits, b: fits");
    assert_eq!((plan(&ledger, &pod, "a"), plan(&ledger, &pod, "b")), ("c=in-x".into(), "c=in-y".into()));
    // One that is meant for the claim binds it to its place.
    let meant = PersistentVolume { claim: Some(reference("c")), affinity: Some(only_in("y")), ..sized("meant", 9) };
    ledger.apply_volume(meant);
    assert_eq!(of(&ledger, &pod), format!("a: {BIND}, b: fits"));
}

/// Many volumes are found by their place; the answer is the one of looking through all.
#[test]
fn of_many_volumes_the_same_one_is_taken() {
    let mut rng = crate::cycle::Rng::seeded(7);
    for _ in 0..50 {
        let (mut all, mut few) = (cluster(), cluster());
        let count = 17 + rng.below(20);
        let mut usable = Vec::new();
        for i in 0..count {
            let zone = ["x", "y", "z"][rng.below(3) as usize];
            let zoned = Some(only_in(zone));
            let affinity = match rng.below(5) {
                0 => None,
                1 => zoned.map(|mut places| {
                    places.terms.push(Some(only_in("x")).map(|a| a.terms[0].clone()).unwrap_or_default());
                    places
                }),
                _ => zoned,
            };
            let volume = PersistentVolume { affinity, ..sized(&format!("v{i:02}"), 1 + rng.below(4) as i64) };
            if volume.affinity.as_ref().is_none_or(|a| a.matches(&[("zone", "x")].into_iter().collect())) {
                usable.push(volume.clone());
            }
            all.apply_volume(volume);
        }
        // Looked through one by one: the best few of those that `a` can use.
        usable.sort_by(|a, b| (a.capacity, &a.name).cmp(&(b.capacity, &b.name)));
        usable.into_iter().take(10).for_each(|volume| few.apply_volume(volume));
        for ledger in [&mut all, &mut few] {
            for name in ["c", "d"] {
                ledger.apply_claim(claim(name, "local", 1));
            }
        }
        let pod = using("p", &["c", "d"]);
        assert_eq!(plan(&all, &pod, "a"), plan(&few, &pod, "a"));
    }
}

#[test]
fn several_claims_share_what_there_is_smallest_first() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("big", "local", 4));
    ledger.apply_claim(claim("small", "local", 1));
    for volume in [sized("v", 2), sized("w", 5)] {
        ledger.apply_volume(volume);
    }
    let pod = using("p", &["big", "small"]);
    assert_eq!((of(&ledger, &pod), plan(&ledger, &pod, "a")), ("a: fits, b: fits".into(), "small=v big=w".into()));
    ledger.delete_volume("v");
    assert_eq!(of(&ledger, &pod), format!("a: {BIND}, b: {BIND}"), "one volume for two claims");
    // A claim that has to be made beside one that is there.
    ledger.apply_claim(claim("made", "made", 1));
    let pod = using("p", &["made", "big"]);
    assert_eq!((of(&ledger, &pod), plan(&ledger, &pod, "a")), ("a: fits, b: fits".into(), "big=w made+".into()));
    // A bound claim that does not fit and one that cannot be bound: both reasons.
    ledger.apply_volume(PersistentVolume { affinity: Some(only_in("y")), ..volume("far", "", 1) });
    ledger.apply_claim(bound("far", "far"));
    ledger.apply_claim(claim("huge", "local", 50));
    let both = format!("{NODE}; node(s) didn't find available persistent volumes to bind");
    assert_eq!(of(&ledger, &using("p", &["huge", "far"])), format!("a: {both}, b: {BIND}"));
}

#[test]
fn a_claim_named_twice_is_bound_once() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "local", 1));
    ledger.apply_volume(sized("v", 1));
    let pod = using("p", &["c", "c"]);
    assert_eq!(of(&ledger, &pod), format!("a: {BIND}, b: {BIND}"), "upstream looks for two volumes");
    ledger.apply_volume(sized("w", 2));
    assert_eq!((of(&ledger, &pod), plan(&ledger, &pod, "a")), ("a: fits, b: fits".into(), "c=v".into()));
}

#[test]
fn a_selector_that_does_not_parse_fails_the_attempt() {
    let mut ledger = cluster();
    let selector = ClaimSelector::Broken("\"Near\" is not a valid label selector operator".into());
    ledger.apply_claim(PersistentVolumeClaim { selector, ..claim("c", "made", 1) });
    let text = "failed: running \"VolumeBinding\" filter plugin: error creating internal label selector for claim: default/c: \"Near\" is not a valid label selector operator";
    assert_eq!(of(&ledger, &using("p", &["c"])), text);
}

#[test]
fn volumes_are_made_where_the_class_allows() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "made", 1));
    let pod = using("p", &["c"]);
    assert_eq!((of(&ledger, &pod), plan(&ledger, &pod, "b")), ("a: fits, b: fits".into(), "c+".into()));
    let class = || waiting_class("made", "driver");
    ledger.apply_storage_class(StorageClass { allowed_topologies: Some(only_in("y")), ..class() });
    assert_eq!(of(&ledger, &pod), format!("a: {BIND}, b: fits"));
    ledger.apply_storage_class(StorageClass { provisioner: "".into(), ..class() });
    assert_eq!(of(&ledger, &pod), format!("a: {BIND}, b: {BIND}"));
}

#[test]
fn a_claim_with_a_selected_node_binds_only_there() {
    let mut ledger = cluster();
    ledger.apply_claim(PersistentVolumeClaim { selected_node: Some("b".into()), ..claim("c", "made", 1) });
    let pod = using("p", &["c"]);
    assert_eq!((of(&ledger, &pod), plan(&ledger, &pod, "b")), (format!("a: {BIND}, b: fits"), "c+".into()));
    // Even where a volume is there, its volume is to be made.
    ledger.apply_volume(volume("v", "made", 1));
    assert_eq!(plan(&ledger, &pod, "b"), "c+");
}

fn room(name: &str, class: &str, zone: Option<&str>, gib: Option<i64>) -> CsiStorageCapacity {
    let requirement =
        |zone: &str| Requirement { key: "zone".into(), operator: RequirementOperator::In, values: vec![zone.into()] };
    CsiStorageCapacity {
        namespace: "default".into(),
        name: name.into(),
        class: class.into(),
        nodes: zone.map(|zone| LabelSelector { requirements: vec![requirement(zone)] }),
        limit: gib.map(|gib| gib * GIB),
    }
}

#[test]
fn drivers_that_tell_of_their_room_can_be_short_of_it() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "made", 4));
    let pod = using("p", &["c"]);
    let driver = |storage_capacity| CsiDriver { name: "driver".into(), storage_capacity };
    ledger.apply_csi_driver(driver(false));
    assert_eq!(of(&ledger, &pod), "a: fits, b: fits", "it does not tell");
    ledger.apply_csi_driver(driver(true));
    assert_eq!(of(&ledger, &pod), format!("a: {SPACE}, b: {SPACE}"), "nothing is told");
    for capacity in [
        room("small", "made", Some("x"), Some(3)),
        room("other", "another", Some("x"), Some(9)),
        room("unknown", "made", Some("x"), None),
        room("unreachable", "made", None, Some(9)),
    ] {
        ledger.apply_csi_capacity(capacity);
        assert_eq!(of(&ledger, &pod), format!("a: {SPACE}, b: {SPACE}"));
    }
    ledger.apply_csi_capacity(room("small", "made", Some("x"), Some(4)));
    assert_eq!(of(&ledger, &pod), format!("a: fits, b: {SPACE}"));
    ledger.delete_csi_capacity("default/small");
    assert_eq!(of(&ledger, &pod), format!("a: {SPACE}, b: {SPACE}"));
    ledger.apply_claim(PersistentVolumeClaim { request: None, resource_version: "2".into(), ..claim("c", "made", 4) });
    assert_eq!(of(&ledger, &pod), "a: fits, b: fits", "nothing is asked for");
    ledger.audit().expect("indexes");
}

fn binding_write() -> VolumeWrites {
    let write = BindingWrite {
        volume: "v".into(),
        volume_uid: "uid-v".into(),
        resource_version: "1".into(),
        claim: key("c"),
        claim_uid: "uid-c".into(),
        claim_version: "1".into(),
        by_controller: true,
        needed: true,
    };
    VolumeWrites { bindings: vec![write], provisions: Vec::new() }
}

fn provision_write() -> VolumeWrites {
    let write =
        ProvisionWrite { claim: key("c"), claim_uid: "uid-c".into(), resource_version: "1".into(), needed: true };
    VolumeWrites { bindings: Vec::new(), provisions: vec![write] }
}

fn failed(text: &str) -> Progress {
    Progress::Failed(text.to_owned())
}

fn newer(volume: PersistentVolume) -> PersistentVolume {
    PersistentVolume { resource_version: "2".into(), ..volume }
}

#[test]
fn a_binding_is_watched_until_the_claim_is_bound() {
    let mut ledger = cluster();
    let writes = binding_write();
    let look = |ledger: &Ledger| progress(ledger, &writes, &"a".into());
    assert_eq!(look(&ledger), failed("failed to check binding: persistentvolumes \"v\" not found"));
    ledger.apply_volume(sized("v", 1));
    assert_eq!(look(&ledger), failed("failed to check binding: persistentvolumeclaims \"default/c\" not found"));
    ledger.apply_claim(claim("c", "local", 1));
    assert_eq!(look(&ledger), Progress::Waiting, "the write has not been seen");
    ledger.apply_volume(newer(PersistentVolume { claim: Some(reference("c")), ..sized("v", 1) }));
    assert_eq!(look(&ledger), Progress::Waiting, "the claim is not bound");
    ledger.apply_claim(PersistentVolumeClaim { volume: Some("v".into()), ..claim("c", "local", 1) });
    assert_eq!(look(&ledger), Progress::Waiting, "nor is it yet");
    ledger.apply_claim(bound("c", "v"));
    assert_eq!(look(&ledger), Progress::Bound);
    ledger.apply_claim(bound("c", "other"));
    assert_eq!(look(&ledger), failed("persistentvolumeclaim \"default/c\" is bound to pv \"other\" and not to \"v\""));
    ledger.apply_claim(bound("c", "v"));
    for claim in [None, Some(taken_by("c", ""))] {
        ledger.apply_volume(newer(PersistentVolume { claim, ..sized("v", 1) }));
        assert_eq!(look(&ledger), failed("ClaimRef got reset for pv \"v\""));
    }
    ledger.apply_volume(newer(PersistentVolume { affinity: Some(only_in("y")), ..sized("v", 1) }));
    let text = "pv \"v\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms";
    assert_eq!(look(&ledger), failed(text));
    ledger.delete_node("a");
    assert_eq!(look(&ledger), failed("failed to get node \"a\": node \"a\" not found"));
}

#[test]
fn a_provisioning_is_watched_until_the_claim_is_bound() {
    let mut ledger = cluster();
    let writes = provision_write();
    let look = |ledger: &Ledger| progress(ledger, &writes, &"a".into());
    let text = "failed to check provisioning pvc: persistentvolumeclaims \"default/c\" not found";
    assert_eq!(look(&ledger), failed(text));
    ledger.apply_claim(claim("c", "made", 1));
    assert_eq!(look(&ledger), Progress::Waiting, "the write has not been seen");
    let seen = |node: Option<&str>, volume: Option<&str>, bind_completed| PersistentVolumeClaim {
        resource_version: "2".into(),
        selected_node: node.map(Into::into),
        volume: volume.map(Into::into),
        bind_completed,
        ..claim("c", "made", 1)
    };
    ledger.apply_claim(seen(Some("a"), None, false));
    assert_eq!(look(&ledger), Progress::Waiting);
    for node in [None, Some("b")] {
        ledger.apply_claim(seen(node, None, false));
        assert_eq!(look(&ledger), failed("provisioning failed for PVC \"c\""));
    }
    ledger.apply_claim(seen(Some("a"), Some("v"), true));
    assert_eq!(look(&ledger), Progress::Waiting, "the volume has not been seen");
    ledger.apply_volume(PersistentVolume {
        claim: Some(reference("c")),
        affinity: Some(only_in("y")),
        ..volume("v", "made", 1)
    });
    let text = "pv \"v\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms";
    assert_eq!(look(&ledger), failed(text));
    ledger.apply_volume(PersistentVolume {
        claim: Some(reference("c")),
        affinity: Some(only_in("x")),
        ..volume("v", "made", 1)
    });
    assert_eq!(look(&ledger), Progress::Bound);
}

#[test]
fn what_an_administrator_has_written_needs_no_write() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "local", 1));
    ledger.apply_claim(PersistentVolumeClaim { selected_node: Some("a".into()), ..claim("d", "made", 1) });
    for (claim, by_controller, needed) in
        [(None, true, true), (Some(taken_by("c", "")), false, true), (Some(reference("c")), false, false)]
    {
        ledger.apply_volume(PersistentVolume { claim, ..sized("v", 1) });
        let pod = Arc::new(using("p", &["c", "d"]));
        ledger.apply_pod(Pod::clone(&pod));
        let profile = crate::profile::CompiledProfile::default_preset("test");
        let mut scheduler = crate::cycle::Scheduler::new(profile.into(), 1);
        let pending = match ledger.pod("p") {
            Some(crate::ledger::PodState::Pending(pod)) => pod.clone(),
            other => panic!("{other:?}"),
        };
        let crate::cycle::Decision::Place(proposal) = scheduler.decide(&ledger, &pending) else {
            panic!("it fits on a");
        };
        let committed = ledger.commit(&proposal, |_| None).expect("nothing came between");
        let writes = committed.volumes.expect("claims to be bound");
        assert_eq!(&*committed.node, "a");
        assert_eq!((writes.bindings[0].by_controller, writes.bindings[0].needed), (by_controller, needed));
        assert!(!writes.provisions[0].needed);
        ledger.audit().expect("assumptions");
        ledger.delete_pod("p");
        ledger.audit().expect("no assumptions");
    }
}

#[test]
fn quantities_are_compared_exactly() {
    let mut ledger = cluster();
    let ask = |milli| PersistentVolumeClaim { request: Some(Quantity::from_milli(milli)), ..claim("c", "local", 1) };
    let volume = PersistentVolume { capacity: Quantity::from_milli(1_500), ..sized("v", 1) };
    ledger.apply_volume(volume);
    for (milli, fits) in [(1_499, true), (1_500, true), (1_501, false)] {
        ledger.apply_claim(ask(milli));
        let verdict = if fits { "fits" } else { BIND };
        assert_eq!(of(&ledger, &using("p", &["c"])), format!("a: {verdict}, b: {verdict}"), "{milli}");
    }
}

/// As many claims as a pod may have, and a volume for each.
#[test]
fn many_claims_do_not_compare_each_volume_with_all_that_were_chosen() {
    let mut ledger = cluster();
    let names: Vec<String> = (0..STORAGE_PER_POD).map(|i| format!("c{i:03}")).collect();
    for name in &names {
        ledger.apply_claim(claim(name, "local", 1));
        ledger.apply_volume(PersistentVolume { affinity: Some(only_in("x")), ..sized(&format!("v-{name}"), 2) });
    }
    let pod = using("p", &names.iter().map(|name| &**name).collect::<Vec<_>>());
    COMPARED.set(0);
    let wanted: Vec<String> = names.iter().map(|name| format!("{name}=v-{name}")).collect();
    assert_eq!(plan(&ledger, &pod, "a"), wanted.join(" "));
    assert!(
        COMPARED.get() <= STORAGE_PER_POD * (STORAGE_PER_POD + 1) / 2 + STORAGE_PER_POD,
        "{} comparisons",
        COMPARED.get()
    );
}

#[test]
fn a_claim_that_two_volumes_name_is_bound_or_made_once() {
    let mut ledger = cluster();
    ledger.apply_claim(claim("c", "made", 1));
    ledger.apply_claim(PersistentVolumeClaim { selected_node: Some("a".into()), ..claim("s", "made", 1) });
    let pod = using("p", &["c", "s", "c", "s"]);
    assert_eq!(plan(&ledger, &pod, "a"), "s+ c+");
    ledger.apply_volume(volume("v", "made", 1));
    assert_eq!(plan(&ledger, &pod, "a"), "c=v s+", "there is no second volume, and none is made");
    ledger.apply_volume(volume("w", "made", 1));
    assert_eq!(plan(&ledger, &pod, "a"), "c=v s+");
}
