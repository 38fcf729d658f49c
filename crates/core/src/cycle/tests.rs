//! Cached decisions against those computed from nothing, on random clusters that change.

use super::*;
use crate::ledger::{Ledger, PodState};
use crate::limits::TOUCHED_ROWS;
use crate::model::{
    AffinityTerm, AvoidedController, Controller, HostPort, Image, LabelSelector, Namespace, NamespaceScope, Node,
    NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PersistentVolume, PersistentVolumeClaim, Pod, PodShape,
    PodVolumes, PreferredTerm, Pressure, Protocol, Requirement, RequirementOperator, Service, SpreadConstraint, Str,
    Taint, TaintEffect, Toleration, TolerationOperator, VolumeAffinity, WeightedTerm,
};
use crate::plugins::Plugin;
use crate::profile::{CompiledProfile, FitStrategy, LabelPreference, Sampling, Score, ShapePoint};
use crate::testing::{node, pod, shape_of};
use crate::volume_testing::{bound, claim, named, reference, volume, waiting_class};
use std::sync::Arc;

const MIB: i64 = 1 << 20;

/// Draws clusters; every choice comes from one seed.
pub(super) struct Draw(pub(super) Rng);

impl Draw {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn taint(&mut self) -> Taint {
        let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        let effect = effects[self.below(3) as usize];
        Taint { key: self.pick(&["k1", "k2"]).into(), value: self.pick(&["", "v"]).into(), effect }
    }

    fn node(&mut self, i: u64) -> Node {
        let name = format!("n{i}");
        let mut drawn = node(&name, 500 + 250 * self.below(12) as i64, (512 * self.below(8) as i64) * MIB, 6);
        let zone = self.pick(&["a", "b", "c"]);
        let disk = self.pick(&["ssd", "hdd"]);
        drawn.labels = [("kubernetes.io/hostname", &*name), ("topology.kubernetes.io/zone", zone), ("disk", disk)]
            .into_iter()
            .collect();
        drawn.unschedulable = self.one_in(8);
        drawn.taints = (0..self.below(3)).map(|_| self.taint()).collect();
        if self.one_in(2) {
            drawn.allocatable.set_scalar("example.com/gpu".into(), self.below(4) as i64);
        }
        if self.one_in(2) {
            drawn.images = vec![Image { names: vec![self.pick(&["app:1", "db:1"]).into()], size_bytes: 400 * MIB }];
            if self.one_in(2) {
                // On most nodes it is worth something.
                drawn.images.push(Image { names: vec!["small:1".into()], size_bytes: 40 * MIB });
            }
        }
        drawn.declared_features = if self.one_in(2) { Arc::from(["F".into()]) } else { Arc::from([]) };
        drawn.pressure = Pressure { memory: self.one_in(6), disk: self.one_in(9), pid: self.one_in(9) };
        if self.one_in(4) {
            drawn.avoids = Arc::from([AvoidedController { kind: "ReplicaSet".into(), uid: "rs".into() }]);
        }
        drawn
    }

    fn term(&mut self) -> NodeSelectorTerm {
        let operators = [NodeTestOperator::In, NodeTestOperator::NotIn, NodeTestOperator::Exists];
        let operator = operators[self.below(3) as usize];
        let values =
            if operator == NodeTestOperator::Exists { Vec::new() } else { vec![self.pick(&["a", "b", "ssd"]).into()] };
        let key = self.pick(&["topology.kubernetes.io/zone", "disk", "absent"]).into();
        let names = if self.one_in(5) { vec![(true, self.pick(&["n1", "n2", "gone"]).into())] } else { Vec::new() };
        NodeSelectorTerm { expressions: vec![NodeTest { key, operator, values }], names, broken: false }
    }

