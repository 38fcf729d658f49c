//! From figures and comparisons to an answer. Pure.

use crate::cli::output::Align::{Left, Right};
use crate::cli::output::{Table, counted};
use crate::cli::page::{Shadowed, Would};
use berth_api::ShadowStatus;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// What was read of one profile.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) profile: String,
    pub(super) figures: ShadowStatus,
    /// The oldest first.
    pub(super) comparisons: Vec<Compared>,
}

/// One pod, as the debug door gives it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Compared {
    number: u64,
    /// `namespace/name`.
    pod: String,
    uid: String,
    scheduler: String,
    time: String,
    /// Where its scheduler has bound it.
    node: String,
    /// Whether it was nominated to that node before.
    nominated: bool,
    outcome: String,
    /// Where the profile would have put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<String>,
    /// Of the real node, among so many that fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_score: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    apart: Vec<Apart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_preempt: Option<WouldPreempt>,
}

/// By how much a score puts our node above the real one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Apart {
    plugin: String,
    by: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct WouldPreempt {
    node: String,
    victims: u64,
}

/// The answer, in the JSON form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) profile: String,
    /// The share of pods whose node is among the profile's best; none before the first comparison.
    pub(super) among_best_percent: Option<f64>,
    /// The share of pods for which the profile chose the very node.
    same_percent: Option<f64>,
    figures: ShadowStatus,
    /// The newest pods, the oldest of them first.
    comparisons: Vec<Compared>,
}

impl Compared {
    fn is_agreed(&self) -> bool {
        matches!(&*self.outcome, "same" | "tied")
    }

    fn shadowed(&self) -> Shadowed<'_> {
        let (outcome, what) = match &*self.outcome {
            "same" => (Would::Leave, "the profile chose the same node".to_owned()),
            "tied" => (Would::Leave, "one of the profile's best nodes; it drew another".to_owned()),
            "held" => (Would::Hold, "the profile would hold the pod".to_owned()),
            "unschedulable" | "failed" => (Would::Refuse, "the profile finds no node".to_owned()),
            _ => (Would::Move, format!("the profile would have placed it on {}", self.ours.as_deref().unwrap_or("-"))),
        };
        let why = self.why();
        let why = if why.is_empty() { what } else { [&*what, ": ", &why].concat() };
        let Self { pod, scheduler, node, ours, .. } = self;
        Shadowed { pod, scheduler, node, ours: ours.as_deref(), outcome, why }
    }

    /// Why the profile would not have been content, in a few words.
    fn why(&self) -> String {
        if !self.apart.is_empty() {
            let apart: Vec<String> = self.apart.iter().map(|one| format!("{} {:+}", one.plugin, one.by)).collect();
            let nominated = if self.nominated { " (was nominated there)" } else { "" };
            return apart.join(", ") + nominated;
        }
        let mut why: Vec<String> = self.plugin.clone().into_iter().collect();
        why.extend(self.reason.clone());
        let mut why = why.join(": ");
        if let Some(WouldPreempt { node, victims }) = &self.would_preempt {
            let victims = counted(usize::try_from(*victims).unwrap_or(usize::MAX), "pod");
            why += &["; would evict ", &victims, " on ", node].concat();
        }
        why
    }
}

impl Report {
    pub(super) fn of(read: Read) -> Self {
        let Read { profile, figures, comparisons } = read;
        Self {
            profile,
            among_best_percent: percent(figures.same + figures.tied, figures.compared),
            same_percent: percent(figures.same, figures.compared),
            figures,
            comparisons,
        }
    }

    /// The comparisons as a page shows them, the oldest first.
    pub(super) fn shadowed(&self) -> Vec<Shadowed<'_>> {
        self.comparisons.iter().map(Compared::shadowed).collect()
    }

    /// Writes figures, disagreements by plugin, and the newest `show` pods on whose node the profile would not have been content.
    pub(super) fn write(&self, show: usize, out: &mut dyn Write) -> io::Result<()> {
        let figures = &self.figures;
        if figures.compared == 0 {
            return writeln!(
                out,
                "{}: no pod was compared yet; {} skipped. A pod counts when it is seen bound by the scheduler that is followed",
                self.profile, figures.skipped
            );
        }
        let since = figures.since.as_ref().map_or_else(String::new, |since| format!(" since {}", since.0));
        let best = share(figures.same + figures.tied, figures.compared);
        writeln!(out, "{}: {best} of {} pods{since} are on one of its best nodes", self.profile, figures.compared)?;
        writeln!(out)?;
        self.outcomes().write(out)?;
        if let Some(mean) = figures.mean_score_percent {
            writeln!(out)?;
            writeln!(out, "Nodes that fit have {mean} % of the best node's score on average.")?;
        }
        if figures.skipped > 0 {
            writeln!(
                out,
                "{} more pods were bound and not compared (berth_shadow_skipped_total says why).",
                figures.skipped
            )?;
        }
        if !figures.disagreements.is_empty() {
            writeln!(out)?;
            self.disagreements().write(out)?;
        }
        self.write_pods(show, out)
    }

    fn outcomes(&self) -> Table {
        let figures = &self.figures;
        let mut table = Table::new(0, [("OUTCOME", Left), ("PODS", Right), ("SHARE", Right), ("THE PROFILE", Left)]);
        let unschedulable = format!("finds no node; for {} it would have evicted others", figures.would_preempt);
        for (outcome, pods, what) in [
            ("same", figures.same, "chose the same node"),
            ("tied", figures.tied, "drew another of its best nodes"),
            ("worse", figures.worse, "has better nodes by its scores"),
            ("refused", figures.refused, "refuses the node by a filter, and has others"),
            ("unschedulable", figures.unschedulable, &*unschedulable),
            ("held", figures.held, "would hold the pod"),
            ("failed", figures.failed, "would have failed"),
        ] {
            let share = share(pods, figures.compared);
            table.row([outcome.to_owned(), pods.to_string(), share, what.to_owned()]);
        }
        table
    }

    fn disagreements(&self) -> Table {
        let mut table = Table::new(0, [("DISAGREES", Left), ("AT", Left), ("PODS", Right)]);
        for one in &self.figures.disagreements {
            table.row([one.plugin.clone(), one.extension_point.clone(), one.pods.to_string()]);
        }
        table
    }

    fn write_pods(&self, show: usize, out: &mut dyn Write) -> io::Result<()> {
        let others: Vec<&Compared> = self.comparisons.iter().rev().filter(|one| !one.is_agreed()).collect();
        if others.is_empty() || show == 0 {
            return Ok(());
        }
        let columns =
            [("POD", Left), ("NODE", Left), ("OURS", Left), ("OUTCOME", Left), ("RANK", Right), ("WHY", Left)];
        let mut table = Table::new(0, columns);
        let dash = || "-".to_owned();
        for one in others.iter().take(show) {
            let rank = one.rank.zip(one.of).map_or_else(dash, |(rank, of)| format!("{rank}/{of}"));
            let ours = one.ours.clone().unwrap_or_else(dash);
            table.row([one.pod.clone(), one.node.clone(), ours, one.outcome.clone(), rank, one.why()]);
        }
        writeln!(out)?;
        table.write(out)?;
        match others.len().saturating_sub(show) {
            0 => Ok(()),
            more => {
                writeln!(out, "and {more} more; --show NUMBER lists them, -o json has all {}", self.comparisons.len())
            }
        }
    }
}

