//! From an attempt that fits nowhere to evictions, and back.
//!
//! ```text
//!  no node fits ─▶ post_filter: which pods to evict (read) ─▶ commit_eviction (write) ─▶ Evict
//!                     │                                           │
//!                     └ nothing helps: reported with the refusal  └ the pod is gated until the last victim is terminating, or
//!                                                                   one eviction was refused; then it waits for capacity
//! ```
//!
//! What must not happen: a second preemption before the first one's victims are deleted (the ledger's record and the
//! eligibility rule see to that), and evictions without end that do not help their pod: another scheduler takes each
//! capacity that is freed, or an extender refuses the node each time ([`STORM_PREEMPTIONS`]).
//!
//! `attempt`, `extender` and `preemption` know each other: `attempt` says why.

use super::attempt::{DeferredPanic, Refused, TOO_LONG, look};
use super::extender::VictimReplies;
use super::follow::missed_claim;
use super::snapshot::{InVain, Storm};
use super::{Step, Worker};
use crate::cycle::NoFit;
use crate::io::{AttemptId, Effect, EvictRequest, EvictionOutcome, NominatedNode, RefusalText};
use crate::ledger::{Change, Conflict, Evicting, EvictionProposal, Ledger, LedgerAccess, PodState};
use crate::limits::{STORM_PAUSE, STORM_PREEMPTIONS, VICTIMS_WINDOW};
use crate::model::{Pod, PodKey, PodShape, Str, Time};
use crate::plugins::Work;
use crate::preemption::{DryRuns, ExtenderPreemptState, Limits, Outcome, next_past_min_runtime};
use crate::profile::Preemption;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Reported for a pod whose victims are terminating, in the words of the eligibility rule.
const WAITS: &str = "preemption: not eligible due to a terminating pod on the nominated node.";

/// What comes of a search in which no node fits.
#[derive(Debug)]
pub(super) enum PostFilter {
    /// Preemption is off, or cannot help by its nature.
    NotRun,
    Evicting(Box<Evicting>),
    /// Nothing is evicted, for this reason.
    Not(Str, NominatedNode),
}

/// Why a preemption has no result yet.
pub(super) enum Unfinished {
    /// Extenders are to be asked first.
    Ask(Box<ExtenderPreemptState>),
    Conflict(Conflict),
}

/// The bounds of a preemption that is decided now.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    now_unix_us: i64,
    budget_left: Option<u32>,
}

impl Bounds {
    /// Calls `f` with the limits for a pod that fits nowhere.
    pub(super) fn limits<R>(self, ledger: &Ledger, no_fit: &NoFit, f: impl FnOnce(&Limits<'_>) -> R) -> R {
        f(&Limits {
            own_schedulers: ledger.own_schedulers(),
            budget_left: self.budget_left,
            evicting: &ledger.evicting(),
            refused: &no_fit.refused,
            ..Limits::at(self.now_unix_us)
        })
    }
}

/// What was evicted for one pod that waits.
#[derive(Debug)]
struct History {
    key: PodKey,
    /// The pod's shape at that time; another shape discards this history.
    shape: Arc<PodShape>,
    /// The node of the last preemption.
    node: Str,
    /// The uids of the pods on `node` at that time.
    before: FxHashSet<Str>,
    /// Whether it was checked already what became of the last preemption.
    judged: bool,
    victims: u64,
    /// The nodes that were freed for the pod and that an extender refused once they had room.
    refused: BTreeSet<Str>,
    /// Preemptions in a row that were in vain.
    lost: u32,
    /// Why the last of them was.
    why: Option<InVain>,
    /// Nothing is evicted for the pod before that.
    until: Option<Time>,
    /// Preemptions in a row that failed.
    failures: u32,
}

/// When pods are tried again. For each pod only the earliest time is kept: the attempt then finds the later ones anew.
#[derive(Debug, Default)]
struct Retries {
    by_time: BTreeSet<(Time, Str)>,
    of_pod: FxHashMap<Str, Time>,
}

impl Retries {
    fn add(&mut self, at: Time, uid: &Str) {
        if self.of_pod.get(uid).is_none_or(|known| at < *known) {
            self.remove(uid);
            self.by_time.insert((at, uid.clone()));
            self.of_pod.insert(uid.clone(), at);
        }
    }

