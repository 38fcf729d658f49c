//! How long the operator had its table of nodes and pods locked at a time, as its metrics tell.

use std::collections::BTreeMap;

/// The histogram's buckets, each with those before it.
const BUCKET: &str = "berth_ledger_lock_seconds_bucket{";

/// No bucket but the last has it.
const UNBOUNDED: u64 = u64::MAX;

/// How many holds there were of an access, by the longest that a bucket takes, in microseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Holds(BTreeMap<(String, u64), u64>);

impl Holds {
    pub(super) fn read(page: &str) -> Self {
        Self(page.lines().filter_map(bucket).collect())
    }

    /// The bucket of the longest hold that came after `before`: its upper end in microseconds. `None` if there was no hold.
    pub(super) fn longest_since(&self, before: &Self) -> Option<u64> {
        let of = |access: &str| {
            let more = |bound| self.count(access, bound).saturating_sub(before.count(access, bound));
            let all = more(UNBOUNDED);
            let mut bounds = self.0.keys().filter(|(of, _)| of == access).map(|(_, bound)| *bound);
            if all == 0 { None } else { bounds.find(|bound| more(*bound) == all) }
        };
        ["read", "write"].into_iter().filter_map(of).max()
    }

    fn count(&self, access: &str, bound: u64) -> u64 {
        self.0.get(&(access.to_owned(), bound)).copied().unwrap_or(0)
    }
}

fn bucket(line: &str) -> Option<((String, u64), u64)> {
    let (labels, count) = line.strip_prefix(BUCKET)?.split_once("} ")?;
    let label = |name: &str| {
        let value = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
        value?.strip_suffix('"')
    };
    let bound = match label("le")? {
        "+Inf" => UNBOUNDED,
        seconds => (seconds.parse::<f64>().ok()? * 1e6).round() as u64,
    };
    Some(((label("access")?.to_owned(), bound), count.trim().parse().ok()?))
}

/// As a column of the table.
pub(super) fn shown(longest: Option<u64>) -> String {
    match longest {
        None => "–".to_owned(),
        Some(UNBOUNDED) => "over 16 s".to_owned(),
        Some(micros) => format!("≤ {} ms", micros / 1_000),
    }
}

#[test]
fn the_longest_hold_is_in_the_last_bucket_that_grew() {
    let page = |reads: [u64; 3], writes: [u64; 3]| {
        let lines = |access: &str, counts: [u64; 3]| {
            let line = |(le, count): (&str, u64)| format!("{BUCKET}access=\"{access}\",le=\"{le}\"}} {count}\n");
            ["0.001", "0.064", "+Inf"].into_iter().zip(counts).map(line).collect::<String>()
        };
        Holds::read(&format!("# a comment\n{}{}other 1\n", lines("read", reads), lines("write", writes)))
    };
    let (start, none) = (page([5, 5, 6], [1, 1, 1]), Holds::default());
    for (now, before, want) in [
        (&start, &none, "over 16 s"),
        (&start, &start, "–"),
        (&page([6, 6, 7], [1, 1, 1]), &start, "≤ 1 ms"),
        (&page([6, 6, 7], [1, 2, 2]), &start, "≤ 64 ms"),
        (&page([5, 5, 7], [2, 2, 2]), &start, "over 16 s"),
    ] {
        assert_eq!(shown(now.longest_since(before)), want, "{now:?}");
    }
}
