//! Conformance: on small nasty clusters, every filter, score and message of Berth is upstream's.
//!
//! Clusters are drawn from a seed; upstream's own plugins (`tests/upstream/oracle`) and Berth are asked about each, and every
//! answer must be the same: for each pending pod and node the first plugin to refuse, its code and reasons, or each
//! plugin's normalised and weighted score. What upstream said is counted by plugin and reason, and what it never said in
//! a whole run fails the test: a generator that reaches little proves little.
//!
//! | variable | meaning |
//! |---|---|
//! | `BERTH_CONFORMANCE_CLUSTERS` | how many clusters; also prints the coverage table |
//! | `BERTH_SEED` | where the clusters' own seeds come from; `random` takes one from the clock |
//! | `BERTH_CLUSTER` | the own seed of the only cluster to look at; its manifests are printed |
//! | `BERTH_ORACLE` | an oracle that is built already |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![allow(unreachable_pub, reason = "modules of a test are nobody's library")]

mod affinity;
mod answer;
mod budgets;
mod claims;
mod cluster;
mod compare;
mod config;
mod containers;
mod coverage;
mod crowd;
mod draw;
mod engine;
mod expected;
mod known;
mod moved;
mod nodes;
mod options;
mod oracle;
mod paths;
mod pods;
mod preemption;
mod run;
mod selectors;
mod shrink;
mod situations;
mod spread;
mod storage;
mod volumes;
mod workloads;

use answer::{Answer, NodeAnswer};
use cluster::draw_cluster;
use options::Options;
use oracle::Oracle;
use std::collections::BTreeSet;
use std::io::Write as _;

/// Spoils an answer.
type Fault = fn(&mut preemption::Preemption);

#[test]
fn every_answer_is_upstreams() {
    let options = Options::read();
    let mut oracle = Oracle::start();
    let summary = run::run(&options, &mut oracle, engine::ask);
    // Past the capture of tests: the seed is to be seen of runs that pass, too.
    let _ = writeln!(std::io::stderr(), "{}", summary.line(&options));
    println!("{}", summary.left_out());
    if options.verbose {
        println!("{}", summary.coverage.table());
    }
    if let Some(only) = options.only {
        println!("{}", run::manifest(&draw_cluster(only)));
    }
    assert!(summary.differences.is_empty(), "{}\n{}", summary.line(&options), summary.report(&mut oracle, engine::ask));
    let searched = summary.coverage.paths.clusters;
    // Some 44 of 100: few clusters may have fewer.
    let many = summary.clusters < 1_500 || searched * 5 >= summary.clusters * 2;
    assert!(many, "victims were searched in {searched} clusters only, of {}", summary.clusters);
    let unknown = summary.coverage.unknown();
    assert!(
        unknown.is_empty(),
        "upstream said what tests/conformance/expected.rs does not know:\n{}",
        unknown.join("\n")
    );
    let missing = summary.coverage.missing();
    assert!(
        !options.are_enough(summary.clusters) || missing.is_empty(),
        "{}\nnever produced, so never compared: draw more of it:\n{}\n\n{}",
        summary.line(&options),
        missing.join("\n"),
        summary.coverage.table()
    );
}

/// A harness that cannot fail is a bug.
#[test]
fn a_planted_fault_is_found_and_shrunk() {
    let mut oracle = Oracle::start();
    let options = Options { seed: 7, clusters: 60, only: None, verbose: false };
    let summary = run::run(&options, &mut oracle, faulty);
    let class =
        summary.differences.keys().find(|class| class.contains("untolerated")).expect("the fault was not found");
    assert!(class.contains("Berth fits"), "{class}");
    let report = summary.report(&mut oracle, faulty);
    let shown = report.split("=== ").find(|part| part.starts_with(class.as_str())).unwrap_or_default();
    assert_eq!(shown.matches("\n---\n").count(), 2, "a node and a pod are enough:\n{shown}");
    assert!(!shown.contains("affinity"), "{shown}");
}

/// Berth's answer, as if it did not know taints.
fn faulty(drawn: &cluster::Drawn) -> Answer {
    let mut answer = engine::ask(drawn);
    for node in answer.pods.iter_mut().flat_map(|pod| pod.nodes.iter_mut().flatten()) {
        if let NodeAnswer::Refused { name, plugin, .. } = node
            && plugin == "TaintToleration"
        {
            *node = NodeAnswer::Fits { name: name.clone(), scores: std::collections::BTreeMap::new(), total: 0 };
        }
    }
    answer
}

#[test]
fn planted_faults_of_preemption_are_found() {
    let mut oracle = Oracle::start();
    let options = Options { seed: 11, clusters: 150, only: None, verbose: false };
    let faults: [(&str, Fault); 5] = [
        ("preemption: other victims", |p| p.candidates.iter_mut().for_each(|c| drop(c.victims.pop()))),
        ("preemption: other violations", |p| p.candidates.iter_mut().for_each(|c| c.budget_violations = 0)),
        ("preemption: only to upstream a candidate", |p| drop(p.candidates.pop())),
        ("preemption: another choice", |p| p.node = p.candidates.last().map(|c| c.node.clone())),
        ("preemption: another text", |p| p.message = p.message.as_ref().map(|text| text.replace("1 ", "2 "))),
    ];
    for (class, fault) in faults {
        let berth = |drawn: &cluster::Drawn| {
            let mut answer = engine::ask(drawn);
            answer.pods.iter_mut().filter_map(|pod| pod.preemption.as_mut()).for_each(fault);
            answer
        };
        let found = run::run(&options, &mut oracle, berth).differences;
        assert!(found.keys().any(|key| key.starts_with(class)), "{class}: {:?}", found.keys());
    }
}

#[test]
fn a_seed_gives_the_same_cluster_always() {
    for seed in 0..50 {
        let (one, other) = (draw_cluster(seed), draw_cluster(seed));
        assert_eq!((one.objects, one.config), (other.objects, other.config));
    }
}

#[test]
fn every_difference_that_is_left_out_is_documented() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/differences.md")).unwrap();
    let section = document.split("## Left out of the comparison").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let written: BTreeSet<&str> = section.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let coded = known::KNOWN.iter().map(|known| known.name).chain(compare::PARTS_LEFT_OUT.iter().copied());
    let coded: BTreeSet<&str> = coded.collect();
    assert_eq!(written, coded);
}

#[test]
fn every_bug_that_is_not_copied_has_its_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/differences.md")).unwrap();
    let table = document.split("## Upstream's bugs that are not copied").nth(1).expect("the section");
    let rows: Vec<&str> =
        table.split("\n## ").next().unwrap_or_default().lines().filter(|l| l.starts_with("| ")).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in &rows[1..] {
        let test = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let Some((file, name)) = test.split_once(": ") else {
            assert!(test.starts_with("with "), "neither a test nor what it waits for: {row}");
            continue;
        };
        let text = std::fs::read_to_string(root.join(file.trim_matches('`'))).expect(file);
        assert!(text.contains(&format!("fn {}()", name.trim_matches('`'))), "{test} is not there");
    }
}

#[test]
fn what_cannot_be_reached_says_why() {
    for (plugin, text, reason) in expected::UNREACHABLE {
        assert!(!reason.is_empty(), "{plugin}: {text}");
        let listed = expected::EXPECTED.iter().any(|e| e.plugin == *plugin && e.reason == *text);
        assert!(!listed, "{plugin}: {text} is in both lists");
    }
}