    fn remove(&mut self, uid: &str) {
        if let Some((uid, at)) = self.of_pod.remove_entry(uid) {
            self.by_time.remove(&(at, uid));
        }
    }

    fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes a pod whose time has come.
    fn pop(&mut self, now: Time) -> Option<Str> {
        let (_, uid) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        let uid = uid.clone();
        self.remove(&uid);
        Some(uid)
    }
}

/// The preemptions that a worker has asked for.
#[derive(Debug, Default)]
pub(super) struct PendingPreemptions {
    /// The preemptors that wait for an answer, by the attempt that asked.
    open: BTreeMap<AttemptId, Str>,
    gated: FxHashSet<Str>,
    /// Whether something was seen since the last step that may open a gate.
    dirty: bool,
    /// How many evictions were asked for at which time, within the window.
    recent: VecDeque<(Time, u32)>,
    histories: BTreeMap<Str, History>,
    retries: Retries,
    /// Pods, of whatever worker, that counted on a victim which is not evicted after all.
    let_down: Vec<Str>,
    /// Pods that may not preempt as long as budgets are as they are.
    blocked_by_budgets: BTreeSet<Str>,
    /// Whether some budget allows more than at the last step.
    loosened: bool,
    /// Whether the profile was changed: what was asked for under the old one is decided anew.
    pub(super) take_back_all: bool,
}

impl PendingPreemptions {
    /// Whether anything was evicted for the pod `uid` since it waits.
    pub(super) fn has_history(&self, uid: &str) -> bool {
        self.histories.contains_key(uid)
    }

    /// Whether nothing is being asked for, and no pod waits for the end of victims.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.gated.is_empty()
    }

    /// Whether the pod `uid` is gated: evictions are being asked for.
    pub(super) fn gates(&self, uid: &str) -> bool {
        self.gated.contains(uid)
    }

    /// Notes what may open a gate, or end what is known of a pod.
    pub(super) fn note(&mut self, change: &Change) {
        match change {
            Change::Freed { .. } | Change::Regrouped { .. } => self.dirty = true,
            // Its nomination may have ended.
            Change::PodPending { pod, .. } => self.dirty |= self.gated.contains(&pod.uid),
            Change::PodDeleted { pod } | Change::BoundElsewhere { pod, .. } => {
                self.dirty = true;
                self.forget(&pod.uid);
            }
            Change::Budget { loosened } => self.loosened |= loosened,
            Change::VictimStays { preemptor } => self.let_down.push(preemptor.clone()),
            _ => {}
        }
    }

    /// Anything may have changed.
    pub(super) const fn note_gap(&mut self) {
        self.dirty = true;
        self.loosened = true;
    }

    pub(super) fn next_retry(&self) -> Option<Time> {
        self.retries.next()
    }

