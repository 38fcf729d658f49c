use super::entry::{Part, Speaks};
use super::*;
use crate::cycle::{Diagnosis, Rng};
use crate::model::PodShape;
use crate::plugins::Plugin;
use crate::profile::ExtenderSet;
use crate::testing::{pod, shape_of};

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A queue in which pods wait that only NodeResourcesFit refused, at version 1.
struct Waiting {
    queue: Queue,
    /// What rows read is one object for all of them.
    shape: Arc<PodShape>,
}

impl Waiting {
    fn of(names: &[&str]) -> Self {
        let mut waiting = Self { queue: Queue::new(QueueTimes::default()), shape: Arc::new(shape_of(100, 0)) };
        for name in names {
            waiting.queue.add(waiting.pod(name), at(0), None);
        }
        while let Some(ticket) = waiting.pop() {
            waiting.refuse(ticket, 1, 0);
        }
        waiting
    }

    fn pod(&self, name: &str) -> Arc<Pod> {
        let mut pod = pod(name, shape_of(100, 0));
        pod.shape = self.shape.clone();
        Arc::new(pod)
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.queue.pop(ExtenderSet::NONE, |_| true)
    }

    fn refuse_by(&mut self, ticket: Ticket, by: Plugin, version: u64, millis: u64) {
        let diagnosis = Arc::new(Diagnosis::before_filter(&self.shape, 1, by.name()));
        self.queue.refused(ticket, PluginSet::of(by), diagnosis, version, at(millis), Then::Waits);
    }

    fn refuse(&mut self, ticket: Ticket, version: u64, millis: u64) {
        self.refuse_by(ticket, Plugin::NodeResourcesFit, version, millis);
    }

    /// A change at `version` may help all.
    fn call(&mut self, version: u64, millis: u64) {
        let groups: Vec<GroupKey> = self.queue.groups().map(Group::key).collect();
        for group in groups {
            self.queue.call(group, QueueEvent::PlacedPodDelete, version, at(millis));
        }
    }

    /// The pod that is popped next; it is placed.
    fn place(&mut self) -> Option<String> {
        let ticket = self.pop()?;
        let name = ticket.pod().key.name.to_string();
        self.queue.done(ticket);
        Some(name)
    }

    /// The pod that is popped next; it is refused.
    fn try_in_vain(&mut self, version: u64, millis: u64) -> Option<String> {
        let ticket = self.pop()?;
        let name = ticket.pod().key.name.to_string();
        self.refuse(ticket, version, millis);
        Some(name)
    }
}

#[test]
fn one_pod_is_tried_for_all_and_keeps_its_turn() {
    let mut waiting = Waiting::of(&["a", "b", "c", "d"]);
    for second in 1..4 {
        waiting.call(second + 1, 20_000 * second);
        assert_eq!(waiting.queue.counts().active, 1);
        assert_eq!(waiting.try_in_vain(second + 1, 20_000 * second), Some("a".to_owned()));
        let Counts { active, backoff, unschedulable, .. } = waiting.queue.counts();
        assert_eq!((active, backoff, unschedulable), (0, 0, 4));
    }
}

