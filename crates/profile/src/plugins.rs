//! Filters and scores: the overlay of a profile on its preset.

use super::CompileError;
use berth_api as api;
use berth_core::plugins::Plugin;
use berth_core::profile::{CompiledProfile, Score};

const MAX_WEIGHT: i64 = 1_000_000;

/// The highest score of a node by one plugin, before weights.
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
            let message = format!("disabling {} can place pods where they cannot run", config.name);
            let fix = "remove the entry, or set spec.allowUnsafe: Acknowledged";
            return Err(CompileError::args(field(), message, fix));
        }
        profile.filters = profile.filters.without(filter(config.name));
    }
    Ok(())
}

/// The arguments that `name` needs and that `args` lacks.
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
        let weight = config.weight.map(i64::from).or(present).unwrap_or_else(|| score.default_weight());
        if !(1..=MAX_WEIGHT).contains(&weight) {
            let message = format!("{weight} for {} is out of range", config.name);
            let fix = "use 1 to 1,000,000, or state: Disabled";
            return Err(CompileError::args(format!("spec.scores[{i}].weight"), message, fix));
        }
        profile.scores.push((score, weight));
    }
    profile.scores.sort_by_key(|(score, _)| *score);
    Ok(())
}

// The enums of the API have the order of the core's table, so that a name is found by its place.
const _: () = {
    assert!(api::FilterName::ALL.len() == Plugin::FILTERS.len() && api::ScoreName::ALL.len() == Score::ALL.len());
    let mut at = 0;
    while at < Plugin::FILTERS.len() {
        assert!(matches!(api::FilterName::named(Plugin::FILTERS[at].name()), Some(name) if name as usize == at));
        at += 1;
    }
    at = 0;
    while at < Score::ALL.len() {
        assert!(matches!(api::ScoreName::named(Score::ALL[at].name()), Some(name) if name as usize == at));
        at += 1;
    }
};

const fn filter(name: api::FilterName) -> Plugin {
    Plugin::FILTERS[name as usize]
}

const fn score(name: api::ScoreName) -> Score {
    Score::ALL[name as usize]
}