    /// How many evictions may be asked for now, if `limit` bounds that.
    fn budget_left(&mut self, now: Time, limit: Option<u32>) -> Option<u32> {
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) >= VICTIMS_WINDOW) {
            self.recent.pop_front();
        }
        limit.map(|limit| limit.saturating_sub(self.recent.iter().map(|(_, victims)| victims).sum()))
    }

    /// Ends the wait for the answer to an attempt; returns the uid of the preemptor.
    pub(super) fn close(&mut self, id: AttemptId) -> Option<Str> {
        let uid = self.open.remove(&id)?;
        self.gated.remove(&uid);
        Some(uid)
    }

    /// Ends what is known of a pod that is bound or deleted.
    pub(super) fn forget(&mut self, uid: &str) {
        self.histories.remove(uid);
        self.blocked_by_budgets.remove(uid);
        self.retries.remove(uid);
    }

    /// The pods of which something is known; one may come several times.
    pub(super) fn known(&self) -> impl Iterator<Item = &Str> {
        let retries = self.retries.by_time.iter().map(|(_, uid)| uid);
        self.histories.keys().chain(&self.blocked_by_budgets).chain(retries)
    }

    /// Why evictions on `next` would be in vain, as far as the preemptions for `pod` show: a scheduler took the capacity of the last one, or an
    /// extender refused that very node. Ends what is known of a pod that has changed.
    fn in_vain(&mut self, ledger: &Ledger, pod: &Pod, next: &Str) -> Option<InVain> {
        let history = self.histories.get(&pod.uid)?;
        if !Arc::ptr_eq(&history.shape, &pod.shape) && history.shape != pod.shape {
            self.histories.remove(&pod.uid);
            return None;
        }
        if history.refused.contains(next) {
            return Some(InVain::RefusedByExtender);
        }
        let node = ledger.nodes().find(&history.node)?;
        let taken = ledger.pods_on(node).iter().find(|placed| {
            placed.priority < pod.priority
                && placed.chosen_by_other
                && !history.before.contains(&placed.uid)
                && !ledger.is_own_scheduler(&placed.scheduler_name)
        });
        taken.map(|placed| InVain::TakenBy(placed.scheduler_name.clone()))
    }

    /// Notes whether extenders have refused the node that was freed for the pod. An extender that is not asked about preemption lets pods be
    /// evicted from a node that it refuses afterwards, each time.
    fn note_refusals(&mut self, ledger: &impl LedgerAccess, pod: &Pod, no_fit: &NoFit) {
        if no_fit.refused.is_empty() {
            return;
        }
        if let Some(history) = self.histories.get_mut(&pod.uid) {
            let node = ledger.read(|ledger| ledger.nodes().find(&history.node));
            if node.is_some_and(|node| no_fit.refused.contains_key(&node)) {
                history.refused.insert(history.node.clone());
            }
        }
    }

    /// How much is known of pods that wait. O(1).
    pub(super) fn len(&self) -> usize {
        let under_way = self.open.len() + self.gated.len();
        let later = self.retries.of_pod.len() + self.let_down.len() + self.blocked_by_budgets.len();
        under_way + later + self.histories.len()
    }

    /// How many pods something is known of, and how many times at which a pod is tried again.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.histories.len(), self.retries.by_time.len())
    }

    /// Pods for which evictions are stopped.
    pub(super) fn storm(&self) -> Option<Storm> {
        let mut stopped = self.histories.values().filter(|history| history.until.is_some());
        let first = stopped.next()?;
        Some(Storm {
            pod: first.key.clone(),
            node: first.node.clone(),
            preemptions: first.lost,
            victims: first.victims,
            why: first.why.clone()?,
            pods: 1 + stopped.count(),
        })
    }
}

impl Worker {
    /// The one place where preemption is asked for: what is done for a pod that fits nowhere, and the version from which on
    /// changes are news to it.
    pub(super) fn post_filter(
        &mut self,
        step: &Step<'_, impl LedgerAccess>,
        pod: &Arc<Pod>,
        refused: &Refused,
        replies: &VictimReplies,
    ) -> Result<(PostFilter, u64), Unfinished> {
        let Refused { no_fit, version } = refused;
        // What PreFilter refuses, no eviction can change.
        if !self.profile_of(pod).preemption.enabled || no_fit.diagnosis.pre_filter().is_some() {
            return Ok((PostFilter::NotRun, end_nomination(step, pod, *version)));
        }
        let bounds = self.bounds(step.now, pod);
        let Self { arms, preemptions, heaviest, .. } = self;
        preemptions.note_refusals(step.ledger, pod, no_fit);
        let scheduler = arms.of_mut(pod);
        let mut known = DryRuns::default();
        let found = look(step.ledger, heaviest, |ledger, work| {
            let outcome = bounds
                .limits(ledger, no_fit, |limits| replies.conclude(scheduler, ledger, pod, limits, (&mut known, work)));
            let outcome = match outcome? {
                Ok(outcome) => outcome,
                Err(unfinished) => return Some(Err(unfinished)),
            };
            let node = if let Outcome::Evict(plan) = &outcome { Some(ledger.nodes().name(plan.node)) } else { None };
            let in_vain = node.and_then(|node| preemptions.in_vain(ledger, pod, node));
            let pending = ledger.pending_preemption(&pod.uid).map(|pending| node == Some(&pending.node));
            Some(Ok((outcome, in_vain, pending, is_nominated_to_nothing(ledger, &pod.uid))))
        });
        let Some((found, _)) = found else {
            return Ok((PostFilter::Not(format!("preemption: {TOO_LONG}.").into(), NominatedNode::Keep), *version));
        };
        let (outcome, in_vain, pending, to_nothing) = found?;
        let keep = if to_nothing { NominatedNode::Clear } else { NominatedNode::Keep };
        let result = match outcome {
            // The nomination ended meanwhile and its victims terminate all the same: no more are evicted there.
            Outcome::Evict(_) if pending == Some(true) => PostFilter::Not(WAITS.into(), NominatedNode::Keep),
            Outcome::Evict(plan) => self.evict(step, plan, (no_fit, &mut known), in_vain, bounds)?,
            Outcome::NotHelpful(why) if pending.is_none() => PostFilter::Not(why.into(), NominatedNode::Clear),
            Outcome::NotHelpful(why) | Outcome::NotEligible(why) => PostFilter::Not(why.into(), keep),
            Outcome::Failed(why) => PostFilter::Not(why, keep),
            Outcome::Fits => return Err(Unfinished::Conflict(Conflict::NoLongerFits)),
        };
        if let PostFilter::Not(..) = result {
            self.look_again(step, pod);
        }
        self.totals.preemption.attempts += 1;
        let ends = matches!(result, PostFilter::Not(_, NominatedNode::Clear));
        Ok((result, if ends { end_nomination(step, pod, *version) } else { *version }))
    }

