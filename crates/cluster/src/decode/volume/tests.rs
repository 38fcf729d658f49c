use crate::decode::Decoder;
use crate::slim::{
    SlimClaim, SlimCsiDriver, SlimCsiNode, SlimCsiStorageCapacity, SlimPod, SlimStorageClass, SlimVolume,
    SlimVolumeAttachment,
};
use berth_core::limits::SELECTOR_VALUES;
use berth_core::model::{
    BindingMode, ClaimSelector, InTreePlugin, InlineDisk, Labels, PersistentVolume, PersistentVolumeClaim, PodVolume,
    Quantity, VolumeAffinity, VolumeSource,
};
use serde_json::{Value, json};

fn volume(metadata: Value, spec: Value, status: Value) -> PersistentVolume {
    let mut object =
        json!({"metadata": {"name": "v", "uid": "u", "resourceVersion": "7"}, "spec": spec, "status": status});
    merge(&mut object["metadata"], metadata);
    Decoder::small().volume(&SlimVolume::read(object.to_string().as_bytes())).unwrap()
}

fn claim(metadata: Value, spec: Value) -> PersistentVolumeClaim {
    let mut object = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "spec": spec});
    merge(&mut object["metadata"], metadata);
    Decoder::small().claim(&SlimClaim::read(object.to_string().as_bytes())).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn volumes_of(list: Value) -> Vec<PodVolume> {
    let object = json!({"metadata": {"name": "p"}, "spec": {"volumes": list}}).to_string();
    let pod = Decoder::small().pod(&SlimPod::read(object.as_bytes())).unwrap();
    assert!(pod.shape.held_by.is_empty());
    pod.volumes.map(|volumes| volumes.iter().cloned().collect()).unwrap_or_default()
}

#[test]
fn what_a_pod_mounts() {
    let volumes = volumes_of(json!([
        {"name": "a", "emptyDir": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "d", "csi": {"driver": "secrets"}},
        {"name": "e", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "f", "iscsi": {"iqn": "q", "readOnly": true}},
        {"name": "g", "vsphereVolume": {"volumePath": "x"}},
        {"name": "h", "azureFile": {"shareName": "x"}},
    ]));
    let disk = |volume: &str, disk| PodVolume::Disk { volume: volume.into(), disk, counts: Ok(None) };
    let rbd = InlineDisk::Rbd { monitors: vec!["m".into()], pool: "rbd".into(), image: "i".into(), read_only: false };
    assert_eq!(
        volumes,
        [
            PodVolume::Claim { claim: "data".into() },
            PodVolume::Ephemeral { volume: "c".into() },
            PodVolume::Csi { driver: "secrets".into() },
            disk("e", rbd),
            disk("f", InlineDisk::Iscsi { iqn: "q".into(), read_only: true }),
            disk("g", InlineDisk::Vsphere),
            disk("h", InlineDisk::AzureFile),
        ]
    );
    assert!(volumes_of(json!([{"name": "a", "configMap": {}}])).is_empty());
}

