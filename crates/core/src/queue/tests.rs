use super::*;
use crate::device_testing::wanting;
use crate::model::ClaimKey;
use crate::plugins::Plugin;
use crate::profile::ExtenderSet;
use crate::testing::{pod, shape};
use proptest::prelude::*;

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn named(name: &str, priority: i32) -> Arc<Pod> {
    Arc::new(Pod { priority, ..pod(name, shape()) })
}

fn by_fit() -> PluginSet {
    let mut set = PluginSet::NONE;
    set.insert(Plugin::NodeResourcesFit);
    set
}

fn refuse(queue: &mut Queue, ticket: Ticket, now: Time, missed: bool) {
    let diagnosis = Arc::new(Diagnosis::of_no_node(Arc::new(shape())));
    queue.refused(ticket, by_fit(), diagnosis, 1, now, if missed { Then::TriedAgain } else { Then::Waits });
}

fn next(queue: &mut Queue) -> Option<String> {
    queue.pop(ExtenderSet::NONE, |_| true).map(|ticket| {
        let name = ticket.pod().key.name.to_string();
        queue.done(ticket);
        name
    })
}

#[test]
fn pods_are_popped_by_priority_then_age() {
    let mut queue = Queue::new(QueueTimes::default());
    for (name, priority, millis) in [("late", 0, 30), ("early", 0, 10), ("high", 5, 20)] {
        queue.add(named(name, priority), at(millis), None);
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, ["high", "early", "late"]);
}

#[test]
fn a_pod_that_failed_stands_behind_equals_that_came_before_its_failure_71486() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("failed", 0), at(0), None);
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    queue.add(named("waiting", 0), at(1), None);
    refuse(&mut queue, ticket, at(2), false);
    queue.wake(at(60_000), |_| Wake::Requeue(QueueEvent::NodeAdd));
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, ["waiting", "failed"]);
}

#[test]
fn backoff_is_popped_early_only_when_active_is_empty_and_never_after_an_error() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("refused", 0), at(0), None);
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    refuse(&mut queue, ticket, at(0), true);
    queue.add(named("error", 0), at(0), None);
    queue.add(named("fresh", 0), at(0), None);
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    queue.failed(ticket, at(0));
    assert_eq!(queue.counts().backoff, 2);
    assert_eq!(next(&mut queue).as_deref(), Some("fresh"));
    assert_eq!(next(&mut queue).as_deref(), Some("refused"));
    assert_eq!(next(&mut queue), None);
    assert_eq!(queue.next_backoff_end(), Some(at(2_000)));
    queue.flush_backoff(at(1_999));
    assert_eq!(next(&mut queue), None);
    queue.flush_backoff(at(2_000));
    assert_eq!(next(&mut queue).as_deref(), Some("error"));
}

#[test]
fn an_event_during_the_attempt_is_not_lost() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("a", 0), at(0), None);
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    refuse(&mut queue, ticket, at(10_000), true);
    assert_eq!(queue.counts(), Counts { backoff: 1, ..Counts::default() });
}

#[test]
fn the_sweep_moves_pods_that_no_event_woke_and_those_are_counted_that_fitted_all_along() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("a", 0), at(0), None);
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    refuse(&mut queue, ticket, at(0), false);
    assert_eq!(queue.sweep(at(300_000), 7), 0);
    assert_eq!(queue.sweep(at(300_001), 7), 1);
    assert_eq!((queue.counts().active, queue.rescued_by_sweep()), (1, 0));
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    queue.note_placed(&ticket, 8);
    assert_eq!(queue.rescued_by_sweep(), 0, "something changed after the sweep");
    queue.note_placed(&ticket, 7);
    assert_eq!(queue.rescued_by_sweep(), 1);
    refuse(&mut queue, ticket, at(300_001), true);
    queue.flush_backoff(at(310_000));
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    queue.note_placed(&ticket, 7);
    assert_eq!(queue.rescued_by_sweep(), 1, "an event brought it back");
    queue.done(ticket);
}

/// 124384 and 125564: each event was held against each gated pod.
#[test]
fn gated_and_held_pods_stay_parked_until_their_cause_ends_124384() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("gated", 0), at(0), Some(Parked::Gated));
    queue.add(named("held", 0), at(0), Some(Parked::Held));
    queue.wake(at(1), |_| panic!("an event costs nothing for who waits for none"));
    assert_eq!(queue.sweep(at(999_999_999), 1), 0);
    assert_eq!(next(&mut queue), None);
    queue.update(named("gated", 0), at(2), None, true);
    assert_eq!(queue.counts(), Counts { active: 1, held: 1, ..Counts::default() });
    queue.update(named("held", 0), at(3), None, false);
    assert_eq!(queue.counts(), Counts { active: 2, ..Counts::default() });
}

