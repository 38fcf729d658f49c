//! `make fuzz`.

use super::bounds::{Figures, TIME_PER_STEP};
use super::{decide, draw};
use crate::choices::strings;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nodes of each cluster, where the environment names no other number.
const NODES: u64 = 1_000;

/// Strings that are put together for one cluster: a pod takes some ten bytes.
const STRINGS: u64 = 4;

/// A number that the environment may hold.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn seed() -> u64 {
    if std::env::var("BERTH_SEED").is_ok_and(|text| text == "random") {
        return SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 & 0xFFFF_FFFF;
    }
    number("BERTH_SEED").unwrap_or(1)
}

#[test]
#[ignore = "measures time: `make fuzz` runs it from a release build"]
fn hostile_pods_are_decided_in_time() {
    let (seed, count, only) = (seed(), number("BERTH_FUZZ_CASES").unwrap_or(300), number("BERTH_FUZZ_CASE"));
    let nodes = number("BERTH_FUZZ_NODES").unwrap_or(NODES);
    println!("{count} clusters of {nodes} nodes from seed {seed}; at most {TIME_PER_STEP:?} a decision");
    let mut figures = Figures::timed();
    let mut strings = strings(seed, count * STRINGS);
    for case in 0..count {
        let bytes: Vec<u8> = strings.by_ref().take(STRINGS as usize).flatten().collect();
        if only.is_some_and(|only| only != case) {
            continue;
        }
        figures.begin(format!("SEED={seed} CASE={case}:"));
        let cluster = draw(&bytes, Some(nodes as usize));
        if catch_unwind(AssertUnwindSafe(|| decide::run(&cluster, &mut figures))).is_err() {
            figures.fault("a panic");
        }
    }
    let Figures { steps, decided, refused, most_bytes, most_left, look, .. } = &figures;
    println!("{steps} steps, {decided} decisions, {refused} objects refused; the longest:");
    figures.worst().for_each(|step| println!("  {step}"));
    println!(
        "most bytes at once {} KiB, left {} KiB, most work under one hold {}, holds for one look {}",
        most_bytes >> 10,
        most_left >> 10,
        look.work,
        look.holds
    );
    let beyond = figures.beyond();
    assert!(beyond.is_empty(), "{} times beyond a bound:\n{}", beyond.len(), beyond.join("\n"));
}
