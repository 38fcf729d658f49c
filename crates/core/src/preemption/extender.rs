//! Extenders that change victims: asked one after another, each about what the one before left.
//!
//! After `callExtenders` in `pkg/scheduler/framework/preemption` and `ProcessPreemption` in `pkg/scheduler/extender.go`.
//! Three departures: no extender can have a pod evicted that the profile protects; a victim that it names again counts once; and of
//! equal candidates the first is chosen in the order in which they were found, not in that of a map.

use super::rules::{Rules, is_lower};
use super::{Candidate, Limits, PREFIX};
use crate::extender::{ExtenderError, ExtenderQuestion, ExtenderReply, NodeVictims};
use crate::ledger::Ledger;
use crate::model::{Pod, Str};
use crate::profile::{CompiledProfile, Extender, OnFailure};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A preemption that waits for extenders. Borrows nothing of the ledger, and keeps only the victims.
#[derive(Debug, Clone)]
pub struct ExtenderPreemptState {
    pod: Arc<Pod>,
    choices: Vec<Choice>,
    /// The index of the extender that is asked.
    at: usize,
}

#[derive(Debug, Clone)]
struct Choice {
    name: Str,
    epoch: u64,
    candidate: Candidate,
}

/// What an answer leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Another extender is to be asked.
    Ask,
    /// Every extender has answered: [`ExtenderPreemptState::candidates`].
    Done,
    /// The preemption failed; the text follows the diagnosis of the attempt.
    Failed(Str),
}

impl ExtenderPreemptState {
    /// Whether some extender is asked about the victims of `pod`.
    pub fn concerns(profile: &CompiledProfile, pod: &Pod) -> bool {
        next(profile, pod, 0).is_some()
    }

    /// The state in which extenders are asked about the candidates; gives the candidates back if none concerns the pod.
    pub fn begin(
        profile: &CompiledProfile,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        candidates: Vec<Candidate>,
    ) -> Result<Box<Self>, Vec<Candidate>> {
        let Some(at) = next(profile, pod, 0).filter(|_| !candidates.is_empty()) else { return Err(candidates) };
        let choices = candidates.into_iter().map(|candidate| Choice::of(ledger, candidate)).collect();
        Ok(Box::new(Self { pod: pod.clone(), choices, at }))
    }

    /// What is asked now, and of which of the profile's extenders.
    pub fn question(&self) -> (usize, ExtenderQuestion) {
        let candidates = self.choices.iter().map(|choice| NodeVictims {
            node: choice.name.clone(),
            victims: choice.candidate.victims.iter().map(|placed| placed.uid.clone()).collect(),
            budget_violations: i64::from(choice.candidate.violations),
        });
        (self.at, ExtenderQuestion::Preempt { candidates: candidates.collect() })
    }

    /// Takes the answer to the [question](Self::question).
    pub fn answer(
        &mut self,
        profile: &CompiledProfile,
        ledger: &Ledger,
        limits: &Limits<'_>,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Reply {
        let Some(asked) = profile.extenders.get(self.at) else { return Reply::Done };
        let rules = Rules::new(profile, limits, self.pod.priority);
        match self.choices_of(asked, ledger, &rules, answer) {
            Ok(choices) => self.choices = choices,
            Err(_) if asked.preempt == Some(OnFailure::Ignore) => {}
            Err(text) => return Reply::Failed(format!("{PREFIX}{text}").into()),
        }
        match next(profile, &self.pod, self.at + 1).filter(|_| !self.choices.is_empty()) {
            Some(at) => {
                self.at = at;
                Reply::Ask
            }
            None => Reply::Done,
        }
    }

    /// The candidates that are left, without those whose node was deleted meanwhile.
    pub fn candidates(&self, ledger: &Ledger) -> Vec<Candidate> {
        let is_there = |choice: &&Choice| {
            let node = choice.candidate.node;
            ledger.nodes().find(&choice.name) == Some(node) && ledger.nodes().epoch[node.index()] == choice.epoch
        };
        self.choices.iter().filter(is_there).map(|choice| choice.candidate.clone()).collect()
    }

