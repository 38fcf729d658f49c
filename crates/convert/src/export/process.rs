//! What is of the process in kube-scheduler and of each profile here: backoff, above all.

use super::{Losses, Subject};
use crate::import::Loss;
use berth_api as api;
use serde_json::{Map, Value};
use std::time::Duration;

/// A duration in seconds, rounded up.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() != 0)
}

/// Writes the settings of the process; where profiles differ those of the first count.
pub(super) fn write(subjects: &[Subject<'_>], configuration: &mut Map<String, Value>, losses: &mut Losses) {
    type Read = fn(&api::Queue) -> api::Duration;
    let Some(first) = subjects.first() else { return };
    let default = api::Queue::default();
    let settings: [(&str, &str, Read); 2] = [
        ("initialBackoff", "podInitialBackoffSeconds", |queue| queue.initial_backoff),
        ("maxBackoff", "podMaxBackoffSeconds", |queue| queue.max_backoff),
    ];
    for (field, name, read) in settings {
        let value = read(&first.spec.queue);
        let seconds = whole_seconds(value.get());
        if value != read(&default) {
            configuration.insert(name.to_owned(), seconds.into());
        }
        let path = format!("spec.queue.{field}");
        if value.get().subsec_nanos() != 0 {
            let what = format!("kube-scheduler counts whole seconds: {value} becomes {seconds}s");
            losses.add(first.name, Loss::changed(&path, what));
        }
        for other in subjects.iter().filter(|other| read(&other.spec.queue) != value) {
            let own = read(&other.spec.queue);
            let what =
                format!("{own} becomes {seconds}s, that of {}: kube-scheduler has one for all profiles", first.name);
            losses.add(other.name, Loss::lost(&path, what));
        }
    }
    for subject in subjects {
        let wait = subject.spec.queue.max_unschedulable_duration;
        if wait != default.max_unschedulable_duration {
            let what = format!(
                "no configuration holds it: start kube-scheduler with \
                 --pod-max-in-unschedulable-pods-duration={wait}, which is deprecated"
            );
            losses.add(subject.name, Loss::lost("spec.queue.maxUnschedulableDuration", what));
        }
    }
}