/// `part` of `whole`, in percent; none of nothing.
fn percent(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// `part` of `whole` for people. Cut down, not rounded: 99.999 % must not read as all.
fn share(part: i64, whole: i64) -> String {
    let hundredths = i128::from(part) * 10_000 / i128::from(whole.max(1));
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output;
    use berth_api::Disagreement;
    use serde_json::json;

    fn read() -> Read {
        let comparisons = json!([
            {"number": 1, "pod": "ns/a", "node": "n1", "outcome": "same", "ours": "n1", "rank": 1, "of": 3},
            {"number": 2, "pod": "ns/b", "node": "n2", "outcome": "worse", "ours": "n1", "rank": 2, "of": 3, "score": 90,
             "bestScore": 100, "apart": [{"plugin": "NodeResourcesFit", "by": 15}, {"plugin": "ImageLocality", "by": -5}]},
            {"number": 3, "pod": "ns/c", "node": "n3", "outcome": "refused", "ours": "n1", "plugin": "TaintToleration",
             "reason": "node(s) had untolerated taint(s)"},
            {"number": 4, "pod": "ns/d", "node": "n3", "outcome": "unschedulable", "plugin": "NodeResourcesFit",
             "reason": "0/3 nodes are available: 3 Insufficient cpu.", "wouldPreempt": {"node": "n1", "victims": 2}},
        ]);
        let disagreement = Disagreement { plugin: "NodeResourcesFit".into(), extension_point: "Score".into(), pods: 1 };
        let figures = ShadowStatus {
            compared: 2_000,
            same: 1_200,
            tied: 797,
            worse: 1,
            refused: 1,
            unschedulable: 1,
            would_preempt: 1,
            mean_score_percent: Some(99),
            skipped: 7,
            disagreements: vec![disagreement],
            ..ShadowStatus::default()
        };
        Read { profile: "trial".to_owned(), figures, comparisons: serde_json::from_value(comparisons).unwrap() }
    }

    #[test]
    fn the_report_says_how_far_both_agree_and_lists_the_newest_others() {
        let report = Report::of(read());
        let lines = output::lines(|out| report.write(2, out)).unwrap();
        let want = "\
trial: 99.85 % of 2000 pods are on one of its best nodes

OUTCOME        PODS    SHARE  THE PROFILE
same           1200  60.00 %  chose the same node
tied            797  39.85 %  drew another of its best nodes
worse             1   0.05 %  has better nodes by its scores
refused           1   0.05 %  refuses the node by a filter, and has others
unschedulable     1   0.05 %  finds no node; for 1 it would have evicted others
held              0   0.00 %  would hold the pod
failed            0   0.00 %  would have failed

Nodes that fit have 99 % of the best node's score on average.
7 more pods were bound and not compared (berth_shadow_skipped_total says why).

DISAGREES         AT     PODS
NodeResourcesFit  Score     1

POD   NODE  OURS  OUTCOME        RANK  WHY
ns/d  n3    -     unschedulable     -  NodeResourcesFit: 0/3 nodes are available: 3 Insufficient cpu.; would evict 2 pods on n1
ns/c  n3    n1    refused           -  TaintToleration: node(s) had untolerated taint(s)
and 1 more; --show NUMBER lists them, -o json has all 4";
        assert_eq!(lines.join("\n"), want);
        assert_eq!(report.comparisons[1].why(), "NodeResourcesFit +15, ImageLocality -5");
    }

    #[test]
    fn before_the_first_pod_there_is_no_share() {
        let report = Report::of(Read { profile: "trial".to_owned(), ..Read::default() });
        assert_eq!((report.among_best_percent, report.same_percent), (None, None));
        let lines = output::lines(|out| report.write(20, out)).unwrap();
        assert!(lines[0].starts_with("trial: no pod was compared yet; 0 skipped"), "{lines:?}");
    }

    #[test]
    fn a_share_is_never_rounded_up() {
        assert_eq!(share(99_999, 100_000), "99.99 %");
        assert_eq!((share(1, 1), share(0, 0)), ("100.00 %".to_owned(), "0.00 %".to_owned()));
    }
}
