//! Configurations as SchedulerProfiles.

use super::Written;
use super::yaml::{self, Document};
use crate::cli::inputs::{Convertible, Imported, InputError, NAME_MAX, check_profile};
use berth_api::{self as api, DEFAULT_SCHEDULER_NAME, SchedulerProfileSpec};
use berth_convert::import::ImportedProfile;
use serde_json::{Map, Value, json};

/// The name of the profile that serves default-scheduler: no profile may be called default-scheduler itself.
const DEFAULT_NAME: &str = "default";

/// Writes every profile of every configuration, and what they refer to behind them.
pub(super) fn write(found: &Convertible, files: &str) -> Result<Written, InputError> {
    if found.imported.is_empty() {
        let wanted = "a KubeSchedulerConfiguration, a Policy, or a ConfigMap that holds one";
        return Err(InputError::NothingToConvert { files: files.to_owned(), wanted });
    }
    let mut written = Written { yaml: String::new(), json: Value::Null, losses: Vec::new() };
    let (mut profiles, mut manifests, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for imported in &found.imported {
        written.losses.extend(imported.losses());
        let earlier = names.len();
        for profile in &imported.import.profiles {
            let name = name_for(&profile.scheduler_name, &names);
            let object = object(&name, &profile.spec);
            check_profile(&imported.origin, &object)?;
            let document = Document { header: header(imported, profile), value: &object, comments: &profile.comments };
            written.yaml.push_str(&yaml::write(&document));
            names.push(name);
            profiles.push(object);
        }
        for manifest in imported.import.manifests_for(&names[earlier..]) {
            let header =
                vec![format!("Written by berth convert from {}. For the operator's namespace.", imported.source())];
            written.yaml.push_str(&yaml::write(&Document { header, value: &manifest, comments: &[] }));
            manifests.push(manifest);
        }
    }
    written.json = json!({"profiles": profiles, "manifests": manifests});
    Ok(written)
}

fn header(imported: &Imported, profile: &ImportedProfile) -> Vec<String> {
    let mut lines = vec![format!("Written by berth convert from {}.", imported.source())];
    if profile.scheduler_name == DEFAULT_SCHEDULER_NAME {
        lines.push(format!(
            "It serves {DEFAULT_SCHEDULER_NAME}: the operator must be started with --serve-default-scheduler, in the \
             place of kube-scheduler."
        ));
    }
    lines
}

/// The name of a profile: that of its scheduler, if it can be one.
fn name_for(scheduler_name: &str, taken: &[String]) -> String {
    let base = if scheduler_name == DEFAULT_SCHEDULER_NAME { DEFAULT_NAME } else { scheduler_name };
    let cut = |longest: usize| base.get(..base.len().min(longest)).unwrap_or(base).trim_end_matches(['-', '.']);
    let numbered = (2..).map(|n| format!("{}-{n}", cut(NAME_MAX - 4)));
    let free = |name: &String| !taken.contains(name);
    std::iter::once(cut(NAME_MAX).to_owned()).chain(numbered).find(free).unwrap_or_default()
}

/// A SchedulerProfile without the fields that have their defaults.
pub(super) fn object(name: &str, spec: &SchedulerProfileSpec) -> Value {
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "SchedulerProfile",
        "metadata": {"name": name},
        "spec": brief(name, spec),
    })
}

/// The spec without what the API server fills in.
fn brief(name: &str, spec: &SchedulerProfileSpec) -> Value {
    let mut spec = spec.clone();
    if spec.scheduler_names == [name] {
        spec.scheduler_names.clear();
    }
    let written = serde_json::to_value(&spec).unwrap_or_default();
    let default = serde_json::to_value(SchedulerProfileSpec::default()).unwrap_or_default();
    let mut brief = without(&written, &default);
    for list in ["filters", "scores"] {
        for item in brief[list].as_array_mut().into_iter().flatten() {
            drop_field(item, "state", &json!("Enabled"));
        }
    }
    for extender in brief["extenders"].as_array_mut().into_iter().flatten() {
        drop_field(extender, "maxConcurrentRequests", &json!(32));
        drop_field(extender, "weight", &json!(1));
        drop_field(extender, "circuitBreaker", &json!(api::CircuitBreaker::default()));
        if extender["tls"].is_object() {
            drop_field(&mut extender["tls"], "mode", &json!("Verify"));
        }
    }
    if let Some(map) = brief.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    brief
}

fn drop_field(object: &mut Value, field: &str, default: &Value) {
    if object[field] == *default {
        object.as_object_mut().map(|map| map.remove(field));
    }
}

/// The fields of `value` that differ from those of `default`, mapping by mapping.
fn without(value: &Value, default: &Value) -> Value {
    let (Value::Object(fields), Value::Object(defaults)) = (value, default) else { return value.clone() };
    let mut left = Map::new();
    for (name, value) in fields {
        match defaults.get(name) {
            Some(default) if default == value => {}
            Some(default) => drop(left.insert(name.clone(), without(value, default))),
            None => drop(left.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let long = "a".repeat(62) + "-b.c";
        assert_eq!(name_for("default-scheduler", &[]), "default");
        assert_eq!(name_for("default", &["default".into()]), "default-2");
        assert_eq!(name_for(&long, &[]), "a".repeat(62));
        assert_eq!(name_for(&long, &["a".repeat(62)]), "a".repeat(59) + "-2");
    }

    #[test]
    fn a_brief_spec_is_the_same_spec() {
        let mut spec = SchedulerProfileSpec { scheduler_names: vec!["p".into()], ..SchedulerProfileSpec::default() };
        spec.nodes.percentage_to_score = 40;
        spec.queue.initial_backoff = api::Duration::from_secs(2);
        let written = object("p", &spec)["spec"].clone();
        assert_eq!(written, json!({"nodes": {"percentageToScore": 40}, "queue": {"initialBackoff": "2s"}}));
        let read: SchedulerProfileSpec = serde_json::from_value(written).unwrap();
        assert_eq!(read, SchedulerProfileSpec { scheduler_names: Vec::new(), ..spec });
    }
}
