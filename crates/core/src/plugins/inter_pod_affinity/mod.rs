//! InterPodAffinity: pods want to be near some pods and away from others.
//! After `pkg/scheduler/framework/plugins/interpodaffinity`.
//!
//! ```text
//!  pod ─▶ TermQuery ("which domains have a pod that my terms match?", "whose terms match me?")
//!           └─▶ Store: one DomainCounts for each query, shared by all pods that ask it
//!                 ├── DomainCounts: counts by domain, kept up to date from the change log
//!                 │     └── MatchCache: what the pods of a MatchClass count for
//!                 └── TopologyColumns: the domain of every node, by topology key
//!  filter, score: array reads, node ▶ domain ▶ count
//! ```
//!
//! A DomainCounts counts from nothing once, over match classes and distinct terms, and then follows the log. It counts anew where
//! its cursor fell off the log, where a node left a domain, and where a namespace's labels make a selector answer otherwise.

mod domain_counts;
#[cfg(test)]
mod filter_tests;
mod hard;
#[cfg(test)]
mod random_tests;
mod score;
#[cfg(test)]
mod score_tests;
mod store;
mod term_query;
#[cfg(test)]
pub(crate) mod testing;
mod topology_columns;

pub(crate) use hard::Hard;

use super::context::{Plugin, PluginContext, ResolvedPod};
use crate::ledger::NodeId;
use hard::Answers;
use store::Store;
use term_query::Kind;

/// Counts kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    store: Store,
}

impl Tables {
    /// PreFilter: `None` where the pod has no required term and no placed pod's anti-affinity matches it.
    ///
    /// Nominated pods are not looked at then either, because upstream skips the plugin with all it does.
    pub(crate) fn prepare<'t>(&'t mut self, cx: PluginContext<'t>, subject: &ResolvedPod) -> Option<Hard<'t>> {
        let shape = &subject.shape;
        let (to, away) = (!shape.affinity.is_empty(), !shape.anti_affinity.is_empty());
        let asked = !cx.ledger.terms().anti_affinity.is_empty();
        if !(to || away || asked) || !cx.profile.filters.has(Plugin::InterPodAffinity) {
            return None;
        }
        self.store.begin(cx.ledger);
        let mut answer = |needed: bool, kind: Kind| needed.then(|| self.store.answer(kind, cx, shape));
        let answers = Answers {
            affinity: answer(to, Kind::Affinity),
            anti_affinity: answer(away, Kind::AntiAffinity),
            excluded_by: answer(asked, Kind::ExcludedBy),
        };
        Hard::new(&self.store, answers, cx.ledger, shape)
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes. False where no preferred term, of the pod or of placed pods,
    /// matches a pod on a node with the term's topology key.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
    ) -> bool {
        let (shape, args, terms) = (&subject.shape, cx.profile.inter_pod_affinity, cx.ledger.terms());
        let asks = !shape.preferred_pods.is_empty();
        let asked = !terms.preferred.is_empty() || (args.hard_weight > 0 && !terms.affinity.is_empty());
        if !asks && (args.ignore_preferred_of_existing || !asked) {
            return false;
        }
        self.store.begin(cx.ledger);
        let mut answer = |needed: bool, kind: Kind| needed.then(|| self.store.answer(kind, cx, shape));
        let answers = [answer(asks, Kind::Preferred), answer(asked, Kind::WantedBy)];
        let store = &self.store;
        let counted = || answers.into_iter().flatten().map(|slot| store.counts(slot));
        if counted().all(|counts| counts.hits() == 0) {
            return false;
        }
        score::sum(counted().flat_map(|counts| counts.live(&store.topology)), feasible, out);
        score::normalize(out);
        true
    }
}
