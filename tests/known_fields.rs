//! The lists of known fields of pods, ResourceClaims and DeviceClasses against the newest published types: a field that a new
//! Kubernetes minor brings must be read or put aside by someone who thought about it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use berth_cluster::slim::known::{DEVICE_CLASS, POD, RESOURCE_CLAIM, Shape, Use};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::resource::v1 as resource;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is newer than what Berth does, and matters: each is named where it is met.
const NOT_READ: [(&str, &str); 2] =
    [("ExactDeviceRequest", "derivedAttributes"), ("DeviceSubRequest", "derivedAttributes")];

/// The published field names of each type.
fn published() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut generator = SchemaGenerator::default();
    let mut all = BTreeMap::new();
    macro_rules! types {
        ($($kind:ty => $name:literal),* $(,)?) => {$(
            all.insert($name, fields(&<$kind>::json_schema(&mut generator).to_value()));
        )*};
    }
    types! {
        core::Pod => "Pod", core::PodSpec => "PodSpec", core::Container => "Container",
        core::ContainerRestartRule => "ContainerRestartRule",
        core::ContainerPort => "ContainerPort", core::ResourceRequirements => "ResourceRequirements",
        core::Volume => "Volume", core::ImageVolumeSource => "ImageVolumeSource", core::Affinity => "Affinity",
        core::NodeAffinity => "NodeAffinity", core::NodeSelector => "NodeSelector",
        core::NodeSelectorTerm => "NodeSelectorTerm", core::NodeSelectorRequirement => "NodeSelectorRequirement",
        core::PreferredSchedulingTerm => "PreferredSchedulingTerm", core::PodAffinity => "PodAffinity",
        core::PodAntiAffinity => "PodAntiAffinity", core::PodAffinityTerm => "PodAffinityTerm",
        core::WeightedPodAffinityTerm => "WeightedPodAffinityTerm", core::Toleration => "Toleration",
        core::TopologySpreadConstraint => "TopologySpreadConstraint", core::PodSchedulingGate => "PodSchedulingGate",
        core::PodResourceClaim => "PodResourceClaim", core::PodSchedulingGroup => "PodSchedulingGroup",
        core::PodSecurityContext => "PodSecurityContext", core::SecurityContext => "SecurityContext",
        k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector => "LabelSelector",
        k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement => "LabelSelectorRequirement",
        resource::ResourceClaim => "ResourceClaim", resource::ResourceClaimSpec => "ResourceClaimSpec",
        resource::DeviceClaim => "DeviceClaim", resource::DeviceRequest => "DeviceRequest",
        resource::ExactDeviceRequest => "ExactDeviceRequest", resource::DeviceSubRequest => "DeviceSubRequest",
        resource::DeviceSelector => "DeviceSelector", resource::CELDeviceSelector => "CELDeviceSelector",
        resource::DeviceToleration => "DeviceToleration", resource::CapacityRequirements => "CapacityRequirements",
        resource::DeviceConstraint => "DeviceConstraint",
        resource::DeviceClaimConfiguration => "DeviceClaimConfiguration",
        resource::OpaqueDeviceConfiguration => "OpaqueDeviceConfiguration", resource::DeviceClass => "DeviceClass",
        resource::DeviceClassSpec => "DeviceClassSpec",
        resource::DeviceClassConfiguration => "DeviceClassConfiguration",
    }
    all
}

fn fields(schema: &Value) -> BTreeSet<String> {
    let properties = schema.get("properties").and_then(Value::as_object).expect("an object's schema");
    properties.keys().cloned().collect()
}

fn collect(shape: &'static Shape, into: &mut BTreeMap<&'static str, BTreeSet<String>>) {
    let names: BTreeSet<String> = shape.fields.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names.len(), shape.fields.len(), "{} names a field twice", shape.name);
    into.insert(shape.name, names);
    for (_, usage) in shape.fields {
        if let Use::Into(inner) = usage {
            collect(inner, into);
        }
    }
}

#[test]
fn every_published_field_is_read_or_put_aside() {
    let mut known = BTreeMap::new();
    for shape in [&POD, &RESOURCE_CLAIM, &DEVICE_CLASS] {
        collect(shape, &mut known);
    }
    let published = published();
    for (name, fields) in &published {
        let ours = known.get(name).unwrap_or_else(|| panic!("{name} is in no list of known fields"));
        let not_read = NOT_READ.iter().filter(|(of, _)| of == name).map(|(_, field)| (*field).to_owned());
        let missing: BTreeSet<String> = fields.difference(ours).cloned().collect();
        let missing: Vec<String> = missing.symmetric_difference(&not_read.collect()).cloned().collect();
        let gone: Vec<_> = ours.difference(fields).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "{name}: published but not known {missing:?}, known but not published {gone:?}"
        );
    }
    let unchecked: Vec<_> = known.keys().filter(|name| !published.contains_key(*name)).collect();
    assert!(unchecked.is_empty(), "not compared with a published type: {unchecked:?}");
}
