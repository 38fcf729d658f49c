//! From an attempt that fits nowhere to pods that are asked to go, and back.
//!
//! ```text
//!  no node fits ─▶ post_filter: which pods would have to go (read) ─▶ commit_eviction (write) ─▶ Evict
//!                     │                                                     │
//!                     └ nothing helps: said with the refusal                └ the pod is gated until the last victim is going,
//!                                                                             or one was refused; then it waits for room
//! ```
//!
//! What must not happen: a second round before the first one's victims are gone (the ledger's record and the eligibility rule
//! see to that), and a race against another scheduler that takes each room we make ([`STORM_PREEMPTIONS`]).

use super::Worker;
use super::attempt::Refused;
use super::extend::{Consulted, Found};
use super::snapshot::Storm;
use crate::cycle::NoFit;
use crate::io::{AttemptId, Effect, EvictRequest, EvictionOutcome, NominatedNode, Refusal, RefusalReason, RefusalText};
use crate::ledger::{Change, Conflict, Evicting, EvictionProposal, Ledger, LedgerAccess, NodeId, PlacedPod};
use crate::limits::{STORM_PAUSE, STORM_PREEMPTIONS, VICTIMS_WINDOW};
use crate::model::{Pod, PodKey, PodShape, Str, Time};
use crate::preemption::{ExtenderPreemptState, Limits, Outcome, Plan, next_past_min_runtime};
use crate::profile::Preemption;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What is said of a pod whose victims are on their way out, as the eligibility rule says it.
const WAITS: &str = "preemption: not eligible due to a terminating pod on the nominated node.";

/// What comes after a search in which no node fits.
#[derive(Debug)]
pub(super) enum PostFilter {
    /// Preemption is off, or cannot help by its nature.
    NotRun,
    /// Extenders have a say first.
    Ask(Box<ExtenderPreemptState>),
    /// Pods are being asked to go.
    Evicting(Box<Evicting>),
    /// None is, for this reason.
    Not(Str, NominatedNode),
}

/// What was done for one pod that waits.
#[derive(Debug)]
struct History {
    key: PodKey,
    /// Another shape is another question.
    shape: Arc<PodShape>,
    /// The node of the last round.
    node: Str,
    /// The pods that were there then.
    before: FxHashSet<Str>,
    /// Whether it was asked already what became of the room.
    judged: bool,
    victims: u64,
    /// Rounds in a row whose room another scheduler took.
    lost: u32,
    /// One of those that took it.
    taken_by: Str,
    /// Nothing is evicted for the pod before that.
    until: Option<Time>,
    /// Rounds in a row that failed.
    failures: u32,
}

/// The rounds of evictions that a worker has asked for.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The pods that wait for an answer, by the attempt that asked.
    open: BTreeMap<AttemptId, Str>,
    gated: FxHashSet<Str>,
    /// The uids of the victims that each attempt asked for, until its answer is there.
    pub(super) asked: FxHashMap<AttemptId, Vec<Str>>,
    /// Whether something was seen since the last look that may open a gate.
    stirred: bool,
    /// When how many pods were asked to go, within the window.
    recent: VecDeque<(Time, u32)>,
    histories: BTreeMap<Str, History>,
    /// Pods to be tried again at a time of their own.
    again: BTreeSet<(Time, Str)>,
    /// Pods for which nobody goes as long as budgets are as they are.
    by_budgets: BTreeSet<Str>,
    /// Whether some budget allows more than at the last look.
    loosened: bool,
}

impl Rounds {
    /// Whether the pod `uid` is gated: pods are being asked to go for it.
    pub(super) fn gates(&self, uid: &str) -> bool {
        self.gated.contains(uid)
    }

    /// Notes what may open a gate, or end what is known of a pod.
    pub(super) fn note(&mut self, change: &Change) {
        match change {
            Change::Freed { .. } | Change::Regrouped { .. } => self.stirred = true,
            // Its nomination may have ended.
            Change::PodPending { pod, .. } => self.stirred |= self.gated.contains(&pod.uid),
            Change::PodDeleted { pod } | Change::BoundElsewhere { pod, .. } => {
                self.stirred = true;
                self.histories.remove(&pod.uid);
                self.by_budgets.remove(&pod.uid);
            }
            Change::Budget { loosened } => self.loosened |= loosened,
            _ => {}
        }
    }

