//! What `-f` and `--profile` name, read into a cluster and the profiles that serve it.
//!
//! Accepted is what `kubectl get … -o yaml|json` prints: single objects, lists, streams of documents, folders, `-`.
//! Kinds that do not matter are skipped and counted in a note.

mod calls;
mod claim_templates;
mod configurations;
mod documents;
mod error;
mod files;
mod objects;
mod profiles;
mod schema;
mod template;
mod written;

pub use calls::Calls;
pub(crate) use calls::NODES;
pub(crate) use configurations::Imported;

pub use error::InputError;
pub(crate) use profiles::{NAME_MAX, serve_also};
pub(crate) use template::{Maker, budgets};
pub(crate) use written::{Named, PodSource, Wanted};

use super::output::counted as count;
use berth_api::{self as api, SchedulerProfile};
use berth_cluster::decode::Decoder;
use berth_cluster::watch::Kind;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use documents::Object;
use error::Origin;
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// Where a command's inputs come from.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Manifests: a file, a folder (read recursively), or `-` for standard input; may be given several times.
    ///
    /// What `kubectl get … -A -o yaml` prints, or manifests written by hand: every kind that the operator reads (nodes,
    /// pods, namespaces, Services and controllers, PodDisruptionBudgets, volumes, claims, storage objects, DeviceClasses,
    /// ResourceSlices, ResourceClaims and their templates), SchedulerProfiles, a KubeSchedulerConfiguration and a Policy;
    /// other kinds are skipped, and a note counts them. A pod with spec.nodeName is running, one without is pending.
    /// Without any, the cluster of the kubeconfig is read.
    #[arg(short, long = "filename", value_name = "PATH")]
    pub(crate) filename: Vec<PathBuf>,

    /// A file with SchedulerProfiles, a KubeSchedulerConfiguration or a Policy; those among the manifests are then left
    /// aside.
    ///
    /// Without any profile the Default preset serves every pod, whatever scheduler name it has. `simulate` compares two.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Vec<PathBuf>,

    /// Whether bound pods are read as wholly as those that wait, so that they can be placed anew.
    #[arg(skip)]
    pub(crate) whole_pods: bool,
}

/// Inputs, read and checked.
#[derive(Debug)]
pub struct Inputs {
    pub cluster: Cluster,
    /// The profiles that serve the pods, sorted by name; at least one.
    pub profiles: Vec<Arc<CompiledProfile>>,
    /// Whether the Default preset serves every pod because there was no profile.
    pub stand_in: bool,
    /// Lines for the user: what was skipped or left aside.
    pub notes: Vec<String>,
    pub calls: Calls,
}

/// What `text` describes, read as the file of manifests called `name` would be.
pub fn inputs_from(name: &str, text: &str) -> Result<Inputs, InputError> {
    let (calls, mut notes) = (Calls::default(), Vec::new());
    let mut read = documents::split(name, text)?;
    claim_templates::make(&mut read, &mut notes);
    let objects = objects::sort(read, &calls, &mut notes);
    settle(objects, Decoder::default(), calls, notes)
}

/// Reads what `args` name.
pub(crate) fn load(args: &InputArgs, calls: Calls) -> Result<Inputs, InputError> {
    load_keeping(args, calls, &Wanted::default()).map(|(inputs, _)| inputs)
}

/// As [`load`], with the objects that are `wanted` as they were written.
pub(crate) fn load_keeping(
    args: &InputArgs,
    mut calls: Calls,
    wanted: &Wanted,
) -> Result<(Inputs, Vec<Value>), InputError> {
    let mut notes = Vec::new();
    let mut read = read_with(&args.filename, &mut calls)?;
    let templates: Vec<Value> =
        claim_templates::all(&read).filter(|one| wanted.takes(one)).map(Wanted::completed).collect();
    claim_templates::make(&mut read, &mut notes);
    let mut written: Vec<Value> = read.iter().filter(|object| wanted.takes(object)).map(Wanted::completed).collect();
    written.extend(templates);
    // What was asked about is not of a kind that does not matter.
    read.retain(|object| !wanted.takes(object) || Kind::find(&object.api_version, &object.kind).is_some());
    let mut objects = objects::sort(read, &calls, &mut notes);
    if !args.profile.is_empty() {
        let (own, config_maps) = profiles::only(read_with(&args.profile, &mut calls)?, &args.profile)?;
        objects.config_maps.extend(config_maps);
        let aside = std::mem::replace(&mut objects.profiles, own);
        if !aside.is_empty() {
            notes.push(format!(
                "--profile is given: {} among the manifests left aside",
                count(aside.len(), "SchedulerProfile")
            ));
        }
    }
    Ok((settle(objects, decoder(args), calls, notes)?, written))
}

/// Compiles the profiles in the files at `paths` for the pods of `cluster`.
pub(crate) fn profiles_of(
    paths: &[PathBuf],
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<Vec<Arc<CompiledProfile>>, InputError> {
    let (objects, config_maps) = profiles::only(read(paths)?, paths)?;
    profiles::resolve(objects, &config_maps, cluster, &mut Calls::default(), notes)
}

/// Compiles the SchedulerProfiles of the API server at `server` for the pods of `cluster`. One that does not compile is left
/// aside with a note: its status says what the operator serves instead. The flag says that none was left and the Default preset
/// stands in.
pub(crate) fn live_profiles(
    values: Vec<Value>,
    server: &str,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<(Vec<Arc<CompiledProfile>>, bool), InputError> {
    let list = serde_json::json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": "SchedulerProfileList", "items": values,
    });
    let mut objects = documents::split(server, &list.to_string())?;
    objects.retain(|object| match profiles::check(object) {
        Ok(()) => true,
        Err(error) => {
            notes.push(format!("{error}; it is left aside: its status says what is served in its place"));
            false
        }
    });
    let stand_in = objects.is_empty();
    Ok((profiles::resolve(objects, &[], cluster, &mut Calls::default(), notes)?, stand_in))
}

