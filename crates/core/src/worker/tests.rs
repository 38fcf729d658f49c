use super::*;
use crate::cycle::Scheduler;
use crate::io::{BindOutcome, BindRequest, EvictionOutcome, Refusal, RefusalReason};
use crate::ledger::{Ledger, PodState};
use crate::model::{AffinityTerm, LabelSelector, Labels, NamespaceScope, Node, Pod, Requirement};
use crate::model::{RequirementOperator, Taint, TaintEffect};
use crate::testing::{node, pod, shape, shape_of};
use proptest::prelude::*;
use std::cell::RefCell;

const GIB: i64 = 1 << 30;

impl Worker {
    /// Changes the ledger as the runtime does when it delivers `input`, before this worker hears of it.
    pub(super) fn delivered(&self, input: &Input, ledger: &mut Ledger) {
        match input {
            Input::BindEnded { attempt, outcome } => {
                if let Some(binding) = self.binding.get(attempt) {
                    ledger.bind_ended(&binding.ticket.pod().uid, outcome);
                }
            }
            Input::BindRevoked { attempt } => {
                if let Some(binding) = self.binding.get(attempt) {
                    ledger.forget(&binding.ticket.pod().uid);
                }
            }
            Input::EvictionEnded { outcome: EvictionOutcome::Failed { left, .. }, .. } => ledger.release(left),
            Input::EvictionEnded { .. }
            | Input::VolumesWritten { .. }
            | Input::ClaimsWritten { .. }
            | Input::ExtenderAnswered { .. }
            | Input::ExtenderRecovered => {}
        }
    }
}

/// A ledger, workers on it, and binds that end when the test ends them.
struct Bench {
    ledger: RefCell<Ledger>,
    workers: Vec<Worker>,
    inputs: Vec<Vec<Input>>,
    binds: Vec<(usize, AttemptId, Arc<Pod>, Str)>,
    refusals: Vec<(String, RefusalReason, String)>,
    now: u64,
    /// Whether outcomes reach their worker only after its next step: the ledger has them before.
    late: bool,
    on_the_way: Vec<(usize, Input)>,
}

impl Bench {
    fn new(profiles: Vec<CompiledProfile>) -> Self {
        let workers: Vec<Worker> =
            profiles.into_iter().enumerate().map(|(i, p)| Worker::new(Arc::new(p), i as u64)).collect();
        Self {
            ledger: RefCell::new(Ledger::new()),
            inputs: workers.iter().map(|_| Vec::new()).collect(),
            workers,
            binds: Vec::new(),
            refusals: Vec::new(),
            now: 0,
            late: false,
            on_the_way: Vec::new(),
        }
    }

    fn one() -> Self {
        Self::new(vec![CompiledProfile::default_preset("test")])
    }

    fn node(&self, node: &Node) {
        self.ledger.borrow_mut().apply_node(node);
    }

    fn pod(&self, pod: Pod) {
        self.ledger.borrow_mut().apply_pod(pod);
    }

    fn step(&mut self, worker: usize) -> Next {
        let mut effects = Vec::new();
        let now = Time::from_millis(self.now);
        let next = self.workers[worker].step(now, &mut self.inputs[worker], &self.ledger, &mut effects);
        for effect in effects {
            match effect {
                Effect::Bind(BindRequest { attempt, pod, node, epoch, .. }) => {
                    assert!(self.ledger.borrow().is_same_node(&node, epoch), "{node} is not named by {epoch}");
                    self.binds.push((worker, attempt, pod, node));
                }
                Effect::Refuse(Refusal { pod, reason, text, .. }) => {
                    self.refusals.push((pod.key.name.to_string(), reason, crate::testing::without_post_filter(&text)));
                }
                other => panic!("no pod here has volumes, victims or extenders: {other:?}"),
            }
        }
        let (arrived, still) = self.on_the_way.drain(..).partition(|(to, _)| *to == worker);
        self.on_the_way = still;
        let arrived: Vec<(usize, Input)> = arrived;
        self.inputs[worker].extend(arrived.into_iter().map(|(_, input)| input));
        next
    }

