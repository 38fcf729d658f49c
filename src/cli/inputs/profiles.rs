//! From profiles as written to those that serve the pods.

use super::InputError;
use super::calls::Calls;
use super::configurations;
use super::documents::Object;
use super::error::Origin;
use super::objects::is_profile;
use super::schema::violation;
use crate::cli::output::some_of;
use berth_api::{self as api, SchedulerProfile};
use berth_core::model::{Pod, Str};
use berth_core::profile::CompiledProfile;
use berth_profile::compile;
use berth_simulate::{Cluster, serving};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the profile that serves every pod if none is given.
const DEFAULT_NAME: &str = "default";

/// Scheduler names that one note names.
const NAMES_PER_LINE: usize = 4;

/// Longest name of a profile; in an API server a rule of the CRD bounds it.
pub(crate) const NAME_MAX: usize = 63;

/// The name of the profile that serves what no other does, where there are others.
const REST_NAME: &str = "the Default preset";

/// Has the Default preset, which is kube-scheduler as it comes, serve the scheduler names of `pods` that none of `profiles`
/// serves. Returns a note that says so, unless it stands in for missing profiles anyway.
pub(crate) fn serve_also<'p>(
    profiles: &mut Vec<Arc<CompiledProfile>>,
    stand_in: bool,
    pods: impl IntoIterator<Item = &'p Pod>,
) -> Option<String> {
    let foreign = pods.into_iter().filter(|pod| serving(profiles, pod).is_none());
    let names: BTreeSet<Str> = foreign.map(|pod| pod.scheduler_name.clone()).collect();
    if names.is_empty() {
        return None;
    }
    let mut rest = CompiledProfile::default_preset(if stand_in { DEFAULT_NAME } else { REST_NAME });
    rest.scheduler_names = names.iter().cloned().collect();
    profiles.push(Arc::new(rest));
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    (!stand_in).then(|| {
        format!(
            "no profile serves schedulerName {}: the Default preset, which is kube-scheduler as it comes, judges its pods",
            some_of(&names, NAMES_PER_LINE)
        )
    })
}

/// The profiles and configurations in the files behind `--profile`, at least one, and the ConfigMaps there; other kinds are
/// skipped.
pub(super) fn only(objects: Vec<Object>, paths: &[PathBuf]) -> Result<(Vec<Object>, Vec<Object>), InputError> {
    let (mut profiles, config_maps) = configurations::unpack(objects)?;
    profiles.retain(is_profile);
    configurations::drop_named(&mut profiles);
    if profiles.is_empty() {
        let files: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        let api_version = format!("{}/{}", api::GROUP, api::VERSION);
        return Err(InputError::NoProfile { files: files.join(", "), api_version });
    }
    Ok((profiles, config_maps))
}

/// Compiles `objects` into profiles sorted by name; without any, the Default preset serves every pod of `cluster`.
/// `config_maps` are those that a configuration may name.
pub(super) fn resolve(
    objects: Vec<Object>,
    config_maps: &[Object],
    cluster: &Cluster,
    calls: &mut Calls,
    notes: &mut Vec<String>,
) -> Result<Vec<Arc<CompiledProfile>>, InputError> {
    if objects.is_empty() {
        let names: BTreeSet<_> = cluster.pods.iter().map(|p| p.scheduler_name.clone()).collect();
        let mut profile = CompiledProfile::default_preset(DEFAULT_NAME);
        profile.scheduler_names = names.into_iter().collect();
        return Ok(vec![Arc::new(profile)]);
    }
    let mut compiled = Vec::new();
    let mut names: BTreeMap<String, Origin> = BTreeMap::new();
    for object in objects {
        for (created, profile) in read_all(&object, config_maps, calls, notes)? {
            if let Some(first) = names.insert(profile.name.to_string(), object.origin.clone()) {
                let object_name = format!("SchedulerProfile {}", profile.name);
                return Err(InputError::Duplicate { object: object_name, first, second: object.origin });
            }
            compiled.push((created, profile));
        }
    }
    // The oldest serves a name that two claim; manifests that were never applied have no age and come first.
    compiled.sort_by(|a, b| (&a.0, &a.1.name).cmp(&(&b.0, &b.1.name)));
    let mut profiles: Vec<CompiledProfile> = compiled.into_iter().map(|(_, profile)| profile).collect();
    settle_names(&mut profiles, notes);
    profiles.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(profiles.into_iter().map(Arc::new).collect())
}