#[test]
fn the_next_one_is_tried_when_a_pod_is_placed() {
    let mut waiting = Waiting::of(&["a", "b", "c", "d"]);
    waiting.call(2, 20_000);
    assert_eq!([waiting.place(), waiting.place()], [Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(waiting.try_in_vain(2, 20_000), Some("c".to_owned()));
    assert_eq!(waiting.place(), None);
    waiting.call(3, 40_000);
    assert_eq!([(); 3].map(|()| waiting.place()), [Some("c".to_owned()), Some("d".to_owned()), None]);
    assert!(waiting.queue.is_empty());
}

#[test]
fn a_pod_that_speaks_and_goes_hands_on() {
    let mut waiting = Waiting::of(&["a", "b", "c", "d"]);
    waiting.call(2, 20_000);
    waiting.queue.remove("a");
    assert_eq!(waiting.queue.counts().active, 1);
    waiting.queue.update(waiting.pod("b"), at(20_000), Some(Parked::Held), false);
    assert_eq!(waiting.queue.counts().active, 1);
    // What changes nothing that is read changes nothing here.
    waiting.queue.update(waiting.pod("c"), at(20_000), None, false);
    let other = Arc::new(pod("c", shape_of(200, 0)));
    waiting.queue.update(other, at(20_000), None, true);
    assert_eq!(waiting.queue.counts().active, 2, "one of another shape, and the next one of the group");
    assert_eq!([waiting.place(), waiting.place(), waiting.place()], [Some("c".to_owned()), Some("d".to_owned()), None]);
}

#[test]
fn a_pod_that_is_passed_over_hands_on() {
    let mut waiting = Waiting::of(&["a", "b"]);
    waiting.call(2, 20_000);
    let ticket = waiting.pop().expect("it is called");
    waiting.queue.withhold(ticket);
    let counts = waiting.queue.counts();
    assert_eq!((counts.active, counts.unschedulable), (2, 0));
}

/// Another filter than those of rows says something about the one pod.
#[test]
fn a_refusal_that_holds_for_one_ends_no_call_and_each_is_tried_once() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    for name in ["a", "b", "c"] {
        let ticket = waiting.pop().expect("each is tried");
        assert_eq!(&*ticket.pod().key.name, name);
        waiting.refuse_by(ticket, Plugin::InterPodAffinity, 2, 20_000);
    }
    assert_eq!(waiting.place(), None);
}

/// Volumes choose among nodes before rows are asked: what refuses such a pod tells nothing about others.
#[test]
fn pods_with_volumes_speak_for_nobody_and_each_is_tried_once() {
    let mut waiting = Waiting::of(&[]);
    for name in ["a", "b", "c"] {
        let pod = Pod { volumes: Some(Arc::default()), ..(*waiting.pod(name)).clone() };
        waiting.queue.add(Arc::new(pod), at(0), None);
    }
    while waiting.try_in_vain(1, 0).is_some() {}
    for second in 1..4 {
        let version = second + 1;
        waiting.call(version, 20_000 * second);
        let tried: Vec<_> = std::iter::from_fn(|| waiting.try_in_vain(version, 20_000 * second)).collect();
        assert_eq!(tried, ["a", "b", "c"]);
    }
}

#[test]
fn a_refusal_by_an_older_look_ends_no_call() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.queue.add(waiting.pod("away"), at(1_000), None);
    let away = waiting.pop().expect("active");
    waiting.call(5, 20_000);
    waiting.refuse(away, 4, 20_000);
    assert_eq!(waiting.place(), Some("a".to_owned()));
    assert_eq!(waiting.place(), Some("b".to_owned()));
}

#[test]
fn a_pod_that_came_later_and_is_refused_ends_the_call() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    assert_eq!(waiting.try_in_vain(2, 20_000), Some("a".to_owned()));
    waiting.queue.add(waiting.pod("fresh"), at(10_000), None);
    waiting.call(3, 40_000);
    assert_eq!(waiting.try_in_vain(3, 40_000), Some("fresh".to_owned()), "it came before the others were refused last");
    assert_eq!(waiting.place(), None);
    waiting.call(4, 60_000);
    let tried: Vec<_> = std::iter::from_fn(|| waiting.place()).collect();
    assert_eq!(tried, ["a", "b", "c", "fresh"]);
}

/// To the order of the queue they all were tried.
#[test]
fn those_for_whom_another_was_tried_stand_behind_who_came_before_that() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    assert_eq!(waiting.try_in_vain(2, 20_000), Some("a".to_owned()));
    let between = Arc::new(pod("between", shape_of(200, 0)));
    waiting.queue.add(between, at(10_000), None);
    waiting.queue.wake(at(40_000), |_| Wake::Requeue(QueueEvent::NodeAdd));
    let tried: Vec<_> = std::iter::from_fn(|| waiting.place()).collect();
    assert_eq!(tried, ["between", "a", "b", "c"]);
}

#[test]
fn the_sweep_counts_from_when_a_pod_was_tried_for_all() {
    let mut waiting = Waiting::of(&["a", "b"]);
    waiting.call(2, 200_000);
    assert_eq!(waiting.try_in_vain(2, 200_000), Some("a".to_owned()));
    assert_eq!(waiting.queue.sweep(at(301_000), 2), 0);
    assert_eq!(waiting.queue.sweep(at(501_000), 2), 2);
}

