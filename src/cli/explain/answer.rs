//! What would place a pod, and when it is tried next.

use super::view::View;
use berth_explain::{Next, PodReport};
use std::io::{self, Write};

pub(super) fn write(out: &mut dyn Write, report: &PodReport, view: &View<'_>) -> io::Result<()> {
    if let Some(changes) = &report.changes {
        if changes.is_empty() {
            writeln!(
                out,
                "\nno single change that was tried would place it; --node NODE shows all that stands in the way on one node"
            )?;
        } else {
            writeln!(out, "\nany of these would place it, the smallest change first:")?;
        }
        for (number, change) in changes.iter().enumerate() {
            writeln!(out, "  {:>2}. {}", number + 1, change.text)?;
        }
    }
    match &report.next {
        Some(next) => write_next(out, next, report, view),
        None => Ok(()),
    }
}

fn write_next(out: &mut dyn Write, next: &Next, report: &PodReport, view: &View<'_>) -> io::Result<()> {
    if next.paused {
        return writeln!(out, "\nnext: not tried while its profile is paused (spec.mode)");
    }
    let (event, sweep) = (span(next.after_event_max_millis), span(next.without_event_millis));
    writeln!(out, "\nnext: tried again within {event} after one of these, or {sweep} after its last attempt:")?;
    for event in &next.events {
        writeln!(out, "  - {event}")?;
    }
    writeln!(out, "  - the pod itself is changed")?;
    writeln!(out, "  when its last attempt was, and how much of its backoff is left, only its worker knows")?;
    let Some(condition) = view.pod.scheduled.as_ref().filter(|condition| !condition.status) else { return Ok(()) };
    let now = report.message.as_deref().unwrap_or_default();
    // A condition holds nothing but text, perhaps another scheduler's. What it says of preemption follows the filters' part.
    match condition.message.trim_end() {
        "" => Ok(()),
        text if text.starts_with(now.trim_end_matches('.')) => {
            writeln!(out, "  its condition PodScheduled says the same ({})", condition.reason)
        }
        text => writeln!(out, "  its condition PodScheduled ({}) is of another moment: {text}", condition.reason),
    }
}

/// A duration as people write it: `500ms`, `10s`, `5m`, `1m30s`.
fn span(millis: u64) -> String {
    let (minutes, seconds, rest) = (millis / 60_000, millis / 1000 % 60, millis % 1000);
    match (minutes, seconds, rest) {
        (0, 0, rest) => format!("{rest}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, rest) => format!("{seconds}.{rest:03}s"),
        (minutes, 0, _) => format!("{minutes}m"),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn times_are_short() {
        for (millis, want) in [(500, "500ms"), (10_000, "10s"), (1_500, "1.500s"), (300_000, "5m"), (90_000, "1m30s")] {
            assert_eq!(span(millis), want);
        }
    }
}
