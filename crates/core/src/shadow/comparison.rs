use crate::cycle::{Compared, Decision, NoFit, Standing, Theirs};
use crate::ledger::Ledger;
use crate::limits::COMPARISON_TEXT_BYTES;
use crate::model::{Plugin, PodKey, Score, Str};

/// What the profile would have done with one pod, beside what its own scheduler did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub pod: PodKey,
    pub uid: Str,
    /// The scheduler that bound it.
    pub scheduler: Str,
    /// The node that it was bound to.
    pub node: Str,
    /// When the binding was seen, in microseconds of Unix time.
    pub at_unix_us: i64,
    /// Whether the pod was nominated to that node before: its scheduler then takes the node without comparing it with others.
    pub nominated: bool,
    pub finding: Finding,
}

/// What filters and scores say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The real node fits.
    Fits {
        /// The node that the profile would have drawn among its best.
        ours: Str,
        standing: Standing,
        /// By how much each score puts `ours` above the real node, weighted, the most first. Empty where the real node is among the
        /// best.
        apart: Vec<(Score, i64)>,
    },
    /// A filter refuses the real node, and other nodes fit.
    Refused {
        ours: Str,
        /// `None` where the profile does not place on the real node.
        plugin: Option<Plugin>,
        reason: String,
    },
    /// No node fits.
    Unschedulable {
        /// What refuses the real node; `None` where the profile does not place on it.
        plugin: Option<Plugin>,
        /// As the pod's condition would say it.
        reason: String,
        preempts: Option<Preempts>,
    },
    /// The profile would hold the pod, for this reason.
    Held(String),
    /// The attempt would have failed.
    Failed(String),
}

/// Evictions that would have been asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempts {
    pub node: Str,
    /// How many pods.
    pub victims: usize,
}

/// How a comparison came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The same node.
    Same,
    /// Another of the profile's best nodes.
    Tied,
    /// A node that fits and is not among the profile's best.
    Worse,
    /// A node that a filter refuses, while others fit.
    Refused,
    /// No node fits.
    Unschedulable,
    Held,
    Failed,
}

impl Outcome {
    pub const ALL: [Self; 7] =
        [Self::Same, Self::Tied, Self::Worse, Self::Refused, Self::Unschedulable, Self::Held, Self::Failed];

    /// As in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Tied => "tied",
            Self::Worse => "worse",
            Self::Refused => "refused",
            Self::Unschedulable => "unschedulable",
            Self::Held => "held",
            Self::Failed => "failed",
        }
    }
}

/// Where a plugin disagrees.
const FILTER: &str = "Filter";
const SCORE: &str = "Score";

/// Who disagrees where no plugin does: the profile's own node selector.
const BERTH: &str = "Berth";

impl Comparison {
    pub fn outcome(&self) -> Outcome {
        match &self.finding {
            Finding::Fits { standing, .. } if standing.rank > 1 => Outcome::Worse,
            Finding::Fits { ours, .. } if *ours == self.node => Outcome::Same,
            Finding::Fits { .. } => Outcome::Tied,
            Finding::Refused { .. } => Outcome::Refused,
            Finding::Unschedulable { .. } => Outcome::Unschedulable,
            Finding::Held(_) => Outcome::Held,
            Finding::Failed(_) => Outcome::Failed,
        }
    }

    /// The plugin that disagrees with the real node, and its extension point: the filter that refuses it, or the score that speaks
    /// most against it.
    pub fn blames(&self) -> Option<(&'static str, &'static str)> {
        match &self.finding {
            Finding::Fits { apart, .. } => apart.first().map(|(score, _)| (score.name(), SCORE)),
            Finding::Refused { plugin, .. } | Finding::Unschedulable { plugin, .. } => {
                Some((plugin.map_or(BERTH, Plugin::name), FILTER))
            }
            Finding::Held(_) | Finding::Failed(_) => None,
        }
    }

    /// The real node's total as a share of the best one's, in hundredths of a percent; none where the real node does not fit.
    pub fn score_share(&self) -> Option<u64> {
        const WHOLE: i128 = 10_000;
        let Finding::Fits { standing, .. } = &self.finding else { return None };
        if standing.best <= 0 {
            return Some(if standing.total == standing.best { WHOLE as u64 } else { 0 });
        }
        let share = i128::from(standing.total.max(0)) * WHOLE / i128::from(standing.best);
        u64::try_from(share).ok()
    }
}

impl Finding {
    pub(super) fn held(reason: &str) -> Self {
        Self::Held(cut(reason))
    }

    /// The same with what tells the scores of the two nodes apart.
    pub(super) fn told_apart(self, apart: Vec<(Score, i64)>) -> Self {
        match self {
            Self::Fits { ours, standing, .. } => Self::Fits { ours, standing, apart },
            other => other,
        }
    }
}

/// What a decision and the judgement of the real node come to, and why no node fits, where that is so.
pub(super) fn finding(ledger: &Ledger, compared: Compared) -> (Finding, Option<NoFit>) {
    let Compared { decision, theirs } = compared;
    match (decision, theirs) {
        (Decision::Place(proposal), Theirs::Fits(standing)) => {
            let ours = ledger.nodes().name(proposal.node).clone();
            (Finding::Fits { ours, standing, apart: Vec::new() }, None)
        }
        (Decision::Place(proposal), Theirs::Refused { plugin, reasons }) => {
            let ours = ledger.nodes().name(proposal.node).clone();
            (Finding::Refused { ours, plugin, reason: cut(&reasons.join(", ")) }, None)
        }
        (Decision::NoFit(no_fit), theirs) => {
            let plugin = if let Theirs::Refused { plugin, .. } = theirs { plugin } else { None };
            let reason = cut(&no_fit.diagnosis.to_string());
            (Finding::Unschedulable { plugin, reason, preempts: None }, Some(no_fit))
        }
        (Decision::NoNodes, _) => {
            let reason = "spec.nodes.selector matches no node".to_owned();
            (Finding::Unschedulable { plugin: None, reason, preempts: None }, None)
        }
        (Decision::Failed(text), _) => (Finding::Failed(cut(&text)), None),
        // The profile that compares has no extenders.
        (Decision::Ask(_), _) => (Finding::Failed("an extender would be asked".to_owned()), None),
    }
}

/// The beginning of a text that may be long.
fn cut(text: &str) -> String {
    let mut end = text.len().min(COMPARISON_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
