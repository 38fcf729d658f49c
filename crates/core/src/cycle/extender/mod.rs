//! An attempt that asks extenders, as far as it has come: which nodes are left, and which messages came.
//!
//! ```text
//!  decide ─▶ Ask ─▶ the nominated node, if it fits: filters about it alone ── refused ──▶ look_further (all nodes)
//!                   filters, one after another ──▶ scores, all at once ──▶ settle: filtered again, scored, chosen
//! ```
//!
//! An [`ExtenderFilterState`] is a value that borrows nothing of the ledger, so that the calls may take any time.
//! [`Scheduler::settle`](super::Scheduler::settle) judges the nodes that are left as they are when the last answer has come.
//!
//! After `findNodesThatPassExtenders` and `prioritizeNodes` in `pkg/scheduler/schedule_one.go` and
//! `pkg/scheduler/extender.go`.
//!
//! `search` and this file know each other: both are `impl Scheduler`, one attempt in two halves.

mod messages;
mod reply;
#[cfg(test)]
mod tests;

pub(super) use messages::Messages;

use super::diagnosis::{NoFit, Tally};
use super::non_row_checks::prepare;
use super::search::{Decision, Placing, Scheduler};
use crate::extender::{ExtenderError, ExtenderQuestion, ExtenderReply};
use crate::io::IdleClaim;
use crate::ledger::{Conflict, Ledger, NodeId};
use crate::model::{Pod, Str};
use crate::plugins::{Code, Plugin, PluginContext, PluginWatch, Stop, Work};
use crate::profile::{CompiledProfile, Extender, ExtenderSet, OnFailure};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An attempt that waits for extenders.
#[derive(Debug, Clone)]
pub struct ExtenderFilterState {
    pub(super) pod: Arc<Pod>,
    seen: u64,
    pub(super) own: OwnFilters,
    left: Vec<Left>,
    /// The nodes that extenders left out.
    refused: BTreeMap<NodeId, Code>,
    /// The names of the nodes of `left`, in its order.
    names: Arc<[Str]>,
    stage: Stage,
}

/// What Berth's filters found before extenders are asked.
#[derive(Debug, Clone)]
pub(super) struct OwnFilters {
    /// How many nodes were candidates.
    pub(super) nodes: u32,
    pub(super) tally: Tally,
    pub(super) missing_claim: Option<Str>,
    /// The claim that is deallocated where the attempt ends without a node.
    pub(super) idle_claim: Option<IdleClaim>,
    /// The messages of extenders, those before this question among them.
    pub(super) messages: Messages,
}

/// A node that nobody has refused so far.
#[derive(Debug, Clone, Copy)]
struct Left {
    node: NodeId,
    epoch: u64,
    /// What extenders' scores add to its total. Wide enough for the sum not to depend on the order of the answers.
    bonus: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The extender `at` is asked which nodes are left. `nominated`: the question is about the pod's nominated node alone.
    Filter { at: usize, nominated: bool },
    /// The extenders that have not answered with scores yet.
    Prioritize { open: ExtenderSet },
}

/// What an answer leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// More is to be asked: [`ExtenderFilterState::questions`].
    Ask,
    /// Other extenders have still to answer.
    Wait,
    /// The nominated node was refused: [`Scheduler::look_further`](super::Scheduler::look_further).
    LookFurther,
    /// Every extender has answered: [`Scheduler::settle`](super::Scheduler::settle).
    Settle,
    NoFit(NoFit),
    /// An extender failed, and the attempt with it; the text for people.
    Failed(Str),
}

impl ExtenderFilterState {
    /// The state in which extenders are asked about the `feasible` nodes (at least one), if any of them concerns the pod.
    pub(super) fn begin(
        cx: PluginContext<'_>,
        pod: &Arc<Pod>,
        own: OwnFilters,
        feasible: &[NodeId],
    ) -> Option<Box<Self>> {
        let stage = match next_filter(cx.profile, pod, 0) {
            Some(at) => Stage::Filter { at, nominated: false },
            None => scoring(cx.profile, pod, feasible.len())?,
        };
        Some(Self::about(cx, pod, own, feasible.iter().copied(), stage))
    }