    fn settle(&mut self, worker: usize) {
        while self.step(worker) == Next::Now || !self.inputs[worker].is_empty() {}
    }

    fn end(&mut self, at: usize, outcome: BindOutcome) {
        let (worker, attempt, pod, node) = self.binds.remove(at);
        if outcome == BindOutcome::Bound {
            self.pod(Pod { node_name: Some(node), ..(*pod).clone() });
        }
        self.tell(worker, Input::BindEnded { attempt, outcome });
    }

    fn tell(&mut self, worker: usize, input: Input) {
        self.workers[worker].delivered(&input, &mut self.ledger.borrow_mut());
        if self.late {
            self.on_the_way.push((worker, input));
        } else {
            self.inputs[worker].push(input);
        }
    }

    fn counts(&self, worker: usize) -> crate::queue::Counts {
        self.workers[worker].queue.counts()
    }

    fn audit(&self) {
        self.ledger.borrow().audit().expect("the columns equal the sums of the pods");
    }
}

#[test]
fn a_pod_is_placed_bound_and_counted() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, GIB / 2)));
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
    assert_eq!(&*bench.binds[0].3, "a");
    bench.end(0, BindOutcome::Bound);
    bench.settle(0);
    assert_eq!(bench.workers[0].totals.scheduled, 1);
    assert!(matches!(bench.ledger.borrow().pod("p"), Some(PodState::Bound(_))));
    bench.audit();
}

#[test]
fn a_pod_that_does_not_fit_gets_the_reason_and_is_tried_again_when_capacity_is_freed() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("first", shape_of(600, 0)));
    bench.settle(0);
    bench.end(0, BindOutcome::Bound);
    bench.pod(pod("second", shape_of(600, 0)));
    bench.settle(0);
    let text = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(bench.refusals, [("second".into(), RefusalReason::Unschedulable, text.into())]);
    bench.now = 5_000;
    bench.ledger.borrow_mut().delete_pod("first");
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "the freed capacity woke it");
}

#[test]
fn a_bind_of_unknown_outcome_keeps_its_capacity_and_leaves_the_window_136204() {
    let mut bench = Bench::one();
    bench.workers[0].set_bind_window(1);
    bench.node(&node("a", 1000, GIB, 10));
    for name in ["p", "q", "r"] {
        bench.pod(pod(name, shape_of(400, 0)));
    }
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "the window is one bind wide");
    let (_, attempt, ..) = bench.binds[0].clone();
    bench.inputs[0].push(Input::BindEnded { attempt, outcome: BindOutcome::Unknown });
    bench.settle(0);
    assert_eq!(bench.binds.len(), 2, "an unknown bind no longer counts");
    bench.end(1, BindOutcome::Bound);
    bench.settle(0);
    assert_eq!(bench.counts(0).unschedulable, 1, "the capacity of the unknown bind is still taken");
    // However long it takes: assumptions that ended by a timer overbooked upstream's nodes.
    bench.now = 86_400_000;
    bench.settle(0);
    assert_eq!((bench.binds.len(), bench.counts(0).unschedulable), (1, 1));
    bench.end(0, BindOutcome::Bound);
    bench.settle(0);
    bench.audit();
}

#[test]
fn a_refused_bind_releases_its_capacity_and_the_pod_is_tried_again_after_backoff_49314() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    bench.end(0, BindOutcome::Refused { code: None, message: "denied by policy".into() });
    bench.settle(0);
    assert!(bench.binds.is_empty());
    assert_eq!(bench.counts(0).backoff, 1);
    assert_eq!(bench.refusals[0].1, RefusalReason::SchedulerError);
    bench.now = 3_000;
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
    bench.audit();
}

#[test]
fn a_revoked_bind_requeues_the_pod_and_a_late_answer_is_dropped() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    let (_, attempt, ..) = bench.binds.remove(0);
    bench.tell(0, Input::BindRevoked { attempt });
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "decided anew");
    bench.inputs[0].push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
    bench.settle(0);
    assert_eq!(bench.workers[0].totals.scheduled, 0, "the old attempt is over");
    assert_eq!(bench.workers[0].binding.len(), 1);
    bench.audit();
}