    fn shape(&mut self) -> PodShape {
        let mut drawn = shape_of(100 * self.below(12) as i64, 128 * self.below(8) as i64 * MIB);
        let own = self.below(1_000).to_string();
        let labels = [("app", self.pick(&["web", "db"])), ("own", &*own)];
        drawn.labels = labels[..=self.below(2) as usize].iter().copied().collect();
        if self.one_in(4) {
            drawn
                .row_mut()
                .requests
                .set_scalar(self.pick(&["example.com/gpu", "example.com/unknown"]).into(), self.below(3) as i64);
        }
        if self.one_in(4) {
            drawn.row_mut().node_selector = [("disk", self.pick(&["ssd", "hdd"]))].into_iter().collect();
        }
        if self.one_in(4) {
            drawn.row_mut().required_affinity =
                Some(NodeSelector { terms: (0..=self.below(2)).map(|_| self.term()).collect() });
        }
        if self.one_in(3) {
            let weight = 1 + self.below(100) as i32;
            drawn.row_mut().preferred_affinity = vec![PreferredTerm { weight, term: self.term() }];
        }
        if self.one_in(2) {
            drawn.row_mut().tolerations = vec![Toleration {
                key: self.pick(&["k1", "k2", ""]).into(),
                operator: TolerationOperator::Exists,
                value: "".into(),
                effect: None,
            }];
        }
        if self.one_in(4) {
            let port = 80 + self.below(2) as u16;
            drawn.row_mut().host_ports = vec![HostPort { protocol: Protocol::Tcp, port, ip: "0.0.0.0".into() }];
        }
        if self.one_in(2) {
            drawn.images = vec![self.pick(&["app:1", "db:1", "small:1", "none:1"]).into()];
            drawn.container_count = 1 + self.below(2) as u32;
        }
        drawn.namespace = self.pick(&["default", "default", "x"]).into();
        if self.one_in(6) {
            drawn.anti_affinity = vec![self.pod_term()];
        }
        if self.one_in(8) {
            drawn.affinity = (0..=self.below(2)).map(|_| self.pod_term()).collect();
        }
        if self.one_in(5) {
            let weigh = |weight: u64| WeightedTerm { weight: weight as i32 - 100, term: self.pod_term() };
            drawn.preferred_pods = [1, 60, 130, 200].map(weigh).to_vec();
        }
        if self.one_in(3) {
            drawn.spread = (0..=self.below(2)).map(|_| self.spread_constraint()).collect();
        }
        if self.one_in(5) {
            drawn.row_mut().required_features = vec!["F".into()];
        }
        if self.one_in(3) {
            let (api_version, kind, name, uid) =
                ("apps/v1".into(), "ReplicaSet".into(), "web".into(), self.pick(&["rs", "other"]).into());
            drawn.controller = Some(Controller { api_version, kind, name, uid });
        }
        drawn.row_mut().best_effort = drawn.row.requests.is_empty();
        if self.one_in(2) {
            // Pods of a controller: rows are asked the same about all of them.
            drawn.row = shape_of(100 + 100 * self.below(2) as i64, 0).row;
        }
        drawn
    }

    /// A term over pods, for affinity of any kind.
    pub(super) fn pod_term(&mut self) -> AffinityTerm {
        let in_or_not = [RequirementOperator::In, RequirementOperator::NotIn];
        let mut selector = |key: &str, values: &[&str]| {
            let operator = in_or_not[self.below(2) as usize];
            let values = vec![self.pick(values).into()];
            LabelSelector { requirements: vec![Requirement { key: key.into(), operator, values }] }
        };
        let (pods, namespaces) = (selector("app", &["web", "db"]), selector("team", &["a", "b"]));
        let by_label = self.one_in(4);
        AffinityTerm {
            selector: Some(pods),
            namespaces: NamespaceScope {
                names: if by_label { Vec::new() } else { vec!["default".into()] },
                selector: by_label.then_some(namespaces),
            },
            topology_key: self.pick(&["kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"]).into(),
        }
    }