#[test]
fn what_comes_into_which_part_is_counted_by_upstreams_labels() {
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(named("gated", 0), at(0), Some(Parked::Gated));
    queue.update(named("gated", 0), at(1), Some(Parked::Gated), true);
    queue.update(named("gated", 0), at(5), None, true);
    queue.update(named("gated", 0), at(6), None, true);
    let mut ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    assert_eq!((ticket.active_at(), ticket.attempts()), (at(5), 1), "the gate's time is not the scheduler's");
    ticket.begin(at(7));
    refuse(&mut queue, ticket, at(8), false);
    queue.wake(at(9), |_| Wake::Requeue(QueueEvent::NodeAdd));
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("popped from backoff");
    assert_eq!(ticket.active_at(), at(5));
    queue.failed(ticket, at(10));
    queue.flush_backoff(at(20_000));
    let all: Vec<_> = queue.incoming().all().collect();
    assert_eq!(
        all,
        [
            ("active", "UnschedulablePodUpdate", 1),
            ("active", "BackoffComplete", 1),
            ("active", "PopFromBackoffQ", 1),
            ("backoff", "ScheduleAttemptFailure", 1),
            ("backoff", "NodeAdd", 1),
            ("unschedulable", "UnschedulablePodAdd", 1),
            ("unschedulable", "ScheduleAttemptFailure", 1),
        ]
    );
}

#[test]
fn a_queue_of_many_has_room_for_more_before_they_come() {
    let (mut queue, most) = (Queue::new(QueueTimes::default()), 100);
    let mut moved = 0;
    for i in 0..5_000 {
        if i % most == 0 {
            queue.make_room(most);
        }
        let room = queue.entries.room();
        queue.add(named(&format!("p{i}"), 0), at(0), None);
        moved += usize::from(i >= most && queue.entries.room() != room);
    }
    assert_eq!(moved, 0);
    let room = queue.entries.room();
    assert!(room.0 < 16_384 && room.1 < 16_384, "{room:?}");
}

/// The pods of these slots, by name.
fn names_at(queue: &Queue, slots: &[Slot]) -> Vec<String> {
    queue.entries_at(slots).map(|entry| entry.pod().key.name.to_string()).collect()
}

#[test]
fn a_change_of_a_claim_concerns_who_names_it_once_and_wakes_who_is_unschedulable() {
    let mut queue = Queue::new(QueueTimes::default());
    for (name, claims) in [("both", &["x", "y"][..]), ("popped", &["x"]), ("active", &["x"]), ("other", &["z"])] {
        queue.add(Arc::new(wanting(name, claims)), at(0), None);
    }
    let claims = |namespace: &str| ["x", "y"].map(|name| ClaimKey { namespace: namespace.into(), name: name.into() });
    let uids: [Str; 2] = ["both".into(), "popped".into()];
    let first = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    refuse(&mut queue, first, at(0), false);
    let _popped = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    let concerned = queue.concerned_by(claims("default").iter(), uids.iter());
    assert_eq!(names_at(&queue, &concerned), ["both", "active"]);
    assert!(queue.concerned_by(claims("elsewhere").iter(), [].iter()).is_empty());
    queue.wake_at(at(60_000), &concerned, |entry| {
        assert_eq!(&*entry.pod().key.name, "both", "the other one is tried anyway");
        Wake::Requeue(QueueEvent::ResourceClaimUpdate)
    });
    assert_eq!((queue.counts().active, queue.counts().unschedulable), (3, 0));
}

/// A pod with the claims of this set, of which there are three.
fn naming(uid: &str, priority: i32, claims: u8) -> Arc<Pod> {
    let named: Vec<String> =
        (0..3).filter(|claim| claims & (1 << claim) != 0).map(|claim| format!("c{claim}")).collect();
    let named: Vec<&str> = named.iter().map(AsRef::as_ref).collect();
    Arc::new(Pod { priority, ..wanting(uid, &named) })
}