/// What an inline disk counts as, `driver handle`, or what is said of it.
fn counts(source: &str, disk: Value) -> String {
    match &volumes_of(json!([{"name": "v", source: disk}]))[..] {
        [PodVolume::Disk { counts: Ok(Some(as_csi)), .. }] => format!("{} {}", as_csi.driver, as_csi.handle),
        [PodVolume::Disk { counts: Err(text), .. }] => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn disks_in_pods_count_for_the_drivers_that_took_over() {
    let ebs = |id: &str| counts("awsElasticBlockStore", json!({"volumeID": id}));
    let azure = |kind: Value| counts("azureDisk", json!({"diskName": "n", "diskURI": "uri", "kind": kind}));
    let gce = counts("gcePersistentDisk", json!({"pdName": "d"}));
    assert_eq!(gce, "pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d");
    assert_eq!(ebs("vol-1"), "ebs.csi.aws.com vol-1");
    assert_eq!(ebs("anything"), "ebs.csi.aws.com anything");
    assert_eq!(ebs("aws://us-east-1a/vol-2"), "ebs.csi.aws.com vol-2");
    assert_eq!(ebs("aws:///vol-3/"), "ebs.csi.aws.com vol-3");
    for bad in ["aws://us-east-1a/disk-2", "aws://vol-2", "aws://z/a/vol-2"] {
        let text = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume";
        assert_eq!(ebs(bad), format!("{text} ({bad})"));
    }
    assert_eq!(azure(json!("Managed")), "disk.csi.azure.com uri");
    assert_eq!(azure(json!("managed")), "disk.csi.azure.com uri");
    assert_eq!(azure(json!("Dedicated")), "kind(Dedicated) is not supported in csi migration");
    assert_eq!(azure(Value::Null), "kind(Shared) is not supported in csi migration", "the API's default");
    assert_eq!(counts("cinder", json!({"volumeID": "c"})), "cinder.csi.openstack.org c");
    assert_eq!(counts("portworxVolume", json!({"volumeID": "p"})), "pxd.portworx.com p");
}

#[test]
fn a_volume_is_read_whole() {
    let volume = volume(
        json!({"labels": {"disk": "ssd"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        json!({"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
               "volumeMode": "Block", "volumeAttributesClassName": "gold",
               "claimRef": {"namespace": "n", "name": "c", "uid": "x"},
               "csi": {"driver": "d", "volumeHandle": "h"}}),
        json!({"phase": "Available"}),
    );
    assert_eq!((&*volume.name, &*volume.uid, &*volume.resource_version, &*volume.class), ("v", "u", "7", "fast"));
    assert_eq!((volume.capacity.value(), &*volume.access_modes[0]), (10 << 30, "ReadWriteOnce"));
    assert_eq!((&*volume.volume_mode, &*volume.attributes_class), ("Block", "gold"));
    assert_eq!(volume.claim.as_ref().map(|c| (c.key.to_string(), c.uid.to_string())), Some(("n/c".into(), "x".into())));
    assert!(volume.available && volume.deleting && volume.affinity.is_none());
    assert_eq!(volume.attachable().map(|a| (&*a.driver, &*a.handle)), Some(("d", "h")));
}

#[test]
fn what_is_missing_has_upstreams_defaults() {
    let volume = volume(json!({}), json!({}), json!(null));
    assert_eq!((&*volume.class, &*volume.volume_mode, volume.capacity.value()), ("", "Filesystem", 0));
    assert!(!volume.available && volume.claim.is_none() && volume.source == VolumeSource::Other);
    let claim = claim(json!({}), json!(null));
    assert_eq!((&*claim.class, &*claim.volume_mode, claim.request), ("", "Filesystem", None));
    assert!(claim.volume.is_none() && !claim.bind_completed && claim.selector == ClaimSelector::Any);
}

#[test]
fn annotations_of_old_go_before_fields() {
    let annotated = |class: &str| json!({"annotations": {"volume.beta.kubernetes.io/storage-class": class}});
    let spec = || json!({"storageClassName": "field"});
    assert_eq!(&*claim(json!({}), spec()).class, "field");
    assert_eq!(&*claim(annotated("old"), spec()).class, "old");
    assert_eq!(&*claim(annotated(""), spec()).class, "", "an empty one counts as well");
    assert_eq!(&*volume(annotated("old"), spec(), json!({})).class, "old");
}

#[test]
fn a_claim_is_read_whole() {
    let claim = claim(
        json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "a"},
               "ownerReferences": [{"uid": "x"}, {"uid": "y", "controller": true}]}),
        json!({"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1500m"}}, "volumeName": "v",
               "selector": {"matchLabels": {"disk": "ssd"}}}),
    );
    assert!(claim.is_fully_bound() && claim.is_for_one_pod());
    assert_eq!((claim.selected_node.as_deref(), claim.controller.as_deref()), (Some("a"), Some("y")));
    assert_eq!(claim.request.map(Quantity::milli), Some(1500));
    let ClaimSelector::Matching(selector) = &claim.selector else { panic!("it parses") };
    assert!(selector.matches(&[("disk", "ssd")].into_iter().collect()));
}

#[test]
fn a_selector_that_does_not_parse_is_kept_as_what_upstream_says() {
    let selector = json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}});
    let text = "Invalid value: \"Near\" is not a valid label selector operator";
    assert_eq!(claim(json!({}), selector).selector, ClaimSelector::Broken(text.into()));
}

/// The claim is read: pods that use it must learn why they wait.
#[test]
fn a_claim_whose_selector_lists_too_much_says_so_to_who_reads_it() {
    let read = |values: usize| {
        let listed: Vec<String> = (1..values).map(|i| format!("v{i}")).collect();
        let absent = json!({"key": "a", "operator": "NotIn", "values": listed});
        claim(json!({}), json!({"selector": {"matchExpressions": [absent]}})).selector
    };
    let ClaimSelector::Matching(selector) = read(SELECTOR_VALUES) else { panic!("it is within the limit") };
    assert_eq!(1 + selector.requirements[0].values.len(), SELECTOR_VALUES);
    let ClaimSelector::Broken(text) = read(SELECTOR_VALUES + 1) else { panic!("it is beyond the limit") };
    assert!(text.starts_with("spec.selector: 4097 keys and values, at most 4096"), "{text}");
}