    pub(super) fn spread_constraint(&mut self) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1 + self.below(2) as i32,
            topology_key: self.pick(&["kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"]).into(),
            hard: self.one_in(2),
            selector: self.pod_term().selector,
            min_domains: 1 + self.below(4) as i32,
            honor_affinity: self.one_in(2),
            honor_taints: self.one_in(2),
        }
    }

    pub(super) fn pod(&mut self, name: &str) -> Pod {
        let mut drawn = pod(name, self.shape());
        drawn.priority = self.below(3) as i32;
        if self.one_in(5) {
            drawn.nominated_node = Some(self.pick(&["n0", "n1", "gone"]).into());
        }
        if self.one_in(5) {
            let mount = named(self.pick(&["c0", "c1", "c2"]));
            drawn.volumes = Some(Arc::new(PodVolumes::from(vec![mount])));
        }
        drawn
    }

    pub(super) fn profile(&mut self) -> CompiledProfile {
        let mut drawn = CompiledProfile::default_preset("test");
        drawn.sampling = Sampling { percentage: 100, min_feasible: 100 };
        drawn.fit.strategy = match self.below(3) {
            0 => FitStrategy::LeastAllocated,
            1 => FitStrategy::MostAllocated,
            _ => FitStrategy::RequestedToCapacityRatio(vec![
                ShapePoint { utilization: 0, score: 0 },
                ShapePoint { utilization: 70, score: 100 },
                ShapePoint { utilization: 100, score: 50 },
            ]),
        };
        if self.one_in(4) {
            drawn.node_selector = Some(LabelSelector {
                requirements: vec![Requirement {
                    key: "disk".into(),
                    operator: RequirementOperator::In,
                    values: vec!["ssd".into()],
                }],
            });
        }
        if self.one_in(3) {
            self.make_legacy(&mut drawn);
        }
        drawn
    }

    /// Adds some filters and scores of the Policy era, as an imported Policy would.
    fn make_legacy(&mut self, profile: &mut CompiledProfile) {
        profile.legacy.present_labels = vec!["disk".into()];
        profile.legacy.absent_labels = vec!["retiring".into()];
        profile.legacy.affinity_labels = vec!["topology.kubernetes.io/zone".into()];
        profile.legacy.label_preferences = vec![LabelPreference { label: "disk".into(), present: self.one_in(2) }];
        for filter in [
            Plugin::CheckNodeLabelPresence,
            Plugin::CheckNodeMemoryPressure,
            Plugin::CheckNodeDiskPressure,
            Plugin::CheckNodePIDPressure,
            Plugin::CheckServiceAffinity,
        ] {
            if self.one_in(2) {
                profile.filters = profile.filters.with(filter);
            }
        }
        for score in [
            Score::EqualPriority,
            Score::LeastRequestedPriority,
            Score::MostRequestedPriority,
            Score::BalancedResourceAllocationPriority,
            Score::LabelPreference,
            Score::NodePreferAvoidPodsPriority,
            Score::SelectorSpread,
        ] {
            if self.one_in(2) {
                profile.scores.push((score, 1 + self.below(3) as i64));
            }
        }
    }

    /// Adds, changes or deletes a volume, a claim or a class.
    fn change_volumes(&mut self, ledger: &mut Ledger) {
        let (volume_name, claim_name) = (self.pick(&["v0", "v1", "v2"]), self.pick(&["c0", "c1", "c2"]));
        let class = self.pick(&["local", "made"]);
        let version: Str = self.below(1_000_000).to_string().into();
        match self.below(6) {
            0 => ledger.apply_storage_class(waiting_class("local", "kubernetes.io/no-provisioner")),
            1 => ledger.apply_storage_class(waiting_class("made", "example.com/maker")),
            2 => {
                let mut drawn = volume(volume_name, class, 1 + self.below(3) as i64);
                let test = NodeTest {
                    key: "disk".into(),
                    operator: NodeTestOperator::In,
                    values: vec![self.pick(&["ssd", "hdd"]).into()],
                };
                drawn.affinity = self.one_in(2).then(|| VolumeAffinity { terms: vec![vec![test]] });
                drawn.claim = if self.one_in(3) { Some(reference(claim_name)) } else { None };
                ledger.apply_volume(PersistentVolume { resource_version: version, ..drawn });
            }
            3 | 4 => {
                let drawn = if self.one_in(3) { bound(claim_name, volume_name) } else { claim(claim_name, class, 1) };
                ledger.apply_claim(PersistentVolumeClaim { resource_version: version, ..drawn });
            }
            _ => ledger.delete_volume(volume_name),
        }
    }

    /// Makes one change of the cluster.
    pub(super) fn change(&mut self, ledger: &mut Ledger, serial: &mut u64) {
        match self.below(16) {
            13..=15 => self.change_volumes(ledger),
            10 => {
                let labels = [("team", self.pick(&["a", "b"]))].into_iter().collect();
                ledger.apply_namespace(Namespace { name: self.pick(&["default", "x"]).into(), labels });
            }
            0..=2 => {
                let i = self.below(8);
                ledger.apply_node(&self.node(i));
            }
            3 => ledger.delete_node(&format!("n{}", self.below(8))),
            4..=6 => {
                *serial += 1;
                ledger.apply_pod(self.pod(&format!("p{serial}")));
            }
            7 | 8 => {
                *serial += 1;
                let on: Str = format!("n{}", self.below(8)).into();
                ledger.apply_pod(Pod { node_name: Some(on), ..self.pod(&format!("b{serial}")) });
            }
            9 => {
                let selector = Some([("app", self.pick(&["web", "db"]))].into_iter().collect());
                let (namespace, name) = ("default".into(), self.pick(&["s", "t"]).into());
                ledger.apply_service(Service { namespace, name, selector });
            }
            _ => {
                let kind = self.pick(&["p", "b"]);
                let uid = format!("{kind}{}", self.below(*serial + 1));
                ledger.delete_pod(&uid);
            }
        }
    }
}

