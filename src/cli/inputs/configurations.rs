//! Configurations of kube-scheduler among the inputs: documents of their own, in ConfigMaps, in objects of other products; and
//! the Policies that v1alpha1 configurations name.

use super::InputError;
use super::documents::{self, Object, documents_in};
use super::error::Origin;
use super::files;
use berth_convert::import::{self, API_VERSION, Form, Import, KIND, Loss, NamedPolicy, POLICY_KEY, PolicySources};
use berth_convert::shell_word;
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};

/// A configuration that was read.
pub(crate) struct Imported {
    pub(crate) origin: Origin,
    pub(crate) kind: String,
    pub(crate) import: Import,
}

impl Imported {
    /// Where it stood, and what it is.
    pub(crate) fn source(&self) -> String {
        format!("{}: {}", self.origin, self.kind)
    }

    /// What the import lost, each with its source.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (String, Loss)> {
        self.import.losses.iter().map(|loss| (self.source(), loss.clone()))
    }
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
        } else if let Some(documents) = of_vendor(&object)? {
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
    let import =
        import::read_form(form, &object.value, scheduler_name, &sources).map_err(|e| object.bad(e.to_string()))?;
    Ok(Imported { origin: object.origin.clone(), kind: object.kind.clone(), import })
}

/// The configurations that AKS' SchedulerConfiguration or OpenShift's Scheduler contains or stands for; `None` if `object` is of
/// another kind.
fn of_vendor(object: &Object) -> Result<Option<Vec<Object>>, InputError> {
    match (object.api_version.split('/').next(), object.kind.as_str()) {
        (Some("aks.azure.com"), "SchedulerConfiguration") => {
            let spec = &object.value["spec"];
            if spec["profiles"].is_array() {
                // As in AKS' first preview: the fields of a configuration without apiVersion and kind.
                return Ok(Some(vec![synthesised(object, API_VERSION, spec.clone())]));
            }
            let text = spec["rawConfig"].as_str().unwrap_or_default();
            let found = documents_in(&object.origin, "spec.rawConfig", text, false)?;
            if found.is_empty() {
                return Err(object.bad("spec.rawConfig: holds no KubeSchedulerConfiguration: write one"));
            }
            Ok(Some(found))
        }
        (Some("config.openshift.io"), "Scheduler") => openshift(object).map(|found| Some(vec![found])),
        _ => Ok(None),
    }
}

/// OpenShift's profiles are fixed configurations. A Policy, which older versions can name instead, wins over the profile.
fn openshift(object: &Object) -> Result<Object, InputError> {
    let spec = &object.value["spec"];
    let policy = spec["policy"]["name"].as_str().unwrap_or_default();
    let (api_version, value) = if policy.is_empty() {
        let profile = match spec["profile"].as_str().unwrap_or_default() {
            "" | "LowNodeUtilization" => json!({}),
            "HighNodeUtilization" => json!({
                "plugins": {"score": {
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}}}]}),
            "NoScoring" => json!({"plugins": {"preScore": {"disabled": [{"name": "*"}]},
                                              "score": {"disabled": [{"name": "*"}]}}}),
            other => {
                let fix = "write LowNodeUtilization, HighNodeUtilization or NoScoring";
                return Err(object.bad(format!("spec.profile: {other:?} is not known: {fix}")));
            }
        };
        (API_VERSION, json!({"profiles": [profile]}))
    } else {
        let map = json!({"namespace": "openshift-config", "name": policy});
        ("kubescheduler.config.k8s.io/v1alpha1", json!({"algorithmSource": {"policy": {"configMap": map}}}))
    };
    Ok(synthesised(object, api_version, value))
}

/// `value` with the version and kind of a configuration.
fn synthesised(object: &Object, api_version: &str, mut value: Value) -> Object {
    value["apiVersion"] = api_version.into();
    value["kind"] = KIND.into();
    Object {
        origin: object.origin.clone(),
        holder: None,
        api_version: api_version.to_owned(),
        kind: KIND.to_owned(),
        value,
    }
}

/// The inputs, as the configuration at `origin` sees them.
struct FoundPolicies<'a> {
    origin: &'a Origin,
    config_maps: &'a [Object],
}

/// Where a configuration says that its Policy is.
enum Reference {
    /// A file, by its path as the configuration's reader sees it, and the ConfigMap that the configuration stands in.
    File(PathBuf, Option<String>),
    /// A ConfigMap, by namespace and name.
    ConfigMap(String),
}

