//! The two arms of a profile that is being rolled out: which of them decides for a pod, and how the pods of each fare.
//!
//! A profile that is not being rolled out has one arm, the stable one, and counts nothing here.

use super::Worker;
use crate::cycle::{Hold, Holds, Laps, Scheduler};
use crate::ledger::Ledger;
use crate::model::{Pod, Time};
use crate::profile::CompiledProfile;
use crate::queue::Ticket;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Parts of the window over which pods are counted: they leave it one part at a time.
const PARTS: u32 = 12;

/// The ties of both arms follow different seeds.
const CANARY_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The schedulers of a profile.
#[derive(Debug)]
pub(super) struct Arms {
    stable: Scheduler,
    canary: Option<Scheduler>,
    seed: u64,
    counted: Counted,
}

impl Arms {
    pub(super) fn new(profile: Arc<CompiledProfile>, seed: u64) -> Self {
        let canary = profile.canary.as_ref().map(|canary| Scheduler::new(canary.profile.clone(), seed ^ CANARY_SEED));
        let counted = Counted::of(&profile);
        Self { stable: Scheduler::new(profile, seed), canary, seed, counted }
    }

    /// Decides by another profile from now on. What is counted begins anew.
    pub(super) fn set_profile(&mut self, profile: Arc<CompiledProfile>) {
        match (&mut self.canary, &profile.canary) {
            (Some(scheduler), Some(canary)) => scheduler.set_profile(canary.profile.clone()),
            (None, Some(canary)) => {
                self.canary = Some(Scheduler::new(canary.profile.clone(), self.seed ^ CANARY_SEED));
            }
            (_, None) => {
                if let Some(mut ended) = self.canary.take() {
                    self.stable.count_evaluations_of(&mut ended);
                }
            }
        }
        self.counted = Counted::of(&profile);
        self.stable.set_profile(profile);
    }

    /// The profile: names, namespaces, queue, mode and extenders are the same in both arms.
    pub(super) fn profile(&self) -> &Arc<CompiledProfile> {
        self.stable.profile()
    }

    fn is_canarys(&self, pod: &Pod) -> bool {
        self.profile().canary.as_ref().is_some_and(|canary| canary.share.has(pod))
    }

    /// What decides for `pod`.
    pub(super) fn of(&self, pod: &Pod) -> &Scheduler {
        match &self.canary {
            Some(canary) if self.is_canarys(pod) => canary,
            _ => &self.stable,
        }
    }

    pub(super) fn of_mut(&mut self, pod: &Pod) -> &mut Scheduler {
        let is_canarys = self.is_canarys(pod);
        match &mut self.canary {
            Some(canary) if is_canarys => canary,
            _ => &mut self.stable,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Scheduler> {
        [Some(&self.stable), self.canary.as_ref()].into_iter().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Scheduler> {
        [Some(&mut self.stable), self.canary.as_mut()].into_iter().flatten()
    }

    /// Whether anything was decided since this was last asked.
    pub(super) fn take_used(&mut self) -> bool {
        let mut used = false;
        for arm in self.all_mut() {
            used |= arm.take_used();
        }
        used
    }

    pub(super) fn age(&mut self) {
        self.all_mut().for_each(Scheduler::age);
    }

    pub(super) fn shed(&mut self) {
        self.all_mut().for_each(Scheduler::shed);
    }

    pub(super) fn take_laps(&mut self, pod: &Pod) -> Laps {
        self.of_mut(pod).take_laps()
    }

    /// As [`Scheduler::evaluations`], of both arms.
    pub(super) fn evaluations(&mut self) -> Vec<(&'static str, &'static str, u64)> {
        let mut of_all = Vec::new();
        for (plugin, point, count) in self.all_mut().flat_map(Scheduler::evaluations) {
            match of_all.iter_mut().find(|(p, at, _)| (*p, *at) == (plugin, point)) {
                Some((.., all)) => *all += count,
                None => of_all.push((plugin, point, count)),
            }
        }
        of_all
    }

    /// The nodes that the stable arm places on, and those of them that are not cordoned.
    pub(super) fn nodes(&mut self, ledger: &Ledger) -> (usize, usize) {
        let nodes = self.stable.candidates(ledger);
        (nodes.len(), nodes.iter().filter(|node| !ledger.nodes().is_cordoned(**node)).count())
    }

    /// When the oldest of what is counted leaves the window.
    pub(super) fn counts_until(&self) -> Option<Time> {
        self.counted.until()
    }

    /// How the pods of each arm have fared within the window; `None` if there is one arm alone.
    pub(super) fn snapshot(&self) -> Option<ArmsSnapshot> {
        let canary = self.canary.as_ref()?.profile().clone();
        Some(ArmsSnapshot { canary, samples: self.counted.sums() })
    }
}

/// How pods of one arm have fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArmSample {
    /// Pods whose first attempt has ended.
    pub tried: u64,
    /// Those of them for which it found no node: they fitted nowhere, or deciding ended in an error.
    pub refused: u64,
    /// Pods that were bound.
    pub placed: u64,
    /// How long these had waited for it since they could first be tried, all together.
    pub waited: Duration,
}

impl ArmSample {
    fn add(&mut self, other: &Self) {
        self.tried += other.tried;
        self.refused += other.refused;
        self.placed += other.placed;
        self.waited += other.waited;
    }
}

/// Both arms of a profile that is being rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArmSamples {
    pub stable: ArmSample,
    pub canary: ArmSample,
    /// Since when pods have been counted; `None` if none are yet.
    pub since: Option<Time>,
}

/// What a worker says of both arms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmsSnapshot {
    /// The profile that is tried.
    pub canary: Arc<CompiledProfile>,
    pub samples: ArmSamples,
}