/// The names of the nodes with the highest total, and why there are none.
fn best(explained: &Explanation) -> (Vec<Str>, Option<String>) {
    let judgement = match explained {
        Explanation::Judged(judgement) => judgement,
        Explanation::Failed(_) => return (Vec::new(), None),
        other => panic!("gated or held: {other:?}"),
    };
    let totals = judgement.nodes.iter().filter_map(|(name, answer)| match answer {
        NodeAnswer::Fits { total, .. } => Some((name.clone(), *total)),
        NodeAnswer::Refused { .. } => None,
    });
    let totals: Vec<(Str, i64)> = totals.collect();
    let highest = totals.iter().map(|(_, total)| *total).max();
    let names = totals.into_iter().filter(|(_, total)| Some(*total) == highest).map(|(name, _)| name).collect();
    (names, judgement.diagnosis.as_ref().map(ToString::to_string))
}

fn compare(scheduler: &mut Scheduler, ledger: &Ledger, pending: &Arc<Pod>, context: &str) {
    let explained = explain(scheduler.profile(), ledger, pending);
    let (names, why) = best(&explained);
    match scheduler.decide(ledger, pending) {
        Decision::Place(proposal) => {
            let name = ledger.nodes().name(proposal.node);
            if pending.nominated_node.as_ref() == Some(name) {
                let Explanation::Judged(judgement) = &explained else { panic!("judged") };
                let fits = |(n, a): &(Str, NodeAnswer)| n == name && matches!(a, NodeAnswer::Fits { .. });
                assert!(judgement.nodes.iter().any(fits), "{context}: nominated {name} does not fit");
            } else {
                assert!(names.contains(name), "{context}: chose {name}, the best are {names:?}");
            }
        }
        Decision::NoFit(no_fit) => {
            assert!(names.is_empty(), "{context}: chose none, the best are {names:?}");
            assert_eq!(Some(no_fit.diagnosis.to_string()), why, "{context}");
        }
        Decision::Failed(text) => assert_eq!(explained, Explanation::Failed(text), "{context}"),
        Decision::NoNodes => assert!(names.is_empty() && why.is_none(), "{context}"),
        Decision::Ask(state) => panic!("{context}: there is no extender to ask: {state:?}"),
    }
}

/// 500 sequences of 200 changes: after each, pending pods get the decision that `explain` computes from nothing, and the
/// ledger's sums, indexes and columns are those computed from its objects.
#[test]
fn cached_decisions_equal_fresh_ones() {
    for seed in 0..500 {
        let mut draw = Draw(Rng::seeded(seed));
        let mut ledger = Ledger::new();
        let mut scheduler = Scheduler::new(Arc::new(draw.profile()), seed);
        let mut serial = 0;
        for step in 0..200 {
            draw.change(&mut ledger, &mut serial);
            let pending = ledger.pending_pods(|_| true);
            for pending in pending.iter().rev().take(6) {
                compare(&mut scheduler, &ledger, pending, &format!("seed {seed}, step {step}, pod {}", pending.key));
            }
            if pending.len() > 6 || draw.one_in(3) {
                place_one(&mut scheduler, &mut ledger);
            }
            if step % 10 == 0 {
                ledger.audit().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong}"));
            }
        }
    }
}

/// What is remembered of changed rows is bounded: after more changes all is forgotten.
#[test]
fn rows_are_judged_anew_after_more_changes_than_are_remembered() {
    let mut draw = Draw(Rng::seeded(7));
    let mut ledger = Ledger::new();
    for i in 0..4 {
        ledger.apply_node(&node(&format!("n{i}"), 2_000, 1 << 30, 10));
    }
    ledger.apply_pod(pod("p", shape_of(500, 0)));
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    for round in 0..6 {
        let pending = ledger.pending_pods(|_| true).remove(0);
        compare(&mut scheduler, &ledger, &pending, &format!("round {round}"));
        for _ in 0..2 * TOUCHED_ROWS {
            let (name, cpu) = (format!("n{}", draw.below(4)), 100 * draw.below(20) as i64);
            ledger.apply_node(&node(&name, cpu, 1 << 30, 10));
        }
    }
}

fn place_one(scheduler: &mut Scheduler, ledger: &mut Ledger) {
    let Some(first) = ledger.pending_pods(|_| true).into_iter().next() else { return };
    if let Decision::Place(proposal) = scheduler.decide(ledger, &first) {
        let fits = |l: &Ledger| scheduler.refits(l, &first, proposal.node);
        ledger.commit(&proposal, fits).expect("nothing came between");
        assert!(matches!(ledger.pod(&first.uid), Some(PodState::Assumed { .. })));
    }
}
