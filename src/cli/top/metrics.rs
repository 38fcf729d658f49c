//! What `berth top` takes of a scrape: a few series of each profile. The rest is passed over as it comes.

use berth_telemetry::Metric;
use futures::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;

/// Bytes of one scrape that are read: more than the metrics of a thousand profiles have.
const BYTES: u64 = 64 << 20;

/// Profiles, and extenders or plugins of one, that are kept of a scrape: more than the API lets there be.
const PROFILES: usize = 1_000;
const OF_PROFILE: usize = 64;

/// The parts of a queue, in the order in which they are shown, as the metric names them; of the last it has a series of its own.
pub(super) const QUEUES: [&str; 5] = ["active", "backoff", "unschedulable", "gated", "held"];
const HELD: usize = 4;

/// What is taken of one scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scrape {
    pub(super) profiles: BTreeMap<String, OfProfile>,
}

/// The series of one profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OfProfile {
    /// Waiting pods, by the parts of [`QUEUES`]; a part that was not scraped is `None`.
    pub(super) queues: [Option<u64>; 5],
    /// Seconds that the oldest waiting pod has waited.
    pub(super) oldest: Option<f64>,
    /// Attempts so far.
    pub(super) tried: f64,
    /// Pods bound so far.
    pub(super) bound: f64,
    /// Waiting pods by the plugin that refused them.
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) extenders: BTreeMap<String, OfExtender>,
}

/// The series of one extender, all verbs together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OfExtender {
    /// Calls so far.
    pub(super) asked: f64,
    /// Calls that failed so far.
    pub(super) failed: f64,
    /// Whether the circuit of a verb is open; `None` where no verb has one.
    pub(super) open: Option<bool>,
    pub(super) in_flight: u64,
    pub(super) waiting: u64,
}

