//! Random situations against upstream's own allocator (`tests/upstream/devices`): whole results, in their order, and the texts of errors.
//!
//! `BERTH_DEVICES_CASES` is how many there are. A failure prints the seed of its case: `BERTH_DEVICES_SEED=… BERTH_DEVICES_CASES=1` repeats it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "differential/decode.rs"]
mod decode;
#[path = "differential/draw.rs"]
mod draw;
#[path = "differential/encode.rs"]
mod encode;
#[path = "differential/objects.rs"]
mod objects;
#[path = "differential/oracle.rs"]
mod oracle;
#[path = "differential/random.rs"]
mod random;
#[path = "differential/selectors.rs"]
mod selectors;
#[path = "differential/wanted.rs"]
mod wanted;

use berth_devices::{Allocator, Outcome, Progress};
use decode::Situation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

const CASES: u64 = 3_000;
/// A search that is longer is not compared: upstream's would take seconds.
const STEPS: i64 = 20_000;
/// Cases that are asked together.
const BATCH: u64 = 2_000;

/// One node's answer, as the oracle words it; `None` if the search was too long.
fn answer(situation: &Situation, node: usize) -> Option<Value> {
    Some(answer_and_steps(situation, node)?.0)
}

fn answer_and_steps(situation: &Situation, node: usize) -> Option<(Value, i64)> {
    let allocator =
        Allocator { slices: &situation.slices, allocated: &situation.allocated, classes: &situation.classes };
    let claims: Vec<_> = situation.claims.iter().collect();
    let (mut steps, mut ids) = (STEPS, encode::Numbered::default());
    let node = situation.node(node);
    match allocator.allocate(node, &claims, &mut selectors::Few, &mut ids, &mut steps) {
        Outcome::OutOfSteps => None,
        outcome => Some((encode::outcome(&outcome), STEPS - steps)),
    }
}

/// The same answer in parts of `part` steps, and once more from what is kept of a solution.
fn answer_in_parts(situation: &Situation, node: usize, part: i64) -> Value {
    let allocator =
        Allocator { slices: &situation.slices, allocated: &situation.allocated, classes: &situation.classes };
    let claims: Vec<_> = situation.claims.iter().collect();
    let ask = |progress: &mut Progress, mut steps: i64| {
        let mut ids = encode::Numbered::default();
        allocator.resume(progress, situation.node(node), &claims, &mut selectors::Few, &mut ids, &mut steps)
    };
    let mut progress = Progress::default();
    let outcome = std::iter::repeat_with(|| ask(&mut progress, part)).find(|one| *one != Outcome::OutOfSteps).unwrap();
    match progress.of_solution() {
        Some(mut solution) => assert_eq!(ask(&mut solution, 0), outcome),
        None => assert!(!matches!(outcome, Outcome::Allocated(_)), "{outcome:?}"),
    }
    encode::outcome(&outcome)
}

/// The first seed, and how many there are.
fn drawn() -> (u64, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("BERTH_DEVICES_SEED", now % 1_000_000_000_000);
    let cases = variable("BERTH_DEVICES_CASES", CASES);
    println!("BERTH_DEVICES_SEED={seed} BERTH_DEVICES_CASES={cases} gives the same situations");
    (seed, cases)
}

/// Needs no upstream.
#[test]
fn a_search_in_parts_ends_as_one_at_once() {
    let (seed, cases) = drawn();
    for seed in seed..seed + cases {
        let question = draw::situation(seed);
        let situation = Situation::of(&question);
        for node in 0..question["nodes"].as_array().unwrap().len() {
            if let Some((answer, steps)) = answer_and_steps(&situation, node) {
                let part = 1 + steps / (1 + seed as i64 % 40);
                assert_eq!(answer_in_parts(&situation, node, part), answer, "BERTH_DEVICES_SEED={seed}, node {node}");
            }
        }
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// What kinds of answers there were: a test in which nothing ever fits would show little.
fn kind(answer: &Value) -> &'static str {
    let error = answer["error"].as_str().unwrap_or_default();
    match answer {
        _ if answer.get("allocations").is_some() => "allocated",
        _ if error.is_empty() => "does not fit",
        _ if answer["onNode"] == true => "failed on node",
        _ if error.contains("CEL") => "selector error",
        _ if error.contains("claim constraint") => "constraint error",
        _ if error.contains("asks for all") => "broken pool error",
        _ => "other error",
    }
}

#[test]
fn devices_are_those_that_upstream_allocates() {
    let (seed, cases) = drawn();
    let mut oracle = oracle::Oracle::start();
    let (mut kinds, mut differences, mut too_long) = (BTreeMap::new(), BTreeMap::new(), 0);
    let mut first = seed;
    while first < seed + cases {
        let seeds: Vec<u64> = (first..(seed + cases).min(first + BATCH)).collect();
        first += BATCH;
        let mut asked = Vec::new();
        for seed in seeds {
            let question = draw::situation(seed);
            let situation = Situation::of(&question);
            let nodes = question["nodes"].as_array().unwrap().len();
            let answers: Option<Vec<Value>> = (0..nodes).map(|node| answer(&situation, node)).collect();
            match answers {
                Some(answers) => asked.push((seed, question, answers)),
                None => too_long += 1,
            }
        }
        let theirs = oracle.ask(asked.iter().map(|(_, question, _)| question));
        for ((seed, question, ours), theirs) in asked.into_iter().zip(theirs) {
            for (node, (ours, theirs)) in ours.iter().zip(theirs.as_array().unwrap()).enumerate() {
                let theirs = encode::normalized(theirs);
                if theirs["error"].as_str().is_some_and(|text| text.starts_with("filter operation aborted")) {
                    println!("BERTH_DEVICES_SEED={seed}, node {node}: upstream takes longer than its oracle waits");
                    too_long += 1;
                    continue;
                }
                if *ours == theirs {
                    *kinds.entry(kind(ours)).or_insert(0) += 1;
                    continue;
                }
                let Some(class) = wanted::class(&question, node, ours, &theirs, &mut oracle) else {
                    panic!(
                        "BERTH_DEVICES_SEED={seed} BERTH_DEVICES_CASES=1, node {node}:\n{}\nours:   {ours}\ntheirs: {theirs}",
                        serde_json::to_string_pretty(&question).unwrap()
                    );
                };
                *differences.entry(class).or_insert(0) += 1;
            }
        }
    }
    println!("the same: {kinds:?}\nwanted differences: {differences:?}\nof {cases} cases too long: {too_long}");
    assert!(too_long * 20 < cases || cases < 2_000, "{too_long} of {cases} are too long");
}
