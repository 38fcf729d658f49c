//! What `berth convert` reads: configurations in any form, and profiles.

use super::configurations::{self, Imported};
use super::documents::{self, Object, Origin};
use super::files::Source;
use super::objects::is_profile;
use super::{InputError, count, profiles, read};
use berth_api::{self as api, SchedulerProfile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What there is to convert.
pub(crate) struct Convertible {
    /// Configurations of kube-scheduler, in the order read.
    pub(crate) imported: Vec<Imported>,
    /// Profiles, in the order read.
    pub(crate) profiles: Vec<(Origin, SchedulerProfile)>,
    /// Lines for the user.
    pub(crate) notes: Vec<String>,
}

/// Checks the SchedulerProfile `object`, made from the object at `origin`, as an API server would: what is printed must be
/// applicable.
pub(crate) fn check_profile(origin: &Origin, object: &Value) -> Result<(), InputError> {
    let object = Object {
        origin: origin.clone(),
        holder: None,
        api_version: format!("{}/{}", api::GROUP, api::VERSION),
        kind: "SchedulerProfile".to_owned(),
        value: object.clone(),
    };
    profiles::read(&object).map(drop)
}

/// Reads what `paths` name. Configurations without a scheduler name get `scheduler_name`.
pub(crate) fn convertible(paths: &[PathBuf], scheduler_name: &str) -> Result<Convertible, InputError> {
    sort(read(paths)?, scheduler_name)
}

/// Reads `text` as the file called `name` would be.
pub(crate) fn convertible_text(name: &str, text: &str, scheduler_name: &str) -> Result<Convertible, InputError> {
    let mut objects = Vec::new();
    documents::split(Source { name: name.to_owned(), text: text.to_owned() }, &mut objects)?;
    sort(objects, scheduler_name)
}

fn sort(objects: Vec<Object>, scheduler_name: &str) -> Result<Convertible, InputError> {
    let (mut objects, config_maps) = configurations::unpack(objects)?;
    configurations::drop_named(&mut objects);
    let mut found = Convertible { imported: Vec::new(), profiles: Vec::new(), notes: Vec::new() };
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    for object in &objects {
        if let Some(form) = object.form() {
            found.imported.push(configurations::read(object, form, &config_maps, scheduler_name)?);
        } else if is_profile(object) {
            let (profile, _) = profiles::read(object)?;
            found.profiles.push((object.origin.clone(), profile));
        } else {
            *skipped.entry(object.kind.clone()).or_default() += 1;
        }
    }
    if !skipped.is_empty() {
        let kinds: Vec<String> = skipped.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let total = count(skipped.values().sum(), "object");
        found.notes.push(format!("{total} that configure no scheduler skipped: {}", kinds.join(", ")));
    }
    Ok(found)
}
