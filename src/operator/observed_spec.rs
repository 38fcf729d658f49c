//! A profile as the API server has it, and whether its spec, or an older one, can serve.

use super::routes::Route;
use berth_api::{
    Extender, Preset, SchedulerProfile, SchedulerProfileSpec, SchedulerProfileStatus, conditions::Accepted,
};
use berth_cluster::revisions::Revision;
use berth_cluster::send::version_number;
use berth_core::{model::Str, profile::CompiledProfile};
use berth_profile::{CompileError, RolloutPlan, compile, rollout};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;

/// A profile as the watch last showed it.
#[derive(Debug, Clone)]
pub(super) struct ObservedSpec {
    pub(super) name: Str,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) created_unix_s: i64,
    pub(super) deleting: bool,
    /// The spec, or why it cannot be read.
    pub(super) spec: Result<Box<SchedulerProfileSpec>, String>,
    pub(super) status: Option<SchedulerProfileStatus>,
}

impl ObservedSpec {
    /// `None` for an object without a name.
    pub(super) fn read(object: DeserializeGuard<SchedulerProfile>) -> Option<Self> {
        match object.0 {
            Ok(profile) => Self::of(profile.metadata, Ok(Box::new(profile.spec)), profile.status),
            Err(invalid) => Self::of(invalid.metadata, Err(invalid.error), None),
        }
    }

    /// Takes over the resourceVersion of our own write and the status that it has, unless the watch has already shown a newer one. The watch
    /// may be behind: what is written next follows this status, and its conditions have their times from it.
    pub(super) fn advance_to(&mut self, version: String, status: SchedulerProfileStatus) {
        let new = version_number(&version);
        if new == 0 || version_number(&self.resource_version) < new {
            self.resource_version = version;
            self.status = Some(status);
        }
    }

    fn of(
        metadata: ObjectMeta,
        spec: Result<Box<SchedulerProfileSpec>, String>,
        status: Option<SchedulerProfileStatus>,
    ) -> Option<Self> {
        Some(Self {
            name: metadata.name?.into(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created_unix_s: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            deleting: metadata.deletion_timestamp.is_some(),
            spec,
            status,
        })
    }
}

/// The spec that a profile's worker runs with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServedSpec {
    pub(super) compiled: CompiledProfile,
    pub(super) preset: Preset,
    pub(super) generation: i64,
    /// Whether it is the last good spec, kept while the present one is refused.
    pub(super) last_good: bool,
    /// `spec.extenders`, not resolved.
    pub(super) extenders: Vec<Extender>,
    /// `spec.namespaces.route`.
    pub(super) route: Option<Route>,
    /// `spec.rollout`.
    pub(super) rollout: Option<RolloutPlan>,
}

/// What a profile's spec amounts to once it is compiled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompiledSpec {
    /// Why the present spec cannot serve.
    pub(super) refused: Option<CompileError>,
    /// What serves: the present spec, or else the last good one.
    pub(super) served: Option<ServedSpec>,
}

impl CompiledSpec {
    /// Compiles the present spec; the last good one serves if it does not compile.
    pub(super) fn of(observed: &ObservedSpec, last_good: Option<&ServedSpec>) -> Self {
        let compiled = match &observed.spec {
            Ok(spec) => served(&observed.name, spec, observed.generation),
            Err(error) => Err(unreadable(error)),
        };
        match compiled {
            Ok(served) => Self { refused: None, served: Some(served) },
            Err(error) => Self::refused(error, last_good),
        }
    }

    /// The last good spec serves, since the present one is refused.
    pub(super) fn refused(error: CompileError, last_good: Option<&ServedSpec>) -> Self {
        Self { refused: Some(error), served: last_good.cloned() }
    }
}

fn served(name: &str, spec: &SchedulerProfileSpec, generation: i64) -> Result<ServedSpec, CompileError> {
    Ok(ServedSpec {
        compiled: compile(name, spec)?,
        preset: spec.preset,
        generation,
        last_good: false,
        extenders: spec.extenders.clone(),
        route: Route::of(spec),
        rollout: rollout(spec)?,
    })
}

/// The last good spec as it was kept.
pub(super) fn revived(revision: &Revision) -> Option<ServedSpec> {
    revive(&revision.profile, &revision.spec, revision.generation)
}

/// `None` for a kept spec that this version cannot read or compile: the profile's conditions report the present spec only.
fn revive(name: &str, spec: &serde_json::Value, generation: i64) -> Option<ServedSpec> {
    let spec: SchedulerProfileSpec = serde_json::from_value(spec.clone()).ok()?;
    served(name, &spec, generation).ok().map(|served| ServedSpec { last_good: true, ..served })
}

fn unreadable(error: &str) -> CompileError {
    CompileError {
        reason: Accepted::InvalidArgs,
        field: "spec".to_owned(),
        message: format!("cannot be read: {error}"),
        fix: "apply it again under the present custom resource definition".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn observed(spec: serde_json::Value) -> ObservedSpec {
        let object = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "spec": spec,
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 3}});
        ObservedSpec::read(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn a_spec_that_does_not_compile_leaves_the_last_good_one_serving() {
        let bad = observed(json!({"nodes": {"selector": {"matchLabels": {"a..b/c": "x"}}}}));
        let compiled = CompiledSpec::of(&bad, None);
        assert_eq!(compiled.refused.as_ref().unwrap().reason, Accepted::InvalidSelector);
        assert_eq!(compiled.served, None);
        let served = revive("a", &json!({"preset": "BinPack", "schedulerNames": ["x"]}), 2).unwrap();
        assert_eq!((served.preset, served.generation, served.last_good), (Preset::BinPack, 2, true));
        assert_eq!(CompiledSpec::of(&bad, Some(&served)).served, Some(served));
        assert_eq!(revive("a", &json!({"preset": "FromTheFuture"}), 2), None);
    }

    #[test]
    fn a_spec_that_cannot_be_read_is_a_refused_one() {
        let bad = observed(json!({"preset": "FromTheFuture"}));
        let error = CompiledSpec::of(&bad, None).refused.unwrap();
        assert!(error.to_string().contains("FromTheFuture"), "{error}");
        assert_eq!(error.field, "spec");
    }

    #[test]
    fn a_late_answer_never_turns_the_version_back_and_a_newer_one_brings_its_status() {
        let mut observed = observed(json!({}));
        let of_generation =
            |generation| SchedulerProfileStatus { observed_generation: Some(generation), ..Default::default() };
        observed.advance_to("6".to_owned(), of_generation(6));
        assert_eq!((&*observed.resource_version, &observed.status), ("7", &None));
        observed.advance_to("10".to_owned(), of_generation(10));
        assert_eq!((&*observed.resource_version, observed.status), ("10", Some(of_generation(10))));
    }
}
