//! Random pods with claims against upstream's own DynamicResources plugin (`tests/upstream/plugin`): the status of each extension point
//! with its texts, the scores, and what is written.
//!
//! `BERTH_CLAIMS_CASES` is how many there are. A failure prints the seed of its case: `BERTH_CLAIMS_SEED=… BERTH_CLAIMS_CASES=1` repeats it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "dynamic_resources/binding.rs"]
mod binding;
#[path = "../../devices/tests/differential/draw.rs"]
mod draw;
#[path = "dynamic_resources/extended.rs"]
mod extended;
#[path = "../../devices/tests/differential/objects.rs"]
mod objects;
#[path = "dynamic_resources/oracle.rs"]
mod oracle;
#[path = "dynamic_resources/ours.rs"]
mod ours;
#[path = "../../../tests/simulation/model/patch.rs"]
#[expect(dead_code, reason = "the model of the API server takes other patches as well")]
mod patch;
#[path = "dynamic_resources/pods.rs"]
mod pods;
#[path = "../../devices/tests/differential/random.rs"]
mod random;
#[path = "dynamic_resources/sequence.rs"]
mod sequence;
#[path = "dynamic_resources/theirs.rs"]
mod theirs;
#[path = "dynamic_resources/waking.rs"]
mod waking;
#[path = "dynamic_resources/weighed.rs"]
mod weighed;
#[path = "dynamic_resources/writing.rs"]
mod writing;

/// The expressions that situations draw from.
mod selectors {
    pub(crate) const ANY: &str = "true";
    pub(crate) const NONE: &str = "false";
    pub(crate) const OF_C: &str = r#"device.driver == "c.example""#;
    pub(crate) const OF_D: &str = r#"device.driver == "d.example""#;
    pub(crate) const MODEL_A: &str = r#"device.attributes["d.example"].model == "a""#;
    pub(crate) const GUARDED_A: &str =
        r#"has(device.attributes["d.example"].model) && device.attributes["d.example"].model == "a""#;
    pub(crate) const SIZE_1: &str = r#"device.attributes["d.example"].size == 1"#;
    pub(crate) const LARGE: &str = r#"device.capacity["d.example"].memory.compareTo(quantity("8Gi")) >= 0"#;
    pub(crate) const SHARED: &str = "device.allowMultipleAllocations";
    pub(crate) const NO_BOOL: &str = "1";
}

use ours::Answer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

const CASES: u64 = 1_000;
/// Cases that are asked together.
const BATCH: u64 = 500;

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// The first seed and how many there are, as they are printed.
fn seeds() -> Range<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("BERTH_CLAIMS_SEED", now % 1_000_000_000_000);
    let cases = variable("BERTH_CLAIMS_CASES", CASES);
    println!("BERTH_CLAIMS_SEED={seed} BERTH_CLAIMS_CASES={cases} gives the same situations");
    seed..seed + cases
}

/// Asks the oracle the question of each situation that `draw` gives, many at a time, and has its answer compared `with` what belongs to it.
fn compare<T>(
    all: &Range<u64>,
    mut draw: impl FnMut(u64) -> Option<(Value, T)>,
    mut with: impl FnMut(u64, &Value, T, &Value),
) {
    let mut oracle = oracle::Oracle::start();
    for first in all.clone().step_by(BATCH as usize) {
        let batch = first..all.end.min(first + BATCH);
        let drawn: Vec<_> = batch.filter_map(|seed| Some((seed, draw(seed)?))).collect();
        let answers = oracle.ask(drawn.iter().map(|(_, (question, _))| question));
        for ((seed, (question, ours)), answer) in drawn.into_iter().zip(answers) {
            with(seed, &question, ours, &answer);
        }
    }
}

/// What repeats a case, and what it is.
fn case(seed: u64, question: &Value, answer: &Value) -> String {
    format!("BERTH_CLAIMS_SEED={seed} BERTH_CLAIMS_CASES=1\n{question:#}\nupstream: {answer}")
}

#[test]
fn devices_count_in_scores_by_allocation_as_they_do_upstream() {
    let (mut same, all) = (0, seeds());
    let draw = |seed| Some((weighed::situation(seed)?, ()));
    compare(&all, draw, |seed, question, (), answer| same += weighed::compare(seed, question, answer));
    println!("scores of {same} nodes are the same");
    assert!(same as u64 * 3 > all.end - all.start || all.end - all.start < 1_000, "only {same} were compared");
}

