//! Which job is done next: by turns between profiles, and for each profile between namespaces.
//!
//! A namespace whose requests fail is paused by itself and then tried with one job at a time, in slots of its own kind, so that
//! a webhook that hangs takes nothing from other namespaces. Nobody is at fault where no connection can be made: then
//! everything waits. Pure: time is an argument.

use super::namespace::Namespace;
use super::{Meaning, WriteError};
use crate::send::Kind;
use berth_core::model::Str;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// First pause of everything when no connection can be made; it doubles up to [`LONGEST_RECONNECT_PAUSE`].
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Jobs of one namespace and profile that are looked at for one that is ready. The oldest job of a namespace is ready, or the one that it
/// waits for is under way: so whatever waits behind more of them comes to its turn.
const LOOKED_AT: usize = 128;

/// Namespaces remembered because they failed, although they have no job; each is forgotten when it has had a success.
const REMEMBERED: usize = 4_096;

/// Whose turn a job takes.
pub(crate) trait Tenant {
    /// The name of the profile that wants it: one with many scheduler names has no more turns than any other.
    fn profile(&self) -> &Str;

    /// The namespace that the requests go to.
    fn namespace(&self) -> &str;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) queued: usize,
    pub(crate) queued_per_namespace: usize,
    /// A namespace may have so many jobs under way for each slot that is free: with 1 half of the slots if it is alone, a third
    /// beside another one, and so on. A slot is always left for who comes next.
    pub(crate) per_free_slot: usize,
}

/// Where a job that was taken counts until [`Turns::ended`].
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    namespace: Str,
    slow: bool,
}

/// The jobs of one profile.
#[derive(Debug)]
struct ProfileQueues<T> {
    turns: VecDeque<Str>,
    by_namespace: BTreeMap<Str, VecDeque<T>>,
}

/// The jobs that wait, and how many of each namespace are under way.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    limits: Limits,
    order: VecDeque<Str>,
    profiles: BTreeMap<Str, ProfileQueues<T>>,
    namespaces: BTreeMap<Str, Namespace>,
    /// Jobs that are to be done again, not before their time.
    later: BTreeMap<(Instant, u64), T>,
    number: u64,
    queued: usize,
    busy: usize,
    slow: usize,
    paused_until: Option<Instant>,
    reconnect_pause: Duration,
}

