//! InterPodAffinity: pods want to be near some pods and away from others.
//! After `pkg/scheduler/framework/plugins/interpodaffinity`.
//!
//! A pod asks up to five queries, such as "which domains have a pod that my terms match?" and "whose terms match me?". Pods that
//! ask the same one share its counts by domain. The counts are made once, over match classes and distinct terms, and then follow
//! the change log; they are made anew where the log no longer reaches back, where a node left a domain, and where a namespace's
//! labels make a selector answer otherwise. Terms whose topology key no node has are not looked at. Filter and score read arrays:
//! node, domain, count.

mod domain_counts;
#[cfg(test)]
mod filter_tests;
mod hard;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod score_tests;
mod tables;
mod term_query;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use hard::Hard;
pub(crate) use tables::Tables;
pub(crate) use term_query::cost as cost_of_terms;

use super::context::{MAX_NODE_SCORE, Plugin, PluginContext, ResolvedPod, Stop, Work};
use crate::ledger::NodeId;
use domain_counts::DomainView;
use term_query::Kind;

impl Tables {
    /// PreFilter: `None` where the pod has no required term and no placed pod's anti-affinity matches it.
    ///
    /// Nominated pods are not looked at then either, because upstream skips the plugin with all it does.
    pub(crate) fn prepare<'t>(
        &'t mut self,
        cx: PluginContext<'t>,
        pod: &ResolvedPod,
        work: &mut Work,
    ) -> Result<Option<Hard<'t>>, Stop> {
        let shape = &pod.shape;
        let (to, away) = (!shape.affinity.is_empty(), !shape.anti_affinity.is_empty());
        let asked = !cx.ledger.terms().anti_affinity.is_dead(cx.ledger.nodes());
        if !(to || away || asked) || !cx.profile.filters.has(Plugin::InterPodAffinity) {
            return Ok(None);
        }
        self.begin();
        let mut answer = |needed: bool, kind: Kind| needed.then(|| self.answer(kind, cx, shape, work)).transpose();
        let slots = [answer(to, Kind::Affinity)?, answer(away, Kind::AntiAffinity)?, answer(asked, Kind::ExcludedBy)?];
        let tables = &*self;
        let counts = slots.map(|slot| slot.and_then(|slot| tables.counts(slot)));
        Ok(Hard::new(counts, cx.ledger, shape))
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes. False where no preferred term, of the pod or of placed pods,
    /// matches a pod on a node with the term's topology key.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        let (shape, args, terms) = (&pod.shape, cx.profile.inter_pod_affinity, cx.ledger.terms());
        let asks = !shape.preferred_pods.is_empty();
        let nodes = cx.ledger.nodes();
        let asked = !terms.preferred.is_dead(nodes) || (args.hard_weight > 0 && !terms.affinity.is_dead(nodes));
        if !asks && (args.ignore_preferred_of_existing || !asked) {
            return Ok(false);
        }
        self.begin();
        let mut answer = |needed: bool, kind: Kind| needed.then(|| self.answer(kind, cx, shape, work)).transpose();
        let answers = [answer(asks, Kind::Preferred)?, answer(asked, Kind::WantedBy)?];
        let tables = &*self;
        let counted = || answers.into_iter().flatten().filter_map(|slot| tables.counts(slot));
        if counted().all(|counts| counts.hits() == 0) {
            return Ok(false);
        }
        sum(counted().flat_map(|counts| counts.live(cx.ledger)), feasible, out);
        normalize(out);
        Ok(true)
    }
}

/// The sum of the views' counts for each node, into `out`.
fn sum<'t>(views: impl Iterator<Item = DomainView<'t>>, nodes: &[NodeId], out: &mut Vec<i64>) {
    out.clear();
    out.resize(nodes.len(), 0);
    for view in views {
        for (sum, node) in out.iter_mut().zip(nodes) {
            *sum += view.count(*node);
        }
    }
}

/// Stretches scores over 0 to 100, the lowest to 0; equal ones are all 0. In upstream's floating-point arithmetic.
fn normalize(scores: &mut [i64]) {
    let lowest = scores.iter().copied().min().unwrap_or(0);
    let highest = scores.iter().copied().max().unwrap_or(0);
    let range = (highest - lowest) as f64;
    // Neighbours are often equal: a domain's nodes have one score.
    let mut last = (lowest, 0);
    for score in scores {
        if *score != last.0 {
            last = (*score, (MAX_NODE_SCORE as f64 * ((*score - lowest) as f64 / range)) as i64);
        }
        *score = last.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized<const N: usize>(mut scores: [i64; N]) -> [i64; N] {
        normalize(&mut scores);
        scores
    }

    #[test]
    fn the_lowest_score_becomes_0_and_the_highest_100() {
        assert_eq!(normalized([30, -20, 0]), [100, 0, 40]);
        assert_eq!(normalized([7, 7, 7]), [0, 0, 0]);
        assert_eq!(normalized([-5]), [0]);
        assert_eq!(normalized([]), [0; 0]);
        assert_eq!(normalized([0, 1, 2, 3]), [0, 33, 66, 100]);
    }

    #[test]
    fn the_arithmetic_is_floating_point() {
        // 100 × (29 / 100) is a little less than 29 in floating point, and upstream cuts.
        let mut scores: Vec<i64> = (0..=100).collect();
        normalize(&mut scores);
        assert_eq!((scores[28], scores[29], scores[57], scores[58]), (28, 28, 56, 57));
    }
}