#[test]
fn a_swap_decides_anew_what_was_unschedulable_and_takes_no_sent_bind_twice() {
    let mut bench = Bench::one();
    let mut tainted = node("a", 1000, GIB, 10);
    tainted.taints = Arc::from([Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule }]);
    bench.node(&tainted);
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    assert_eq!(bench.counts(0).unschedulable, 1);
    let profile = CompiledProfile::default_preset("test");
    let filters = profile.filters.without(crate::plugins::Plugin::TaintToleration);
    bench.now = 2_000;
    bench.workers[0].swap(Time::from_millis(2_000), Arc::new(CompiledProfile { filters, ..profile.clone() }));
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
    bench.workers[0].swap(Time::from_millis(2_000), Arc::new(profile));
    bench.settle(0);
    assert_eq!((bench.binds.len(), bench.workers[0].binding.len()), (1, 1));
}

#[test]
fn a_pod_whose_name_was_given_away_during_its_bind_does_not_come_back() {
    let both = |name: &str, names: &[&str]| CompiledProfile {
        scheduler_names: names.iter().map(|n| (*n).into()).collect(),
        ..CompiledProfile::default_preset(name)
    };
    let mut bench = Bench::new(vec![both("p0", &["p0", "test"]), both("p1", &["p1"])]);
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    bench.workers[0].swap(Time::ZERO, Arc::new(both("p0", &["p0"])));
    bench.workers[1].swap(Time::ZERO, Arc::new(both("p1", &["p1", "test"])));
    bench.settle(1);
    bench.end(0, BindOutcome::Refused { code: None, message: "no".into() });
    bench.settle(0);
    assert_eq!(bench.counts(0), crate::queue::Counts::default(), "it is no longer ours");
    bench.settle(1);
    assert_eq!((bench.binds.len(), bench.binds[0].0), (1, 1), "the other profile serves it");
}

#[test]
fn a_paused_profile_keeps_its_pods_and_starts_no_cycle() {
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("test") };
    let mut bench = Bench::new(vec![paused.clone()]);
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    assert_eq!((bench.binds.len(), bench.counts(0).active), (0, 1));
    bench.workers[0].swap(Time::ZERO, Arc::new(CompiledProfile { mode: Mode::Active, ..paused }));
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
}

#[test]
fn a_pod_bound_by_someone_else_is_noticed() {
    let mut bench = Bench::one();
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(Pod { node_name: Some("a".into()), ..pod("p", shape_of(600, 0)) });
    bench.settle(0);
    let foreign = bench.workers[0].foreign.as_ref().expect("noticed");
    assert_eq!((&*foreign.node, foreign.count), ("a", 1));
    assert_eq!(bench.counts(0), crate::queue::Counts::default());
    bench.audit();
}

#[test]
fn capacity_on_a_node_outside_the_selector_wakes_no_pod_and_a_label_that_brings_a_node_in_does() {
    let requirement =
        Requirement { key: "pool".into(), operator: RequirementOperator::In, values: vec!["batch".into()] };
    let selector = LabelSelector { requirements: vec![requirement] };
    let mut bench =
        Bench::new(vec![CompiledProfile { node_selector: Some(selector), ..CompiledProfile::default_preset("test") }]);
    let inside = Node { labels: [("pool", "batch")].into_iter().collect(), ..node("in", 100, GIB, 10) };
    bench.node(&inside);
    bench.pod(pod("p", shape_of(600, 0)));
    bench.settle(0);
    assert_eq!(bench.refusals[0].2, "0/1 nodes are available: 1 Insufficient cpu.");
    bench.now = 5_000;
    bench.node(&node("out", 4000, GIB, 10));
    bench.settle(0);
    assert_eq!((bench.refusals.len(), bench.counts(0).unschedulable), (1, 1), "not looked at again");
    bench.node(&Node { labels: [("pool", "batch")].into_iter().collect(), ..node("out", 4000, GIB, 10) });
    bench.settle(0);
    assert_eq!(&*bench.binds[0].3, "out");
}

