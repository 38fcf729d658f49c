//! The Policy that a v1alpha1 configuration names: in a file, or in a ConfigMap among the inputs.

use super::documents::{self, Object, Origin};
use super::files::{self, Source};
use berth_convert::import::{NamedPolicy, POLICY_KEY, PolicySources};
use std::path::{Path, PathBuf};

/// The inputs, as the configuration at `origin` sees them.
pub(super) struct FoundPolicies<'a> {
    pub(super) origin: &'a Origin,
    pub(super) config_maps: &'a [Object],
}

/// Where a configuration says that its Policy is.
pub(super) enum Reference {
    /// A file, by its path as the configuration's reader sees it, and the ConfigMap that the configuration stands in.
    File(PathBuf, Option<String>),
    /// A ConfigMap, by namespace and name.
    ConfigMap(String),
}

/// What the v1alpha1 configuration `object` names, if it names a Policy.
pub(super) fn reference(object: &Object) -> Option<Reference> {
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
    pub(super) fn means(&self, object: &Object) -> bool {
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

/// `path` as seen from the file that `origin` is in.
fn beside(origin: &Origin, path: &str) -> PathBuf {
    Path::new(origin.file()).parent().unwrap_or_else(|| Path::new("")).join(path)
}

impl FoundPolicies<'_> {
    /// The Policy in a ConfigMap under `key`.
    fn in_map(map: &Object, key: &str) -> Option<Result<NamedPolicy, String>> {
        let text = map.value["data"][key].as_str()?;
        let place = format!("ConfigMap {}, data[{key}]", map.full_name());
        Some(parse(place, text.to_owned()))
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
        let file = beside(self.origin, path);
        match files::read_one(&file) {
            Ok(text) => parse(file.display().to_string(), text),
            Err(error) => Err(format!(
                "names the Policy {}, which cannot be read ({error}): correct the path, which is relative to the \
                 configuration's own file, or put the Policy there",
                file.display()
            )),
        }
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<NamedPolicy, String> {
        let wanted = format!("{namespace}/{name}");
        let Some(map) = self.config_maps.iter().find(|map| map.full_name() == wanted) else {
            return Err(format!(
                "names the ConfigMap {wanted}, which is not among the inputs: add it, such as with \
                 kubectl get configmap -n {namespace} {name} -o yaml"
            ));
        };
        Self::in_map(map, POLICY_KEY).unwrap_or_else(|| {
            Err(format!("names the ConfigMap {wanted}, which has no key {POLICY_KEY}: put the Policy under it"))
        })
    }
}

/// The one Policy in a text.
fn parse(place: String, text: String) -> Result<NamedPolicy, String> {
    let mut objects = Vec::new();
    let source = Source { name: place.clone(), text };
    documents::split_loosely(source, Some(("v1", "Policy")), &mut objects)
        .map_err(|error| format!("names a Policy that cannot be read ({error}): correct it"))?;
    match &mut objects[..] {
        [object] => Ok(NamedPolicy { place, document: object.value.take() }),
        others => Err(format!("names {place}, which holds {} documents: leave the Policy alone there", others.len())),
    }
}
