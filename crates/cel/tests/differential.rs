//! Random selectors over random devices, asked of upstream's own code (`tests/upstream/devices`) and of ours: each is true on both sides, or
//! false, or fails, or does not compile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod grammar;

use berth_cel::{Attribute, Device, Program, QualifiedName};
use berth_quantity::Quantity;
use grammar::{Random, device, expression};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const DRIVER: &str = "d.example.com";

/// Cases of an ordinary run.
const CASES: &str = "3000";

/// How many are asked at once.
const BATCH: u64 = 1_000;

/// What upstream may take of the machine's memory for a batch, in KiB.
const MEMORY: &str = "6000000";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Matches(bool),
    Fails,
    DoesNotCompile,
    /// Ours alone: it says that it does not know.
    Unsupported,
    /// Upstream's alone: it did not survive the question.
    Panics,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn oracle() -> PathBuf {
    let output =
        Command::new(root().join("hack/upstream.sh")).arg("--devices").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the oracle does not build");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

fn upstream(oracle: &Path, questions: &[Value]) -> Vec<(Answer, String)> {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v \"$1\" && exec \"$0\" cel"])
        .args([oracle, Path::new(MEMORY)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle runs");
    let mut stdin = child.stdin.take().unwrap();
    let lines: Vec<String> = questions.iter().map(ToString::to_string).collect();
    let writer = std::thread::spawn(move || {
        // Who dies reads no further.
        let _ = lines.iter().try_for_each(|line| writeln!(stdin, "{line}"));
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if text.ends_with('\n') && text.lines().count() == questions.len() {
        return text.lines().map(answer).collect();
    }
    // Some expressions take all memory there is, and with it the answers to others.
    let [question] = questions else {
        let (first, second) = questions.split_at(questions.len() / 2);
        return [upstream(oracle, first), upstream(oracle, second)].concat();
    };
    println!("upstream does not survive {question}");
    vec![(Answer::Panics, String::new())]
}

fn answer(line: &str) -> (Answer, String) {
    let answer: Value = serde_json::from_str(line).unwrap();
    if let Some(error) = answer["panic"].as_str() {
        return (Answer::Panics, error.to_owned());
    }
    if let Some(error) = answer["compileError"].as_str() {
        return (Answer::DoesNotCompile, error.to_owned());
    }
    if let Some(error) = answer["runtimeError"].as_str() {
        return (Answer::Fails, error.to_owned());
    }
    (Answer::Matches(answer["matches"].as_bool().unwrap()), String::new())
}

fn ours(expression: &str, device: &Value) -> (Answer, String) {
    let program = match Program::compile(expression) {
        Ok(program) => program,
        Err(error) if error.is_unsupported() => return (Answer::Unsupported, error.to_string()),
        Err(error) => return (Answer::DoesNotCompile, error.to_string()),
    };
    let mut attributes: Vec<(QualifiedName, Attribute)> =
        entries(&device["attributes"]).map(|(name, value)| (QualifiedName::parse(name), attribute(value))).collect();
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    let quantity = |value: &Value| Quantity::parse(value["value"].as_str().unwrap()).unwrap();
    let mut capacity: Vec<(QualifiedName, Quantity)> =
        entries(&device["capacity"]).map(|(name, value)| (QualifiedName::parse(name), quantity(value))).collect();
    capacity.sort_by(|a, b| a.0.cmp(&b.0));
    let device = Device {
        driver: DRIVER,
        allow_multiple_allocations: device["allowMultipleAllocations"].as_bool().unwrap_or(false),
        attributes: &attributes,
        capacity: &capacity,
    };
    match program.matches(&device, &mut 1_000_000) {
        Ok(matches) => (Answer::Matches(matches), String::new()),
        Err(error) if error.is_unsupported() => (Answer::Unsupported, error.to_string()),
        Err(error) => (Answer::Fails, error.to_string()),
    }
}

fn entries(of: &Value) -> impl Iterator<Item = (&str, &Value)> {
    of.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn attribute(value: &Value) -> Attribute {
    let (kind, value) = entries(value).next().unwrap();
    match kind {
        "string" => Attribute::Text(value.as_str().unwrap().into()),
        "int" => Attribute::Int(value.as_i64().unwrap()),
        "bool" => Attribute::Bool(value.as_bool().unwrap()),
        "version" => Attribute::Version(value.as_str().unwrap().into()),
        other => panic!("{other}"),
    }
}

/// Whether upstream also gives our answer: it goes over maps in another order each time.
fn changes_its_mind(oracle: &Path, question: &Value, ours: &Answer) -> bool {
    // A map of two is gone through in the rarer order one time of eight.
    let again = vec![question.clone(); 256];
    upstream(oracle, &again).iter().any(|(theirs, _)| theirs == ours)
}

fn number(name: &str, default: &str) -> u64 {
    std::env::var(name).unwrap_or_else(|_| default.to_owned()).parse().unwrap()
}

#[test]
fn selectors_answer_as_upstream() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() % 1_000_000_007;
    let seed = number("BERTH_SEED", &now.to_string());
    let count = number("BERTH_CEL_CASES", CASES);
    println!("BERTH_SEED={seed} BERTH_CEL_CASES={count} gives the same cases");
    let oracle = oracle();
    let mut differences = Vec::new();
    let mut answers: BTreeMap<Answer, usize> = BTreeMap::new();
    let mut unsupported: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for first in (0..count).step_by(BATCH as usize) {
        let questions: Vec<Value> = (first..count.min(first + BATCH))
            .map(|case| {
                let mut random = Random::new(seed, case);
                json!({ "expression": expression(&mut random), "driver": DRIVER, "device": device(&mut random) })
            })
            .collect();
        for (question, theirs) in questions.iter().zip(upstream(&oracle, &questions)) {
            let text = question["expression"].as_str().unwrap();
            let ours = ours(text, &question["device"]);
            *answers.entry(theirs.0.clone()).or_default() += 1;
            if theirs.0 == Answer::Panics {
                continue;
            }
            // Only what upstream knows as well is missing.
            if ours.0 == Answer::Unsupported {
                if theirs.0 != Answer::DoesNotCompile {
                    unsupported.entry(ours.1).or_insert((0, text.to_owned())).0 += 1;
                }
            } else if ours.0 != theirs.0 && !changes_its_mind(&oracle, question, &ours.0) {
                differences
                    .push(format!("{text}\n  of {}\n  ours {ours:?}\n  upstream {theirs:?}", question["device"]));
            }
        }
    }
    println!("{answers:?}");
    for (what, (times, example)) in &unsupported {
        println!("{times} times {what} e.g. {example}");
    }
    for difference in differences.iter().take(number("BERTH_CEL_SHOW", "10") as usize) {
        println!("{difference}");
    }
    assert!(differences.is_empty(), "{} of {count} cases differ (BERTH_SEED={seed})", differences.len());
    let missing: usize = unsupported.values().map(|(times, _)| times).sum();
    assert!(missing as u64 * 100 <= count, "{missing} of {count} cases are not supported (BERTH_SEED={seed})");
}