#[test]
fn a_nominated_node_is_tried_first_and_its_capacity_is_kept_from_others() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.node(&node("b", 4000, GIB, 10));
    bench.pod(Pod {
        gates: vec!["wait".into()],
        nominated_node: Some("a".into()),
        priority: 5,
        ..pod("vip", shape_of(1000, 0))
    });
    let mut wants_a = shape_of(500, 0);
    wants_a.row_mut().node_selector = [("kubernetes.io/hostname", "a")].into_iter().collect();
    bench.pod(pod("low", wants_a.clone()));
    bench.settle(0);
    assert_eq!(
        bench.refusals[0].2,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
    );
    bench.pod(Pod {
        resource_version: "2".into(),
        nominated_node: Some("a".into()),
        priority: 5,
        ..pod("vip", shape_of(1000, 0))
    });
    bench.settle(0);
    assert_eq!(&*bench.binds[0].3, "a", "taken although b has more capacity");
}

#[test]
fn an_existing_pods_anti_affinity_excludes_and_its_deletion_wakes() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    let requirement = Requirement { key: "app".into(), operator: RequirementOperator::In, values: vec!["web".into()] };
    let mut loner = shape();
    loner.anti_affinity = vec![AffinityTerm {
        selector: Some(LabelSelector { requirements: vec![requirement] }),
        namespaces: NamespaceScope { names: vec!["default".into()], selector: None },
        topology_key: "kubernetes.io/hostname".into(),
    }];
    bench.pod(Pod { node_name: Some("a".into()), ..pod("loner", loner) });
    let mut web = shape();
    web.labels = [("app", "web")].into_iter().collect();
    bench.pod(pod("web", web));
    bench.pod(pod("other", shape()));
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
    assert_eq!(
        bench.refusals[0].2,
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    bench.now = 5_000;
    bench.ledger.borrow_mut().delete_pod("loner");
    bench.settle(0);
    assert_eq!(bench.binds.len(), 2);
    bench.audit();
}

#[test]
fn a_missed_delete_is_found_when_the_name_comes_back_with_another_uid_104521() {
    let mut bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(Pod { node_name: Some("a".into()), ..pod("p", shape_of(900, 0)) });
    bench.pod(Pod { uid: "other".into(), ..pod("p", shape_of(900, 0)) });
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "the old pod's capacity is free");
    bench.audit();
}

#[test]
fn a_node_recreated_under_its_name_takes_no_proposal_made_for_the_old_one_63262() {
    let bench = Bench::one();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    let mut ledger = bench.ledger.borrow_mut();
    let mut scheduler = Scheduler::new(bench.workers[0].profile().clone(), 1);
    let Some(PodState::Pending(pending)) = ledger.pod("p").cloned() else { panic!("pending") };
    let crate::cycle::Decision::Place(proposal) = scheduler.decide(&ledger, &pending) else { panic!("fits") };
    ledger.apply_node(&Node { uid: "another".into(), ..node("a", 100, GIB, 10) });
    assert_eq!(
        ledger.commit(&proposal, |_| Some((proposal.volumes.clone(), proposal.claims.clone()))),
        Err(crate::ledger::Conflict::NodeDeleted)
    );
}

/// Decides for the pod `uid` without committing, as a worker does under the read lock.
fn propose(ledger: &Ledger, profile: &Arc<CompiledProfile>, uid: &str) -> crate::ledger::Proposal {
    let Some(PodState::Pending(pending)) = ledger.pod(uid).cloned() else { panic!("{uid} is pending") };
    match Scheduler::new(profile.clone(), 1).decide(ledger, &pending) {
        crate::cycle::Decision::Place(proposal) => proposal,
        other => panic!("{uid}: {other:?}"),
    }
}

fn commit(
    ledger: &mut Ledger,
    profile: &CompiledProfile,
    proposal: &crate::ledger::Proposal,
) -> Result<(), crate::ledger::Conflict> {
    let refits = |l: &Ledger| Scheduler::new(profile.clone().into(), 1).refits(l, &proposal.pod, proposal.node);
    ledger.commit(proposal, refits).map(|_| ())
}