fn on(labels: &[(&str, &str)]) -> Labels {
    labels.iter().copied().collect()
}

fn affinity(terms: Value) -> VolumeAffinity {
    let spec = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
    volume(json!({}), spec, json!({})).affinity.unwrap()
}

#[test]
fn a_broken_affinity_matches_no_node() {
    let zone = |operator: &str, values: Value| json!({"key": "zone", "operator": operator, "values": values});
    let term = |expression: Value| json!({"matchExpressions": [expression]});
    let a = on(&[("zone", "a")]);
    assert!(affinity(json!([term(zone("In", json!(["a"])))])).matches(&a));
    for broken in [
        json!([]),
        json!([{}]),
        json!([term(zone("In", json!([])))]),
        json!([term(zone("Near", json!(["a"])))]),
        json!([term(zone("In", json!(["a b"])))]),
        json!([{"matchExpressions": [zone("In", json!(["a"])), zone("Gt", json!(["x"]))]}]),
        json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]),
    ] {
        assert!(!affinity(broken.clone()).matches(&a), "{broken}");
    }
    let mixed = affinity(json!([term(zone("Near", json!(["a"]))), term(zone("Exists", json!([])))]));
    assert!(mixed.matches(&a), "the other term stands");
    // Upstream looks at labels alone: fields hold on every node.
    let fields = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
    assert!(affinity(fields).matches(&a));
}