/// A pod that fits now is tried, whatever upstream's hint says; and one that upstream tries where Berth does not still fits nowhere.
#[test]
fn a_pod_that_waits_for_devices_is_tried_again_whenever_it_fits() {
    let (mut told, all) = (BTreeMap::new(), seeds());
    let draw = |seed| waking::situation(seed).map(|waits| (waits.1.asked(), waits));
    compare(&all, draw, |seed, question, (before, happening), hint| {
        let fits = matches!(ours::answer(&happening.question), Some(Answer::Placed { .. }));
        let wakes = happening.wakes(&before);
        assert!(wakes || !fits, "{} is not woken\nbefore: {before:#}", case(seed, question, hint));
        let key = (hint["hint"] == "Queue", wakes, fits);
        *told.entry(key).or_insert(0) += 1;
    });
    println!("upstream tries, Berth tries, it fits: {told:?}");
    // About 33 of 1,000 are: the bound is ten times below, so that no seed of an honest run gets there.
    let count = |kind| told.get(&kind).copied().unwrap_or(0);
    let (woken, left) = (count((true, true, true)), count((false, false, false)));
    assert!(woken * 300 > all.end - all.start || all.end - all.start < 500, "only {woken} were helped");
    // About 180 of 1,000 are left alone by both.
    assert!(left * 20 > all.end - all.start || all.end - all.start < 500, "only {left} were left alone");
}

#[test]
fn what_is_written_waited_for_and_given_back_is_what_upstream_does() {
    let (mut kinds, all) = (BTreeMap::new(), seeds());
    let draw = |seed| {
        let mut question = Some(binding::situation(seed)).filter(|question| !pods::differs_by_design(question))?;
        let (node, ours) = binding::ours(&question)?;
        question["choose"] = node.into();
        Some((question, ours))
    };
    compare(&all, draw, |seed, question, ours, answer| {
        assert_eq!(ours, binding::theirs(answer), "{}", case(seed, question, answer));
        let kind = ours.failure.split(':').next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_insert(0) += 1;
    });
    println!("the same: {kinds:?}");
    let of = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
    // About 218 and 19 of 1,000 are.
    let enough = of("") * 8 > all.end - all.start && of(binding::TIMEOUT) * 500 > all.end - all.start;
    assert!(enough || all.end - all.start < 1_000, "too few came so far: {kinds:?}");
}

/// As above, with the writer and an API server that has something else, and refuses.
#[test]
fn what_is_refused_or_has_changed_ends_as_it_does_upstream() {
    let (mut kinds, all) = (BTreeMap::new(), seeds());
    let bench = writing::Bench::new();
    let draw = |seed| {
        let mut question = Some(writing::situation(seed)).filter(writing::concerns)?;
        let (node, ours) = bench.ours(&question)?;
        question["choose"] = node.into();
        Some((question, ours))
    };
    compare(&all, draw, |seed, question, ours, answer| {
        assert_eq!(ours, writing::theirs(question, answer), "{}", case(seed, question, answer));
        let without_name = |part: &str| part.trim_start_matches(['c', '0', '1', '2']).to_owned();
        let kind: String = ours.failure.split("claim default/").map(without_name).collect();
        *kinds.entry(kind).or_insert(0) += 1;
    });
    println!("the same: {kinds:?}");
    // About 126 of 1,000 end well, and 68 do not.
    let well = kinds.get("").copied().unwrap_or(0);
    let enough = well * 20 > all.end - all.start && (kinds.values().sum::<u64>() - well) * 40 > all.end - all.start;
    assert!(enough || all.end - all.start < 1_000, "too few: {kinds:?}");
}

/// What Berth keeps from one decision to the next says what upstream finds anew.
#[test]
fn pods_one_after_the_other_are_judged_as_upstream_does_while_devices_come_and_go() {
    let (mut kinds, all) = (BTreeMap::new(), seeds());
    let mut oracle = oracle::Oracle::start();
    // Each has some five pods.
    for seed in all.clone().step_by(5) {
        sequence::compare(seed, &mut oracle, |same| *kinds.entry(same.kind()).or_insert(0_u64) += 1);
    }
    println!("the same: {kinds:?}");
    // About 240 of 1,000.
    assert!(kinds.get("placed") > Some(&((all.end - all.start) / 12)) || all.end - all.start < 1_000, "{kinds:?}");
}

#[test]
fn pods_with_claims_are_judged_and_written_as_upstream_does() {
    let all = seeds();
    let (mut kinds, mut asked, cases) = (BTreeMap::new(), 0, all.end - all.start);
    let draw = |seed| {
        let mut question = Some(pods::situation(seed)).filter(|question| !pods::differs_by_design(question))?;
        let ours = ours::answer(&question)?;
        if let Answer::Placed { node, .. } = &ours {
            question["choose"] = Value::String(node.clone());
        }
        Some((question, ours))
    };
    compare(&all, draw, |seed, question, ours, answer| {
        assert_eq!(ours, theirs::answer(question, answer), "{}", case(seed, question, answer));
        *kinds.entry(ours.kind()).or_insert(0) += 1;
        asked += 1;
    });
    let left_out = cases - asked;
    println!("the same: {kinds:?}, left out: {left_out} of {cases}");
    assert!(left_out * 3 < cases || cases < 1_000, "{left_out} of {cases} are left out");
}