/// What has become of pods within the window. Pods that could be tried before the worker had read all of them do not count: who waited for
/// long is no measure of either.
#[derive(Debug, Default)]
struct Counted {
    began: Option<Time>,
    part: Duration,
    parts: VecDeque<(u64, [ArmSample; 2])>,
}

impl Counted {
    fn of(profile: &CompiledProfile) -> Self {
        let window = profile.canary.as_ref().map_or(Duration::ZERO, |canary| canary.window);
        Self { began: None, part: window / PARTS, parts: VecDeque::new() }
    }

    fn number(&self, now: Time) -> u64 {
        let counted = self.began.map_or(Duration::ZERO, |began| now.since(began));
        u64::try_from(counted.as_nanos() / self.part.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Lets go of what is older than the window.
    fn age(&mut self, now: Time) {
        let number = self.number(now);
        while self.parts.front().is_some_and(|(part, _)| part + u64::from(PARTS) <= number) {
            self.parts.pop_front();
        }
    }

    /// When [`Self::age`] lets go of the first part.
    fn until(&self) -> Option<Time> {
        let (part, _) = self.parts.front()?;
        let ended = u32::try_from(part + u64::from(PARTS)).unwrap_or(u32::MAX);
        Some(self.began? + self.part.saturating_mul(ended))
    }

    fn sample(&mut self, now: Time, is_canarys: bool) -> &mut ArmSample {
        self.age(now);
        let number = self.number(now);
        if self.parts.back().is_none_or(|(part, _)| *part < number) {
            self.parts.push_back((number, [ArmSample::default(); 2]));
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last].1[usize::from(is_canarys)]
    }

    fn sums(&self) -> ArmSamples {
        let mut sums = ArmSamples { since: self.began, ..ArmSamples::default() };
        for (_, [stable, canary]) in &self.parts {
            sums.stable.add(stable);
            sums.canary.add(canary);
        }
        sums
    }
}

impl Worker {
    /// The profile that decides for `pod`.
    pub(super) fn profile_of(&self, pod: &Pod) -> &Arc<CompiledProfile> {
        self.arms.of(pod).profile()
    }

    /// All pods that wait have been read: those that come from now on count.
    pub(super) fn begin_counting(&mut self, now: Time) {
        self.arms.counted.began.get_or_insert(now);
    }

    /// Counts an attempt, if it is the pod's first: it got a node, or not.
    pub(super) fn count_tried(&mut self, now: Time, ticket: &mut Ticket, is_refused: bool) {
        if !self.counts(ticket) || !ticket.count_once() {
            return;
        }
        let is_canarys = self.arms.is_canarys(ticket.pod());
        let sample = self.arms.counted.sample(now, is_canarys);
        sample.tried += 1;
        sample.refused += u64::from(is_refused);
    }

    /// Counts a pod that was bound.
    pub(super) fn count_placed(&mut self, now: Time, ticket: &Ticket) {
        if !self.counts(ticket) {
            return;
        }
        let is_canarys = self.arms.is_canarys(ticket.pod());
        let sample = self.arms.counted.sample(now, is_canarys);
        sample.placed += 1;
        sample.waited += now.since(ticket.active_at());
    }

    fn counts(&self, ticket: &Ticket) -> bool {
        self.arms.canary.is_some() && self.arms.counted.began.is_some_and(|began| ticket.active_at() > began)
    }

    pub(super) fn age_arms(&mut self, now: Time) {
        if self.arms.canary.is_some() {
            self.arms.counted.age(now);
        }
    }
}

/// What holds pods, by arm.
pub(super) struct ArmHolds<'a> {
    arms: &'a Arms,
    stable: Holds<'a>,
    canary: Option<Holds<'a>>,
}

impl<'a> ArmHolds<'a> {
    pub(super) fn new(worker: &'a Worker, ledger: &'a Ledger) -> Self {
        let arms = &worker.arms;
        let canary = arms.canary.as_ref().map(|canary| Holds::new(canary.profile(), ledger));
        Self { arms, stable: Holds::new(arms.profile(), ledger), canary }
    }

    pub(super) fn of(&mut self, pod: &Pod) -> Option<Hold> {
        match &mut self.canary {
            Some(canary) if self.arms.is_canarys(pod) => canary.of(pod),
            _ => self.stable.of(pod),
        }
    }
}
