//! InterPodAffinity: pods want to be near some pods and away from others.
//! After `pkg/scheduler/framework/plugins/interpodaffinity`.
//!
//! ```text
//!  pod ─▶ questions ("which domains have a pod that my terms mean?", "whose terms mean me?")
//!           └─▶ store: one table a question, shared by all pods that ask it ── axes: the domain of every node by key
//!                 └─▶ table: counts by domain, followed from the change log ── memo: what a match_class counts for
//!  filter, score: array reads, node ▶ domain ▶ count
//! ```
//!
//! A table counts from nothing once, over match_classes and distinct terms, and then follows the log. It counts anew where its
//! cursor fell off the log, where a node left a domain, and where a namespace's labels make a selector answer otherwise.
//!
//! Terms of the pod itself look at the labels of the other pods' namespaces, as those of placed pods do.

mod axes;
#[cfg(test)]
mod filter_tests;
mod hard;
mod memo;
mod question;
#[cfg(test)]
mod random_tests;
mod score;
#[cfg(test)]
mod score_tests;
mod store;
mod table;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use hard::Hard;

use super::context::{PluginContext, ResolvedPod};
use crate::ledger::NodeId;
use crate::plugins::Plugin;
use hard::Answers;
use question::Kind;
use store::Store;

/// Counts kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    store: Store,
}

impl Tables {
    /// PreFilter: none where the pod has no required term and no placed pod's anti-affinity speaks of it.
    ///
    /// Pods promised a node are not looked at then either: upstream skips the plugin with all it does.
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

    /// PreScore, Score and NormalizeScore over the feasible nodes. False where no preference, either way, is about
    /// a pod on a node with its topology key.
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
        let tables = || answers.into_iter().flatten().map(|slot| store.table(slot));
        if tables().all(|table| table.hits() == 0) {
            return false;
        }
        score::sum(tables().flat_map(|table| table.live(&store.axes)), feasible, out);
        score::normalize(out);
        true
    }
}