/// Words that are old are not kept for long, and neither does anything depend on one pod alone.
#[test]
fn each_is_due_when_words_have_changed_and_after_some_time_anyway() {
    let mut waiting = Waiting::of(&["a", "b"]);
    let times = QueueTimes::default();
    let is_due =
        |waiting: &Waiting, seconds: u64| waiting.queue.groups().all(|g| g.is_due(at(1_000 * seconds), &times));
    assert!(!is_due(&waiting, 299));
    assert!(is_due(&waiting, 300));
    waiting.call(2, 5_000);
    let ticket = waiting.pop().expect("it is called");
    let diagnosis = Arc::new(Diagnosis::before_filter(&waiting.shape, 2, "other words"));
    waiting.queue.refused(ticket, PluginSet::of(Plugin::NodeResourcesFit), diagnosis, 2, at(5_000), Then::Waits);
    assert!(!is_due(&waiting, 9));
    assert!(is_due(&waiting, 10));
    let groups: Vec<GroupKey> = waiting.queue.groups().map(Group::key).collect();
    waiting.queue.renew(groups[0], at(10_000));
    assert!(!is_due(&waiting, 300));
}

#[test]
fn who_is_refused_and_evicts_others_ends_no_call() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    let ticket = waiting.pop().expect("it is called");
    let diagnosis = Arc::new(Diagnosis::before_filter(&waiting.shape, 1, "no room"));
    waiting.queue.refused(ticket, PluginSet::of(Plugin::NodeResourcesFit), diagnosis, 2, at(20_000), Then::Evicts);
    assert_eq!(
        [waiting.place(), waiting.place()],
        [Some("b".to_owned()), Some("c".to_owned())],
        "they may find victims, too"
    );
}

/// As a swap of the profile has it: to the new one the two may be no equals.
#[test]
fn when_a_call_is_ended_who_was_queued_stays_queued() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    waiting.queue.end_calls();
    waiting.queue.wake(at(20_000), |_| Wake::Requeue(QueueEvent::ForceActivate));
    let tried: Vec<_> = std::iter::from_fn(|| waiting.try_in_vain(2, 20_000)).collect();
    assert_eq!(tried, ["a", "b", "c"]);
}

/// A preemption has the pod that speaks tried: it is not put back by what refuses another.
#[test]
fn who_is_to_be_retried_does_not_go_back_untried() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    assert_eq!(waiting.try_in_vain(2, 20_000), Some("a".to_owned()));
    waiting.call(3, 40_000);
    waiting.queue.retry("a", at(40_000));
    waiting.queue.add(waiting.pod("fresh"), at(10_000), None);
    assert_eq!(waiting.try_in_vain(4, 40_000), Some("fresh".to_owned()));
    assert_eq!(waiting.try_in_vain(4, 40_000), Some("a".to_owned()));
}

#[test]
fn who_is_to_be_retried_hands_on() {
    let mut waiting = Waiting::of(&["a", "b", "c"]);
    waiting.call(2, 20_000);
    waiting.queue.retry("a", at(20_000));
    let placed: Vec<_> = std::iter::from_fn(|| waiting.place()).collect();
    assert_eq!(placed, ["a", "b", "c"], "there is room for all");
}

/// Nothing was missed: another pod was queued for it, and could not be tried.
#[test]
fn a_pod_whose_group_is_called_is_not_rescued_by_the_sweep() {
    let mut waiting = Waiting::of(&["a", "b"]);
    waiting.call(2, 20_000);
    waiting.queue.set_paused(Paused::All);
    assert_eq!(waiting.queue.sweep(at(400_000), 2), 1);
    waiting.queue.set_paused(Paused::None);
    while let Some(ticket) = waiting.pop() {
        waiting.queue.note_placed(&ticket, 2);
        waiting.queue.done(ticket);
    }
    assert_eq!(waiting.queue.rescued_by_sweep(), 0);
}

/// The first pod was refused often, and waits for long. As soon as another may be tried, it is.
#[test]
fn who_may_be_tried_at_once_comes_before_who_backs_off() {
    let mut waiting = Waiting::of(&["a"]);
    for second in 1..10 {
        waiting.call(second + 1, 20_000 * second);
        assert_eq!(waiting.try_in_vain(second + 1, 20_000 * second), Some("a".to_owned()));
    }
    waiting.queue.add(waiting.pod("b"), at(181_000), None);
    assert_eq!(waiting.try_in_vain(10, 181_000), Some("b".to_owned()));
    waiting.queue.tell_time(at(185_000));
    waiting.call(11, 185_000);
    assert_eq!(
        (waiting.queue.counts().active, waiting.place()),
        (1, Some("b".to_owned())),
        "its backoff of a second is over"
    );
    assert_eq!((waiting.queue.counts().active, waiting.queue.counts().backoff), (0, 1));
}

