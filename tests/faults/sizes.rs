//! Every size that operators tell of: the gauges of their pages of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Gauges that are no sizes, beside those in seconds: states, what does not change, and memory, which has rows of its own.
const NO_SIZES: [&str; 13] = [
    "berth_another_installation",
    "berth_build_info",
    "berth_extender_circuit_open",
    "berth_leader",
    "berth_profile_condition",
    "berth_profile_info",
    "berth_resource_absent",
    "berth_worker_up",
    "leader_election_master_status",
    "process_max_fds",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
];

/// Need not be what it was: a connection that nobody uses any more is kept for a while.
const FILES: &str = "process_open_fds";

/// Whose sizes there are, in this order.
const WHO: [&str; 2] = ["leader", "standby"];

/// The sizes of one operator at one moment, by series.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<String, u64>);

impl Sizes {
    pub(super) fn read(page: &str) -> Self {
        let declared = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge"));
        let sizes: BTreeSet<&str> =
            declared.filter(|name| !NO_SIZES.contains(name) && !name.ends_with("_seconds")).collect();
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let value = value.parse::<f64>().ok().filter(|_| sizes.contains(name_of(series)))?;
            Some((series.to_owned(), value as u64))
        };
        Self(page.lines().filter_map(sample).collect())
    }

    /// Whether there is a series of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.keys().any(|series| name_of(series) == name)
    }

    /// A series that is not there has nothing to count.
    fn of(&self, series: &str) -> u64 {
        self.0.get(series).copied().unwrap_or(0)
    }
}

/// The sizes that are not what they were at the start, each said with both.
pub(super) fn not_back(start: &[Sizes; 2], now: &[Sizes; 2]) -> Vec<String> {
    let mut left = Vec::new();
    for (who, (start, now)) in WHO.iter().zip(start.iter().zip(now)) {
        let all: BTreeSet<&String> = start.0.keys().chain(now.0.keys()).collect();
        for series in all.into_iter().filter(|series| name_of(series) != FILES) {
            let (was, is) = (start.of(series), now.of(series));
            if was != is {
                left.push(format!("{who}: {series} was {was} and is {is}"));
            }
        }
    }
    left
}

/// A row for each series, with a column for each moment, first of the leader and then of the standby.
pub(super) fn table(moments: &[(String, [Sizes; 2])]) -> String {
    let (mut text, mut marks) = ("| size |".to_owned(), "|---|".to_owned());
    for who in WHO {
        for (moment, _) in moments {
            let _ = write!(text, " {who}, {moment} |");
            marks.push_str("--:|");
        }
    }
    let _ = write!(text, "\n{marks}");
    let all: BTreeSet<&String> = moments.iter().flat_map(|(_, both)| both).flat_map(|sizes| sizes.0.keys()).collect();
    for series in all {
        let _ = write!(text, "\n| `{series}` |");
        for who in 0..WHO.len() {
            for (_, both) in moments {
                let _ = write!(text, " {} |", both[who].of(series));
            }
        }
    }
    text
}

/// The series without its labels.
fn name_of(series: &str) -> &str {
    series.split('{').next().unwrap_or_default()
}

#[test]
fn sizes_are_read_compared_and_shown() {
    let page = |pods: u64, files: u64| {
        Sizes::read(&format!(
            "# HELP scheduler_cache_size Nodes\n# TYPE scheduler_cache_size gauge\n\
             scheduler_cache_size{{type=\"pods\"}} {pods}.0\n\
             # TYPE berth_events_total counter\nberth_events_total{{result=\"written\"}} 7\n\
             # TYPE berth_leader gauge\nberth_leader 1.0\n\
             # TYPE berth_oldest_pending_seconds gauge\nberth_oldest_pending_seconds 3.5\n\
             # TYPE process_open_fds gauge\nprocess_open_fds {files}.0\n"
        ))
    };
    let (start, now) = ([page(0, 40), Sizes::default()], [page(7, 50), page(0, 9)]);
    assert!(start[0].has("scheduler_cache_size") && !start[0].has("berth_leader"));
    assert_eq!(not_back(&start, &now), ["leader: scheduler_cache_size{type=\"pods\"} was 0 and is 7"]);
    assert!(not_back(&start, &start).is_empty());
    let moments = [("at the start".to_owned(), start), ("minute 10".to_owned(), now)];
    let expected = "\
| size | leader, at the start | leader, minute 10 | standby, at the start | standby, minute 10 |
|---|--:|--:|--:|--:|
| `process_open_fds` | 40 | 50 | 0 | 9 |
| `scheduler_cache_size{type=\"pods\"}` | 0 | 7 | 0 | 0 |";
    assert_eq!(table(&moments), expected);
}