#[test]
fn of_two_proposals_for_the_last_capacity_one_is_committed() {
    let bench = Bench::one();
    let profile = bench.workers[0].profile().clone();
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape_of(600, 0)));
    bench.pod(pod("q", shape_of(600, 0)));
    let mut ledger = bench.ledger.borrow_mut();
    let (first, second) = (propose(&ledger, &profile, "p"), propose(&ledger, &profile, "q"));
    assert_eq!(commit(&mut ledger, &profile, &first), Ok(()));
    assert_eq!(commit(&mut ledger, &profile, &second), Err(crate::ledger::Conflict::NoLongerFits));
}

#[test]
fn a_fresh_anti_affinity_elsewhere_in_the_domain_stops_a_proposal() {
    let bench = Bench::one();
    let profile = bench.workers[0].profile().clone();
    for name in ["a", "b"] {
        let labels = [("zone", "z"), ("kubernetes.io/hostname", name)].into_iter().collect();
        bench.node(&Node { labels, ..node(name, 1000, GIB, 10) });
    }
    let requirement = Requirement { key: "app".into(), operator: RequirementOperator::In, values: vec!["web".into()] };
    let mut loner = shape_of(900, 0);
    loner.row_mut().node_selector = [("kubernetes.io/hostname", "a")].into_iter().collect();
    loner.anti_affinity = vec![AffinityTerm {
        selector: Some(LabelSelector { requirements: vec![requirement] }),
        namespaces: NamespaceScope { names: vec!["default".into()], selector: None },
        topology_key: "zone".into(),
    }];
    let mut web = shape_of(100, 0);
    web.labels = [("app", "web")].into_iter().collect();
    web.row_mut().node_selector = [("kubernetes.io/hostname", "b")].into_iter().collect();
    bench.pod(pod("loner", loner));
    bench.pod(pod("web", web));
    let mut ledger = bench.ledger.borrow_mut();
    let (first, second) = (propose(&ledger, &profile, "loner"), propose(&ledger, &profile, "web"));
    assert_eq!(commit(&mut ledger, &profile, &first), Ok(()));
    assert_eq!(commit(&mut ledger, &profile, &second), Err(crate::ledger::Conflict::NoLongerFits));
}

#[test]
fn namespaces_that_may_not_use_the_profile_are_held_until_they_may() {
    let access = crate::profile::NamespaceAccess::Restricted {
        names: Vec::new(),
        match_labels: [("team", "batch")].into_iter().collect(),
    };
    let mut bench = Bench::new(vec![CompiledProfile { namespaces: access, ..CompiledProfile::default_preset("test") }]);
    bench.node(&node("a", 1000, GIB, 10));
    bench.pod(pod("p", shape()));
    bench.settle(0);
    assert_eq!((bench.binds.len(), bench.counts(0).held), (0, 1));
    assert_eq!(bench.refusals[0].1, RefusalReason::SchedulerError);
    let labels: Labels = [("team", "batch")].into_iter().collect();
    bench.ledger.borrow_mut().apply_namespace(crate::model::Namespace { name: "default".into(), labels });
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1);
}

#[derive(Debug, Clone)]
enum Op {
    AddPod(u8, u16, u8),
    DeletePod(u8),
    Bind(u8, u8),
    Node(u8, u16),
    DeleteNode(u8),
    Step(u8),
    ForeignBind(u8, u8),
    Advance,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u8>(), 1..800_u16, 0..2_u8).prop_map(|(id, cpu, who)| Op::AddPod(id % 40, cpu, who)),
        1 => any::<u8>().prop_map(|id| Op::DeletePod(id % 40)),
        3 => (any::<u8>(), 0..8_u8).prop_map(|(at, how)| Op::Bind(at, how)),
        1 => (0..5_u8, 500..3000_u16).prop_map(|(id, cpu)| Op::Node(id, cpu)),
        1 => (0..5_u8).prop_map(Op::DeleteNode),
        6 => (0..2_u8).prop_map(Op::Step),
        1 => (any::<u8>(), 0..5_u8).prop_map(|(id, node)| Op::ForeignBind(id % 40, node)),
        1 => Just(Op::Advance),
    ]
}

