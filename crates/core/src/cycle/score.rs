use super::class::Class;
use super::feasible::Feasible;
use crate::ledger::NodeId;
use crate::plugins::{
    PluginContext, PluginPart, PluginWatch, Stop, Tables, Work, default_normalize, reverse_normalize,
};
use crate::profile::Score;

/// Buffers for the scores of one attempt, kept so that none allocates.
#[derive(Debug, Default)]
pub(super) struct Scorer {
    scores: Vec<i64>,
}

impl Scorer {
    /// Adds the normalised scores to the totals of the feasible nodes. Does nothing for a single node, whose total nobody
    /// compares.
    pub(super) fn add_normalised(
        &mut self,
        cx: PluginContext<'_>,
        class: &Class,
        tables: &mut Tables,
        feasible: &mut Feasible,
        work: &mut Work,
        watch: &mut PluginWatch<'_>,
    ) -> Result<(), Stop> {
        if feasible.len() < 2 {
            return Ok(());
        }
        add_relative(cx, class, feasible);
        // The scores that look beyond the row.
        watch.begin();
        for (score, weight) in &cx.profile.scores {
            let scored = tables.score(*score, cx, &class.resolved, feasible.nodes(), &mut self.scores, work);
            if let Some(part) = part_of(*score) {
                watch.end(part, !matches!(scored, Ok(false)));
            }
            if scored? {
                for (total, normalised) in feasible.totals_mut().iter_mut().zip(&self.scores) {
                    *total += weight * normalised;
                }
            }
        }
        Ok(())
    }
}

/// The part of an attempt that the score is, if it looks beyond rows.
const fn part_of(score: Score) -> Option<PluginPart> {
    match score {
        Score::PodTopologySpread => Some(PluginPart::ScoreSpread),
        Score::InterPodAffinity => Some(PluginPart::ScoreAffinity),
        Score::SelectorSpread => Some(PluginPart::ScoreSelectorSpread),
        _ => None,
    }
}

/// Adds the scores of the rows that are normalised over the feasible nodes.
fn add_relative(cx: PluginContext<'_>, class: &Class, feasible: &mut Feasible) {
    let Class { resolved, rows, .. } = class;
    // A score that cannot tell nodes apart for this pod has no weight.
    let weight = |score, tells: bool| cx.profile.weight(score).filter(|_| tells).unwrap_or(0);
    let soft_taints = weight(Score::TaintToleration, cx.ledger.nodes().has_soft_taints());
    let preferred = weight(Score::NodeAffinity, resolved.is_scored_by(cx.profile, Score::NodeAffinity));
    add_weighted(feasible, soft_taints, |node| rows.relative(node).soft_taints, reverse_normalize);
    add_weighted(feasible, preferred, |node| rows.relative(node).preferred, default_normalize);
}

/// Adds one score, normalised by its highest raw value. Where all raw values are 0, every node would get the same.
#[inline]
fn add_weighted(
    feasible: &mut Feasible,
    weight: i64,
    raw: impl Fn(NodeId) -> i64,
    normalize: impl Fn(i64, i64) -> i64,
) {
    if weight <= 0 {
        return;
    }
    let highest = feasible.nodes().iter().map(|node| raw(*node)).max().unwrap_or(0);
    if highest <= 0 {
        return;
    }
    for (node, total) in feasible.columns_mut() {
        *total += weight * normalize(raw(node), highest);
    }
}