impl<T: Tenant> Turns<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            order: VecDeque::new(),
            profiles: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            later: BTreeMap::new(),
            number: 0,
            queued: 0,
            busy: 0,
            slow: 0,
            paused_until: None,
            reconnect_pause: RECONNECT_PAUSE,
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn under_way(&self) -> usize {
        self.busy + self.slow
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Namespace)) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            return change(namespace);
        }
        if self.namespaces.len() >= REMEMBERED {
            self.namespaces.retain(|_, namespace| namespace.has_work());
        }
        let mut namespace = Namespace::default();
        change(&mut namespace);
        self.namespaces.insert(name.into(), namespace);
    }

    /// Queues a job. If there is no capacity, the newest job of the namespace with the most is returned: this one, if that is
    /// its own.
    pub(crate) fn push(&mut self, job: T) -> Option<T> {
        let own = self.namespaces.get(job.namespace()).map_or(0, |namespace| namespace.queued);
        if own >= self.limits.queued_per_namespace {
            return Some(job);
        }
        let mut loser = None;
        if self.queued >= self.limits.queued {
            let most = self.namespaces.iter().max_by_key(|(_, namespace)| namespace.queued);
            match most.filter(|(_, namespace)| namespace.queued > own).map(|(name, _)| name.clone()) {
                Some(most) => loser = self.drop_newest(&most),
                None => return Some(job),
            }
        }
        self.change(job.namespace(), |namespace| namespace.queued += 1);
        self.queued += 1;
        self.put(job, VecDeque::push_back);
        loser
    }

    /// Queues a job that was taken before, to be done again at `at`.
    pub(crate) fn again(&mut self, job: T, at: Instant) {
        self.change(job.namespace(), |namespace| namespace.queued += 1);
        self.queued += 1;
        self.number += 1;
        self.later.insert((at, self.number), job);
    }

    /// Puts a job into the queue of its namespace, in front or at the end.
    fn put(&mut self, job: T, push: fn(&mut VecDeque<T>, T)) {
        let profile = job.profile();
        if !self.profiles.contains_key(profile) {
            self.order.push_back(profile.clone());
        }
        let new = || ProfileQueues { turns: VecDeque::new(), by_namespace: BTreeMap::new() };
        let queues = self.profiles.entry(profile.clone()).or_insert_with(new);
        if let Some(queue) = queues.by_namespace.get_mut(job.namespace()) {
            return push(queue, job);
        }
        let namespace: Str = job.namespace().into();
        queues.turns.push_back(namespace.clone());
        queues.by_namespace.insert(namespace, VecDeque::from([job]));
    }

    fn drop_newest(&mut self, namespace: &str) -> Option<T> {
        let queues = self.profiles.iter();
        let longest = queues.filter_map(|(profile, queues)| Some((queues.by_namespace.get(namespace)?.len(), profile)));
        if let Some(profile) = longest.max().map(|(_, profile)| profile.clone()) {
            let newest = |queue: &mut VecDeque<T>| queue.pop_back();
            return self.take_from(&profile, namespace, newest);
        }
        let newest = self.later.iter().rev().find(|(_, job)| job.namespace() == namespace).map(|(key, _)| *key)?;
        let job = self.later.remove(&newest)?;
        self.left(namespace);
        Some(job)
    }

    /// Takes a job out of the queue of a namespace, and the queue away if that was its last.
    fn take_from(
        &mut self,
        profile: &str,
        namespace: &str,
        take: impl FnOnce(&mut VecDeque<T>) -> Option<T>,
    ) -> Option<T> {
        let queues = self.profiles.get_mut(profile)?;
        let queue = queues.by_namespace.get_mut(namespace)?;
        let job = take(queue)?;
        if queue.is_empty() {
            queues.by_namespace.remove(namespace);
            queues.turns.retain(|name| **name != *namespace);
        }
        if queues.by_namespace.is_empty() {
            self.profiles.remove(profile);
            self.order.retain(|name| **name != *profile);
        }
        self.left(namespace);
        Some(job)
    }

    /// A job of the namespace waits no more.
    fn left(&mut self, namespace: &str) {
        self.queued -= 1;
        if let Some(state) = self.namespaces.get_mut(namespace) {
            state.queued -= 1;
        }
        self.tidy(namespace);
    }

    fn tidy(&mut self, namespace: &str) {
        if self.namespaces.get(namespace).is_some_and(Namespace::is_idle) {
            self.namespaces.remove(namespace);
        }
    }

    /// Takes a job that waits.
    pub(crate) fn remove(&mut self, profile: &str, namespace: &str, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let take = |queue: &mut VecDeque<T>| queue.iter().position(&is_it).and_then(|at| queue.remove(at));
        if let Some(job) = self.take_from(profile, namespace, take) {
            return Some(job);
        }
        let key = self.later.iter().find(|(_, job)| is_it(job)).map(|(key, _)| *key)?;
        let job = self.later.remove(&key)?;
        self.left(namespace);
        Some(job)
    }

    /// Takes all jobs of which `wanted` is true, those of one namespace of one profile in their order.
    pub(crate) fn extract(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken: Vec<T> = self.later.extract_if(.., |_, job| wanted(job)).map(|(_, job)| job).collect();
        for queues in self.profiles.values_mut() {
            for queue in queues.by_namespace.values_mut() {
                let (out, kept): (VecDeque<T>, VecDeque<T>) = std::mem::take(queue).into_iter().partition(&mut wanted);
                *queue = kept;
                taken.extend(out);
            }
            queues.by_namespace.retain(|_, queue| !queue.is_empty());
            let ProfileQueues { turns, by_namespace } = queues;
            turns.retain(|name| by_namespace.contains_key(name));
        }
        self.profiles.retain(|_, queues| !queues.by_namespace.is_empty());
        let profiles = &self.profiles;
        self.order.retain(|name| profiles.contains_key(name));
        for job in &taken {
            self.left(job.namespace());
        }
        taken
    }

    /// Takes the next job that is `ready`, while at most `slots` of them are under way; it is under way until
    /// [`Turns::ended`]. Otherwise returns when to look again; `None`: nothing until something changes.
    ///
    /// O(profiles + namespaces that may not go on), and the length of one queue up to a limit.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        slots: usize,
        ready: impl Fn(&T) -> bool,
    ) -> Result<(T, Slot), Option<Instant>> {
        self.recall(now);
        let mut wait = self.later.first_key_value().map(|((at, _), _)| *at);
        if let Some(until) = self.paused_until.filter(|until| *until > now && self.queued > 0) {
            return Err(Some(until));
        }
        let (free, slow, share) = (slots.saturating_sub(self.busy), self.slow, self.limits.per_free_slot.max(1));
        let may_start = |namespace: &Namespace| match namespace.paused_until(now) {
            Some(until) if until > now => Err(Some(until)),
            // It has failed and had no success since: one job shows whether it is well again.
            Some(_) if namespace.busy + namespace.slow > 0 || slow >= (slots / 2).max(1) => Err(None),
            Some(_) => Ok(true),
            None if namespace.busy >= free * share => Err(None),
            None => Ok(false),
        };
        for _ in 0..self.order.len() {
            let Some(profile) = self.order.pop_front() else { break };
            self.order.push_back(profile.clone());
            let Some(queues) = self.profiles.get_mut(&profile) else { continue };
            for _ in 0..queues.turns.len() {
                let Some(name) = queues.turns.pop_front() else { break };
                queues.turns.push_back(name.clone());
                let (Some(namespace), Some(queue)) = (self.namespaces.get(&name), queues.by_namespace.get(&name))
                else {
                    continue;
                };
                let is_slow = match may_start(namespace) {
                    Ok(slow) => slow,
                    Err(until) => {
                        wait = wait.into_iter().chain(until).min();
                        continue;
                    }
                };
                let Some(at) = queue.iter().take(LOOKED_AT).position(&ready) else { continue };
                return self.start(&profile, name, at, is_slow).ok_or(None);
            }
        }
        Err(wait)
    }

    fn start(&mut self, profile: &Str, namespace: Str, at: usize, slow: bool) -> Option<(T, Slot)> {
        // Counted first, so that the namespace is not forgotten with its last job.
        self.change(&namespace, |state| *(if slow { &mut state.slow } else { &mut state.busy }) += 1);
        *(if slow { &mut self.slow } else { &mut self.busy }) += 1;
        let job = self.take_from(profile, &namespace, |queue| queue.remove(at))?;
        Some((job, Slot { namespace, slow }))
    }

    /// Puts jobs whose time has come before all others of their namespace.
    fn recall(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let job = first.remove();
            self.put(job, VecDeque::push_front);
        }
    }

    /// The job is done, or queued again.
    pub(crate) fn ended(&mut self, slot: &Slot) {
        *(if slot.slow { &mut self.slow } else { &mut self.busy }) -= 1;
        if let Some(state) = self.namespaces.get_mut(&slot.namespace) {
            *(if slot.slow { &mut state.slow } else { &mut state.busy }) -= 1;
        }
        self.tidy(&slot.namespace);
    }

    /// A request of a job that goes on has failed: its slot is free for another job, unless too many are like that already.
    pub(crate) fn slow_down(&mut self, slot: &mut Slot, slots: usize) {
        if slot.slow || self.slow >= slots * 2 {
            return;
        }
        self.ended(slot);
        slot.slow = true;
        self.slow += 1;
        self.change(&slot.namespace, |namespace| namespace.slow += 1);
    }

    /// A request of this kind to the namespace was answered: for such requests it is well.
    pub(crate) fn answered(&mut self, namespace: &str, kind: &Kind) {
        self.reconnect_pause = RECONNECT_PAUSE;
        if let Some(state) = self.namespaces.get_mut(namespace) {
            state.answered(kind);
        }
        self.tidy(namespace);
    }

    /// A request of this kind to the namespace failed.
    pub(crate) fn failed(&mut self, namespace: &str, kind: &Kind, error: &WriteError, now: Instant) {
        match error.meaning {
            Meaning::Refused | Meaning::ReadBack => self.answered(namespace, kind),
            Meaning::Later { .. } => self.change(namespace, |state| state.put_off(kind, now, error.pause)),
            Meaning::Unknown => self.change(namespace, |state| state.unanswered(kind, now)),
            Meaning::NotSent if self.paused_until.is_none_or(|until| until <= now) => {
                self.paused_until = Some(now + self.reconnect_pause);
                self.reconnect_pause = (self.reconnect_pause * 2).min(LONGEST_RECONNECT_PAUSE);
            }
            Meaning::NotSent => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::namespace::LONGEST_PAUSE;
    use super::*;
    use crate::send::Call;

    #[derive(Debug)]
    struct Job(Str, &'static str, u32);

    impl Tenant for Job {
        fn profile(&self) -> &Str {
            &self.0
        }

        fn namespace(&self) -> &str {
            self.1
        }
    }

    fn job(profile: &str, namespace: &'static str, number: u32) -> Job {
        Job(profile.into(), namespace, number)
    }

    fn turns(queued: usize, queued_per_namespace: usize) -> Turns<Job> {
        Turns::new(Limits { queued, queued_per_namespace, per_free_slot: 1 })
    }

    fn error(meaning: Meaning, pause: Option<u64>) -> WriteError {
        WriteError { meaning, code: None, pause: pause.map(Duration::from_secs), message: String::new() }
    }

    /// Of all requests here.
    fn kind() -> Kind {
        Call::get("/api/v1/namespaces/ns/pods/p".to_owned()).kind()
    }

    fn take(turns: &mut Turns<Job>, now: Instant) -> Option<(u32, Slot)> {
        turns.next(now, 8, |_| true).ok().map(|(job, slot)| (job.2, slot))
    }

    /// The numbers of all jobs that can be done one after the other.
    fn order(turns: &mut Turns<Job>, now: Instant) -> Vec<u32> {
        let one = |turns: &mut Turns<Job>| {
            let (number, slot) = take(turns, now)?;
            turns.ended(&slot);
            Some(number)
        };
        std::iter::from_fn(|| one(turns)).collect()
    }

    #[tokio::test]
    async fn profiles_take_turns_and_so_do_the_namespaces_of_each() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        for n in 0..4 {
            assert!(t.push(job("s", "a", n)).is_none());
        }
        for (n, (profile, namespace)) in [("s", "b"), ("t", "a"), ("t", "c"), ("t", "c")].into_iter().enumerate() {
            assert!(t.push(job(profile, namespace, 10 + n as u32)).is_none());
        }
        assert_eq!(order(&mut t, now), [0, 11, 10, 12, 1, 13, 2, 3]);
        assert_eq!((t.queued(), t.under_way(), t.namespaces.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn when_all_is_full_the_namespace_with_the_most_loses_its_newest() {
        let mut t = turns(6, 5);
        let push = |t: &mut Turns<Job>, namespace, n| t.push(job("s", namespace, n)).map(|lost| (lost.1, lost.2));
        for n in 0..5 {
            assert_eq!(push(&mut t, "big", n), None);
        }
        assert_eq!(push(&mut t, "big", 5), Some(("big", 5)), "it has all that one namespace may have");
        assert_eq!(push(&mut t, "small", 10), None);
        assert_eq!(push(&mut t, "small", 11), Some(("big", 4)));
        assert_eq!(push(&mut t, "small", 12), Some(("big", 3)));
        assert_eq!(push(&mut t, "small", 13), Some(("small", 13)), "nobody has more than it");
        assert_eq!(order(&mut t, Instant::now()), [0, 10, 1, 11, 2, 12]);
    }

    #[tokio::test]
    async fn one_namespace_always_leaves_a_slot_for_another() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        for n in 0..20 {
            t.push(job("s", "hung", n));
        }
        let hung = std::iter::from_fn(|| take(&mut t, now)).count();
        assert_eq!(hung, 4);
        for n in 0..20 {
            t.push(job("s", "other", 100 + n));
        }
        assert_eq!(std::iter::from_fn(|| take(&mut t, now)).count(), 2);
        t.push(job("s", "third", 200));
        assert_eq!(take(&mut t, now).map(|(n, _)| n), Some(200));
    }

    #[tokio::test]
    async fn a_namespace_that_fails_is_paused_by_itself_and_then_tried_with_one_job() {
        let (mut t, mut now) = (turns(100, 100), Instant::now());
        for n in 0..9 {
            t.push(job("s", "bad", n));
        }
        t.failed("bad", &kind(), &error(Meaning::Unknown, None), now);
        let slots: Vec<Slot> = std::iter::from_fn(|| take(&mut t, now)).map(|(_, slot)| slot).collect();
        assert_eq!(slots.len(), 4, "one failure may be that of one object");
        for slot in &slots {
            t.failed("bad", &kind(), &error(Meaning::Unknown, None), now);
            t.ended(slot);
        }
        t.push(job("s", "good", 100));
        assert_eq!(order(&mut t, now), [100]);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let until = t.next(now, 8, |_| true).unwrap_err().unwrap();
            pauses.push((until - now).as_millis());
            now = until;
            let (n, slot) = take(&mut t, now).unwrap();
            assert!(take(&mut t, now).is_none(), "one at a time");
            t.failed("bad", &kind(), &error(Meaning::Unknown, None), now);
            t.ended(&slot);
            t.push(job("s", "bad", n));
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        t.answered("bad", &kind());
        assert_eq!(std::iter::from_fn(|| take(&mut t, now)).count(), 4, "well again");
    }

    #[tokio::test]
    async fn a_pause_that_is_asked_for_concerns_its_namespace_alone() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        for (n, namespace) in ["busy", "fine"].into_iter().enumerate() {
            t.push(job("s", namespace, n as u32));
        }
        t.failed("busy", &kind(), &error(Meaning::Later { doubtful: false, turned_away: false }, Some(7)), now);
        t.failed("busy", &kind(), &error(Meaning::Later { doubtful: false, turned_away: false }, Some(3_600)), now);
        assert_eq!(order(&mut t, now), [1]);
        let until = t.next(now, 8, |_| true).unwrap_err().unwrap();
        assert_eq!(until - now, LONGEST_PAUSE, "not for an hour");
        t.failed("other", &kind(), &error(Meaning::NotSent, None), until);
        assert_eq!(
            t.next(until, 8, |_| true).unwrap_err(),
            Some(until + RECONNECT_PAUSE),
            "without a connection all wait"
        );
    }

    #[tokio::test]
    async fn a_job_whose_request_failed_gives_its_slot_to_another_while_it_goes_on() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        for n in 0..20 {
            t.push(job("s", "hung", n));
        }
        let slots: Vec<Slot> = std::iter::from_fn(|| take(&mut t, now)).map(|(_, slot)| slot).collect();
        for mut slot in slots {
            t.failed("hung", &kind(), &error(Meaning::Unknown, None), now);
            t.slow_down(&mut slot, 8);
        }
        assert_eq!((t.busy, t.slow), (0, 4));
        for n in 0..20 {
            t.push(job("s", "fine", 100 + n));
        }
        assert_eq!(std::iter::from_fn(|| take(&mut t, now)).count(), 4, "as if nothing else were under way");
    }

    #[tokio::test]
    async fn a_job_that_is_done_again_comes_first_when_its_time_has_come() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        t.push(job("s", "a", 1));
        let due = now + Duration::from_secs(1);
        t.again(job("s", "a", 0), due);
        t.again(job("s", "a", 5), due);
        assert_eq!(t.queued(), 3);
        assert_eq!(t.remove("s", "a", |job| job.2 == 5).map(|job| job.2), Some(5));
        assert_eq!(order(&mut t, now), [1]);
        t.push(job("s", "a", 2));
        assert_eq!(order(&mut t, due), [0, 2]);
        for n in 0..4 {
            t.push(job("s", if n % 2 == 0 { "a" } else { "b" }, n));
        }
        t.again(job("s", "a", 7), due + due.duration_since(now));
        let taken: Vec<u32> = t.extract(|job| job.1 == "a").into_iter().map(|job| job.2).collect();
        assert_eq!(taken, [7, 0, 2]);
        assert_eq!((order(&mut t, due), t.queued()), (vec![1, 3], 0));
    }

    #[tokio::test]
    async fn a_job_that_is_not_ready_stops_no_other() {
        let (mut t, now) = (turns(100, 100), Instant::now());
        for n in 0..3 {
            t.push(job("s", "a", n));
        }
        let (first, _slot) = t.next(now, 8, |job| job.2 != 0).unwrap();
        assert_eq!(first.2, 1);
    }
}