/// What the v1alpha1 configuration `object` names, if it names a Policy.
fn reference(object: &Object) -> Option<Reference> {
    let policy = &object.value["algorithmSource"]["policy"];
    if let Some(path) = policy["file"]["path"].as_str() {
        return Some(Reference::File(beside(&object.origin, path), object.holder.clone()));
    }
    let name = policy["configMap"]["name"].as_str()?;
    let namespace = policy["configMap"]["namespace"].as_str().unwrap_or("kube-system");
    Some(Reference::ConfigMap(format!("{namespace}/{name}")))
}

impl Reference {
    /// Whether this points to `object`.
    fn means(&self, object: &Object) -> bool {
        match self {
            Self::File(path, holder) => {
                let same = |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a));
                let key = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                same(path, Path::new(object.origin.file())) || (object.holder == *holder && in_key(object, key))
            }
            Self::ConfigMap(name) => in_key(object, POLICY_KEY) && object.holder.as_deref() == Some(name),
        }
    }
}

/// Whether `object` stands in a ConfigMap under `key`.
fn in_key(object: &Object, key: &str) -> bool {
    object.holder.is_some() && object.origin.file().ends_with(&format!(", data[{key}]"))
}

/// `path` as seen from the file that `origin` is in. A configuration may be a stranger's: it opens no file outside of its own
/// folder, and no error tells whether there is one.
fn within(origin: &Origin, path: &str) -> Result<PathBuf, String> {
    let folder = Path::new(origin.file()).parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    // Absolute paths are usual, since configurations are written for the machine of the scheduler.
    let below = [&*real, &*absolute].iter().find_map(|folder| Path::new(path).strip_prefix(folder).ok());
    let below = below.unwrap_or_else(|| Path::new(path));
    let goes_down = below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = folder.join(below);
    let stays = || match file.canonicalize() {
        Ok(file) => file.starts_with(&real),
        // A link that leads nowhere is not followed to say so.
        Err(_) => !file.ancestors().take(below.components().count()).any(Path::is_symlink),
    };
    if goes_down && stays() {
        return Ok(file);
    }
    Err(format!(
        "names the Policy {path}, which is outside of the configuration's own folder: put the Policy beside the \
         configuration and name it by its file name"
    ))
}

/// `path` as seen from the file that `origin` is in.
fn beside(origin: &Origin, path: &str) -> PathBuf {
    Path::new(origin.file()).parent().unwrap_or_else(|| Path::new("")).join(path)
}

impl FoundPolicies<'_> {
    /// The Policy in a ConfigMap under `key`.
    fn in_map(map: &Object, key: &str) -> Option<Result<NamedPolicy, String>> {
        let text = map.value["data"][key].as_str()?;
        let place = format!("ConfigMap {}, data[{key}]", map.full_name());
        Some(parse(place, text))
    }

    /// A file of that name in a ConfigMap that is mounted as the configuration's own folder.
    fn mounted(&self, path: &str) -> Option<Result<NamedPolicy, String>> {
        let key = Path::new(path).file_name()?.to_str()?;
        let mut own =
            self.config_maps.iter().filter(|map| self.origin.file().starts_with(&format!("{}, ", map.origin)));
        own.find_map(|map| Self::in_map(map, key))
    }
}

impl PolicySources for FoundPolicies<'_> {
    fn file(&self, path: &str) -> Result<NamedPolicy, String> {
        if let Some(found) = self.mounted(path) {
            return found;
        }
        let file = within(self.origin, path)?;
        let text = files::text(&file).map_err(|error| {
            format!(
                "names a Policy that cannot be read ({error}): correct the path, which is relative to the \
                 configuration's own file, or put the Policy there"
            )
        })?;
        parse(file.display().to_string(), &text)
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<NamedPolicy, String> {
        let wanted = format!("{namespace}/{name}");
        let Some(map) = self.config_maps.iter().find(|map| map.full_name() == wanted) else {
            return Err(format!(
                "names the ConfigMap {wanted}, which is not among the inputs: add it, such as with \
                 kubectl get configmap -n {} {} -o yaml",
                shell_word(namespace),
                shell_word(name)
            ));
        };
        Self::in_map(map, POLICY_KEY).unwrap_or_else(|| {
            Err(format!("names the ConfigMap {wanted}, which has no key {POLICY_KEY}: put the Policy under it"))
        })
    }
}

/// The one Policy in a text.
fn parse(place: String, text: &str) -> Result<NamedPolicy, String> {
    let mut objects = Vec::new();
    documents::split_loosely(&place, text, Some(("v1", "Policy")), &mut objects)
        .map_err(|error| format!("names a Policy that cannot be read ({error}): correct it"))?;
    match &mut objects[..] {
        [object] => Ok(NamedPolicy { place, document: object.value.take() }),
        others => Err(format!("names {place}, which holds {} documents: leave the Policy alone there", others.len())),
    }
}
