//! When a pod that fits nowhere is tried next, as far as that can be known from outside.

use berth_core::model::Pod;
use berth_core::plugins::{Plugin, PluginSet, WakeEvent, wake_events};
use berth_core::profile::{CompiledProfile, Mode, Preemption};
use serde::Serialize;
use std::{collections::BTreeSet, time::Duration};

/// When a pod is tried next. Only the worker knows its place in the queue; these are the bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// The events that the plugins that refused the pod wait for, each as half a sentence.
    pub events: Vec<&'static str>,
    /// The longest wait after such an event, in milliseconds: the profile's longest backoff; no wait if that has ended.
    pub after_event_max_millis: u64,
    /// Time after which the pod is tried without any event, in milliseconds.
    pub without_event_millis: u64,
    /// Whether the profile places no pod, as it is paused or only compares: then none of the above happens.
    pub paused: bool,
}

impl Next {
    /// The bounds for `pod`, which `plugins` refused.
    pub(super) fn new(profile: &CompiledProfile, pod: &Pod, plugins: &BTreeSet<&str>) -> Self {
        let mut rejectors = PluginSet::NONE;
        Plugin::ALL.into_iter().filter(|p| plugins.contains(p.name())).for_each(|p| rejectors.insert(p));
        let millis = |of: Duration| u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
        Self {
            events: wake_events(rejectors)
                .into_iter()
                .map(WakeEvent::text)
                .chain(victims_freed(profile, pod))
                .collect(),
            after_event_max_millis: millis(profile.queue.max_backoff),
            without_event_millis: millis(profile.queue.max_unschedulable),
            paused: profile.mode != Mode::Active,
        }
    }
}

/// Events that make more pods eligible as victims of `pod`, if the profile bounds preemption so.
fn victims_freed(profile: &CompiledProfile, pod: &Pod) -> impl Iterator<Item = &'static str> {
    let Preemption { enabled, strict_budgets, min_runtime, .. } = profile.preemption;
    let may = enabled && pod.preempts;
    let budget = (may && strict_budgets).then_some("a PodDisruptionBudget allows more disruptions");
    let age = (may && !min_runtime.is_zero()).then_some("a pod of lower priority has run for minVictimRuntime");
    budget.into_iter().chain(age)
}