/// The profiles that `object` is or holds, each with its creation time as text; what a configuration loses goes to `notes`.
fn read_all(
    object: &Object,
    config_maps: &[Object],
    calls: &mut Calls,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, CompiledProfile)>, InputError> {
    let Some(form) = object.form() else {
        let (profile, compiled) = read(object)?;
        calls.note_extenders(&compiled, &profile.spec.extenders);
        let created = profile.metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default();
        return Ok(vec![(created, compiled)]);
    };
    let read = configurations::read(object, form, config_maps, api::DEFAULT_SCHEDULER_NAME)?;
    notes.extend(read.import.losses.iter().map(|loss| format!("{}: {loss}", read.source())));
    let names: Vec<&str> = read.import.profiles.iter().map(|profile| &*profile.compiled.name).collect();
    read.import.manifests_for(&names).iter().for_each(|manifest| calls.add_manifest(manifest));
    for profile in &read.import.profiles {
        calls.note_extenders(&profile.compiled, &profile.spec.extenders);
    }
    Ok(read.import.profiles.into_iter().map(|profile| (String::new(), profile.compiled)).collect())
}

pub(super) fn check(object: &Object) -> Result<(), InputError> {
    read(object).map(drop)
}

/// Checks and compiles one profile.
pub(super) fn read(object: &Object) -> Result<(SchedulerProfile, CompiledProfile), InputError> {
    let name = object.value["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(InputError::NoName { origin: object.origin.clone(), kind: object.kind.clone() });
    }
    let bad = |problem: String| InputError::Bad {
        origin: object.origin.clone(),
        object: format!("SchedulerProfile {name}"),
        problem,
    };
    if name.len() > NAME_MAX {
        return Err(bad(format!(
            "metadata.name: {} characters are too many, since the name serves as a label's value: \
             choose one of at most {NAME_MAX} characters",
            name.len()
        )));
    }
    let served = format!("{}/{}", api::GROUP, api::VERSION);
    if object.api_version != served {
        return Err(bad(format!("apiVersion: {} is not known: write {served}", object.api_version)));
    }
    if let Some(field) = api::unknown_fields(&object.value)?.first() {
        return Err(bad(format!("{field}: unknown field: correct its spelling or remove it")));
    }
    let crd = api::crd_json()?;
    let spec_schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    if let Some(problem) = violation(&object.value["spec"], spec_schema, "spec") {
        return Err(bad(problem));
    }
    let mut value = object.value.clone();
    // A status written by an operator elsewhere does not count here.
    value.as_object_mut().map(|o| o.remove("status"));
    if value["spec"].is_null() {
        value["spec"] = serde_json::json!({});
    }
    let profile: SchedulerProfile = serde_json::from_value(value).map_err(|e| bad(format!("spec: {e}: correct it")))?;
    let compiled = compile(name, &profile.spec).map_err(|e| bad(e.to_string()))?;
    Ok((profile, compiled))
}

/// Leaves each scheduler name to the first of `profiles` that claims it.
fn settle_names(profiles: &mut [CompiledProfile], notes: &mut Vec<String>) {
    let mut taken: BTreeMap<_, _> = BTreeMap::new();
    for profile in profiles {
        let own = profile.name.clone();
        profile.scheduler_names.retain(|name| {
            let server = taken.entry(name.clone()).or_insert_with(|| own.clone());
            if *server != own {
                notes.push(format!(
                    "schedulerName {name} is claimed by SchedulerProfiles {server} and {own}: {server} serves it, as the older or first by name"
                ));
            }
            *server == own
        });
    }
}
