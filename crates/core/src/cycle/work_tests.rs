//! Looks that are given up and made again while the cluster changes, against one look at the end.

use super::tests::Draw;
use super::{Decision, JUDGED, Rng, Scheduler};
use crate::ledger::Ledger;
use crate::limits::WORK_PER_HOLD;
use crate::model::{InlineDisk, Namespace, PodVolume, SpreadConstraint};
use crate::plugins::Work;
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape, shape_of};
use crate::volume_testing::{mounting, on};
use std::sync::Arc;

#[test]
fn a_look_in_parts_comes_to_what_one_look_at_the_end_finds() {
    let mut given_up = 0;
    for seed in 0..300 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        let profile = Arc::new(draw.profile());
        let [mut in_parts, mut at_once] = [(); 2].map(|()| Scheduler::new(profile.clone(), seed));
        for step in 0..60 {
            draw.change(&mut ledger, &mut serial);
            let waiting = ledger.pending_pods(|_| true);
            let Some(pending) = waiting.get(draw.below(waiting.len().max(1) as u64) as usize) else { continue };
            let mut looks = 0;
            let found = loop {
                let mut work = if looks < 200 { Work::of(1 + draw.below(3) as usize) } else { Work::unbounded() };
                match in_parts.decide_within(&ledger, pending, &mut work, None) {
                    Some(found) => break found,
                    None if draw.below(4) == 0 => draw.change(&mut ledger, &mut serial),
                    None => {}
                }
                looks += 1;
            };
            let expected = at_once.decide(&ledger, pending);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "seed {seed}, step {step}, look {looks}");
            given_up += looks;
            if let Decision::Place(proposal) = found {
                // The pod may be gone by now.
                drop(ledger.commit(&proposal, |l| in_parts.refits(l, pending, proposal.node)));
            }
        }
    }
    assert!(given_up > 20_000, "{given_up} looks given up");
}

/// A class of pods numbers so many answers only: those of other rows are kept until the attempt ends.
#[test]
fn a_look_in_parts_ends_where_each_row_has_an_answer_of_its_own() {
    let rows = 60;
    let mut ledger = Ledger::new();
    (0..rows).for_each(|row| ledger.apply_node(&node(&format!("n{row}"), 2_000 + 250 * row, 1 << 30, 10)));
    let mut profile = CompiledProfile::default_preset("test");
    profile.sampling.percentage = 100;
    let mut scheduler = Scheduler::new(Arc::new(profile), 1);
    for pod in (0..3).map(|i| Arc::new(pod(&format!("p{i}"), shape_of(1_000, 0)))) {
        let (before, mut looks) = (JUDGED.get(), 0);
        while scheduler.decide_within(&ledger, &pod, &mut Work::of(3), None).is_none() {
            looks += 1;
            assert!(looks < 2 * rows, "no look gets any further");
            // One row changes while it goes on.
            ledger.apply_node(&node("n7", 2_000 + looks, 1 << 30, 10));
        }
        let judged = JUDGED.get() - before;
        assert!(judged as i64 <= rows + looks, "{judged} rows in {looks} looks");
    }
}

#[test]
fn a_commit_does_not_follow_a_long_log_while_the_ledger_is_locked_for_writing() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("a", 1000, 1 << 30, 10));
    let mut spread = shape();
    spread.labels = [("app", "web")].into_iter().collect();
    spread.spread = vec![SpreadConstraint { hard: true, ..Draw(Rng::seeded(1)).spread_constraint() }];
    spread.spread[0].topology_key = "kubernetes.io/hostname".into();
    spread.spread[0].max_skew = 5;
    spread.spread[0].min_domains = 1;
    let pending = Arc::new(pod("p", spread));
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let Decision::Place(proposal) = scheduler.decide(&ledger, &pending) else { panic!("it fits") };
    assert!(scheduler.refits(&ledger, &pending, proposal.node).is_some());
    for i in 0..=WORK_PER_HOLD {
        let labels = [("turn", &*i.to_string())].into_iter().collect();
        ledger.apply_namespace(Namespace { name: "x".into(), labels });
    }
    assert!(scheduler.refits(&ledger, &pending, proposal.node).is_none());
    scheduler.decide(&ledger, &pending);
    assert!(scheduler.refits(&ledger, &pending, proposal.node).is_some(), "the look has followed the log");
}

#[test]
fn a_look_at_many_disks_ends_between_rows_and_goes_on_where_it_ended() {
    let disk = |name: String| {
        let disk = InlineDisk::Ebs { id: name.into() };
        PodVolume::Disk { volume: "v".into(), disk, counts: Ok(None) }
    };
    let (nodes, free) = (10, 7);
    let mut ledger = Ledger::new();
    for n in 0..nodes {
        ledger.apply_node(&node(&format!("n{n}"), 4_000, 1 << 40, 110));
        for p in 0..20 {
            let mut disks: Vec<_> = (0..500).map(|d| disk(format!("{n}-{p}-{d}"))).collect();
            if n != free {
                disks.push(disk("shared".to_owned()));
            }
            ledger.apply_pod(on(&format!("n{n}"), mounting(&format!("{n}-{p}"), disks)));
        }
    }
    let own = (0..500).map(|d| disk(format!("own-{d}"))).chain([disk("shared".to_owned())]).collect();
    let pending = Arc::new(mounting("p", own));
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let mut looks = 0;
    let decision = loop {
        let mut work = Work::of_one_hold();
        let found = scheduler.decide_within(&ledger, &pending, &mut work, None);
        assert!(work.done() < 3 * WORK_PER_HOLD, "{}", work.done());
        looks += 1;
        assert!(looks < 100, "no look gets any further");
        if let Some(found) = found {
            break found;
        }
    };
    assert!(looks > 2, "{looks}");
    let Decision::Place(proposal) = decision else { panic!("it fits on one node: {decision:?}") };
    assert_eq!(Some(proposal.node), ledger.nodes().find(&format!("n{free}")));
}

/// 99913, 99304 and 127912: releases that decided less in a second than the ones before them. A test cannot tell a slow decision from a
/// busy machine: it counts what is computed.
#[test]
fn a_backlog_of_equal_pods_judges_each_row_once_and_then_what_changed_99913() {
    let (nodes, pods) = (200, 1_000);
    let mut ledger = Ledger::new();
    (0..nodes).for_each(|n| ledger.apply_node(&node(&format!("n{n}"), 64_000, 1 << 40, 110)));
    let mut profile = CompiledProfile::default_preset("test");
    profile.sampling.percentage = 100;
    let (mut scheduler, before) = (Scheduler::new(Arc::new(profile), 1), JUDGED.get());
    for p in 0..pods {
        ledger.apply_pod(pod(&format!("p{p}"), shape()));
        let waiting = ledger.pending_pods(|_| true);
        let Decision::Place(proposal) = scheduler.decide(&ledger, &waiting[0]) else { panic!("it fits") };
        let committed = ledger.commit(&proposal, |_| Some((proposal.volumes.clone(), proposal.claims.clone())));
        assert!(committed.is_ok(), "nothing happened meanwhile");
    }
    // Nothing is placed before the first, and nobody asks after the last.
    assert_eq!(JUDGED.get() - before, nodes + pods - 1, "rows for {pods} pods on {nodes} nodes");
}
