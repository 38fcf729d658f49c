//! Reads configurations of kube-scheduler into profiles, with a list of what was lost or changed on the way.

mod args;
pub(crate) mod catalogue;
mod configuration;
mod duration;
mod effect;
mod extenders;
mod loss;
mod node;
mod policy;
mod sets;
mod v1alpha1;

pub use loss::{Loss, LossKind};
pub use node::ImportError;
pub use v1alpha1::{NamedPolicy, PolicySources};

use berth_api::{EXTENDER_PROFILES_ANNOTATION, SchedulerProfileSpec};
use berth_core::profile::CompiledProfile;
use serde_json::{Value, json};

/// The one version of KubeSchedulerConfiguration with profiles that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

pub const KIND: &str = "KubeSchedulerConfiguration";

/// The key that a ConfigMap holds a Policy under.
pub const POLICY_KEY: &str = "policy.cfg";

#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The profiles in the order of the document, with different scheduler names; at least one.
    pub profiles: Vec<ImportedProfile>,
    /// What has no counterpart here, in the order of the document.
    pub losses: Vec<Loss>,
    /// Secrets for certificates in the document itself; the profiles refer to them.
    pub manifests: Vec<Value>,
}

impl Import {
    /// The Secrets, permitted to the profiles of these names: an extender uses no other Secret.
    pub fn manifests_for(&self, profiles: &[impl AsRef<str>]) -> Vec<Value> {
        let names: Vec<&str> = profiles.iter().map(AsRef::as_ref).collect();
        let mut manifests = self.manifests.clone();
        for manifest in &mut manifests {
            manifest["metadata"]["annotations"] = json!({EXTENDER_PROFILES_ANNOTATION: names.join(",")});
        }
        manifests
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ImportedProfile {
    pub scheduler_name: String,
    pub spec: SchedulerProfileSpec,
    /// The spec resolved, under the scheduler name as the profile's name.
    pub compiled: CompiledProfile,
    /// Comments on the spec: the path of a field, such as `spec.scores[1]`, and a sentence about it.
    pub comments: Vec<(String, String)>,
}

/// The forms of documents that ever configured kube-scheduler, by a document's own `apiVersion` and `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A KubeSchedulerConfiguration with profiles; of which version, reading it checks.
    Configuration,
    /// A KubeSchedulerConfiguration v1alpha1, which names a Policy or a provider.
    V1alpha1,
    Policy,
}

impl Form {
    /// The form of a document by its `apiVersion` and `kind`.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("v1" | "", "Policy") => Some(Self::Policy),
            ("componentconfig/v1alpha1" | "kubescheduler.config.k8s.io/v1alpha1", KIND) => Some(Self::V1alpha1),
            _ if api_version.starts_with("kubescheduler.config.k8s.io/") => Some(Self::Configuration),
            _ => None,
        }
    }
}

/// Reads a document of any form, as strictly as kube-scheduler does: unknown fields and plugins are errors. `scheduler_name` is served where the document names none, as a Policy never does;
/// `sources` finds the Policy that a v1alpha1 configuration names.
pub fn read_form(
    form: Form,
    document: &Value,
    scheduler_name: &str,
    sources: &dyn PolicySources,
) -> Result<Import, ImportError> {
    match form {
        Form::Configuration => configuration::read(&node::Node::root(document), scheduler_name),
        Form::V1alpha1 => v1alpha1::read(&node::Node::root(document), scheduler_name, sources),
        Form::Policy => policy::read(document, scheduler_name),
    }
}

#[cfg(test)]
mod extender_tests;
#[cfg(test)]
mod import_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod v1alpha1_tests;
