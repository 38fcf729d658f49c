//! Turns the plugins of a profile into filters and scores, and reports the settings that have no counterpart.

use super::catalogue::{PLUGINS, Plugin, Point};
use super::loss::{Draft, Report};
use super::node::ImportError;
use super::sets::Plugins;
use berth_api::{AllowUnsafe, FilterConfig, PluginState, PreemptionPolicy, Preset, ScoreConfig};

/// Writes filters and scores into `out`; `field` is the path of the profile's plugins.
pub(super) fn apply(plugins: &Plugins, field: &str, out: &mut Draft) -> Result<(), ImportError> {
    required(plugins, field)?;
    filters(plugins, field, out);
    scores(plugins, field, out);
    preemption(plugins, field, out);
    order(plugins, field, &mut out.report);
    for plugin in &PLUGINS {
        halves(plugins, plugin, field, &mut out.report);
    }
    others(plugins, field, &mut out.report);
    Ok(())
}

/// Refuses a profile without a plugin at queueSort or bind.
fn required(plugins: &Plugins, field: &str) -> Result<(), ImportError> {
    for (point, name) in [(Point::QueueSort, "PrioritySort"), (Point::Bind, "DefaultBinder")] {
        if plugins.at(point).is_empty() {
            return Err(ImportError::new(
                format!("{field}.{}", point.field()),
                "has no plugin, and cannot be without one",
                format!("enable {name} in {} or multiPoint", point.field()),
            ));
        }
    }
    Ok(())
}

/// Without DefaultPreemption at postFilter nothing is evicted.
fn preemption(plugins: &Plugins, field: &str, out: &mut Draft) {
    if !plugins.at(Point::PostFilter).iter().any(|entry| entry.plugin.name == "DefaultPreemption") {
        out.spec.preemption.policy = PreemptionPolicy::Never;
        out.origins
            .comment("spec.preemption.policy", format!("from {field}: DefaultPreemption does not run at postFilter"));
    }
}

fn filters(plugins: &Plugins, field: &str, out: &mut Draft) {
    for plugin in &PLUGINS {
        let Some(name) = plugin.filter.filter(|_| !plugins.runs(plugin, Point::Filter)) else { continue };
        if out.spec.filters.is_empty() {
            out.origins.comment("spec.filters", format!("from {field}"));
        }
        out.spec.filters.push(FilterConfig { name, state: PluginState::Disabled });
        if name.is_safety() {
            out.spec.allow_unsafe = AllowUnsafe::Acknowledged;
            out.report.note(
                format!("{field}.filter"),
                format!("{name} is disabled, which can place pods where they cannot run: taken over with allowUnsafe: Acknowledged"),
            );
        }
    }
}

fn scores(plugins: &Plugins, field: &str, out: &mut Draft) {
    if !plugins.at(Point::Score).iter().any(|entry| entry.plugin.score.is_some()) {
        out.spec.preset = Preset::NoScoring;
        out.origins.comment("spec.preset", format!("from {field}.score: no score is left"));
        return;
    }
    for plugin in &PLUGINS {
        let Some(name) = plugin.score else { continue };
        if !plugins.runs(plugin, Point::Score) {
            out.origins.comment(format!("spec.scores[{}]", out.spec.scores.len()), format!("from {field}.score"));
            out.spec.scores.push(ScoreConfig { name, weight: None, state: PluginState::Disabled });
            continue;
        }
        let (weight, written) = plugins.weight(plugin);
        if Some(weight) != plugin.default {
            let source = if written.is_empty() { format!("{field}.score") } else { format!("{written}.weight") };
            out.origins.add(format!("spec.scores[{}].weight", out.spec.scores.len()), source);
            out.spec.scores.push(ScoreConfig { name, weight: Some(weight), state: PluginState::Enabled });
        }
    }
}

/// Reports a changed order of filters. The order here is fixed, and only the first filter that refuses a node is reported.
fn order(plugins: &Plugins, field: &str, report: &mut Report) {
    let place = |plugin: &Plugin| PLUGINS.iter().position(|p| p == plugin);
    let filters: Vec<&Plugin> =
        plugins.at(Point::Filter).iter().map(|e| e.plugin).filter(|p| p.filter.is_some()).collect();
    if filters.iter().map(|p| place(p)).is_sorted() {
        return;
    }
    let names: Vec<&str> = filters.iter().map(|p| p.name).collect();
    let what = format!(
        "the order {} becomes the default order: the same nodes are refused, with another of several reasons",
        names.join(", ")
    );
    report.changed(format!("{field}.filter"), what);
}

/// Reports plugins that run at some of their points only: here a filter or a score runs whole or not at all.
fn halves(plugins: &Plugins, plugin: &Plugin, field: &str, report: &mut Report) {
    let name = plugin.name;
    let has = |point| plugin.points.contains(&point);
    let runs = |point| plugins.runs(plugin, point);
    let mut lose = |point: Point, what: String| report.changed(format!("{field}.{}", point.field()), what);
    if plugin.filter.is_some() && has(Point::PreFilter) {
        let changed = match (runs(Point::PreFilter), runs(Point::Filter)) {
            (true, false) => plugin
                .pre_filter
                .map(|work| format!("the PreFilter of {name}, which {work}, goes with its filter, which is disabled")),
            (false, true) => {
                Some(format!("the PreFilter of {name} is disabled and its filter is not: here the filter runs whole"))
            }
            _ => None,
        };
        if let Some(changed) = changed {
            lose(Point::PreFilter, changed);
        }
    }
    if has(Point::PreScore) && !plugin.scores_alone && runs(Point::Score) && !runs(Point::PreScore) {
        let what = format!("the PreScore of {name} is disabled and its score is not: here the score runs whole");
        lose(Point::PreScore, what);
    }
    if plugin.filter.is_some() {
        for point in [Point::Reserve, Point::PreBind] {
            if has(point) && runs(point) != runs(Point::Filter) {
                let state = if runs(point) { "enabled" } else { "disabled" };
                lose(
                    point,
                    format!(
                        "{name} is {state} here: what it writes before a bind is written if its filter runs, and not otherwise"
                    ),
                );
            }
        }
    }
}

/// Reports plugins whose work here does not depend on the profile.
fn others(plugins: &Plugins, field: &str, report: &mut Report) {
    let on = |name: &str, point| plugins.at(point).iter().any(|e| e.plugin.name == name);
    if !on("SchedulingGates", Point::PreEnqueue) {
        let what = "SchedulingGates is disabled: here scheduling gates are always respected";
        report.lost(format!("{field}.preEnqueue"), what);
    }
    for (point, _) in Point::ALL {
        for entry in plugins.at(point).iter().filter(|e| e.plugin.default.is_none()) {
            let what = format!("{} has no effect: pods of a pod group are held", entry.plugin.name);
            if !report.losses.iter().any(|loss| loss.field == entry.field && loss.what == what) {
                report.lost(&entry.field, what);
            }
        }
    }
}
