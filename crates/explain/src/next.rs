//! When a pod that fits nowhere is tried next, as far as that can be known from outside.

use berth_core::model::Pod;
use berth_core::plugins::{Plugin, PluginSet, WakeEvent, wake_events};
use berth_core::profile::{CompiledProfile, Mode, Preemption};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// When a pod is tried next. Its place in the worker's queue is the worker's own: what is told are the bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// What lets it be tried again, each as half a sentence; what the plugins that refused it ask for.
    pub events: Vec<&'static str>,
    /// The longest wait after such an event, in milliseconds: the profile's longest backoff. None, where it is over by then.
    pub after_event_max_millis: u64,
    /// After how long without any event it is tried all the same, in milliseconds.
    pub without_event_millis: u64,
    /// Whether the profile takes up no pods now: then nothing of the above happens.
    pub paused: bool,
}

impl Next {
    /// What `profile` does with `pod`, which `plugins` refused.
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
            paused: profile.mode == Mode::Paused,
        }
    }
}

/// What lets others go for `pod` that may not go yet, where the profile bounds preemption by that.
fn victims_freed(profile: &CompiledProfile, pod: &Pod) -> impl Iterator<Item = &'static str> {
    let Preemption { enabled, strict_budgets, min_runtime, .. } = profile.preemption;
    let may = enabled && pod.preempts;
    let budget = (may && strict_budgets).then_some("a PodDisruptionBudget allows more disruptions");
    let age = (may && !min_runtime.is_zero()).then_some("a pod of lower priority has run for minVictimRuntime");
    budget.into_iter().chain(age)
}
