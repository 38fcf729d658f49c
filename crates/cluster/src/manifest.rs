//! Objects from files, decoded as watched ones are, with the API server's defaults.

use crate::decode::{DecodeError, Decoder};
use crate::proto::Encoded;
use crate::watch::{KINDS, Kind};
use berth_core::ledger::Object;
use berth_core::model::{BindingMode, Quantity};
use serde_json::{Map, Value};

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The object is of a kind that is not read here; what it does not name is empty.
    #[error("kind {kind:?} of apiVersion {api_version:?} is not read here: give {}", kinds_in_words())]
    Kind { kind: String, api_version: String },
    /// The object does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The kinds that are read, by apiVersion: `a v1 Pod, Node or List, an apps/v1 ReplicaSet or StatefulSet, or …`.
fn kinds_in_words() -> String {
    let mut kinds: Vec<(&str, &str)> = KINDS.iter().map(|kind| (kind.api_version, kind.name)).collect();
    kinds.push(("v1", "List"));
    kinds.sort_by_key(|(version, _)| (version.contains('/'), *version));
    let of_version = |kinds: &[(&str, &str)]| {
        let article = if kinds[0].0.starts_with('a') { "an" } else { "a" };
        let names: Vec<String> = kinds.iter().map(|(_, name)| (*name).to_owned()).collect();
        format!("{article} {} {}", kinds[0].0, joined(&names, " or "))
    };
    let versions: Vec<String> = kinds.chunk_by(|a, b| a.0 == b.0).map(of_version).collect();
    joined(&versions, ", or ")
}

fn joined(words: &[String], last: &str) -> String {
    match words {
        [head @ .., end] if !head.is_empty() => format!("{}{last}{end}", head.join(", ")),
        _ => words.concat(),
    }
}

/// Decodes a manifest, already parsed, through the code that decodes watched objects; a `List` gives each of its items.
///
/// What the API server would put in is put in first, where it matters for placing: a container's requests from its
/// limits, host ports of pods on the host's network, the quality of service of pods that ask for nothing, and the binding
/// mode of a StorageClass.
pub fn from_manifest(decoder: &mut Decoder, manifest: &Value) -> Vec<Result<Object, ManifestError>> {
    let kind = text(manifest, "kind");
    let Some(of) = kind.strip_suffix("List").filter(|_| text(manifest, "apiVersion") == "v1") else {
        return vec![one(decoder, manifest, text(manifest, "apiVersion"), kind)];
    };
    let all = manifest.get("items").and_then(Value::as_array).into_iter().flatten();
    // The items of a typed list need not repeat its kind.
    let named = |object: &Value| (text(object, "apiVersion").to_owned(), text(object, "kind").to_owned());
    let objects = all.map(|object| match named(object) {
        (version, kind) if version.is_empty() && kind.is_empty() => one(decoder, object, "v1", of),
        (version, kind) => one(decoder, object, &version, &kind),
    });
    objects.collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn one(decoder: &mut Decoder, manifest: &Value, api_version: &str, name: &str) -> Result<Object, ManifestError> {
    let Some(kind) = Kind::find(api_version, name) else {
        return Err(ManifestError::Kind { kind: name.to_owned(), api_version: api_version.to_owned() });
    };
    if kind.name == "Pod" {
        let mut pod = manifest.clone();
        put_defaults(&mut pod);
        put_quality(&mut pod);
        return Ok((kind.read)(decoder, Encoded::Json(pod.to_string().as_bytes()))?);
    }
    let mut object = (kind.read)(decoder, Encoded::Json(manifest.to_string().as_bytes()))?;
    if let Object::StorageClass(class) = &mut object {
        class.binding_mode.get_or_insert(BindingMode::Immediate);
    }
    Ok(object)
}

/// After `SetDefaults_Pod` and `SetDefaults_PodSpec` in `pkg/apis/core/v1/defaults.go`.
fn put_defaults(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(resources) = container.get_mut("resources") {
                requests_from_limits(resources);
                round_up(resources.get_mut("requests"));
            }
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter(|_| host_network).filter_map(Value::as_object_mut) {
                let unset = port.get("hostPort").is_none_or(|own| own.is_null() || *own == 0);
                if let Some(number) = port.get("containerPort").filter(|_| unset).cloned() {
                    port.insert("hostPort".to_owned(), number);
                }
            }
        }
    }
    round_up(spec.get_mut("overhead"));
}

/// Says so in the status where nothing of the pod names any cpu or memory, as the API server does at creation.
/// After `ComputePodQOS` in `pkg/apis/core/v1/helper/qos/qos.go`.
fn put_quality(pod: &mut Value) {
    let has_class = pod["status"]["qosClass"].as_str().is_some_and(|class| !class.is_empty());
    if has_class || names_any_amount(&pod["spec"]) {
        return;
    }
    if let Some(status) = object_at(pod, "status") {
        status.insert("qosClass".to_owned(), "BestEffort".into());
    }
}

/// The object in a field, put there where there is none.
fn object_at<'v>(value: &'v mut Value, field: &str) -> Option<&'v mut Map<String, Value>> {
    let object = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut()
}

/// Whether the pod level (or, where it sets nothing, some container) requests or limits cpu or memory.
fn names_any_amount(spec: &Value) -> bool {
    let amounts = |of: &Value| -> Vec<Value> {
        let sets = ["requests", "limits"].map(|set| of["resources"][set].clone());
        sets.iter().flat_map(|set| ["cpu", "memory"].map(|name| set[name].clone())).filter(|v| !v.is_null()).collect()
    };
    let level = amounts(spec);
    if !level.is_empty() {
        return level.iter().any(is_positive);
    }
    let containers = ["containers", "initContainers"].map(|list| spec[list].as_array());
    containers.into_iter().flatten().flatten().any(|container| amounts(container).iter().any(is_positive))
}

fn is_positive(amount: &Value) -> bool {
    quantity(amount).is_some_and(|amount| amount > Quantity::ZERO)
}

fn quantity(amount: &Value) -> Option<Quantity> {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    Quantity::parse(&text).ok()
}

/// An API server keeps no amount finer than a thousandth, and rounds each up. After `SetDefaults_ResourceList`.
fn round_up(amounts: Option<&mut Value>) {
    for amount in amounts.and_then(Value::as_object_mut).into_iter().flat_map(|amounts| amounts.values_mut()) {
        let Some(exact) = quantity(amount) else { continue };
        // What does not fit into thousandths is too large to have any left over.
        if exact < Quantity::from_milli(exact.milli()) {
            *amount = Value::from(format!("{}m", exact.milli()));
        }
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = object_at(resources, "requests") {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}
