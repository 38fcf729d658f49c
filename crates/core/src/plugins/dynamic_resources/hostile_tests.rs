//! Claims that take long to find devices for: looks at them are divided.

use super::State;
use super::kept::Kept;
use crate::cycle::{Decision, Explanation, Scheduler, explain};
use crate::device_testing::{claim_of, class, devices_of, request, wanting};
use crate::ledger::{Ledger, PodState};
use crate::limits::{DEVICE_STEPS, DEVICE_STEPS_PER_WORK, WORK_PER_HOLD};
use crate::model::{Pod, ResourceClaim};
use crate::plugins::context::PluginContext;
use crate::plugins::{Stop, Work};
use crate::profile::CompiledProfile;
use crate::testing::node;
use berth_cel::{Attribute, QualifiedName};
use berth_devices::model::{Attributes, Device, DeviceConstraint, ResourceClaim as ClaimSpec, ResourceSlice};
use std::cell::RefCell;
use std::sync::Arc;

/// A node with groups of so many devices, and a pod that wants `count` devices of one group. Each way to choose some of a group that is too
/// small is tried.
fn groups(sizes: &[usize], count: i64) -> (Ledger, Arc<Pod>) {
    let in_group = |(group, size): (usize, &usize)| {
        let attribute = (QualifiedName::parse("group"), Attribute::Int(group as i64));
        let device = move |i| Device {
            name: format!("{group}-{i}").into(),
            attributes: vec![attribute.clone()],
            ..Device::default()
        };
        (0..*size).map(device)
    };
    let devices = sizes.iter().enumerate().flat_map(in_group).collect();
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 4_000, 8 << 30, 100));
    ledger.apply_resource_slice(ResourceSlice { devices, ..devices_of("a", &[]) });
    ledger.apply_device_class(class("gpu", None));
    let claim = claim_of("c", vec![request("r", "gpu", count)]);
    let alike =
        DeviceConstraint { requests: Vec::new(), attributes: Attributes::Match(QualifiedName::parse("d/group")) };
    let spec = ClaimSpec { constraints: vec![alike], ..ClaimSpec::clone(&claim.spec) };
    ledger.apply_resource_claim(ResourceClaim { spec: Arc::new(spec), ..claim });
    ledger.apply_pod(wanting("p", &["c"]));
    let Some(PodState::Pending(pod)) = ledger.pod("p").cloned() else { panic!("it waits") };
    (ledger, pod)
}

/// As many looks as it takes, each with the work of one hold, or so much more as the last of it may take at once.
fn decide_with(ledger: &Ledger, pod: &Arc<Pod>, more: usize) -> (Decision, i64) {
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    for looks in 1..1_000 {
        let mut work = Work::of_one_hold();
        let found = scheduler.decide_within(ledger, pod, &mut work, None);
        assert!(work.done() <= WORK_PER_HOLD + more, "{} done", work.done());
        if let Some(decision) = found {
            return (decision, looks);
        }
    }
    panic!("it is looked at without end");
}

fn decide(ledger: &Ledger, pod: &Arc<Pod>) -> (Decision, i64) {
    decide_with(ledger, pod, 100)
}

#[test]
fn a_search_that_takes_too_long_is_divided_until_it_is_given_up() {
    let (ledger, pod) = groups(&[31, 31, 31, 31], 32);
    let (decision, looks) = decide(&ledger, &pod);
    let Decision::Failed(text) = decision else { panic!("{decision:?}") };
    assert!(text.ends_with("node a: timed out trying to allocate devices"), "{text}");
    let in_one_hold = WORK_PER_HOLD as i64 * DEVICE_STEPS_PER_WORK;
    assert!(looks >= DEVICE_STEPS / in_one_hold, "{looks} looks");
}

/// What a selector takes beyond what is left of a hold counts. Else a worker would look at more devices than `explain`, and say something else.
#[test]
fn a_costly_selector_ends_a_search_at_the_same_device_however_it_is_divided() {
    // Some 22,000 steps: more than a hold has. Two of them take as long as a unit of work.
    let costly = "lists.range(60).all(x, lists.range(60).all(y, x + y >= 0)) && false";
    let mut timed_out = 0;
    for count in (30..75).step_by(3) {
        let (mut ledger, pod) = groups(&[count], 1);
        ledger.apply_device_class(class("gpu", Some(costly)));
        let explained = explain(&CompiledProfile::default_preset("test"), &ledger, &pod);
        let at_once = matches!(explained, Explanation::Failed(_));
        let (decision, _) = decide_with(&ledger, &pod, 12_000);
        assert_eq!(matches!(decision, Decision::Failed(_)), at_once, "{count} devices: {decision:?}");
        timed_out += usize::from(at_once);
    }
    assert!((3..12).contains(&timed_out), "{timed_out} of 15 timed out");
}

#[test]
fn a_search_ends_although_devices_change_between_its_looks() {
    for name in ["a", "b"] {
        let (mut ledger, pod) = groups(&[31, 31, 31, 31], 32);
        ledger.apply_node(&node("b", 4_000, 8 << 30, 100));
        let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        let look = |turn: usize| {
            // A pool of its own, which has nothing that the pod could use.
            let mut other = devices_of(name, &["other"]);
            (other.name, other.id.pool, other.generation) = ("other".into(), "other".into(), turn as i64);
            ledger.apply_resource_slice(other);
            scheduler.decide_within(&ledger, &pod, &mut Work::of_one_hold(), None)
        };
        let decision = (0..200).find_map(look);
        let Some(Decision::Failed(text)) = decision else { panic!("{name}: {decision:?}") };
        assert!(text.ends_with("timed out trying to allocate devices"), "{text}");
    }
}

#[test]
fn what_took_long_to_find_is_not_searched_again() {
    let (ledger, pod) = groups(&[12, 16], 16);
    let (decision, looks) = decide(&ledger, &pod);
    let Decision::Place(proposal) = decision else { panic!("{decision:?}") };
    assert!(looks > 1);
    let profile = CompiledProfile::default_preset("test");
    let (cx, kept) = (PluginContext { profile: &profile, ledger: &ledger }, RefCell::new(Kept::default()));
    let state = State::prepare(cx, &pod, &kept).unwrap().unwrap();
    while state.judge(cx, proposal.node, &mut Work::of_one_hold()) == Err(Stop::Unfinished) {}
    for _ in 0..2 {
        let asked = super::Asked::now(&ledger, proposal.node, 0);
        let mut solution = kept.borrow_mut().take_solution(asked).unwrap();
        let mut steps = 0;
        let outcome = state.allocate(cx, asked, &mut solution, &mut super::NoShares, &mut steps);
        assert!(matches!(outcome, berth_devices::Outcome::Allocated(_)), "{outcome:?}");
        kept.borrow_mut().keep_solution(asked, solution);
        let plan = state.plan(cx, &pod, proposal.node).unwrap();
        assert_eq!(format!("{:?}", plan.claims), format!("{:?}", proposal.claims.claims));
    }
}
