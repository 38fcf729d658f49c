//! What configures kube-scheduler, in whatever form it is among the inputs: documents of their own, ConfigMaps that hold some,
//! objects of other products that do.

use super::InputError;
use super::documents::{Object, Origin, documents_in};
use super::policy_sources::{FoundPolicies, reference};
use super::vendors;
use berth_convert::import::{self, Form, Import, POLICY_KEY};

/// A document that was read.
pub(crate) struct Imported {
    /// Where it stands.
    pub(crate) origin: Origin,
    /// Its kind.
    pub(crate) kind: String,
    /// What it says.
    pub(crate) import: Import,
}

/// Whether `object` is a configuration that names a Policy, which may stand in a ConfigMap.
pub(super) fn names_a_policy(object: &Object) -> bool {
    object.form() == Some(Form::V1alpha1)
}

/// Puts in the place of objects that hold configurations what they hold; others stay. ConfigMaps stay besides, for they may be
/// named by a configuration.
pub(super) fn unpack(objects: Vec<Object>) -> Result<(Vec<Object>, Vec<Object>), InputError> {
    let (mut unpacked, mut config_maps) = (Vec::new(), Vec::new());
    for object in objects {
        if object.is_config_map() {
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
    let name = config_map.full_name();
    for object in &mut found {
        object.holder = Some(name.clone());
    }
    Ok(found)
}

/// Takes out the Policies that a configuration among `objects` names: they are read with it. So do ConfigMaps' own.
pub(super) fn drop_named(objects: &mut Vec<Object>) {
    let named: Vec<_> = objects.iter().filter(|o| names_a_policy(o)).filter_map(reference).collect();
    if !named.is_empty() {
        objects.retain(|object| object.form() != Some(Form::Policy) || !named.iter().any(|name| name.means(object)));
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
