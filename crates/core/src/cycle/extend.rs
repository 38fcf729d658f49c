//! An attempt that asks extenders, as far as it has come: which nodes are left, and what was said of them.
//!
//! ```text
//!  decide ─▶ Ask ─▶ the promised node, if it fits: filters about it alone ── refused ──▶ look_further (all nodes)
//!                   filters, one after another ──▶ scores, all at once ──▶ settle: filtered again, scored, chosen
//! ```
//!
//! An [`ExtenderFilterState`] is a value: it holds nothing of the ledger, and whoever has it may take any time. What happened
//! meanwhile is seen by [`Scheduler::settle`], which looks at the nodes left as they are then.
//!
//! After `findNodesThatPassExtenders` and `prioritizeNodes` in `pkg/scheduler/schedule_one.go` and
//! `pkg/scheduler/extender.go` (semantics §5.3).

mod messages;
mod names;
mod settle;
#[cfg(test)]
mod tests;

pub(super) use messages::Messages;

use super::diagnosis::{NoFit, Tally};
use crate::extender::{ExtenderError, ExtenderQuestion, ExtenderReply};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, Str};
use crate::plugins::{Code, MAX_NODE_SCORE, Plugin};
use crate::profile::{CompiledProfile, Extender, ExtenderSet, OnFailure};
use names::Names;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The highest score that an extender should give; not checked, as upstream.
const MAX_EXTENDER_SCORE: i64 = 10;

/// An attempt that waits for extenders.
#[derive(Debug, Clone)]
pub struct ExtenderFilterState {
    pod: Arc<Pod>,
    seen: u64,
    /// Nodes that were candidates.
    nodes: u32,
    tally: Tally,
    missing_claim: Option<Str>,
    left: Vec<Left>,
    /// Those that extenders left out, with the code.
    refused: BTreeMap<NodeId, Code>,
    /// The names of those left.
    names: Arc<[Str]>,
    messages: Messages,
    stage: Stage,
}

/// A node that nobody refused so far.
#[derive(Debug, Clone, Copy)]
struct Left {
    node: NodeId,
    epoch: u64,
    /// What extenders' scores add to its total. Wide enough that the order in which they answer does not show.
    bonus: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The extender `at` is asked which nodes are left. `promised`: of the node alone that the pod is promised.
    Filter { at: usize, promised: bool },
    /// These are asked for scores.
    Prioritize { open: ExtenderSet },
}

/// What an answer leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// More is to be asked: [`ExtenderFilterState::questions`].
    Ask,
    /// Others are still to answer.
    Wait,
    /// The node that the pod is promised was refused: [`Scheduler::look_further`](super::Scheduler::look_further).
    LookFurther,
    /// All is said: [`Scheduler::settle`](super::Scheduler::settle).
    Settle,
    /// No node is left.
    NoFit(NoFit),
    /// An extender failed, and the attempt with it; the text for people.
    Failed(Str),
}

/// What an attempt's own filters found.
pub(super) struct Found<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) pod: &'a Arc<Pod>,
    /// How many nodes were candidates.
    pub(super) nodes: u32,
    pub(super) tally: Tally,
    pub(super) missing_claim: Option<Str>,
    /// What extenders said so far.
    pub(super) messages: Messages,
}

impl ExtenderFilterState {
    /// What is to be asked about the `feasible` nodes (at least one), if any extender has a say.
    pub(super) fn begin(
        profile: &CompiledProfile,
        found: Found<'_>,
        feasible: impl ExactSizeIterator<Item = NodeId>,
    ) -> Option<Box<Self>> {
        let stage = match next_filter(profile, found.pod, 0) {
            Some(at) => Stage::Filter { at, promised: false },
            None => scoring(profile, found.pod, feasible.len())?,
        };
        Some(Self::about(found, feasible, stage))
    }

    /// The same of the node that the pod is promised, which takes it as far as own filters say. It is not scored.
    pub(super) fn of_promised(profile: &CompiledProfile, found: Found<'_>, node: NodeId) -> Option<Box<Self>> {
        let at = next_filter(profile, found.pod, 0)?;
        Some(Self::about(found, std::iter::once(node), Stage::Filter { at, promised: true }))
    }

    fn about(found: Found<'_>, feasible: impl Iterator<Item = NodeId>, stage: Stage) -> Box<Self> {
        let nodes = found.ledger.nodes();
        let left: Vec<Left> = feasible.map(|node| Left { node, epoch: nodes.epoch[node.index()], bonus: 0 }).collect();
        Box::new(Self {
            pod: found.pod.clone(),
            seen: found.ledger.version(),
            nodes: found.nodes,
            tally: found.tally,
            missing_claim: found.missing_claim,
            names: left.iter().map(|left| nodes.name(left.node).clone()).collect(),
            left,
            refused: BTreeMap::new(),
            messages: found.messages,
            stage,
        })
    }

    /// The ledger's version at which own filters looked: what happened later may help where they refused.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    const fn is_of_promised(&self) -> bool {
        matches!(self.stage, Stage::Filter { promised: true, .. })
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

