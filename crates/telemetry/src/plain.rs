use super::catalog::{Kind, Metric};

/// OpenMetrics `text` in Prometheus' text format 0.0.4: counters are declared by the name of their series, whole bounds of buckets have
/// no decimals, and nothing marks the end.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        match declared(line) {
            Some((name, rest)) if is_counter(name) => out.extend([&line[..7], name, "_total ", rest]),
            Some(_) => out.push_str(line),
            None => push_series(&mut out, line),
        }
        out.push('\n');
    }
    out
}

/// The name that a `# HELP` or `# TYPE` line is about, and what it says.
fn declared(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "))?.split_once(' ')
}

fn is_counter(name: &str) -> bool {
    let mut counters = Metric::ALL.iter().filter(|metric| metric.kind() == Kind::Counter);
    counters.any(|metric| metric.name().strip_suffix("_total") == Some(name))
}

/// Quotes within values are escaped, so that what looks like the bound of a bucket is one.
fn push_series(out: &mut String, line: &str) {
    const BOUND: &str = "_bucket{le=\"";
    let bound = line.split_once(BOUND).and_then(|(name, rest)| Some((name, rest.split_once(".0\"")?)));
    match bound {
        Some((name, (whole, rest))) if !whole.contains('"') => out.extend([name, BOUND, whole, "\"", rest]),
        _ => out.push_str(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_bounds_and_the_end_are_written_as_prometheus_wants_them() {
        let open = r#"# HELP scheduler_schedule_attempts Attempts
# TYPE scheduler_schedule_attempts counter
scheduler_schedule_attempts_total{profile="a"} 7
# HELP berth_leader Whether
# TYPE berth_leader gauge
berth_leader 1.0
scheduler_preemption_victims_bucket{le="1.0",profile="a"} 1
scheduler_preemption_victims_bucket{le="0.5",profile="1.0"} 1
scheduler_preemption_victims_bucket{le="+Inf",profile="a"} 1
# EOF
"#;
        let want = r#"# HELP scheduler_schedule_attempts_total Attempts
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="a"} 7
# HELP berth_leader Whether
# TYPE berth_leader gauge
berth_leader 1.0
scheduler_preemption_victims_bucket{le="1",profile="a"} 1
scheduler_preemption_victims_bucket{le="0.5",profile="1.0"} 1
scheduler_preemption_victims_bucket{le="+Inf",profile="a"} 1
"#;
        assert_eq!(plain(open), want);
    }
}
