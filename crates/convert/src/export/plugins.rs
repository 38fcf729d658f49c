//! Plugin sets, as differences from kube-scheduler's default profile.

use super::{Losses, Subject, weighed};
use crate::import::catalogue::{PLUGINS, Plugin, Point};
use serde_json::{Map, Value, json};

/// The names to disable and to enable, by field under `plugins`.
#[derive(Default)]
struct Sets(Vec<(&'static str, Vec<Value>, Vec<Value>)>);

impl Sets {
    fn at(&mut self, field: &'static str) -> (&mut Vec<Value>, &mut Vec<Value>) {
        let index = self.0.iter().position(|(f, _, _)| *f == field).unwrap_or_else(|| {
            self.0.push((field, Vec::new(), Vec::new()));
            self.0.len() - 1
        });
        let (_, disabled, enabled) = &mut self.0[index];
        (disabled, enabled)
    }

    fn disable(&mut self, field: &'static str, name: &str) {
        self.at(field).0.push(json!({"name": name}));
    }

    fn enable(&mut self, field: &'static str, name: &str, weight: i64) {
        self.at(field).1.push(weighed(name, weight));
    }
}

/// The field `plugins` of a profile.
pub(super) fn sets(subject: &Subject<'_>, losses: &mut Losses) -> Map<String, Value> {
    let compiled = &subject.compiled;
    let mut sets = Sets::default();
    let scoring = compiled.scores.iter().any(|(score, _)| score.is_upstream());
    if !scoring {
        sets.disable("score", "*");
    }
    for plugin in &PLUGINS {
        let filters = plugin.filter.map(|_| compiled.filters.iter().any(|filter| filter.name() == plugin.name));
        let weight = compiled.scores.iter().find(|(score, _)| score.name() == plugin.name).map(|(_, weight)| *weight);
        one(plugin, filters, weight, scoring, &mut sets);
    }
    if !compiled.preemption.enabled {
        sets.disable("postFilter", "DefaultPreemption");
    }
    lose_plugins(subject, losses);
    let mut written = Map::new();
    for (field, disabled, enabled) in sets.0 {
        let mut set = Map::new();
        for (name, list) in [("disabled", disabled), ("enabled", enabled)] {
            if !list.is_empty() {
                set.insert(name.to_owned(), list.into());
            }
        }
        written.insert(field.to_owned(), set.into());
    }
    written
}

/// Writes one plugin. `filters` is whether its filter runs, if it has one; `weight` is that of its score, if it scores;
/// `scoring` is whether any plugin scores.
fn one(plugin: &Plugin, filters: Option<bool>, weight: Option<i64>, scoring: bool, sets: &mut Sets) {
    let name = plugin.name;
    if filters == Some(false) {
        if weight.is_none() {
            sets.disable("multiPoint", name);
            return;
        }
        // It scores all the same.
        sets.disable("filter", name);
        for point in [Point::PreFilter, Point::Reserve, Point::PreBind] {
            if plugin.points.contains(&point) {
                sets.disable(point.field(), name);
            }
        }
    }
    match weight {
        None if plugin.score.is_some() && scoring => sets.disable("score", name),
        Some(weight) if plugin.default.map(i64::from) != Some(weight) => sets.enable("score", name, weight),
        _ => {}
    }
}

/// Reports filters and scores that kube-scheduler has removed, or never had.
fn lose_plugins(subject: &Subject<'_>, losses: &mut Losses) {
    let mut lose = |list: &str, at: Option<usize>, name: &str, any_more: &str| {
        let field = at.map_or_else(|| format!("spec.{list}"), |i| format!("spec.{list}[{i}]"));
        losses.lost(subject.name, field, format!("kube-scheduler 1.36 has no {name}{any_more}"));
    };
    let Subject { spec, compiled, .. } = subject;
    for name in compiled.filters.iter().filter(|filter| filter.is_legacy()).map(berth_core::model::Plugin::name) {
        lose("filters", spec.filters.iter().position(|config| config.name.as_str() == name), name, " any more");
    }
    for (score, _) in compiled.scores.iter().filter(|(score, _)| !score.is_upstream()) {
        let name = score.name();
        let any_more = if score.is_legacy() { " any more" } else { "" };
        lose("scores", spec.scores.iter().position(|config| config.name.as_str() == name), name, any_more);
    }
}