/// Who names the claim, found by a look at all of them.
fn users(queue: &Queue, claim: &str) -> Vec<Slot> {
    let names_it = |entry: &&Entry| entry.pod().named_claims().any(|own| **own == *claim);
    queue.entries().filter(names_it).map(|entry| entry.slot).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8, i32, bool),
    Update(u8, u8),
    Remove(u8),
    Pop(u8),
    Wake,
    Flush,
    Sweep,
    Pause(bool),
    Advance(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..12_u8, 0..3, any::<bool>()).prop_map(|(id, priority, gated)| Op::Add(id, priority, gated)),
        (0..12_u8, 0..8_u8).prop_map(|(id, claims)| Op::Update(id, claims)),
        (0..12_u8).prop_map(Op::Remove),
        (0..5_u8).prop_map(Op::Pop),
        Just(Op::Wake),
        Just(Op::Flush),
        Just(Op::Sweep),
        any::<bool>().prop_map(Op::Pause),
        (1..20_000_u32).prop_map(Op::Advance),
    ]
}

#[test]
fn a_withheld_pod_keeps_its_place_and_nothing_is_popped_while_all_is_paused() {
    let of = |name: &str, namespace: &str| {
        let shape = crate::model::PodShape { namespace: namespace.into(), ..shape() };
        Arc::new(pod(name, shape))
    };
    let mut queue = Queue::new(QueueTimes::default());
    queue.add(of("first", "hung"), at(0), None);
    queue.add(of("second", "fine"), at(1), None);
    queue.set_paused(Paused::Namespaces(["hung".into()].into()));
    let ticket = queue.pop(ExtenderSet::NONE, |_| true).expect("active");
    assert!(queue.is_paused(ticket.pod()));
    queue.withhold(ticket);
    assert_eq!((queue.counts().active, next(&mut queue).as_deref()), (2, Some("second")));
    assert!(!queue.can_pop(ExtenderSet::NONE, |_| true));
    queue.add(of("third", "fine"), at(2), None);
    queue.set_paused(Paused::All);
    assert!(!queue.can_pop(ExtenderSet::NONE, |_| true) && queue.pop(ExtenderSet::NONE, |_| true).is_none());
    queue.set_paused(Paused::None);
    let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(order, ["first", "third"]);
}

proptest! {
    /// A pod is in exactly one part, and found by the claims that it names, whatever happens in whatever order.
    #[test]
    fn every_pod_is_in_exactly_one_place_118226(ops in proptest::collection::vec(op(), 1..200)) {
        let mut queue = Queue::new(QueueTimes::default());
        let mut known = std::collections::BTreeSet::new();
        let mut now = 0;
        for op in ops {
            match op {
                Op::Add(id, priority, gated) => {
                    let uid = format!("p{id}");
                    queue.add(naming(&uid, priority, id), at(now), gated.then_some(Parked::Gated));
                    known.insert(uid);
                }
                Op::Update(id, claims) => {
                    let uid = format!("p{id}");
                    queue.update(naming(&uid, 0, claims), at(now), None, claims == 0);
                    known.insert(uid);
                }
                Op::Remove(id) => {
                    let uid = format!("p{id}");
                    prop_assert_eq!(queue.remove(&uid).is_some(), known.remove(&uid));
                }
                Op::Pop(ending) => if let Some(ticket) = queue.pop(ExtenderSet::NONE, |_| true) {
                    let pod = ticket.pod().clone();
                    prop_assert!(queue.get(&pod.uid).is_none());
                    match ending {
                        _ if queue.is_paused(&pod) => queue.withhold(ticket),
                        0 => { known.remove(&*pod.uid); queue.done(ticket); }
                        1 => refuse(&mut queue, ticket, at(now), false),
                        2 => queue.failed(ticket, at(now)),
                        3 => queue.requeue(ticket, naming(&pod.uid, 0, 5), None),
                        _ => queue.requeue(ticket, pod, None),
                    }
                },
                Op::Wake => queue.wake(at(now), |_| Wake::Requeue(QueueEvent::NodeAdd)),
                Op::Flush => queue.flush_backoff(at(now)),
                Op::Sweep => { queue.sweep(at(now), 1); }
                Op::Pause(begins) => {
                    queue.set_paused(if begins { Paused::Namespaces(["default".into()].into()) } else { Paused::None });
                }
                Op::Advance(millis) => now += u64::from(millis),
            }
            let c = queue.counts();
            prop_assert_eq!(c.active + c.backoff + c.unschedulable + c.gated + c.held, known.len());
            prop_assert_eq!(queue.entries().count(), known.len());
            for claim in ["c0", "c1", "c2"] {
                let key = ClaimKey { namespace: "default".into(), name: claim.into() };
                prop_assert_eq!(queue.concerned_by([key].iter(), [].iter()), users(&queue, claim));
            }
        }
        for uid in &known {
            drop(queue.remove(uid));
        }
        prop_assert_eq!(queue.entries.claims_named(), 0);
    }
}
