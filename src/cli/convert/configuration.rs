//! SchedulerProfiles as one KubeSchedulerConfiguration.

use super::Written;
use super::yaml::{self, Document};
use crate::cli::inputs::{Convertible, Imported, InputError};
use anyhow::anyhow;
use berth_api::SchedulerProfileSpec;
use berth_convert::export::{self, Profile};
use berth_convert::import::Loss;
use serde_json::json;

/// A profile, and where it stands for messages about its losses.
struct Source<'a> {
    place: String,
    name: String,
    spec: &'a SchedulerProfileSpec,
}

/// Writes all profiles, including those of configurations among the inputs.
pub(super) fn write(found: &Convertible, files: &str) -> anyhow::Result<Written> {
    let sources = sources(found);
    if sources.is_empty() {
        let wanted = "SchedulerProfiles, such as kubectl get schedulerprofiles -o yaml prints them";
        return Err(InputError::NothingToConvert { files: files.to_owned(), wanted }.into());
    }
    let profiles: Vec<Profile<'_>> = sources.iter().map(|s| Profile { name: &s.name, spec: s.spec }).collect();
    let place = |name: &str| sources.iter().find(|s| s.name == name).map_or("", |source| source.place.as_str());
    let export = export::export(&profiles).map_err(|(name, error)| anyhow!("{}: {error}", place(&name)))?;
    let mut losses: Vec<(String, Loss)> = found.imported.iter().flat_map(Imported::losses).collect();
    losses.extend(export.losses.into_iter().map(|(name, loss)| (place(&name).to_owned(), loss)));
    let header = vec![format!("Written by berth convert from {files}.")];
    let document = Document { header, value: &export.configuration, comments: &export.comments };
    Ok(Written { yaml: yaml::write(&document), json: json!({"configuration": export.configuration}), losses })
}

/// The profiles by age: the oldest serves a name that two list. Profiles that were never applied have no age and come first.
fn sources(found: &Convertible) -> Vec<Source<'_>> {
    let mut profiles: Vec<_> = found.profiles.iter().collect();
    profiles.sort_by_key(|(_, profile)| {
        (profile.metadata.creation_timestamp.as_ref().map(|time| time.0), profile.metadata.name.clone())
    });
    let own = profiles.into_iter().map(|(origin, profile)| {
        let name = profile.metadata.name.clone().unwrap_or_default();
        Source { place: format!("{origin}: SchedulerProfile {name}"), name, spec: &profile.spec }
    });
    let imported = found.imported.iter().flat_map(|imported| {
        imported.import.profiles.iter().map(move |profile| Source {
            place: imported.source(),
            name: profile.scheduler_name.clone(),
            spec: &profile.spec,
        })
    });
    own.chain(imported).collect()
}