fn outcome(how: u8) -> BindOutcome {
    match how {
        0 => BindOutcome::PodDeleted,
        1 => BindOutcome::Refused { code: None, message: "no".into() },
        2 => BindOutcome::BoundElsewhere { node: "n0".into() },
        _ => BindOutcome::Bound,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Two profiles on one set of nodes, with binds ending in every way: the sums stay those of the pods, no commit
    /// overbooks a node, and every pending pod is in exactly one worker's hands.
    #[test]
    fn nothing_is_lost_and_no_commit_overbooks(ops in proptest::collection::vec(op(), 1..120)) {
        let mut bench = Bench::new(vec![CompiledProfile::default_preset("p0"), CompiledProfile::default_preset("p1")]);
        let mut used = BTreeSet::new();
        for op in ops {
            match op {
                Op::AddPod(id, cpu, who) => {
                    let uid = format!("u{id}");
                    // A uid never comes back.
                    if used.insert(uid.clone()) {
                        bench.pod(Pod { scheduler_name: format!("p{who}").into(), ..pod(&uid, shape_of(i64::from(cpu), 0)) });
                    }
                }
                Op::DeletePod(id) => bench.ledger.borrow_mut().delete_pod(&format!("u{id}")),
                Op::Bind(at, how) => if !bench.binds.is_empty() {
                    let at = usize::from(at) % bench.binds.len();
                    let exists = bench.ledger.borrow().pod(&bench.binds[at].2.uid).is_some();
                    bench.late = at % 2 == 1;
                    bench.end(at, if exists { outcome(how) } else { BindOutcome::PodDeleted });
                },
                Op::Node(id, cpu) => bench.node(&node(&format!("n{id}"), i64::from(cpu), GIB, 10)),
                Op::DeleteNode(id) => bench.ledger.borrow_mut().delete_node(&format!("n{id}")),
                Op::Step(worker) => {
                    let before: Vec<i64> = overbooking(&bench.ledger.borrow());
                    bench.step(usize::from(worker));
                    let after = overbooking(&bench.ledger.borrow());
                    // A settled foreign bind may overbook; what a step commits may not.
                    for (row, over) in after.iter().enumerate() {
                        prop_assert!(*over <= before.get(row).copied().unwrap_or(0).max(0) || bench.ledger.borrow().nodes().name(crate::ledger::NodeId::new(row as u32)).as_ref() == "n0");
                    }
                }
                Op::ForeignBind(id, to) => {
                    let uid = format!("u{id}");
                    let state = bench.ledger.borrow().pod(&uid).cloned();
                    if let Some(PodState::Pending(pod)) = state {
                        bench.pod(Pod { node_name: Some(format!("n{to}").into()), ..(*pod).clone() });
                    }
                }
                Op::Advance => bench.now += 1_500,
            }
            bench.audit();
        }
        for worker in 0..2 {
            while !bench.binds.is_empty() { bench.end(0, BindOutcome::Bound); }
            bench.settle(worker);
        }
        bench.settle(0);
        bench.settle(1);
        let pending = bench.ledger.borrow().pending_pods(|_| true);
        let held = |w: usize| bench.workers[w].queue.entries().map(|e| e.pod().uid.clone()).collect::<BTreeSet<_>>();
        let (a, b) = (held(0), held(1));
        prop_assert!(a.is_disjoint(&b));
        let mut all: Vec<Str> = a.into_iter().chain(b).collect();
        all.sort_unstable();
        let mut want: Vec<Str> = pending.iter().map(|p| p.uid.clone()).collect();
        want.sort_unstable();
        prop_assert_eq!(all, want);
        // No pod that is gone keeps its slot.
        for worker in &bench.workers {
            let known = worker.queue.entries().count() + worker.binding.len();
            prop_assert_eq!(worker.queue.open_slots(), known);
        }
    }
}

/// By row: how much CPU is taken beyond what the node offers.
fn overbooking(ledger: &Ledger) -> Vec<i64> {
    let nodes = ledger.nodes();
    nodes.fixed.iter().map(|row| row.used_cpu - row.allocatable_cpu).collect()
}
