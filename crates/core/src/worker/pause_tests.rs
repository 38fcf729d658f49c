//! Pods whose binds are paused are neither tried nor assumed, and other pods go by.

use super::*;
use crate::io::BindRequest;
use crate::ledger::{Ledger, PodState};
use crate::model::PodShape;
use crate::testing::{node, pod, shape_of};
use std::cell::RefCell;

struct Bench {
    ledger: RefCell<Ledger>,
    worker: Worker,
    inputs: Vec<Input>,
    binds: Vec<(AttemptId, String)>,
}

impl Bench {
    /// A node with room for everything.
    fn new() -> Self {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1_000_000, 1 << 40, 10_000));
        let worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        Self { ledger: RefCell::new(ledger), worker, inputs: Vec::new(), binds: Vec::new() }
    }

    fn pod(&self, namespace: &str, name: &str, priority: i32) {
        let shape = PodShape { namespace: namespace.into(), ..shape_of(100, 0) };
        self.ledger.borrow_mut().apply_pod(Pod { priority, ..pod(name, shape) });
    }

    fn pause(&mut self, paused: Paused) {
        self.worker.set_paused(paused);
    }

    fn settle(&mut self) -> Next {
        loop {
            let mut effects = Vec::new();
            let next = self.worker.step(Time::ZERO, &mut self.inputs, &self.ledger, &mut effects);
            for effect in effects {
                let Effect::Bind(BindRequest { attempt, pod, .. }) = effect else { panic!("{effect:?}") };
                self.binds.push((attempt, pod.uid.to_string()));
            }
            if next != Next::Now {
                return next;
            }
        }
    }

    fn placed(&mut self) -> Vec<String> {
        self.settle();
        std::mem::take(&mut self.binds).into_iter().map(|(_, uid)| uid).collect()
    }

    fn assumed(&self) -> usize {
        let ledger = self.ledger.borrow();
        ledger.pods_on(ledger.nodes().find("a").expect("it is there")).len()
    }
}

fn of(namespace: &str) -> Paused {
    Paused::Namespaces([Str::from(namespace)].into())
}

#[test]
fn pods_of_a_paused_namespace_wait_in_their_order_and_others_go_by() {
    let mut bench = Bench::new();
    bench.pause(of("hung"));
    for i in 0..500 {
        bench.pod("hung", &format!("hung-{i:03}"), 5);
    }
    for i in 0..3 {
        bench.pod("fine", &format!("fine-{i}"), 0);
    }
    assert_eq!(bench.placed(), ["fine-0", "fine-1", "fine-2"]);
    assert_eq!((bench.assumed(), bench.worker.queue.counts().active), (3, 500));
    // A late one of high priority does not wait behind them either.
    bench.pod("fine", "late", 9);
    assert_eq!(bench.placed(), ["late"]);
    bench.pod("fine", "low", 0);
    bench.pause(Paused::None);
    let placed = bench.placed();
    assert_eq!((placed.len(), &*placed[0], &*placed[499], &*placed[500]), (501, "hung-000", "hung-499", "low"));
    assert_eq!(bench.worker.queue.counts(), crate::queue::Counts::default());
}

#[test]
fn while_everything_is_paused_nothing_is_assumed() {
    let mut bench = Bench::new();
    bench.pause(Paused::All);
    bench.pod("one", "p", 0);
    bench.pod("other", "q", 0);
    assert_eq!(bench.settle(), Next::Idle);
    assert_eq!((bench.assumed(), bench.worker.queue.counts().active), (0, 2));
    bench.pause(of("one"));
    assert_eq!(bench.placed(), ["q"]);
    bench.pause(Paused::None);
    assert_eq!(bench.placed(), ["p"]);
}

#[test]
fn what_a_pause_takes_back_is_free_for_others_and_leaves_the_window() {
    let mut bench = Bench::new();
    bench.worker.set_bind_window(4);
    for i in 0..10 {
        bench.pod("hung", &format!("hung-{i}"), 0);
    }
    bench.pod("fine", "fine", 0);
    bench.settle();
    assert_eq!((bench.binds.len(), bench.assumed()), (4, 4));
    bench.pause(of("hung"));
    for (attempt, uid) in std::mem::take(&mut bench.binds) {
        bench.ledger.borrow_mut().forget(&uid);
        bench.inputs.push(Input::BindRevoked { attempt });
    }
    assert_eq!((bench.placed(), bench.assumed()), (vec!["fine".to_owned()], 1));
    assert_eq!(bench.worker.queue.counts().active, 10);
}

#[test]
fn a_withheld_pod_may_be_edited_deleted_or_bound_by_someone_else() {
    let mut bench = Bench::new();
    bench.pause(of("hung"));
    for name in ["edited", "deleted", "bound"] {
        bench.pod("hung", name, 0);
    }
    bench.settle();
    {
        let mut ledger = bench.ledger.borrow_mut();
        let shape = PodShape { namespace: "hung".into(), ..shape_of(200, 0) };
        ledger.apply_pod(pod("edited", shape.clone()));
        ledger.delete_pod("deleted");
        ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod("bound", shape) });
    }
    bench.settle();
    assert_eq!(bench.worker.queue.counts().active, 1);
    bench.pause(Paused::None);
    assert_eq!(bench.placed(), ["edited"]);
    assert!(matches!(bench.ledger.borrow().pod("edited"), Some(PodState::Assumed { .. })));
}