    /// The state in which extenders are asked about the nominated node, which fits by Berth's filters. It is not scored.
    pub(super) fn about_nominated(
        cx: PluginContext<'_>,
        pod: &Arc<Pod>,
        candidates: usize,
        node: NodeId,
    ) -> Option<Box<Self>> {
        let at = next_filter(cx.profile, pod, 0)?;
        let own = OwnFilters {
            nodes: candidates as u32,
            tally: Tally::new(),
            missing_claim: None,
            idle_claim: None,
            messages: Messages::default(),
        };
        Some(Self::about(cx, pod, own, std::iter::once(node), Stage::Filter { at, nominated: true }))
    }

    fn about(
        cx: PluginContext<'_>,
        pod: &Arc<Pod>,
        own: OwnFilters,
        feasible: impl Iterator<Item = NodeId>,
        stage: Stage,
    ) -> Box<Self> {
        let nodes = cx.ledger.nodes();
        let left: Vec<Left> = feasible.map(|node| Left { node, epoch: nodes.epoch[node.index()], bonus: 0 }).collect();
        Box::new(Self {
            pod: pod.clone(),
            seen: cx.ledger.version(),
            own,
            names: left.iter().map(|left| nodes.name(left.node).clone()).collect(),
            left,
            refused: BTreeMap::new(),
            stage,
        })
    }

    /// The ledger's version at which Berth's filters ran: what happened later may help where they refused.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// What is asked now, and of which of the profile's extenders. Each answers once, to [`Self::answer`].
    pub fn questions(&self) -> Vec<(usize, ExtenderQuestion)> {
        match self.stage {
            Stage::Filter { at, .. } => vec![(at, ExtenderQuestion::Filter { nodes: self.names.clone() })],
            Stage::Prioritize { open } => {
                open.iter().map(|i| (i, ExtenderQuestion::Prioritize { nodes: self.names.clone() })).collect()
            }
        }
    }