    /// The candidates that the reply leaves: those of the question first, in its order.
    fn choices_of(
        &self,
        asked: &Extender,
        ledger: &Ledger,
        rules: &Rules<'_>,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Result<Vec<Choice>, Str> {
        let failed = |why: &str| -> Str { format!("extender \"{}\" failed to preempt: {why}", asked.url).into() };
        let ExtenderReply::Preempt(named) = answer.map_err(|error| failed(&error.message))? else {
            return Err(failed("the answer is to another question"));
        };
        let mut choices: Vec<(usize, Choice)> = Vec::with_capacity(named.len());
        for one in named {
            if one.victims.is_empty() {
                if asked.preempt == Some(OnFailure::Ignore) {
                    continue;
                }
                return Err(format!("expected at least one victim pod on node \"{}\"", one.node).into());
            }
            let at = self.choices.iter().position(|choice| choice.name == one.node).unwrap_or(self.choices.len());
            choices.push((at, self.choice_of(asked, ledger, rules, at, &one)?));
        }
        choices.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
        Ok(choices.into_iter().map(|(_, choice)| choice).collect())
    }

    fn choice_of(
        &self,
        asked: &Extender,
        ledger: &Ledger,
        rules: &Rules<'_>,
        at: usize,
        named: &NodeVictims,
    ) -> Result<Choice, Str> {
        let proposed = self.choices.get(at).map_or(&[][..], |choice| &choice.candidate.victims);
        let node = ledger.nodes().find(&named.node);
        // A uid counts once: named again, it would be evicted, judged and counted against the profile's limits as another pod.
        let mut seen = BTreeSet::new();
        let mut victims = Vec::new();
        for uid in named.victims.iter().filter(|uid| seen.insert(*uid)) {
            let known = proposed.iter().find(|placed| placed.uid == *uid);
            let there = || node.and_then(|node| ledger.pods_on(node).iter().find(|placed| placed.uid == *uid));
            let Some(placed) = known.or_else(there) else {
                return Err(format!(
                    "extender: {} claims to preempt pod (UID: {uid}) on node: {}, but the pod is not found on that node",
                    asked.url, named.node
                )
                .into());
            };
            if known.is_none() && !(is_lower(placed, self.pod.priority) && rules.admit(placed)) {
                return Err(format!(
                    "extender: {} claims to preempt pod {} on node: {}, which may not be evicted for this pod",
                    asked.url, placed.key, named.node
                )
                .into());
            }
            victims.push(placed.clone());
        }
        if rules.too_many(victims.iter().map(|placed| &**placed)).is_some() {
            return Err(format!(
                "extender: {} claims more victims on node: {} than the profile allows",
                asked.url, named.node
            )
            .into());
        }
        victims.sort_by_key(|placed| (Reverse(placed.priority), placed.started_unix_us().unwrap_or(i64::MAX)));
        let violations = named.budget_violations.clamp(0, i64::from(u32::MAX)) as u32;
        Ok(match self.choices.get(at) {
            Some(Choice { name, epoch, candidate }) => Choice {
                name: name.clone(),
                epoch: *epoch,
                candidate: Candidate { node: candidate.node, victims, violations, seen: ledger.version() },
            },
            // The victims were all found on one node, and there is at least one.
            None => {
                Choice::of(ledger, Candidate { node: victims[0].node, victims, violations, seen: ledger.version() })
            }
        })
    }
}

impl Choice {
    fn of(ledger: &Ledger, candidate: Candidate) -> Self {
        let nodes = ledger.nodes();
        let name = nodes.name(candidate.node).clone();
        let epoch = nodes.epoch[candidate.node.index()];
        Self { name, epoch, candidate }
    }
}

/// The first extender from index `from` on that changes victims for `pod`.
fn next(profile: &CompiledProfile, pod: &Pod, from: usize) -> Option<usize> {
    let mut extenders = profile.extenders.iter().enumerate().skip(from);
    extenders.find(|(_, extender)| extender.preempt.is_some() && extender.is_interested(pod)).map(|(at, _)| at)
}