/// A cluster and two sets of profiles for it.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) cluster: Cluster,
    /// The name of each set: that of its profile if each set has one and they differ, otherwise the file.
    pub(crate) names: [String; 2],
    /// The profiles, sorted by name. If each set has one profile, both serve the pods of either.
    pub(crate) profiles: [Vec<Arc<CompiledProfile>>; 2],
    /// Lines for the user: what was skipped or left aside.
    pub(crate) notes: Vec<String>,
    /// For the extenders of each set.
    pub(crate) calls: [Calls; 2],
}

/// Reads what `args` name, with `--profile` given twice.
pub(crate) fn load_pair(args: &InputArgs, mut calls: Calls) -> Result<Pair, InputError> {
    let [first, second] = args.profile.as_slice() else { return Err(InputError::NotTwo { given: args.profile.len() }) };
    let mut notes = Vec::new();
    let mut read = read_with(&args.filename, &mut calls)?;
    claim_templates::make(&mut read, &mut notes);
    let objects = objects::sort(read, &calls, &mut notes);
    let cluster = objects::decode(objects.cluster, decoder(args), &mut calls, &mut notes)?;
    let mut calls = [calls.clone(), calls];
    let [first_calls, second_calls] = &mut calls;
    let mut compiled = |path: &PathBuf, calls: &mut Calls| {
        let paths = std::slice::from_ref(path);
        let (objects, config_maps) = profiles::only(read_with(paths, calls)?, paths)?;
        profiles::resolve(objects, &config_maps, &cluster, calls, &mut notes)
    };
    let profiles = [compiled(first, first_calls)?, compiled(second, second_calls)?];
    let (names, profiles) = as_pair(profiles, [first, second]);
    Ok(Pair { cluster, names, profiles, notes, calls })
}

/// Two sets of profiles, of these files, with what each is called. If each has one profile, both serve the pods of either.
pub(crate) fn as_pair(
    mut profiles: [Vec<Arc<CompiledProfile>>; 2],
    paths: [&PathBuf; 2],
) -> ([String; 2], [Vec<Arc<CompiledProfile>>; 2]) {
    if let [[a], [b]] = [&*profiles[0], &*profiles[1]] {
        let mut names: Vec<_> = a.scheduler_names.iter().chain(&b.scheduler_names).cloned().collect();
        names.sort();
        names.dedup();
        let serving = |profile: &CompiledProfile| {
            vec![Arc::new(CompiledProfile { scheduler_names: names.clone(), ..profile.clone() })]
        };
        profiles = [serving(a), serving(b)];
    }
    let names = match [&*profiles[0], &*profiles[1]] {
        [[a], [b]] if a.name != b.name => [a.name.to_string(), b.name.to_string()],
        _ => paths.map(|path| path.display().to_string()),
    };
    (names, profiles)
}

/// What decodes the objects that `args` name.
fn decoder(args: &InputArgs) -> Decoder {
    Decoder::default().reading_bound_pods_whole(args.whole_pods)
}

/// Decodes the cluster and compiles the profiles.
fn settle(
    objects: objects::Sorted,
    decoder: Decoder,
    mut calls: Calls,
    mut notes: Vec<String>,
) -> Result<Inputs, InputError> {
    let cluster = objects::decode(objects.cluster, decoder, &mut calls, &mut notes)?;
    let stand_in = objects.profiles.is_empty();
    let profiles = profiles::resolve(objects.profiles, &objects.config_maps, &cluster, &mut calls, &mut notes)?;
    Ok(Inputs { cluster, profiles, stand_in, notes, calls })
}

/// Reads what `paths` name, and keeps in `calls` what calls of extenders need.
fn read_with(paths: &[PathBuf], calls: &mut Calls) -> Result<Vec<Object>, InputError> {
    let objects = read(paths)?;
    calls.note_data(&objects)?;
    Ok(objects)
}

fn read(paths: &[PathBuf]) -> Result<Vec<Object>, InputError> {
    let mut objects = Vec::new();
    for source in files::read_all(paths)? {
        objects.extend(documents::split(&source.name, &source.text)?);
    }
    Ok(objects)
}

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
    sort_convertible(read(paths)?, scheduler_name)
}

/// Reads `text` as the file called `name` would be.
pub(crate) fn convertible_text(name: &str, text: &str, scheduler_name: &str) -> Result<Convertible, InputError> {
    sort_convertible(documents::split(name, text)?, scheduler_name)
}

fn sort_convertible(objects: Vec<Object>, scheduler_name: &str) -> Result<Convertible, InputError> {
    let (mut objects, config_maps) = configurations::unpack(objects)?;
    configurations::drop_named(&mut objects);
    let mut found = Convertible { imported: Vec::new(), profiles: Vec::new(), notes: Vec::new() };
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    for object in &objects {
        if let Some(form) = object.form() {
            found.imported.push(configurations::read(object, form, &config_maps, scheduler_name)?);
        } else if objects::is_profile(object) {
            let (profile, _) = profiles::read(object)?;
            found.profiles.push((object.origin.clone(), profile));
        } else {
            *skipped.entry(object.kind.clone()).or_default() += 1;
        }
    }
    found.notes.extend(objects::note_skipped(&skipped, "that configure no scheduler"));
    Ok(found)
}