    /// Anything may have changed.
    pub(super) const fn note_gap(&mut self) {
        self.stirred = true;
        self.loosened = true;
    }

    /// When the first pod is to be tried again.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.again.first().map(|(at, _)| *at)
    }

    /// How many pods may be asked to go now, if `limit` bounds that, and when there may be more.
    pub(super) fn left(&mut self, now: Time, limit: Option<u32>) -> (Option<u32>, Option<Time>) {
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) >= VICTIMS_WINDOW) {
            self.recent.pop_front();
        }
        let Some(limit) = limit else { return (None, None) };
        let used: u32 = self.recent.iter().map(|(_, victims)| victims).sum();
        let more_at = self.recent.front().map(|(at, _)| *at + VICTIMS_WINDOW);
        (Some(limit.saturating_sub(used)), more_at)
    }

    fn close(&mut self, attempt: AttemptId) -> Option<Str> {
        let uid = self.open.remove(&attempt)?;
        self.gated.remove(&uid);
        Some(uid)
    }

    /// Whether other schedulers took the room of the last round for `pod`, and which one of them; ends what is known of a pod
    /// that has changed.
    fn lost_to(&mut self, ledger: &Ledger, pod: &Pod) -> Option<Str> {
        if self.histories.get(&pod.uid).is_some_and(|history| !same_shape(&history.shape, &pod.shape)) {
            self.histories.remove(&pod.uid);
        }
        let history = self.histories.get(&pod.uid)?;
        let node = ledger.nodes().find(&history.node)?;
        let taken = ledger.pods_on(node).iter().find(|one| {
            one.priority < pod.priority
                && !history.before.contains(&one.uid)
                && !ledger.is_own_scheduler(&one.scheduler_name)
        });
        taken.map(|one| one.scheduler_name.clone())
    }
}

