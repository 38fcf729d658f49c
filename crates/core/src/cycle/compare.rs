//! How a node that somebody else chose stands by a profile's own filters and scores.

use super::class::Class;
use super::diagnosis::reasons;
use super::feasible::Feasible;
use super::search::{Decision, Scheduler};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Cause, Plugin, Pod, Score};
use crate::plugins::{PluginContext, Stop, Tables, Verdict, Work, default_normalize, fixed_score, reverse_normalize};
use std::cmp::Reverse;
use std::sync::Arc;

/// Where a node that fits stands among all that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// 1 for the best; nodes of one total share the best of their ranks.
    pub rank: usize,
    /// How many nodes fit and were scored; 1 where nothing is scored, and the first that fits is taken.
    pub of: usize,
    /// The weighted sum of its scores.
    pub total: i64,
    /// The highest total of all.
    pub best: i64,
}

/// What the profile says of the node that somebody else chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Theirs {
    Fits(Standing),
    Refused {
        /// The first filter that refuses it; `None` where the profile does not place on it.
        plugin: Option<Plugin>,
        /// Upstream's texts.
        reasons: Vec<String>,
    },
}

/// A decision for a pod, and what it says of the node that somebody else chose.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) decision: Decision,
    pub(crate) theirs: Theirs,
}

impl Scheduler {
    /// Decides for `pod`, and judges the node `theirs`. `None` when `work` ran out: call it again, as with
    /// [`Self::decide_within`].
    ///
    /// The profile has no extenders, and looks at every node: one that was not looked at has no rank.
    pub(crate) fn compare_within(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        theirs: NodeId,
        work: &mut Work,
    ) -> Option<Compared> {
        let decision = self.decide_unbiased(ledger, pod, work)?;
        let standing = matches!(decision, Decision::Place(_)).then(|| standing(&self.feasible, theirs)).flatten();
        if let Some(standing) = standing {
            return Some(Compared { decision, theirs: Theirs::Fits(standing) });
        }
        let judged = self.judge_one(ledger, pod, theirs, work).ok();
        self.unfinished = judged.is_none();
        judged.map(|theirs| Compared { decision, theirs })
    }

    /// What the filters say of a node that the search did not count among those that fit. An error is want of work.
    fn judge_one(&mut self, ledger: &Ledger, pod: &Pod, node: NodeId, work: &mut Work) -> Result<Theirs, Stop> {
        if !self.profile().places_on(ledger.nodes().labels(node)) {
            let reasons = vec!["spec.nodes.selector leaves the node out".to_owned()];
            return Ok(Theirs::Refused { plugin: None, reasons });
        }
        let mut scan = match self.node_scan(ledger, pod, work) {
            Ok((scan, ..)) => scan,
            Err(Stop::Refused(refusal)) => {
                return Ok(Theirs::Refused {
                    plugin: Some(refusal.plugin),
                    reasons: vec![refusal.message.to_string()],
                });
            }
            // The decision tells of the failure.
            Err(Stop::Failed(_)) => return Ok(Theirs::Refused { plugin: None, reasons: Vec::new() }),
            Err(Stop::Unfinished) => return Err(Stop::Unfinished),
        };
        let verdict = scan.verdict(node, work)?.unwrap_or_else(|| Verdict::unresolvable(Cause::NotNamed));
        if verdict.fits() {
            // Nothing is scored, and the search ended at the first node that fits.
            return Ok(Theirs::Fits(Standing { rank: 1, of: 1, total: 0, best: 0 }));
        }
        let missing = scan.checks.missing_claim();
        Ok(Theirs::Refused {
            plugin: verdict.cause().plugin(),
            reasons: reasons(verdict, &pod.shape, missing.as_ref()),
        })
    }

    /// By how much each score puts the node `ours` above `theirs`, weighted, the most first; scores that do not tell them apart are
    /// left out. Both were compared in the last search, for `pod`, and the ledger has not changed since. An error is want of work, or
    /// a score that fails.
    pub(crate) fn apart(
        &mut self,
        ledger: &Ledger,
        pod: &Pod,
        (ours, theirs): (NodeId, NodeId),
        work: &mut Work,
    ) -> Result<Vec<(Score, i64)>, Stop> {
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.again(cx, &pod.shape);
        let nodes = self.feasible.nodes();
        for node in nodes {
            // Nearly all are known.
            class.rows.answer_within(cx, &class.resolved, *node, work).ok_or(Stop::Unfinished)?;
        }
        let mut apart = Vec::new();
        for (score, weight) in &cx.profile.scores {
            let points = points(*score, cx, class, &mut self.tables, nodes, [ours, theirs], work)?;
            if let Some([own, other]) = points.filter(|[own, other]| own != other) {
                apart.push((*score, weight * (own - other)));
            }
        }
        apart.sort_by_key(|(_, by)| Reverse(*by));
        Ok(apart)
    }
}

/// Where `node` stands among the `feasible` nodes, if it is one of them.
fn standing(feasible: &Feasible, node: NodeId) -> Option<Standing> {
    let (_, total) = feasible.iter().find(|(other, _)| *other == node)?;
    let better = feasible.iter().filter(|(_, other)| *other > total).count();
    let best = feasible.iter().map(|(_, other)| other).max()?;
    Some(Standing { rank: better + 1, of: feasible.len(), total, best })
}

/// The normalised values of `score` for the nodes `of`, all of them among the feasible `nodes`; none if it does not run.
fn points(
    score: Score,
    cx: PluginContext<'_>,
    class: &Class,
    tables: &mut Tables,
    nodes: &[NodeId],
    of: [NodeId; 2],
    work: &mut Work,
) -> Result<Option<[i64; 2]>, Stop> {
    let Class { resolved, rows, .. } = class;
    let relative = |raw: &dyn Fn(NodeId) -> i64, normalize: fn(i64, i64) -> i64| {
        let highest = nodes.iter().map(|node| raw(*node)).max().filter(|highest| *highest > 0)?;
        Some(of.map(|node| normalize(raw(node), highest)))
    };
    Ok(match score {
        Score::TaintToleration if !cx.ledger.nodes().has_soft_taints() => None,
        Score::TaintToleration => relative(&|node| rows.relative(node).soft_taints, reverse_normalize),
        Score::NodeAffinity if !resolved.is_scored_by(cx.profile, score) => None,
        Score::NodeAffinity => relative(&|node| rows.relative(node).preferred, default_normalize),
        _ if resolved.is_scored_by(cx.profile, score) => Some(of.map(|node| fixed_score(score, cx, resolved, node))),
        _ => {
            let mut values = Vec::new();
            let runs = tables.score(score, cx, resolved, nodes, &mut values, work)?;
            let value = |node| nodes.iter().position(|other| *other == node).and_then(|at| values.get(at)).copied();
            if runs { value(of[0]).zip(value(of[1])).map(|(own, other)| [own, other]) } else { None }
        }
    })
}
