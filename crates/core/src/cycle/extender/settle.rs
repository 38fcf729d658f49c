use super::{ExtenderFilterState, Left};
use crate::cycle::choose::choose;
use crate::cycle::non_row_checks::prepare;
use crate::cycle::search::{Decision, Placing, Scheduler};
use crate::ledger::Ledger;
use crate::plugins::{PluginContext, Stop};

impl Scheduler {
    /// Decides among the nodes that extenders left, filtered again and scored as they are now. `None`: none of them fits any
    /// more, since another attempt was faster.
    pub fn settle(&mut self, ledger: &Ledger, state: &ExtenderFilterState) -> Option<Decision> {
        let decision = self.choose_left(ledger, state);
        decision.unwrap_or_else(|stop| Some(Decision::stopped(&state.pod, state.own.nodes as usize, stop)))
    }

    fn choose_left(&mut self, ledger: &Ledger, state: &ExtenderFilterState) -> Result<Option<Decision>, Stop> {
        let pod = &state.pod;
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.get(cx, &pod.shape);
        let checks = prepare(cx, &mut self.tables, pod, &class.resolved)?;
        self.feasible.clear();
        let mut bonuses = Vec::with_capacity(state.left.len());
        for left in state.left.iter().filter(|left| is_there(cx, left)) {
            let own = class.rows.verdict(cx, &class.resolved, left.node);
            if checks.judge(left.node, || own).fits() {
                self.feasible.push((left.node, class.rows.fixed(left.node)));
                bonuses.push(left.bonus);
            }
        }
        if let Some(text) = checks.failure() {
            return Err(Stop::Failed(text));
        }
        if self.feasible.is_empty() {
            return Ok(None);
        }
        let placing = Placing::after(checks);
        self.scorer.add_normalised(cx, class, &mut self.tables, &mut self.feasible)?;
        for ((_, total), bonus) in self.feasible.iter_mut().zip(&bonuses) {
            *total = clamped(i128::from(*total).saturating_add(*bonus));
        }
        // A nominated node is taken without a draw, as it is where no extender is asked.
        let node = if state.is_about_nominated() { self.feasible[0].0 } else { choose(&self.feasible, &mut self.rng) };
        Ok(Some(placing.on(cx, pod, node)))
    }
}

/// Whether the node is still the one that was found, and still one of the profile's.
fn is_there(cx: PluginContext<'_>, left: &Left) -> bool {
    let nodes = cx.ledger.nodes();
    let row = left.node.index();
    nodes.present[row] && nodes.epoch[row] == left.epoch && cx.profile.places_on(nodes.labels(left.node))
}

/// The nearest total that fits an `i64`.
fn clamped(total: i128) -> i64 {
    i64::try_from(total).unwrap_or(if total < 0 { i64::MIN } else { i64::MAX })
}