impl Scrape {
    /// Reads a text of metrics line by line; what is behind [`BYTES`] is not read.
    pub(super) async fn read(body: impl AsyncBufRead) -> io::Result<Self> {
        let body = pin!(body);
        let mut body = body.take(BYTES);
        let (mut scrape, mut line) = (Self::default(), Vec::new());
        while body.read_until(b'\n', &mut line).await? > 0 {
            scrape.take(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(scrape)
    }

    /// Takes one line. A line that is none of ours, or that cannot be read, changes nothing.
    fn take(&mut self, line: &str) -> Option<()> {
        let end = line.find(['{', ' '])?;
        let metric = READ.into_iter().find(|metric| metric.name() == &line[..end])?;
        let (labels, rest) = labels(line[end..].strip_prefix('{')?)?;
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        let label = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        let profile = bounded(&mut self.profiles, label("profile")?, PROFILES)?;
        let extender = label("extender");
        match metric {
            Metric::PendingPods => {
                let part = QUEUES.iter().position(|queue| Some(*queue) == label("queue"))?;
                profile.queues[part] = Some(value as u64);
            }
            Metric::HeldPods => profile.queues[HELD] = Some(value as u64),
            Metric::OldestPending => profile.oldest = Some(value),
            Metric::ScheduleAttempts => profile.tried += value,
            Metric::BindOutcomes if label("outcome") == Some("bound") => profile.bound += value,
            Metric::UnschedulablePods => *bounded(&mut profile.refused, label("plugin")?, OF_PROFILE)? = value as u64,
            Metric::ExtenderRequests => {
                let extender = bounded(&mut profile.extenders, extender?, OF_PROFILE)?;
                extender.asked += value;
                if label("result") != Some("ok") {
                    extender.failed += value;
                }
            }
            Metric::ExtenderCircuit => {
                let extender = bounded(&mut profile.extenders, extender?, OF_PROFILE)?;
                extender.open = Some(extender.open == Some(true) || value > 0.0);
            }
            Metric::ExtenderCalls => {
                let extender = bounded(&mut profile.extenders, extender?, OF_PROFILE)?;
                match label("state") {
                    Some("in_flight") => extender.in_flight = value as u64,
                    Some("waiting") => extender.waiting = value as u64,
                    _ => {}
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// The series that are taken.
const READ: [Metric; 9] = [
    Metric::PendingPods,
    Metric::HeldPods,
    Metric::OldestPending,
    Metric::ScheduleAttempts,
    Metric::BindOutcomes,
    Metric::UnschedulablePods,
    Metric::ExtenderRequests,
    Metric::ExtenderCircuit,
    Metric::ExtenderCalls,
];

/// The value under `key`, which is made if it is not there yet and there are fewer than `most`.
fn bounded<'m, T: Default>(map: &'m mut BTreeMap<String, T>, key: &str, most: usize) -> Option<&'m mut T> {
    if !map.contains_key(key) {
        if map.len() >= most {
            return None;
        }
        map.insert(key.to_owned(), T::default());
    }
    map.get_mut(key)
}

/// The labels after an opening brace, and what is behind the closing one.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, value) = rest.split_once("=\"")?;
        let (value, after) = quoted(value)?;
        labels.push((key, value));
        rest = after;
    }
}

/// The text up to the closing quote, its escapes resolved, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# HELP scheduler_pending_pods Pods without a node
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active",profile="batch"} 3
berth_held_pods{profile="batch"} 1.0
scheduler_pending_pods{queue="elsewhere",profile="batch"} 9
berth_oldest_pending_seconds{profile="batch"} 61.5
scheduler_schedule_attempts_total{result="scheduled",profile="batch"} 7
scheduler_schedule_attempts_total{result="unschedulable",profile="batch"} 5 1700000000000
scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="batch"} 2
berth_bind_outcomes_total{profile="batch",outcome="bound"} 6
berth_bind_outcomes_total{profile="batch",outcome="refused"} 1
berth_extender_requests_total{profile="batch",extender="gpu",result="ok"} 10
berth_extender_requests_total{profile="batch",extender="gpu",result="timeout"} 2
berth_extender_circuit_open{profile="batch",extender="gpu",verb="filter"} 1
berth_extender_circuit_open{profile="batch",extender="gpu",verb="bind"} 0
berth_extender_calls{profile="batch",extender="gpu",state="in_flight"} 4
scheduler_pending_pods{queue="active",profile="odd \"name\\\n"} 2
scheduler_pending_pods{queue="active",profile="cut
scheduler_pending_pods{queue="active",profile="b"} many
process_open_fds 12
"#;

    #[tokio::test]
    async fn a_scrape_is_read_and_the_rest_of_it_passed_over() {
        let scrape = Scrape::read(TEXT.as_bytes()).await.unwrap();
        let batch = &scrape.profiles["batch"];
        assert_eq!(batch.queues, [Some(3), None, None, None, Some(1)]);
        assert_eq!((batch.oldest, batch.tried, batch.bound), (Some(61.5), 12.0, 6.0));
        assert_eq!(batch.refused["NodeResourcesFit"], 2);
        let gpu = OfExtender { asked: 12.0, failed: 2.0, open: Some(true), in_flight: 4, waiting: 0 };
        assert_eq!(batch.extenders["gpu"], gpu);
        assert_eq!(scrape.profiles["odd \"name\\\n"].queues[0], Some(2));
        assert_eq!(scrape.profiles.len(), 2, "{scrape:?}");
    }

    #[tokio::test]
    async fn what_a_scrape_can_make_us_keep_is_bounded() {
        let lines =
            (0..PROFILES + 9).map(|i| format!("scheduler_pending_pods{{queue=\"active\",profile=\"{i}\"}} 1\n"));
        let mut text: String = lines.collect();
        let line = |plugin| format!("scheduler_unschedulable_pods{{plugin=\"{plugin}\",profile=\"0\"}} 1\n");
        text.extend((0..OF_PROFILE + 9).map(line));
        let scrape = Scrape::read(text.as_bytes()).await.unwrap();
        assert_eq!((scrape.profiles.len(), scrape.profiles["0"].refused.len()), (PROFILES, OF_PROFILE));
    }
}
