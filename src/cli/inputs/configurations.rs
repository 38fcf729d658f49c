//! Configurations of kube-scheduler among the inputs: documents of their own, in ConfigMaps, in objects of other products.

use super::InputError;
use super::documents::{Object, Origin, documents_in};
use super::policy_sources::{FoundPolicies, reference};
use super::vendors;
use berth_convert::import::{self, Form, Import, POLICY_KEY};

/// A configuration that was read.
pub(crate) struct Imported {
    pub(crate) origin: Origin,
    pub(crate) kind: String,
    pub(crate) import: Import,
}

/// Whether `object` is a configuration that names a Policy, which may stand in a ConfigMap.
pub(super) fn names_a_policy(object: &Object) -> bool {
    object.form() == Some(Form::V1alpha1)
}

/// Replaces objects that contain configurations by those configurations. The ConfigMaps are returned besides, because a
/// configuration may name one.
pub(super) fn unpack(objects: Vec<Object>) -> Result<(Vec<Object>, Vec<Object>), InputError> {
    let (mut unpacked, mut config_maps) = (Vec::new(), Vec::new());
    for object in objects {
        if object.is_config_map() {
            unpacked.extend(in_config_map(&object)?);
            config_maps.push(object);
        } else if let Some(documents) = vendors::configurations(&object)? {
            unpacked.extend(documents);
        } else {
            unpacked.push(object);
        }
    }
    Ok((unpacked, config_maps))
}

/// The configurations in the values of a ConfigMap.
fn in_config_map(config_map: &Object) -> Result<Vec<Object>, InputError> {
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

/// Takes out the Policies that a configuration among `objects` names, whether in files or ConfigMaps: they are read with it.
pub(super) fn drop_named(objects: &mut Vec<Object>) {
    let named: Vec<_> = objects.iter().filter(|o| names_a_policy(o)).filter_map(reference).collect();
    if !named.is_empty() {
        objects.retain(|object| object.form() != Some(Form::Policy) || !named.iter().any(|name| name.means(object)));
    }
}

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
