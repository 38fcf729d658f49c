use crate::slim::PodSpec;
use berth_core::model::Feature;

/// The reasons to hold a pod.
#[derive(Debug, Default)]
pub(super) struct Findings {
    holds: Vec<Feature>,
}

impl Findings {
    /// Notes a value that this version does not know.
    pub(super) fn unknown(&mut self, field: &str, value: &str) {
        let value: String = value.chars().take(64).collect();
        self.holds.push(Feature::UnknownValue(format!("{field}={value}").into()));
    }

    /// The reasons, sorted and each once.
    pub(super) fn finish(mut self) -> Vec<Feature> {
        self.holds.sort();
        self.holds.dedup();
        self.holds
    }

    /// Notes every feature of `spec` that this version does not implement.
    pub(super) fn read(&mut self, spec: &PodSpec<'_>) {
        self.hold_if(!spec.resource_claims.is_empty(), || Feature::ResourceClaims);
        self.hold_if(spec.scheduling_group.is_some(), || Feature::PodGroup);
    }

    pub(super) fn hold_if(&mut self, condition: bool, feature: impl FnOnce() -> Feature) {
        if condition {
            self.hold(feature());
        }
    }

    pub(super) fn hold(&mut self, feature: Feature) {
        self.holds.push(feature);
    }
}