    /// Takes an answer to one of the [questions](Self::questions). An answer to no open question changes nothing.
    pub fn answer(
        &mut self,
        profile: &CompiledProfile,
        extender: usize,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Turn {
        let Some(asked) = profile.extenders.get(extender) else { return Turn::Wait };
        match &mut self.stage {
            Stage::Filter { at, nominated } if *at == extender => {
                let nominated = *nominated;
                match self.take_filter(asked, answer) {
                    Err(_) if nominated && asked.filter != Some(OnFailure::Ignore) => Turn::LookFurther,
                    Err(text) if asked.filter != Some(OnFailure::Ignore) => Turn::Failed(text),
                    Ok(()) | Err(_) => self.after_filter(profile, extender, nominated),
                }
            }
            Stage::Prioritize { open } if open.has(extender) => {
                open.remove(extender);
                let open = *open;
                match self.take_scores(asked, answer) {
                    Err(text) if asked.prioritize == Some(OnFailure::Fail) => Turn::Failed(text),
                    Ok(()) | Err(_) if open.is_empty() => Turn::Settle,
                    Ok(()) | Err(_) => Turn::Wait,
                }
            }
            _ => Turn::Wait,
        }
    }

    fn after_filter(&mut self, profile: &CompiledProfile, extender: usize, nominated: bool) -> Turn {
        if self.left.is_empty() {
            return if nominated { Turn::LookFurther } else { Turn::NoFit(self.no_fit()) };
        }
        let next = match next_filter(profile, &self.pod, extender + 1) {
            Some(at) => Some(Stage::Filter { at, nominated }),
            None if nominated => None,
            None => scoring(profile, &self.pod, self.left.len()),
        };
        let Some(next) = next else { return Turn::Settle };
        self.stage = next;
        Turn::Ask
    }

    fn no_fit(&mut self) -> NoFit {
        let OwnFilters { nodes, tally, missing_claim, idle_claim, messages } = &self.own;
        let mut no_fit = tally.no_fit(&self.pod.shape, *nodes, missing_claim.clone());
        no_fit.idle_claim.clone_from(idle_claim);
        no_fit.diagnosis = no_fit.diagnosis.with_extenders(messages.counted());
        no_fit.rejectors.insert(Plugin::Extender);
        no_fit.refused = std::mem::take(&mut self.refused);
        no_fit
    }
}

/// The first extender from index `from` on that filters for `pod`.
fn next_filter(profile: &CompiledProfile, pod: &Pod, from: usize) -> Option<usize> {
    let mut extenders = profile.extenders.iter().enumerate().skip(from);
    extenders.find(|(_, extender)| extender.filter.is_some() && extender.is_interested(pod)).map(|(at, _)| at)
}

/// The stage that asks for scores, if there is a choice between nodes and an extender that scores for `pod`.
fn scoring(profile: &CompiledProfile, pod: &Pod, nodes: usize) -> Option<Stage> {
    if nodes < 2 {
        return None;
    }
    let scores = |extender: &Extender| extender.prioritize.is_some() && extender.is_interested(pod);
    let all = profile.extenders.iter().enumerate();
    let open: ExtenderSet = all.filter(|(_, extender)| scores(extender)).map(|(at, _)| at).collect();
    (!open.is_empty()).then_some(Stage::Prioritize { open })
}

impl Scheduler {
    /// Decides among the nodes that extenders left, filtered again and scored as they are now. A conflict: none of them fits any
    /// more, since another attempt was faster. `None` when `work` ran out: see [`Self::decide_within`].
    pub fn settle(
        &mut self,
        ledger: &Ledger,
        state: &ExtenderFilterState,
        work: &mut Work,
    ) -> Option<Result<Decision, Conflict>> {
        match self.choose_left(ledger, state, work) {
            Ok(settled) => Some(settled),
            Err(Stop::Unfinished) => {
                self.unfinished = true;
                None
            }
            Err(stop) => Some(Ok(Decision::stopped(&state.pod, state.own.nodes as usize, stop))),
        }
    }

    fn choose_left(
        &mut self,
        ledger: &Ledger,
        state: &ExtenderFilterState,
        work: &mut Work,
    ) -> Result<Result<Decision, Conflict>, Stop> {
        let pod = &state.pod;
        self.used = true;
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.for_look(cx, &pod.shape, std::mem::take(&mut self.unfinished));
        let checks = prepare(cx, &mut self.tables, pod, &class.resolved, work, &mut PluginWatch::off())?;
        self.feasible.clear();
        let mut bonuses = Vec::with_capacity(state.left.len());
        for left in state.left.iter().filter(|left| is_there(cx, left)) {
            let answer = class.rows.answer_within(cx, &class.resolved, left.node, work).ok_or(Stop::Unfinished)?;
            let own = answer.verdict();
            checks.judge_costly(left.node, own, work)?;
            if checks.judge(left.node, || own).fits() {
                self.feasible.push(left.node, answer.fixed());
                bonuses.push(left.bonus);
            }
        }
        if let Some(text) = checks.failure() {
            return Err(Stop::Failed(text));
        }
        if self.feasible.is_empty() {
            return Ok(Err(Conflict::NoLongerFits));
        }
        let placing = Placing::after(checks);
        self.scorer.add_normalised(cx, class, &mut self.tables, &mut self.feasible, work, &mut PluginWatch::off())?;
        self.evaluations.scored(self.feasible.len());
        for (total, bonus) in self.feasible.totals_mut().iter_mut().zip(&bonuses) {
            *total = clamped(i128::from(*total).saturating_add(*bonus));
        }
        // A nominated node is taken without a draw, as it is where no extender is asked.
        let first = self.feasible.nodes()[0];
        let is_nominated = matches!(state.stage, Stage::Filter { nominated: true, .. });
        let node = if is_nominated { first } else { self.feasible.choose(&mut self.rng).unwrap_or(first) };
        Ok(Ok(placing.on(cx, &self.tables, pod, node)))
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
