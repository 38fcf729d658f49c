use super::{ExtenderFilterState, Left};
use crate::cycle::choose::choose;
use crate::cycle::non_row_checks::NonRowChecks;
use crate::cycle::search::{Decision, Scheduler, place, refused};
use crate::ledger::{Ledger, VolumePlan};
use crate::plugins::{PluginContext, Stop, volumes};

impl Scheduler {
    /// Decides among the nodes that extenders left, filtered again and scored as they are now. `None`: none of them takes the
    /// pod any more, since someone else was faster.
    pub fn settle(&mut self, ledger: &Ledger, inquiry: &ExtenderFilterState) -> Option<Decision> {
        let pod = &inquiry.pod;
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.get(&self.profile, ledger, &pod.shape);
        let relations = match self.tables.pre_filter(cx, pod, &class.subject) {
            Ok(relations) => relations,
            Err(Stop::Refused(refusal)) => return Some(refused(pod, inquiry.nodes as usize, &refusal)),
            Err(Stop::Failed(text)) => return Some(Decision::Failed(text)),
        };
        let special = NonRowChecks::new(ledger, pod, relations);
        let looked_around = !special.relations.is_empty();
        self.feasible.clear();
        let mut bonuses = Vec::with_capacity(inquiry.left.len());
        for left in inquiry.left.iter().filter(|left| is_there(cx, left)) {
            let own = class.verdict(cx.profile, ledger, left.node);
            if special.judge(cx, &class.subject, left.node, || own).fits() {
                self.feasible.push((left.node, class.fixed(left.node)));
                bonuses.push(left.bonus);
            }
        }
        if let Some(text) = special.relations.failure() {
            return Some(Decision::Failed(text));
        }
        if self.feasible.is_empty() {
            return None;
        }
        let claims_wait = special.relations.have_waiting_claims();
        drop(special);
        if self.feasible.len() > 1 {
            if let Err(text) = self.scratch.add_scores(cx, &mut self.tables, class, &mut self.feasible) {
                return Some(Decision::Failed(text));
            }
            for ((_, total), bonus) in self.feasible.iter_mut().zip(&bonuses) {
                *total = clamped(i128::from(*total).saturating_add(*bonus));
            }
        }
        // A promised node is taken without a draw, as it is where no extender is asked.
        let node = if inquiry.is_of_promised() { self.feasible[0].0 } else { choose(&self.feasible, &mut self.rng) };
        let plan = if claims_wait { volumes::plan(cx, pod, node) } else { VolumePlan::default() };
        Some(place(ledger, pod, node, looked_around, plan))
    }

    /// Looks at all nodes after extenders refused the one that the pod is promised.
    pub fn look_further(&mut self, ledger: &Ledger, inquiry: ExtenderFilterState) -> Decision {
        self.search(ledger, &inquiry.pod, Some(inquiry.messages))
    }
}

/// Whether the node is still the one that was found, and still one of the profile's.
fn is_there(cx: PluginContext<'_>, left: &Left) -> bool {
    let (nodes, row) = (cx.ledger.nodes(), left.node.index());
    nodes.present[row] && nodes.epoch[row] == left.epoch && cx.profile.places_on(nodes.labels(left.node))
}

/// A total as far as it is a number that totals have.
fn clamped(total: i128) -> i64 {
    i64::try_from(total).unwrap_or(if total < 0 { i64::MIN } else { i64::MAX })
}