    /// Takes an answer to one of the [questions](Self::questions). One that nobody asked for changes nothing.
    pub fn answer(
        &mut self,
        profile: &CompiledProfile,
        extender: usize,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Turn {
        let Some(asked) = profile.extenders.get(extender) else { return Turn::Wait };
        match &mut self.stage {
            Stage::Filter { at, promised } if *at == extender => {
                let promised = *promised;
                match self.take_filter(asked, answer) {
                    Err(_) if promised && asked.filter != Some(OnFailure::Ignore) => Turn::LookFurther,
                    Err(text) if asked.filter != Some(OnFailure::Ignore) => Turn::Failed(text),
                    Ok(()) | Err(_) => self.after_filter(profile, extender, promised),
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

    fn after_filter(&mut self, profile: &CompiledProfile, extender: usize, promised: bool) -> Turn {
        if self.left.is_empty() {
            return if promised { Turn::LookFurther } else { Turn::NoFit(self.no_fit()) };
        }
        let next = match next_filter(profile, &self.pod, extender + 1) {
            Some(at) => Some(Stage::Filter { at, promised }),
            None if promised => None,
            None => scoring(profile, &self.pod, self.left.len()),
        };
        let Some(next) = next else { return Turn::Settle };
        self.stage = next;
        Turn::Ask
    }

    /// Takes out the nodes that the extender left out. Changes nothing where the answer is not one.
    fn take_filter(&mut self, asked: &Extender, answer: Result<ExtenderReply, ExtenderError>) -> Result<(), Str> {
        let reply = answer.map_err(|error| failure(asked, "filter", &error.message))?;
        let ExtenderReply::Filter { survivors, failed, unresolvable } = reply else {
            return Err(failure(asked, "filter", "the answer is to another question"));
        };
        let mut names = Names::new(&self.names);
        let mut stays = vec![false; self.left.len()];
        for name in survivors.iter().flatten() {
            let Some(at) = names.find(name) else {
                return Err(format!(
                    "extender \"{}\" claims a filtered node \"{name}\" which is not found in the input node list",
                    asked.url
                )
                .into());
            };
            stays[at] = true;
        }
        // A node in both lists is unresolvable. Nodes that were not asked about are not the extender's to judge.
        for (code, said) in [(Code::Unschedulable, failed), (Code::UnschedulableAndUnresolvable, unresolvable)] {
            for (name, message) in said {
                if let Some(at) = names.find(&name) {
                    self.messages.add(self.left[at].node, code, message);
                }
            }
        }
        if stays.contains(&false) {
            for (left, _) in self.left.iter().zip(&stays).filter(|(_, stays)| !**stays) {
                // Nobody says that evictions would help on a node that went without a word.
                let code = self.messages.code(left.node).unwrap_or(Code::UnschedulableAndUnresolvable);
                self.refused.insert(left.node, code);
            }
            let kept = |at: &usize| stays[*at];
            self.names = (0..self.left.len()).filter(kept).map(|at| self.names[at].clone()).collect();
            self.left = (0..self.left.len()).filter(kept).map(|at| self.left[at]).collect();
        }
        Ok(())
    }

    /// Adds the extender's scores. Nodes that are not left are ignored, and scores may be any number.
    fn take_scores(&mut self, asked: &Extender, answer: Result<ExtenderReply, ExtenderError>) -> Result<(), Str> {
        let reply = answer.map_err(|error| failure(asked, "prioritize", &error.message))?;
        let ExtenderReply::Prioritize(scores) = reply else {
            return Err(failure(asked, "prioritize", "the answer is to another question"));
        };
        let point = i128::from(asked.weight) * i128::from(MAX_NODE_SCORE / MAX_EXTENDER_SCORE);
        let mut names = Names::new(&self.names);
        for (name, score) in scores {
            if let Some(at) = names.find(&name) {
                let bonus = &mut self.left[at].bonus;
                *bonus = bonus.saturating_add(i128::from(score).saturating_mul(point));
            }
        }
        Ok(())
    }

    fn no_fit(&mut self) -> NoFit {
        let diagnosis = self.tally.diagnose(&self.pod.shape, self.nodes, self.missing_claim.clone());
        let mut rejectors = self.tally.rejectors();
        rejectors.insert(Plugin::Extender);
        let refused = std::mem::take(&mut self.refused);
        NoFit { diagnosis: diagnosis.with_extenders(self.messages.counted()), rejectors, refused }
    }
}

/// The first extender from place `from` on that filters for `pod`.
fn next_filter(profile: &CompiledProfile, pod: &Pod, from: usize) -> Option<usize> {
    let mut extenders = profile.extenders.iter().enumerate().skip(from);
    extenders.find(|(_, extender)| extender.filter.is_some() && extender.concerns(pod)).map(|(at, _)| at)
}

/// ParkedAttempt for scores, where there is a choice between nodes and an extender that scores for `pod`.
fn scoring(profile: &CompiledProfile, pod: &Pod, nodes: usize) -> Option<Stage> {
    if nodes < 2 {
        return None;
    }
    let scores = |extender: &Extender| extender.prioritize.is_some() && extender.concerns(pod);
    let all = profile.extenders.iter().enumerate();
    let open: ExtenderSet = all.filter(|(_, extender)| scores(extender)).map(|(at, _)| at).collect();
    (!open.is_empty()).then_some(Stage::Prioritize { open })
}

/// Why a call failed, for people: who, what, why.
fn failure(asked: &Extender, verb: &str, why: &str) -> Str {
    format!("extender \"{}\" failed to {verb}: {why}", asked.url).into()
}