/// What is kept of groups fits the entries.
fn check(queue: &Queue) {
    let mut asleep = 0;
    for group in queue.groups() {
        let speaker = group.call.as_ref().and_then(|call| call.speaker);
        assert!(group.pods().next().is_some() || speaker.is_some(), "a group without pods");
        assert!(group.least_tried().is_some() || group.pods().next().is_none());
        for slot in group.pods() {
            let entry = queue.entries.get(slot).expect("a pod of a group is queued");
            assert_eq!((entry.part, GroupKey::of(entry)), (Part::Unschedulable, group.key()));
            asleep += 1;
        }
        if let Some(slot) = speaker {
            let entry = queue.entries.get(slot).expect("who speaks is queued");
            assert!(entry.speaks == Speaks::Queued && matches!(entry.part, Part::Active | Part::Backoff), "{entry:?}");
            assert_eq!(GroupKey::of(entry), group.key());
        }
    }
    assert_eq!(asleep, queue.counts().unschedulable);
    let speakers = queue.groups().filter(|group| group.call.is_some()).count();
    assert_eq!(
        queue.entries().filter(|entry| entry.speaks == Speaks::Queued).count(),
        speakers,
        "each call has its speaker"
    );
    let waiting = queue.entries().filter(|entry| entry.part == Part::Unschedulable).count();
    assert_eq!(asleep, waiting);
}

/// 300 sequences of 300 steps.
#[test]
fn whatever_happens_each_pod_is_in_one_place_and_each_call_has_one_that_speaks() {
    let mut called = 0;
    for seed in 0..300 {
        let mut rng = Rng::seeded(seed);
        let mut waiting = Waiting::of(&[]);
        let shapes = [100, 200].map(|cpu| Arc::new(shape_of(cpu, 0)));
        let mut tickets: Vec<Ticket> = Vec::new();
        for step in 1..300_u64 {
            let now = 300 * step;
            waiting.queue.tell_time(at(now));
            let which = rng.below(12);
            let name = format!("p{which}");
            let mut drawn = (*waiting.pod(&name)).clone();
            drawn.shape = shapes[rng.below(2) as usize].clone();
            let is_popped = tickets.iter().any(|ticket| *ticket.pod().uid == *name);
            let queue = &mut waiting.queue;
            match rng.below(16) {
                0..=2 if !is_popped => {
                    let parked = [None, None, None, Some(Parked::Held)][rng.below(4) as usize];
                    queue.update(Arc::new(drawn), at(now), parked, rng.below(2) == 0);
                }
                3 if !is_popped => drop(queue.remove(&name)),
                4 if !is_popped => queue.retry(&name, at(now)),
                5 | 6 => tickets.extend(waiting.pop()),
                7 => queue.flush_backoff(at(now)),
                8 => drop(queue.sweep(at(now), step)),
                9 => queue.end_calls(),
                10 | 11 => waiting.call(step, now),
                _ if tickets.is_empty() => {}
                12..=14 => {
                    let ticket = tickets.swap_remove(0);
                    let by = [Plugin::NodeResourcesFit, Plugin::NodeResourcesFit, Plugin::InterPodAffinity];
                    let then = [Then::Waits, Then::Waits, Then::Waits, Then::TriedAgain, Then::Evicts];
                    let diagnosis = Arc::new(Diagnosis::before_filter(&waiting.shape, rng.below(3) as u32, "no room"));
                    let by = PluginSet::of(by[rng.below(3) as usize]);
                    queue.refused(ticket, by, diagnosis, step - rng.below(2), at(now), then[rng.below(5) as usize]);
                }
                _ => {
                    let ticket = tickets.swap_remove(0);
                    let pod = ticket.pod().clone();
                    match rng.below(4) {
                        0 => queue.failed(ticket, at(now)),
                        1 => queue.requeue(ticket, pod, None),
                        2 => queue.withhold(ticket),
                        _ => queue.done(ticket),
                    }
                }
            }
            check(&waiting.queue);
            let queued = waiting.queue.entries().count();
            assert_eq!(waiting.queue.open_slots(), queued + tickets.len(), "seed {seed}, step {step}");
            called += waiting.queue.groups().filter(|group| group.call.is_some()).count();
        }
    }
    assert!(called > 5_000, "many are called: {called}");
}
