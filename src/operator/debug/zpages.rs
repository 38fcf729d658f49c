//! `/statusz` and `/flagz` in the plain text of Kubernetes 1.36 components: `textserializer.go` under `pkg/server/statusz` and
//! `pkg/server/flagz` of k8s.io/apiserver. Upstream draws the mark between a name and its value at random, so that nobody parses it.

use berth_telemetry::{DebugReply, ProcessStats};
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for \
                       debugging purposes only.";

fn header(page: &str) -> String {
    format!("\nberth {page}\n{WARNING}\n")
}

pub(super) fn statusz(pages: &[&str]) -> DebugReply {
    let started = ProcessStats::read().and_then(|stats| Timestamp::from_second(stats.started_at as i64).ok());
    let up = started.map_or(0, |started| (Timestamp::now().as_second() - started.as_second()).max(0));
    let mut text = header("statusz");
    let started =
        started.map_or_else(|| "?".to_owned(), |started| started.strftime("%a %b %e %H:%M:%S UTC %Y").to_string());
    let (hours, minutes, seconds) = (up / 3_600, up / 60 % 60, up % 60);
    let _ = writeln!(text, "\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec");
    let _ = writeln!(text, "Binary version: {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "\nPaths: {}", folders(pages).join(" "));
    DebugReply::text(200, text)
}

/// The first part of each path, as upstream lists them.
fn folders(pages: &[&str]) -> Vec<String> {
    let folders: BTreeSet<&str> = pages.iter().filter_map(|page| page.split('/').nth(1)).collect();
    folders.into_iter().map(|folder| format!("/{folder}")).collect()
}

pub(super) fn flagz(flags: &BTreeMap<String, String>) -> DebugReply {
    let mut text = header("flagz");
    for (flag, value) in flags {
        let _ = writeln!(text, "{flag}={value}");
    }
    DebugReply::text(200, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_look_like_those_of_kubernetes() {
        let status = statusz(&["/statusz", "/debug/queue", "/debug/audit"]).body;
        let lines: Vec<&str> = status.lines().collect();
        assert_eq!(&lines[..3], ["", "berth statusz", WARNING]);
        assert!(lines.iter().any(|line| line.starts_with("Up: 0 hr 0") && line.ends_with(" sec")), "{status}");
        assert!(status.ends_with("\nPaths: /debug /statusz\n"), "{status}");
        let flags = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into();
        assert_eq!(flagz(&flags).body, format!("\nberth flagz\n{WARNING}\na=1\nb=2\n"));
    }
}
