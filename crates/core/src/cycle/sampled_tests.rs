//! Where a part of the nodes is looked at: a scheduler that keeps what it computed, against one that forgets it before each decision. Both keep
//! where the next window of nodes begins, look at the same windows, and draw among the same ties.

use super::tests::Draw;
use super::*;
use crate::ledger::{Ledger, PodState};
use crate::model::Pod;
use crate::profile::Sampling;
use crate::testing::{node, pod, shape_of};
use std::sync::Arc;

/// The text of a decision.
fn said(ledger: &Ledger, decision: &Decision) -> String {
    match decision {
        Decision::Place(proposal) => format!("on {}", ledger.nodes().name(proposal.node)),
        Decision::NoFit(no_fit) => no_fit.diagnosis.to_string(),
        Decision::Failed(text) => text.to_string(),
        Decision::NoNodes => "no nodes".to_owned(),
        Decision::Ask(state) => panic!("there is no extender to ask: {state:?}"),
    }
}

/// 300 sequences of 120 changes on some 20 to 70 nodes, of which one to seven are wanted.
#[test]
fn decisions_from_windows_of_nodes_equal_those_of_a_scheduler_that_forgets() {
    let (mut placed, mut found, mut partial) = (0, 0, 0);
    for seed in 0..300 {
        let mut draw = Draw(Rng::seeded(seed));
        let mut ledger = Ledger::new();
        // Of these no change takes any away: the windows are small beside them.
        for i in 0..20 + draw.below(40) {
            ledger.apply_node(&node(&format!("m{i}"), 500 * (1 + draw.below(6) as i64), 8 << 30, 6));
        }
        let mut profile = draw.profile();
        profile.sampling = Sampling { percentage: 1 + draw.below(10) as u8, min_feasible: 1 + draw.below(5) as u32 };
        profile.node_selector = None;
        let profile = Arc::new(profile);
        let mut schedulers = [(); 2].map(|()| Scheduler::new(profile.clone(), seed));
        let mut serial = 0;
        for step in 0..120 {
            if draw.below(4) == 0 {
                let shape = shape_of(100 * draw.below(8) as i64, 0);
                ledger.apply_pod(Pod { ..pod(&format!("alike{step}"), shape) });
            } else {
                draw.change(&mut ledger, &mut serial);
            }
            for pending in ledger.pending_pods(|_| true).iter().rev().take(3) {
                let [kept, forgets] = &mut schedulers;
                forgets.shed();
                // And the order of nodes.
                forgets.set_profile(profile.clone());
                let (decision, fresh) = (kept.decide(&ledger, pending), forgets.decide(&ledger, pending));
                let what = format!("seed {seed}, step {step}, pod {}", pending.key);
                assert_eq!(said(&ledger, &decision), said(&ledger, &fresh), "{what}");
                let Decision::Place(proposal) = decision else { continue };
                found += 1;
                partial += usize::from(kept.compared(&ledger, "", 0).0 * 2 < ledger.nodes().len());
                if draw.below(2) == 0 {
                    let fits = |l: &Ledger| kept.refits(l, pending, proposal.node);
                    ledger.commit(&proposal, fits).expect("nothing came between");
                    assert!(matches!(ledger.pod(&pending.uid), Some(PodState::Assumed { .. })));
                    placed += 1;
                }
            }
        }
    }
    println!("{placed} placed of {found} found, {partial} among less than half of the nodes");
    assert!(
        placed > 3_000 && found > 10_000 && partial * 10 > found * 9,
        "{placed} placed of {found} found, {partial} partial"
    );
}
