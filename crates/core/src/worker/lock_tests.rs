//! How much a worker does while it holds the ledger's lock.

use super::*;
use crate::cycle::JUDGED;
use crate::ledger::Ledger;
use crate::limits::{COMPARISONS_PER_WORK, PARKED_PODS_PER_HOLD, SELECTOR_VALUES_PER_POD, WORK_PER_HOLD};
use crate::model::{NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PodShape};
use crate::profile::NamespaceAccess;
use crate::testing::{node, pod, shape, shape_of};
use std::cell::RefCell;

/// A ledger that counts the rows judged under each hold of its lock.
struct Counted {
    ledger: RefCell<Ledger>,
    judged: RefCell<Vec<usize>>,
}

impl Counted {
    fn with_nodes(nodes: usize) -> Self {
        let mut ledger = Ledger::new();
        for i in 0..nodes {
            ledger.apply_node(&node(&format!("n{i}"), 1000, 1 << 30, 10));
        }
        Self { ledger: RefCell::new(ledger), judged: RefCell::default() }
    }

    fn held<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = JUDGED.get();
        let result = f();
        self.judged.borrow_mut().push(JUDGED.get() - before);
        result
    }

    /// Lets the worker take up a new pod; gives the rows judged under each hold, and how its effects read.
    fn try_pod(&self, worker: &mut Worker, name: &str, shape: PodShape) -> (Vec<usize>, String) {
        self.ledger.borrow_mut().apply_pod(pod(name, shape));
        let mut effects = Vec::new();
        worker.step(Time::ZERO, &mut Vec::new(), self, &mut effects);
        (self.judged.take(), format!("{effects:?}"))
    }
}

impl LedgerAccess for Counted {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.held(|| self.ledger.read(f))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.held(|| self.ledger.write(f))
    }
}

fn worker(profile: CompiledProfile) -> Worker {
    Worker::new(Arc::new(profile), 1)
}

#[test]
fn no_hold_judges_more_rows_than_there_is_work_for() {
    let nodes = 20_000;
    let ledger = Counted::with_nodes(nodes);
    let mut worker = worker(CompiledProfile::default_preset("test"));
    for turn in ["seen for the first time", "has a class of its own now"] {
        let (judged, effects) = ledger.try_pod(&mut worker, turn, shape_of(2000, 0));
        assert!(judged.iter().all(|rows| *rows <= WORK_PER_HOLD), "{turn}: {judged:?}");
        assert_eq!(judged.iter().sum::<usize>(), nodes, "{turn}: each row once: {judged:?}");
        assert!(effects.contains("Refuse"), "{turn}: {effects}");
    }
    let (judged, effects) = ledger.try_pod(&mut worker, "knows all rows", shape_of(2000, 0));
    assert_eq!(judged.iter().sum::<usize>(), 0, "{judged:?}");
    assert!(effects.contains("Refuse"), "{effects}");
}

#[test]
fn a_pod_with_long_selectors_is_judged_on_fewer_rows_under_each_hold() {
    let nodes = 500;
    let ledger = Counted::with_nodes(nodes);
    let mut costly = shape();
    let test = NodeTest { key: "missing".into(), operator: NodeTestOperator::DoesNotExist, values: Vec::new() };
    let mut expressions = vec![test.clone(); SELECTOR_VALUES_PER_POD - 1];
    expressions.push(NodeTest { operator: NodeTestOperator::Exists, ..test });
    let term = NodeSelectorTerm { expressions, ..NodeSelectorTerm::default() };
    costly.required_affinity = Some(NodeSelector { terms: vec![term] });
    let (judged, _) = ledger.try_pod(&mut worker(CompiledProfile::default_preset("test")), "p", costly);
    let most = WORK_PER_HOLD.div_ceil(1 + SELECTOR_VALUES_PER_POD / COMPARISONS_PER_WORK);
    assert!(judged.iter().all(|rows| *rows <= most), "{judged:?}");
    assert_eq!(judged.iter().sum::<usize>(), nodes);
}

#[test]
fn a_snapshot_asks_about_so_many_parked_pods_under_one_hold() {
    let pods = 2 * PARKED_PODS_PER_HOLD + 1;
    let ledger = Counted::with_nodes(1);
    let mut profile = CompiledProfile::default_preset("test");
    profile.namespaces = NamespaceAccess::Restricted {
        names: std::iter::once("other".into()).collect(),
        match_labels: [].into_iter().collect(),
    };
    let mut worker = worker(profile);
    for i in 0..pods {
        ledger.ledger.borrow_mut().apply_pod(pod(&format!("p{i}"), shape()));
    }
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    ledger.judged.take();
    let snapshot = worker.snapshot(&ledger);
    assert_eq!(ledger.judged.take().len(), 1 + 3, "the nodes, and three parts of the pods");
    assert_eq!(snapshot.top_reasons.iter().map(|top| (top.plugin, top.pods)).collect::<Vec<_>>(), [("Berth", pods)]);
}
