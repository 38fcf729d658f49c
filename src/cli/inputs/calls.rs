//! What calls of extenders need of the inputs: the profiles' settings for them, Secrets and ConfigMaps, whole nodes and pods.

use super::{InputError, documents::Object};
use berth_api::{self as api, BundleKind};
use berth_core::{model::Str, profile::CompiledProfile};
use berth_extender::{Contents, Settings, SettingsError};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;
use std::collections::BTreeMap;

/// The path of nodes in an API server.
pub(crate) const NODES: &str = "/api/v1/nodes/";

/// The data of ConfigMaps and Secrets, by name: whatever their namespace, the operator's is not known here.
type Data = BTreeMap<(BundleKind, String), Contents>;

/// What a command that calls extenders needs. Empty unless `wanted`.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    wanted: bool,
    extenders: BTreeMap<Str, Vec<api::Extender>>,
    objects: BTreeMap<String, Value>,
    data: Data,
}

impl Calls {
    /// For a command that calls extenders if `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Notes the data of the Secrets and ConfigMaps among `objects`.
    pub(super) fn note_data(&mut self, objects: &[Object]) -> Result<(), InputError> {
        for object in objects {
            let Some(kind) = kind(object).filter(|_| self.wanted) else { continue };
            self.add(kind, object.value.clone()).map_err(|e| object.bad(format!("{e}: correct it")))?;
        }
        Ok(())
    }

    /// Whether `object` matters for its data.
    pub(super) fn wants(&self, object: &Object) -> bool {
        self.wanted && kind(object).is_some()
    }

    /// Notes a ConfigMap or Secret that came with a configuration.
    pub(super) fn add_manifest(&mut self, manifest: &Value) {
        let kind = if manifest["kind"] == "Secret" { BundleKind::Secret } else { BundleKind::ConfigMap };
        if self.wanted {
            // Our own code wrote it: it always parses.
            let _read = self.add(kind, manifest.clone());
        }
    }

    fn add(&mut self, kind: BundleKind, value: Value) -> serde_json::Result<()> {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let data = if kind == BundleKind::Secret {
            Contents::of_secret(serde_json::from_value::<Secret>(value)?)
        } else {
            Contents::of_config_map(serde_json::from_value::<ConfigMap>(value)?)
        };
        self.data.insert((kind, name), data);
        Ok(())
    }

    /// Notes a node, or a pod with its namespace.
    pub(super) fn note_object(&mut self, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str();
        let Some(name) = text("name").filter(|_| self.wanted) else { return };
        let path = text("namespace").map_or_else(
            || format!("{NODES}{name}"),
            |namespace| format!("/api/v1/namespaces/{namespace}/pods/{name}"),
        );
        self.objects.insert(path, object.clone());
    }

    /// Notes what a profile says of its extenders.
    pub(super) fn note_extenders(&mut self, profile: &CompiledProfile, extenders: &[api::Extender]) {
        if self.wanted {
            self.extenders.insert(profile.name.clone(), extenders.to_vec());
        }
    }

    /// How `profile` reaches its extenders, in the order in which it asks them.
    pub(crate) fn settings(&self, profile: &CompiledProfile) -> Vec<Result<Settings, SettingsError>> {
        let specs = self.extenders.get(&profile.name).map_or(&[][..], Vec::as_slice);
        let lookup = |kind, name: &str| self.data.get(&(kind, name.to_owned())).cloned();
        Settings::compile_all(specs, profile, &lookup)
    }

    /// Nodes and pods as they were written, by the path at which an API server would have them.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().map(|(path, object)| (path.as_str(), object))
    }
}

fn kind(object: &Object) -> Option<BundleKind> {
    match (object.api_version.as_str(), object.kind.as_str()) {
        ("v1", "Secret") => Some(BundleKind::Secret),
        ("v1", "ConfigMap") => Some(BundleKind::ConfigMap),
        _ => None,
    }
}
