//! What configures kube-scheduler, in whatever form it is among the inputs: documents of their own, ConfigMaps that hold some,
//! objects of other products that do.

use super::InputError;
use super::documents::{self, Object, Origin};
use super::files::Source;
use super::policy_sources::{FoundPolicies, reference};
use super::vendors;
use berth_convert::import::{self, Form, Import, KIND, POLICY_KEY};
use serde_json::Value;

/// A document that was read.
pub(crate) struct Imported {
    /// Where it stands.
    pub(crate) origin: Origin,
    /// Its kind.
    pub(crate) kind: String,
    /// What it says.
    pub(crate) import: Import,
}

/// The form of `object`, if it configures kube-scheduler.
pub(super) fn form(object: &Object) -> Option<Form> {
    Form::of(&object.api_version, &object.kind)
}

/// Whether `object` is a configuration that names a Policy, which may stand in a ConfigMap.
pub(super) fn names_a_policy(object: &Object) -> bool {
    form(object) == Some(Form::V1alpha1)
}

/// Whether `object` is a ConfigMap.
pub(super) fn is_config_map(object: &Object) -> bool {
    object.api_version == "v1" && object.kind == "ConfigMap"
}

/// Puts in the place of objects that hold configurations what they hold; others stay. ConfigMaps stay besides, for they may be
/// named by a configuration.
pub(super) fn unpack(objects: Vec<Object>) -> Result<(Vec<Object>, Vec<Object>), InputError> {
    let (mut unpacked, mut config_maps) = (Vec::new(), Vec::new());
    for object in objects {
        if is_config_map(&object) {
            unpacked.extend(held(&object)?);
            config_maps.push(object);
        } else if let Some(documents) = vendors::held(&object)? {
            unpacked.extend(documents);
        } else {
            unpacked.push(object);
        }
    }
    Ok((unpacked, config_maps))
}

/// The configurations that a ConfigMap holds, each under a key.
fn held(config_map: &Object) -> Result<Vec<Object>, InputError> {
    let mut found = Vec::new();
    for (key, text) in config_map.value["data"].as_object().into_iter().flatten() {
        let Some(text) = text.as_str() else { continue };
        found.extend(documents_in(&config_map.origin, &format!("data[{key}]"), text, key == POLICY_KEY)?);
    }
    let name = full_name(&config_map.value);
    for object in &mut found {
        object.holder = Some(name.clone());
    }
    Ok(found)
}

/// The configurations in a text that stands in a field of an object. A text without any is another program's business;
/// `policy` says that it holds a Policy whatever it says of itself.
pub(super) fn documents_in(origin: &Origin, field: &str, text: &str, policy: bool) -> Result<Vec<Object>, InputError> {
    let surely = policy || text.contains(KIND);
    if !surely && !text.contains("Policy") {
        return Ok(Vec::new());
    }
    let source = Source { name: format!("{origin}, {field}"), text: text.to_owned() };
    let mut objects = Vec::new();
    match documents::split_loosely(source, policy.then_some(("v1", "Policy")), &mut objects) {
        Err(error) if surely => return Err(error),
        _ => {}
    }
    objects.retain(|object| form(object).is_some());
    Ok(objects)
}

/// Takes out the Policies that a configuration among `objects` names: they are read with it. So do ConfigMaps' own.
pub(super) fn drop_named(objects: &mut Vec<Object>) {
    let named: Vec<_> = objects.iter().filter(|o| names_a_policy(o)).filter_map(reference).collect();
    if !named.is_empty() {
        objects.retain(|object| form(object) != Some(Form::Policy) || !named.iter().any(|name| name.means(object)));
    }
}

/// Reads `object`, whose form is `form`.
pub(super) fn read(
    object: &Object,
    form: Form,
    config_maps: &[Object],
    scheduler_name: &str,
) -> Result<Imported, InputError> {
    let sources = FoundPolicies { origin: &object.origin, config_maps };
    let import = import::read_form(form, &object.value, scheduler_name, &sources).map_err(|e| InputError::Bad {
        origin: object.origin.clone(),
        object: object.kind.clone(),
        problem: e.to_string(),
    })?;
    Ok(Imported { origin: object.origin.clone(), kind: object.kind.clone(), import })
}

/// `namespace/name` of an object as written; `default` where it names no namespace.
pub(super) fn full_name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().filter(|text| !text.is_empty());
    format!("{}/{}", text("namespace").unwrap_or("default"), text("name").unwrap_or_default())
}