    pub(super) fn bounds(&mut self, now: Time, pod: &Pod) -> Bounds {
        let limit = self.profile_of(pod).preemption.max_per_minute;
        Bounds { now_unix_us: self.unix_us_at(now), budget_left: self.preemptions.budget_left(now, limit) }
    }

    fn unix_us_at(&self, now: Time) -> i64 {
        self.unix_us_at_zero.saturating_add_unsigned(now.as_nanos() / 1_000)
    }

    /// Nothing is evicted for the pod now: notes what may allow evictions, besides what lets the pod fit.
    fn look_again(&mut self, step: &Step<'_, impl LedgerAccess>, pod: &Pod) {
        let Preemption { strict_budgets, min_runtime, max_per_minute, .. } = self.profile_of(pod).preemption;
        if strict_budgets {
            self.preemptions.blocked_by_budgets.insert(pod.uid.clone());
        }
        let now_unix_us = self.unix_us_at(step.now);
        let past_min_runtime = (!min_runtime.is_zero())
            .then(|| next_past_min_runtime(step.ledger, pod.priority, min_runtime, now_unix_us));
        let oldest = self.preemptions.recent.front().filter(|_| max_per_minute.is_some());
        let times =
            [oldest.map(|(at, _)| *at + VICTIMS_WINDOW), past_min_runtime.flatten().map(|left| step.now + left)];
        for at in times.into_iter().flatten() {
            self.preemptions.retries.add(at, &pod.uid);
        }
    }

    /// Brings a plan into force, unless the profile's own bounds stand against it.
    fn evict(
        &mut self,
        step: &Step<'_, impl LedgerAccess>,
        plan: EvictionProposal,
        (no_fit, known): (&NoFit, &mut DryRuns),
        in_vain: Option<InVain>,
        bounds: Bounds,
    ) -> Result<PostFilter, Unfinished> {
        if let Some(stopped) = self.stop_storm(step.now, &plan.pod, in_vain) {
            return Ok(stopped);
        }
        let scheduler = self.arms.of_mut(&plan.pod);
        let mut panic = DeferredPanic::default();
        let committed = step.ledger.write(|ledger| {
            let before: FxHashSet<Str> = ledger.pods_on(plan.node).iter().map(|placed| placed.uid.clone()).collect();
            let still_valid = |ledger: &Ledger| {
                let work = &mut Work::of_one_hold();
                let holds = |limits: &Limits<'_>| scheduler.plan_still_valid(ledger, &plan, limits, (known, work));
                panic.run(|| bounds.limits(ledger, no_fit, holds)).unwrap_or(false)
            };
            ledger.commit_eviction(&plan, still_valid).map(|evicting| (evicting, before))
        });
        panic.resume();
        let (evicting, before) = committed.map_err(Unfinished::Conflict)?;
        self.note_eviction(step.now, &plan, &evicting, before);
        Ok(PostFilter::Evicting(Box::new(evicting)))
    }