/// The affinity of an in-tree volume on nodes that have migrated, if it can be told.
fn translated(source: &str, disk: Value, labels: Value, terms: Value) -> Result<Option<VolumeAffinity>, String> {
    let mut spec = json!({source: disk});
    if !terms.is_null() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    match volume(json!({"labels": labels}), spec, json!({})).source {
        VolumeSource::InTree { migration, .. } => migration.affinity.map_err(|text| text.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn zones_are_told_in_the_drivers_words() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
    const CSI: &str = "topology.ebs.csi.aws.com/zone";
    let ebs =
        |labels: Value, terms: Value| translated("awsElasticBlockStore", json!({"volumeID": "vol-1"}), labels, terms);
    let term =
        |key: &str, values: &[&str]| json!([{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]);
    for (labels, terms) in [
        (json!({}), term(ZONE, &["a", "b"])),
        (json!({}), term(BETA, &["a", "b"])),
        (json!({ZONE: "b__a"}), Value::Null),
        (json!({BETA: "a__b"}), Value::Null),
        (json!({BETA: "c", ZONE: "a__b"}), Value::Null),
        (json!({ZONE: "a__b"}), term("other", &["x"])),
    ] {
        let matches = |zone: &str| {
            let affinity = ebs(labels.clone(), terms.clone()).unwrap().unwrap();
            affinity.matches(&on(&[(CSI, zone), ("other", "x")]))
        };
        assert_eq!((matches("a"), matches("b"), matches("c")), (true, true, false), "{labels} {terms}");
    }
    assert_eq!(ebs(json!({}), Value::Null), Ok(None));
    assert_eq!(ebs(json!({ZONE: " __ "}), Value::Null), Ok(None), "no valid zone, nothing added");
    let region = "failure-domain.beta.kubernetes.io/region";
    let both = json!([{"matchExpressions": [{"key": BETA, "operator": "In", "values": ["a"]},
                                            {"key": region, "operator": "In", "values": ["r"]}]}]);
    let affinity = ebs(json!({}), both).unwrap().unwrap();
    assert!(affinity.matches(&on(&[(CSI, "a"), ("topology.kubernetes.io/region", "r")])));
    // Azure's and Portworx's drivers keep the words as they are.
    let disk = json!({"diskURI": "u", "kind": "Managed"});
    let affinity = translated("azureDisk", disk, json!({ZONE: "b"}), term(ZONE, &["a"])).unwrap().unwrap();
    assert!(affinity.matches(&on(&[(ZONE, "a")])));
}

#[test]
fn volumes_that_cannot_be_translated_say_why() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let gce = |zones: &str| {
        let volume = volume(json!({"labels": {ZONE: zones}}), json!({"gcePersistentDisk": {"pdName": "d"}}), json!({}));
        match volume.source {
            VolumeSource::InTree { attachable, migration, disk } => {
                assert_eq!((migration.plugin, &*disk), (InTreePlugin::GcePd, "d"));
                match migration.affinity {
                    Ok(_) => attachable.map(|a| a.handle.to_string()).unwrap_or_default(),
                    Err(text) => text.to_string(),
                }
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(gce(""), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d");
    assert_eq!(gce("us-east1-b"), "projects/UNSPECIFIED/zones/us-east1-b/disks/d");
    assert_eq!(gce("us-east1-b__us-east1-c"), "projects/UNSPECIFIED/regions/us-east1/disks/d");
    let unexpected = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: b";
    assert_eq!(gce("us-east1-b__b"), format!("failed to get region from zones: {unexpected}"));
    assert!(gce("us-east1-b__us-east2-c").starts_with("failed to get region from zones: multiple or no regions"));
}

#[test]
fn the_other_kinds() {
    let mut decoder = Decoder::small();
    let bytes = |object: Value| object.to_string().into_bytes();
    let csi_node = bytes(
        json!({"metadata": {"name": "a", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "q,p"}},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}, {"name": "e"}, {"name": "f", "allocatable": {}}]}}),
    );
    let csi_node = decoder.csi_node(&SlimCsiNode::read(&csi_node)).unwrap();
    assert_eq!(["d", "e", "f", "g"].map(|driver| csi_node.limit(driver)), [Some(3), None, None, None]);
    assert_eq!(csi_node.migrated_plugins.iter().map(|p| &**p).collect::<Vec<_>>(), ["p", "q"]);
    let driver = bytes(json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}));
    assert!(decoder.csi_driver(&SlimCsiDriver::read(&driver)).unwrap().storage_capacity);
    let mut class = |mode: Value, topologies: Value| {
        let class = bytes(json!({"metadata": {"name": "s"}, "provisioner": "d", "volumeBindingMode": mode,
            "allowedTopologies": topologies}));
        decoder.storage_class(&SlimStorageClass::read(&class)).unwrap()
    };
    let modes =
        [json!("WaitForFirstConsumer"), json!("Immediate"), json!(null)].map(|m| class(m, json!(null)).binding_mode);
    assert_eq!(modes, [Some(BindingMode::WaitForFirstConsumer), Some(BindingMode::Immediate), None]);
    let zones = |values: Value| json!([{"matchLabelExpressions": [{"key": "zone", "values": values}]}]);
    let allows = |topologies: Value, mut class: Box<dyn FnMut(Value) -> Option<VolumeAffinity> + '_>| {
        class(topologies).is_none_or(|places| places.matches(&on(&[("zone", "b")])))
    };
    for (topologies, allowed) in [
        (json!(null), true),
        (json!([]), true),
        (json!([{}]), false),
        (zones(json!([])), false),
        (zones(json!(["a"])), false),
        (zones(json!(["a", "b"])), true),
    ] {
        let of = |t: Value| class(json!("Immediate"), t).allowed_topologies;
        assert_eq!(allows(topologies.clone(), Box::new(of)), allowed, "{topologies}");
    }
    let capacity =
        bytes(json!({"metadata": {"name": "k", "namespace": "n"}, "storageClassName": "s", "capacity": "5Gi",
        "maximumVolumeSize": "1Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}}));
    let capacity = decoder.csi_capacity(&SlimCsiStorageCapacity::read(&capacity)).unwrap();
    assert_eq!((capacity.limit, &*capacity.class), (Some(1 << 30), "s"));
    assert!(capacity.nodes.unwrap().matches(&on(&[("zone", "a")])));
    let attachment = bytes(json!({"metadata": {"name": "x"}, "spec": {"attacher": "d", "nodeName": "a",
        "source": {"persistentVolumeName": "v"}}}));
    let attachment = decoder.volume_attachment(&SlimVolumeAttachment::read(&attachment)).unwrap();
    assert_eq!((&*attachment.attacher, &*attachment.node, attachment.volume.as_deref()), ("d", "a", Some("v")));
}

#[test]
fn errors_name_object_and_field() {
    let mut decoder = Decoder::small();
    let claim =
        br#"{"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "much"}}}}"#;
    let error = decoder.claim(&SlimClaim::read(claim)).unwrap_err().to_string();
    assert!(error.starts_with("persistentvolumeclaim n/c: spec.resources.requests[storage]: "), "{error}");
    let volume = br#"{"metadata": {"name": "v"}, "spec": {"accessModes": "all"}}"#;
    let error = decoder.volume(&SlimVolume::read(volume)).unwrap_err().to_string();
    assert!(error.starts_with("persistentvolume v: spec.accessModes: "), "{error}");
    let nameless = decoder.storage_class(&SlimStorageClass::read(b"{}")).unwrap_err().to_string();
    assert!(nameless.contains("metadata.name"), "{nameless}");
}