fn same_shape(a: &Arc<PodShape>, b: &Arc<PodShape>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl Worker {
    /// What is done for a pod that fits nowhere at `version`, and the version from which on changes are news to it. The one place
    /// where preemption is asked for.
    pub(super) fn post_filter(
        &mut self,
        now: Time,
        pod: &Arc<Pod>,
        refused: &Refused,
        consulted: Consulted,
        ledger: &impl LedgerAccess,
    ) -> Result<(PostFilter, u64), Conflict> {
        let (no_fit, version) = (&refused.no_fit, refused.version);
        // What PreFilter refuses, no pod that leaves can mend.
        if !self.profile().preemption.enabled || no_fit.diagnosis.pre_filter().is_some() {
            return Ok((PostFilter::NotRun, end_nomination(pod, version, ledger)));
        }
        let (left, more_at) = self.rounds.left(now, self.profile().preemption.max_per_minute);
        let now_unix_us = self.unix_us_at(now);
        let (scheduler, rounds) = (&mut self.scheduler, &mut self.rounds);
        let by_extender = |node: NodeId| no_fit.refused.get(&node).copied();
        let found = ledger.read(|ledger| {
            let evicting = ledger.evicting();
            let limits = Limits { refused: &by_extender, ..limits(ledger, now_unix_us, left, &evicting) };
            let outcome = match consulted.conclude(scheduler, ledger, refused, pod, &limits)? {
                Found::Ask(consultation) => return Ok(Err(consultation)),
                Found::Outcome(outcome) => outcome,
            };
            let node = if let Outcome::Evict(plan) = &outcome { Some(ledger.nodes().name(plan.node)) } else { None };
            let lost_to = node.and_then(|_| rounds.lost_to(ledger, pod));
            Ok(Ok((outcome, lost_to, ledger.pending_preemption(&pod.uid).map(|round| node == Some(&round.node)))))
        })?;
        let (outcome, lost_to, open) = match found {
            Ok(found) => found,
            Err(consultation) => return Ok((PostFilter::Ask(consultation), version)),
        };
        let said = match outcome {
            // The nomination ended meanwhile and its victims terminate all the same: no more are evicted there.
            Outcome::Evict(_) if open == Some(true) => Ok(PostFilter::Not(WAITS.into(), NominatedNode::Keep)),
            Outcome::NotHelpful(why) if open.is_some() => Ok(PostFilter::Not(why.into(), NominatedNode::Keep)),
            Outcome::Evict(plan) => self.evict(now, plan, no_fit, lost_to, left, ledger),
            Outcome::NotEligible(why) => Ok(PostFilter::Not(why.into(), NominatedNode::Keep)),
            Outcome::Failed(why) => Ok(PostFilter::Not(why, NominatedNode::Keep)),
            Outcome::NotHelpful(why) => Ok(PostFilter::Not(why.into(), NominatedNode::Clear)),
            Outcome::Fits => Err(Conflict::NoLongerFits),
        };
        let said = said?;
        if let PostFilter::Not(..) = said {
            self.look_again(now, pod, more_at, ledger);
        }
        self.totals.preemption.attempts += 1;
        let ends = matches!(said, PostFilter::Not(_, NominatedNode::Clear));
        Ok((said, if ends { end_nomination(pod, version, ledger) } else { version }))
    }

    /// Nobody goes for the pod now: notes what may let others go for it, besides what lets it fit.
    fn look_again(&mut self, now: Time, pod: &Arc<Pod>, more_at: Option<Time>, ledger: &impl LedgerAccess) {
        let Preemption { strict_budgets, min_runtime, .. } = self.profile().preemption;
        if strict_budgets {
            self.rounds.by_budgets.insert(pod.uid.clone());
        }
        let now_unix_us = self.unix_us_at(now);
        let of_age = (!min_runtime.is_zero())
            .then(|| ledger.read(|ledger| next_past_min_runtime(ledger, pod.priority, min_runtime, now_unix_us)));
        let times = [more_at, of_age.flatten().map(|left| now + left)];
        self.rounds.again.extend(times.into_iter().flatten().map(|at| (at, pod.uid.clone())));
    }

    pub(super) fn unix_us_at(&self, now: Time) -> i64 {
        self.unix_us_at_zero.saturating_add_unsigned(now.as_nanos() / 1_000)
    }

    /// Brings a plan into force, unless the profile's own bounds stand against it.
    fn evict(
        &mut self,
        now: Time,
        plan: Plan,
        no_fit: &NoFit,
        lost_to: Option<Str>,
        left: Option<u32>,
        ledger: &impl LedgerAccess,
    ) -> Result<PostFilter, Conflict> {
        if let Some(said) = self.stop_storm(now, &plan.pod, lost_to) {
            return Ok(said);
        }
        let now_unix_us = self.unix_us_at(now);
        let Plan { pod, node, epoch, seen, victims, .. } = plan.clone();
        let proposal = EvictionProposal { pod, node, epoch, seen, victims };
        let scheduler = &mut self.scheduler;
        let (evicting, before) = ledger.write(|ledger| {
            let before: FxHashSet<Str> = ledger.pods_on(node).iter().map(|one| one.uid.clone()).collect();
            let holds = |ledger: &Ledger| {
                let evicting = ledger.evicting();
                let by_extender = |node: NodeId| no_fit.refused.get(&node).copied();
                let limits = Limits { refused: &by_extender, ..limits(ledger, now_unix_us, left, &evicting) };
                scheduler.plan_still_valid(ledger, &plan, &limits)
            };
            let evicting = ledger.commit_eviction(&proposal, holds);
            evicting.map(|evicting| (evicting, before))
        })?;
        self.note_round(now, &plan, &evicting, before);
        Ok(PostFilter::Evicting(Box::new(evicting)))
    }

    fn note_round(&mut self, now: Time, plan: &Plan, evicting: &Evicting, before: FxHashSet<Str>) {
        let asked = evicting.victims.len() + evicting.taken_back.len();
        if asked > 0 {
            self.totals.preemption.count_round(plan.victims.len());
            self.rounds.recent.push_back((now, asked as u32));
        }
        let history = self.rounds.histories.entry(plan.pod.uid.clone()).or_insert_with(|| History {
            key: plan.pod.key.clone(),
            shape: plan.pod.shape.clone(),
            node: evicting.node.clone(),
            before: FxHashSet::default(),
            judged: false,
            victims: 0,
            lost: 0,
            taken_by: Str::default(),
            until: None,
            failures: 0,
        });
        history.node = evicting.node.clone();
        history.before = before;
        history.judged = false;
        history.victims += asked as u64;
        history.until = None;
    }

    /// Counts how often another scheduler took the room that was made for a pod, and says no once that has been often enough.
    fn stop_storm(&mut self, now: Time, pod: &Pod, lost_to: Option<Str>) -> Option<PostFilter> {
        let history = self.rounds.histories.get_mut(&pod.uid)?;
        let judged = std::mem::replace(&mut history.judged, true);
        match (history.until, lost_to) {
            (None, Some(by)) if !judged => {
                history.lost += 1;
                history.taken_by = by;
                if history.lost >= STORM_PREEMPTIONS {
                    history.until = Some(now + STORM_PAUSE);
                    self.totals.preemption.storms += 1;
                }
            }
            (None, None) if !judged => history.lost = 0,
            (Some(until), _) if until <= now => history.until = None,
            _ => {}
        }
        let until = history.until?;
        self.rounds.again.insert((until, pod.uid.clone()));
        let why = format!(
            "preemption: stopped after {} rounds: scheduler {} took the room on node {} that was made for this pod each time; no \
             more is made for it for {} minutes.",
            history.lost,
            history.taken_by,
            history.node,
            STORM_PAUSE.as_secs() / 60
        );
        Some(PostFilter::Not(why.into(), NominatedNode::Clear))
    }

    /// Asks for the evictions, and gates the pod until they are under way.
    pub(super) fn ask_to_evict(&mut self, preemptor: Arc<Pod>, evicting: Evicting, effects: &mut Vec<Effect>) {
        let Evicting { node, victims, taken_back, lower_priority } = evicting;
        if victims.is_empty() && taken_back.is_empty() && lower_priority.is_empty() {
            return;
        }
        let attempt = self.next_attempt();
        if !victims.is_empty() {
            self.queue.gate(&preemptor.uid);
            self.rounds.gated.insert(preemptor.uid.clone());
            self.rounds.open.insert(attempt, preemptor.uid.clone());
            self.rounds.asked.insert(attempt, victims.iter().map(|victim| victim.uid.clone()).collect());
        }
        effects.push(Effect::Evict(EvictRequest { attempt, preemptor, node, victims, taken_back, lower_priority }));
    }

    /// The evictions of an attempt ended.
    pub(super) fn eviction_ended(
        &mut self,
        now: Time,
        attempt: AttemptId,
        outcome: EvictionOutcome,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        self.rounds.asked.remove(&attempt);
        let uid = self.rounds.close(attempt);
        let EvictionOutcome::Failed { message, .. } = outcome else {
            if let Some(uid) = uid {
                if let Some(history) = self.rounds.histories.get_mut(&uid) {
                    history.failures = 0;
                }
                self.open_gate(now, &uid);
            }
            return;
        };
        self.totals.preemption.failed += 1;
        let Some(uid) = uid else { return };
        let failures = self.rounds.histories.get_mut(&uid).map_or(1, |history| {
            history.failures += 1;
            history.failures
        });
        if let (Some(pod), Some(diagnosis)) = (self.queue.get(&uid), self.queue.diagnosis(&uid)) {
            effects.push(Effect::Refuse(Refusal {
                pod: ledger.read(|ledger| ledger.as_reported(pod)),
                reason: RefusalReason::Unschedulable,
                text: RefusalText::NotPreempting(diagnosis.clone(), format!("preemption: {message}").into()),
                attempted: true,
                nomination: NominatedNode::Keep,
            }));
        }
        // As upstream at once; a fault that stays must not be met in a loop.
        self.queue.ungate_after_error(&uid, now, failures);
    }

    /// The evictions of an attempt were taken back before one was sent; says whether it was such an attempt.
    pub(super) fn eviction_revoked(&mut self, now: Time, attempt: AttemptId) -> bool {
        if self.rounds.asked.remove(&attempt).is_none() {
            return false;
        }
        if let Some(uid) = self.rounds.close(attempt) {
            self.queue.ungate_after_error(&uid, now, 0);
        }
        true
    }

    fn open_gate(&mut self, now: Time, uid: &str) {
        let refused = self.queue.refused_by(uid);
        let missed = refused.is_some_and(|(rejectors, version)| self.hints.may_help(rejectors, version));
        self.queue.ungate(uid, now, missed);
    }

    /// Opens the gates of pods whose victims are all going, whatever the answers say, and wakes pods whose time has come.
    pub(super) fn run_rounds(&mut self, now: Time, ledger: &impl LedgerAccess) {
        while let Some((at, uid)) = self.rounds.again.first().filter(|(at, _)| *at <= now).cloned() {
            if let Some(history) = self.rounds.histories.get_mut(&uid) {
                history.until = history.until.filter(|until| *until > now);
            }
            self.rounds.again.remove(&(at, uid.clone()));
            self.queue.retry(&uid, now);
        }
        if std::mem::take(&mut self.rounds.loosened) {
            for uid in std::mem::take(&mut self.rounds.by_budgets) {
                self.queue.retry(&uid, now);
            }
        }
        if !std::mem::take(&mut self.rounds.stirred) || self.rounds.open.is_empty() {
            return;
        }
        let rounds = &self.rounds;
        let going: Vec<(AttemptId, Str)> = ledger.read(|ledger| {
            let going = rounds.open.iter().filter(|(_, uid)| ledger.are_victims_terminating(uid));
            going.map(|(attempt, uid)| (*attempt, uid.clone())).collect()
        });
        for (attempt, uid) in going {
            self.rounds.close(attempt);
            self.open_gate(now, &uid);
        }
    }

    /// What is known of a pod that has got its node.
    pub(super) fn forget_rounds(&mut self, uid: &str) {
        self.rounds.histories.remove(uid);
        self.rounds.by_budgets.remove(uid);
    }

    /// Pods for which evictions are stopped.
    pub(super) fn storm(&self) -> Option<Storm> {
        let mut stopped = self.rounds.histories.values().filter(|history| history.until.is_some());
        let first = stopped.next()?;
        Some(Storm {
            pod: first.key.clone(),
            node: first.node.clone(),
            rounds: first.lost,
            victims: first.victims,
            taken_by: first.taken_by.clone(),
            pods: 1 + stopped.count(),
        })
    }

    /// The victims that were asked for and of which no answer is there yet: if this worker ends, the answer is for the caller.
    pub fn evicting(&self) -> impl Iterator<Item = (AttemptId, &[Str])> {
        self.rounds.asked.iter().map(|(attempt, victims)| (*attempt, victims.as_slice()))
    }
}

/// The bounds of a preemption at this moment.
pub(super) fn limits<'a>(
    ledger: &'a Ledger,
    now_unix_us: i64,
    left: Option<u32>,
    evicting: &'a [Arc<PlacedPod>],
) -> Limits<'a> {
    Limits { own_schedulers: ledger.own_schedulers(), budget_left: left, evicting, ..Limits::at(now_unix_us) }
}

/// The pod's nomination ended: pods that may be placed there are woken at once. To the pod itself, which fitted nowhere
/// at `version`, it is no news: returns the version after it, if nothing else came between.
fn end_nomination(pod: &Pod, version: u64, ledger: &impl LedgerAccess) -> u64 {
    if pod.nominated_node.is_none() {
        return version;
    }
    ledger.write(|ledger| {
        let is_last = ledger.version() == version;
        ledger.nominate(&pod.uid, None);
        if is_last { ledger.version() } else { version }
    })
}