    fn note_eviction(&mut self, now: Time, plan: &EvictionProposal, evicting: &Evicting, before: FxHashSet<Str>) {
        let asked = evicting.victims.len() + evicting.taken_back.len();
        if asked > 0 {
            self.totals.preemption.victims.record(plan.victims.len() as u64);
            self.preemptions.recent.push_back((now, asked as u32));
        }
        let history = self.preemptions.histories.entry(plan.pod.uid.clone()).or_insert_with(|| History {
            key: plan.pod.key.clone(),
            shape: plan.pod.shape.clone(),
            node: evicting.node.clone(),
            before: FxHashSet::default(),
            judged: false,
            victims: 0,
            refused: BTreeSet::new(),
            lost: 0,
            why: None,
            until: None,
            failures: 0,
        });
        history.node = evicting.node.clone();
        history.before = before;
        history.judged = false;
        history.victims += asked as u64;
        history.until = None;
    }

    /// Counts how often what was freed for a pod was in vain; a result if that has been too often.
    fn stop_storm(&mut self, now: Time, pod: &Pod, in_vain: Option<InVain>) -> Option<PostFilter> {
        let history = self.preemptions.histories.get_mut(&pod.uid)?;
        let judged = std::mem::replace(&mut history.judged, true);
        match (history.until, in_vain) {
            (None, Some(why)) if !judged => {
                history.lost += 1;
                history.why = Some(why);
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
        self.preemptions.retries.add(until, &pod.uid);
        let node = &history.node;
        let in_vain = match history.why.as_ref()? {
            InVain::TakenBy(by) => {
                format!("scheduler {by} took the capacity on node {node} that was freed for this pod each time")
            }
            InVain::RefusedByExtender => {
                format!("an extender refuses the nodes that are freed for this pod, the last of them {node}")
            }
        };
        let why = format!(
            "preemption: stopped after {} preemptions: {in_vain}; nothing is evicted for it for {} minutes.",
            history.lost,
            STORM_PAUSE.as_secs() / 60
        );
        Some(PostFilter::Not(why.into(), NominatedNode::Clear))
    }

    /// Asks for the evictions, and gates the pod until they are under way.
    pub(super) fn ask_to_evict<L>(&mut self, step: &mut Step<'_, L>, preemptor: Arc<Pod>, evicting: Evicting) {
        let Evicting { node, victims, taken_back, lower_priority } = evicting;
        if victims.is_empty() && taken_back.is_empty() && lower_priority.is_empty() {
            return;
        }
        let attempt = self.next_attempt();
        if !victims.is_empty() {
            self.queue.gate(&preemptor.uid);
            self.preemptions.gated.insert(preemptor.uid.clone());
            self.preemptions.open.insert(attempt, preemptor.uid.clone());
        }
        let request = EvictRequest { attempt, preemptor, node, victims, taken_back, lower_priority };
        step.effects.push(Effect::Evict(request));
    }

    pub(super) fn eviction_ended(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        id: AttemptId,
        outcome: EvictionOutcome,
    ) {
        self.totals.preemption.failed += u64::from(matches!(outcome, EvictionOutcome::Failed { .. }));
        let Some(uid) = self.preemptions.close(id) else { return };
        let history = self.preemptions.histories.get_mut(&uid);
        let EvictionOutcome::Failed { message, .. } = outcome else {
            if let Some(history) = history {
                history.failures = 0;
            }
            return self.open_gate(step, &uid);
        };
        let failures = history.map_or(1, |history| {
            history.failures += 1;
            history.failures
        });
        if let (Some(pod), Some(diagnosis)) = (self.queue.get(&uid), self.queue.diagnosis(&uid)) {
            let text = RefusalText::AfterPostFilter(diagnosis.clone(), format!("preemption: {message}").into());
            step.refuse_unschedulable(pod, text, NominatedNode::Keep);
        }
        // As upstream at once; a fault that stays must not be met in a loop.
        self.queue.ungate_after_error(&uid, step.now, failures);
    }

    /// Pods of this profile wait for no victim until they are decided anew, also those that count on victims which others asked for. The
    /// evictor asks the ledger before each request: it goes on where a pod counts on the same victim again.
    fn take_back_preemptions(&mut self, step: &Step<'_, impl LedgerAccess>) {
        let profile = self.profile();
        step.ledger.write(|ledger| ledger.take_back_preemptions(|pod| profile.serves(&pod.scheduler_name)));
        for uid in std::mem::take(&mut self.preemptions.open).into_values() {
            self.preemptions.gated.remove(&uid);
            self.queue.ungate_after_error(&uid, step.now, 0);
        }
    }

    /// The evictions are under way: the pod waits for them, or is tried at once if something came meanwhile that may let it fit.
    fn open_gate(&mut self, step: &Step<'_, impl LedgerAccess>, uid: &str) {
        let missed = self.missed_while_gated(step.ledger, uid);
        self.queue.ungate(uid, step.now, missed);
    }

    fn missed_while_gated(&self, ledger: &impl LedgerAccess, uid: &str) -> bool {
        let (Some(pod), Some((rejectors, version))) = (self.queue.get(uid), self.queue.refused_by(uid)) else {
            return false;
        };
        // An edit of the pod itself needs no check here: it re-records the nomination, and the hints see that change.
        self.hints.may_help(rejectors, version) || missed_claim(ledger, pod, rejectors, version)
    }

    /// Opens the gates of pods whose victims are all terminating, whatever the answers say, and wakes pods whose time has come.
    pub(super) fn run_preemptions(&mut self, step: &Step<'_, impl LedgerAccess>) {
        if std::mem::take(&mut self.preemptions.take_back_all) {
            self.take_back_preemptions(step);
        }
        while let Some(uid) = self.preemptions.retries.pop(step.now) {
            if let Some(history) = self.preemptions.histories.get_mut(&uid) {
                history.until = history.until.filter(|until| *until > step.now);
                if let Some(until) = history.until {
                    self.preemptions.retries.add(until, &uid);
                }
            }
            self.queue.retry(&uid, step.now);
        }
        // A gated one has victims of its own: their end wakes it.
        for uid in std::mem::take(&mut self.preemptions.let_down) {
            self.queue.retry(&uid, step.now);
        }
        if std::mem::take(&mut self.preemptions.loosened) {
            for uid in std::mem::take(&mut self.preemptions.blocked_by_budgets) {
                self.queue.retry(&uid, step.now);
            }
        }
        if !std::mem::take(&mut self.preemptions.dirty) || self.preemptions.open.is_empty() {
            return;
        }
        let open = self.preemptions.open.iter();
        let terminating: Vec<AttemptId> = step
            .ledger
            .read(|ledger| open.filter(|(_, uid)| ledger.are_victims_terminating(uid)).map(|(id, _)| *id).collect());
        for id in terminating {
            if let Some(uid) = self.preemptions.close(id) {
                self.open_gate(step, &uid);
            }
        }
    }
}

/// Whether the pod is nominated to a node that is there no more: nothing comes of that, whatever preemption says, and however long victims stay
/// there.
fn is_nominated_to_nothing(ledger: &Ledger, uid: &str) -> bool {
    let Some(PodState::Pending(pod)) = ledger.pod(uid) else { return false };
    pod.nominated_node.as_ref().is_some_and(|node| ledger.nodes().find(node).is_none())
}

/// Ends the pod's nomination: pods that may be placed there are woken at once. To the pod itself, which fitted nowhere at
/// `version`, that is no news: returns the version after it, if nothing else came between.
fn end_nomination(step: &Step<'_, impl LedgerAccess>, pod: &Pod, version: u64) -> u64 {
    if pod.nominated_node.is_none() {
        return version;
    }
    step.ledger.write(|ledger| {
        let is_last = ledger.version() == version;
        ledger.nominate(&pod.uid, None);
        if is_last { ledger.version() } else { version }
    })
}
