//! Filters and scores: the overlay of a profile on its preset.

use super::CompileError;
use super::preset;
use berth_api as api;
use berth_core::profile::{CompiledProfile, Filter, Score};

/// The largest weight of a score.
const MAX_WEIGHT: i64 = 1_000_000;

/// What a plugin's score can be at most, after normalisation.
const MAX_SCORE: i64 = 100;

// A node's weighted sum must fit an i64 whatever the weights: with the bound above it does.
const _: () = assert!(MAX_WEIGHT.checked_mul(MAX_SCORE * Score::ALL.len() as i64).is_some());

/// Lays the filters and scores that `spec` lists over those of the preset.
pub(super) fn overlay(spec: &api::SchedulerProfileSpec, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    filters(spec, profile)?;
    scores(spec, profile)
}

fn filters(spec: &api::SchedulerProfileSpec, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    for (i, config) in spec.filters.iter().enumerate() {
        let field = || format!("spec.filters[{i}]");
        if config.state == api::PluginState::Enabled {
            if let Some(args) = missing_filter_args(config.name, &spec.plugin_args) {
                return Err(without_args(field(), config.name.as_str(), args));
            }
            profile.filters = profile.filters.with(filter(config.name));
            continue;
        }
        if config.name.is_safety() && spec.allow_unsafe == api::AllowUnsafe::None {
            return Err(CompileError::args(
                field(),
                format!("disabling {} can place pods where they cannot run", config.name),
                "remove the entry, or set spec.allowUnsafe: Acknowledged",
            ));
        }
        profile.filters = profile.filters.without(filter(config.name));
    }
    Ok(())
}

/// The arguments that `name` cannot be without and that are not there.
fn missing_filter_args(name: api::FilterName, args: &api::PluginArgs) -> Option<&'static str> {
    match name {
        api::FilterName::CheckNodeLabelPresence if args.check_node_label_presence.is_none() => {
            Some("checkNodeLabelPresence")
        }
        api::FilterName::CheckServiceAffinity if args.check_service_affinity.is_none() => Some("checkServiceAffinity"),
        _ => None,
    }
}

fn without_args(field: String, plugin: &str, args: &str) -> CompileError {
    let message = format!("{plugin} has nothing to look at without spec.pluginArgs.{args}");
    CompileError::args(field, message, format!("add spec.pluginArgs.{args}, or remove the entry"))
}

fn scores(spec: &api::SchedulerProfileSpec, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    for (i, config) in spec.scores.iter().enumerate() {
        let score = score(config.name);
        let present = profile.weight(score);
        profile.scores.retain(|(s, _)| *s != score);
        if config.state == api::PluginState::Disabled {
            continue;
        }
        if score == Score::LabelPreference && spec.plugin_args.label_preference.is_empty() {
            return Err(without_args(format!("spec.scores[{i}]"), config.name.as_str(), "labelPreference"));
        }
        let weight = config.weight.map(i64::from).or(present).unwrap_or_else(|| preset::default_weight(score));
        if !(1..=MAX_WEIGHT).contains(&weight) {
            return Err(CompileError::args(
                format!("spec.scores[{i}].weight"),
                format!("{weight} for {} is out of range", config.name),
                "use 1 to 1,000,000, or state: Disabled",
            ));
        }
        profile.scores.push((score, weight));
    }
    profile.scores.sort_by_key(|(score, _)| *score);
    Ok(())
}

const fn filter(name: api::FilterName) -> Filter {
    match name {
        api::FilterName::NodeUnschedulable => Filter::NodeUnschedulable,
        api::FilterName::NodeName => Filter::NodeName,
        api::FilterName::TaintToleration => Filter::TaintToleration,
        api::FilterName::NodeAffinity => Filter::NodeAffinity,
        api::FilterName::NodePorts => Filter::NodePorts,
        api::FilterName::NodeResourcesFit => Filter::NodeResourcesFit,
        api::FilterName::VolumeRestrictions => Filter::VolumeRestrictions,
        api::FilterName::NodeVolumeLimits => Filter::NodeVolumeLimits,
        api::FilterName::VolumeBinding => Filter::VolumeBinding,
        api::FilterName::VolumeZone => Filter::VolumeZone,
        api::FilterName::PodTopologySpread => Filter::PodTopologySpread,
        api::FilterName::InterPodAffinity => Filter::InterPodAffinity,
        api::FilterName::NodeDeclaredFeatures => Filter::NodeDeclaredFeatures,
        api::FilterName::CheckNodeLabelPresence => Filter::CheckNodeLabelPresence,
        api::FilterName::CheckServiceAffinity => Filter::CheckServiceAffinity,
        api::FilterName::MaxEBSVolumeCount => Filter::MaxEbsVolumeCount,
        api::FilterName::MaxGCEPDVolumeCount => Filter::MaxGcePdVolumeCount,
        api::FilterName::MaxAzureDiskVolumeCount => Filter::MaxAzureDiskVolumeCount,
        api::FilterName::MaxCinderVolumeCount => Filter::MaxCinderVolumeCount,
        api::FilterName::CheckNodeMemoryPressure => Filter::CheckNodeMemoryPressure,
        api::FilterName::CheckNodeDiskPressure => Filter::CheckNodeDiskPressure,
        api::FilterName::CheckNodePIDPressure => Filter::CheckNodePidPressure,
    }
}

const fn score(name: api::ScoreName) -> Score {
    match name {
        api::ScoreName::TaintToleration => Score::TaintToleration,
        api::ScoreName::NodeAffinity => Score::NodeAffinity,
        api::ScoreName::NodeResourcesFit => Score::NodeResourcesFit,
        api::ScoreName::PodTopologySpread => Score::PodTopologySpread,
        api::ScoreName::InterPodAffinity => Score::InterPodAffinity,
        api::ScoreName::NodeResourcesBalancedAllocation => Score::NodeResourcesBalancedAllocation,
        api::ScoreName::ImageLocality => Score::ImageLocality,
        api::ScoreName::SelectorSpread => Score::SelectorSpread,
        api::ScoreName::EqualPriority => Score::EqualPriority,
        api::ScoreName::LeastRequestedPriority => Score::LeastRequestedPriority,
        api::ScoreName::MostRequestedPriority => Score::MostRequestedPriority,
        api::ScoreName::BalancedResourceAllocationPriority => Score::BalancedResourceAllocationPriority,
        api::ScoreName::LabelPreference => Score::LabelPreference,
        api::ScoreName::NodePreferAvoidPodsPriority => Score::NodePreferAvoidPodsPriority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_the_same_in_the_api_and_in_the_core() {
        for (name, same) in api::FilterName::ALL.into_iter().zip(Filter::ALL) {
            assert_eq!((filter(name), name.as_str()), (same, same.name()));
        }
        for (name, same) in api::ScoreName::ALL.into_iter().zip(Score::ALL) {
            assert_eq!((score(name), name.as_str()), (same, same.name()));
        }
    }
}
