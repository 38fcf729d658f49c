//! Runs the literate scenarios in `tests/scenarios/*.md` through the built binary.
//!
//! A scenario is a `##` section. Fenced blocks whose info string is a language and a file name are written to that file;
//! the folder is what `-f` names. Blocks `expect simulate`, `expect explain` and `expect error` hold what must be said:
//!
//! ```text
//! expect simulate   NS/POD -> NODE [or NODE …][, evicts NS/VICTIM NS/VICTIM …]    every pending pod, in any order
//!                   NS/POD REASON: MESSAGE
//!                   summary KEY N, KEY N …
//! expect explain    NS/POD on NODE: PLUGIN N, …, total N
//!                   NS/POD off NODE: PLUGIN CODE: REASON, …
//!                   NS/POD feasible N | message: TEXT | reason: TEXT
//!                   NS/POD evicts on NODE: NS/VICTIM, …                   the node that preemption would choose
//!                   NS/POD may-evict on NODE: NS/VICTIM, …[; violations N]  a node where it would help
//!                   NS/POD preemption: TEXT                               why it does not help
//! expect error      what standard error says
//! ```
//!
//! `…` stands for any text. Placements are checked with several seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Block {
    line: usize,
    info: String,
    text: String,
}

struct Scenario {
    title: String,
    line: usize,
    blocks: Vec<Block>,
}

/// What was expected and what came, line by line.
struct Mismatch {
    line: usize,
    expected: String,
    actual: String,
}

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "md"));
    files.sort();
    let (mut run, mut failures) = (0, String::new());
    for file in files {
        let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        for scenario in parse(&name, &std::fs::read_to_string(&file).unwrap()) {
            run += 1;
            let mut mismatches = check(&name, &scenario);
            // The same line may fail for several seeds.
            mismatches.dedup_by(|a, b| a.line == b.line && a.actual == b.actual);
            for m in mismatches {
                let _ = writeln!(failures, "{name}:{}: {} (line {})", m.line, scenario.title, scenario.line);
                let _ = writeln!(failures, "  - {}\n  + {}", m.expected, m.actual.replace('\n', "\n    "));
            }
        }
    }
    assert!(run >= 25, "only {run} scenarios found");
    assert!(failures.is_empty(), "- expected, + actual\n{failures}");
}

fn parse(file: &str, text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => {
                let scenario = scenarios.last_mut().unwrap_or_else(|| panic!("{file}:{index}: block before any ##"));
                scenario.blocks.extend(open.take());
            }
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => open = Some(Block { line: index + 1, info: info.to_owned(), text: String::new() }),
            (None, None) => {
                if let Some(title) = line.strip_prefix("## ") {
                    scenarios.push(Scenario { title: title.to_owned(), line: index + 1, blocks: Vec::new() });
                }
            }
        }
    }
    assert!(open.is_none(), "{file}: a block is not closed");
    scenarios
}

fn check(file: &str, scenario: &Scenario) -> Vec<Mismatch> {
    let folder = std::env::temp_dir().join(format!(
        "berth-scenario-{}-{}-{}",
        std::process::id(),
        Path::new(file).file_stem().unwrap().to_string_lossy(),
        scenario.line
    ));
    let mut expectations = 0;
    for block in &scenario.blocks {
        match block.info.split_once(' ') {
            Some(("expect", _)) => expectations += 1,
            Some((_, name)) => write_file(&folder.join(name), &block.text),
            None => panic!("{file}:{}: block without a file name", block.line),
        }
    }
    assert!(expectations > 0, "{file}:{}: nothing is expected", scenario.line);
    let mut mismatches = Vec::new();
    for block in &scenario.blocks {
        match block.info.as_str() {
            "expect simulate" => (1..=3).for_each(|seed| check_simulate(&folder, block, seed, &mut mismatches)),
            "expect explain" => check_explain(&folder, block, &mut mismatches),
            "expect error" => check_error(&folder, block, &mut mismatches),
            info => assert!(!info.starts_with("expect"), "{file}:{}: unknown block {info}", block.line),
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    mismatches
}

fn write_file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn berth(folder: &Path, args: &[&str]) -> Output {
    let folder = folder.to_str().unwrap();
    Command::new(env!("CARGO_BIN_EXE_berth")).args(args).args(["-f", folder]).output().unwrap()
}

/// The answer as JSON, or what standard error says.
fn json(output: &Output, codes: &[i32]) -> Result<Value, String> {
    let code = output.status.code().unwrap_or(-1);
    if !codes.contains(&code) {
        return Err(format!("exit code {code}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

/// The lines of a block that say something, with their numbers.
fn lines(block: &Block) -> impl Iterator<Item = (usize, &str)> {
    let numbered = block.text.lines().enumerate().map(|(i, line)| (block.line + 1 + i, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty())
}

fn check_simulate(folder: &Path, block: &Block, seed: u64, mismatches: &mut Vec<Mismatch>) {
    let output = berth(folder, &["simulate", "-o", "json", "--seed", &seed.to_string()]);
    let report = match json(&output, &[0, 2]) {
        Ok(report) => report,
        Err(actual) => {
            mismatches.push(Mismatch { line: block.line, expected: "an answer".into(), actual });
            return;
        }
    };
    let mut actual: BTreeMap<String, String> = report["pods"].as_array().unwrap().iter().map(fate).collect();
    let mut unplaced = false;
    for (line, expected) in lines(block) {
        let mut miss = |actual: String| mismatches.push(Mismatch { line, expected: expected.to_owned(), actual });
        if let Some(pairs) = expected.strip_prefix("summary ") {
            for pair in pairs.split(", ") {
                let (key, n) = pair.split_once(' ').unwrap();
                if report["summary"][key] != json_number(n) {
                    miss(format!("summary {key} {}", report["summary"][key]));
                }
            }
            continue;
        }
        let (pod, rest) = expected.split_once(' ').unwrap();
        let Some(got) = actual.remove(pod) else {
            miss(format!("{pod} is not in the answer"));
            continue;
        };
        let fits = match (rest.strip_prefix("-> "), got.strip_prefix("-> ")) {
            (Some(wanted), Some(got)) => {
                let parts = |text| str::split_once(text, ", evicts ").unwrap_or((text, ""));
                let ((nodes, victims), (node, evicted)) = (parts(wanted), parts(got));
                nodes.split(" or ").any(|n| n == node) && matches(victims, evicted)
            }
            (None, None) => matches(rest, &got),
            _ => false,
        };
        unplaced |= !rest.starts_with("-> ") && !rest.starts_with("SchedulingGated");
        if !fits {
            miss(format!("{pod} {got} (seed {seed})"));
        }
    }
    for (pod, got) in actual {
        mismatches.push(Mismatch {
            line: block.line,
            expected: "nothing of this pod".into(),
            actual: format!("{pod} {got}"),
        });
    }
    let (want, got) = (if unplaced { 2 } else { 0 }, output.status.code().unwrap());
    if want != got {
        mismatches.push(Mismatch {
            line: block.line,
            expected: format!("exit code {want}"),
            actual: format!("exit code {got}"),
        });
    }
}

/// `ns/name`, and `-> node` or `Reason: message`.
fn fate(pod: &Value) -> (String, String) {
    let text = |key: &str| pod[key].as_str().unwrap_or_default().to_owned();
    let victims: Vec<&str> = pod["victims"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    let fate = match pod["node"].as_str() {
        Some(node) if victims.is_empty() => format!("-> {node}"),
        Some(node) => format!("-> {node}, evicts {}", victims.join(" ")),
        None => format!("{}: {}", text("reason"), text("message")),
    };
    (format!("{}/{}", text("namespace"), text("name")), fate)
}

fn check_explain(folder: &Path, block: &Block, mismatches: &mut Vec<Mismatch>) {
    let report = match json(&berth(folder, &["explain", "-o", "json"]), &[0]) {
        Ok(report) => report,
        Err(actual) => {
            mismatches.push(Mismatch { line: block.line, expected: "an answer".into(), actual });
            return;
        }
    };
    for (line, expected) in lines(block) {
        let (key, rest) = expected.split_once(' ').unwrap();
        let (namespace, name) = key.split_once('/').unwrap();
        let pods = report["pods"].as_array().unwrap();
        let pod = pods.iter().find(|p| p["namespace"] == namespace && p["name"] == name);
        let actual = match pod {
            Some(pod) => differs(pod, rest).map(|actual| format!("{key} {actual}")),
            None => Some(format!("{key} is not in the answer")),
        };
        mismatches.extend(actual.map(|actual| Mismatch { line, expected: expected.to_owned(), actual }));
    }
}

/// A number as a scenario writes it.
fn json_number(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// What the answer says in place of `expected`, if it is something else.
fn differs(pod: &Value, expected: &str) -> Option<String> {
    let (what, rest) = expected.split_once(' ').unwrap();
    let node = |name: &str| pod["nodes"].as_array().into_iter().flatten().find(|n| n["name"] == name);
    match what {
        "feasible" => (pod["feasible"] != json_number(rest)).then(|| format!("feasible {}", pod["feasible"])),
        "message:" | "reason:" => {
            let got = pod[what.trim_end_matches(':')].as_str().unwrap_or("absent");
            (!matches(rest, got)).then(|| format!("{what} {got}"))
        }
        "on" => {
            let (name, scores) = rest.split_once(": ").unwrap();
            let Some(node) = node(name).filter(|n| n["scores"].is_object()) else {
                return Some(format!("on {name}: {}", node(name).unwrap_or(&Value::Null)));
            };
            let wrong = scores.split(", ").any(|pair| {
                let (plugin, n) = pair.split_once(' ').unwrap();
                let got = if plugin == "total" { &node["total"] } else { &node["scores"][plugin] };
                *got != json_number(n)
            });
            wrong.then(|| format!("on {name}: {}, total {}", node["scores"], node["total"]))
        }
        "off" => {
            let (name, _) = rest.split_once(": ").unwrap();
            let got = match node(name) {
                Some(node) if node["plugin"].is_string() => {
                    let reasons = node["reasons"].as_array().unwrap().iter().map(|r| r.as_str().unwrap());
                    let reasons: Vec<&str> = reasons.collect();
                    let (plugin, code) = (node["plugin"].as_str().unwrap(), node["code"].as_str().unwrap());
                    format!("{name}: {plugin} {code}: {}", reasons.join(", "))
                }
                other => format!("{name}: {}", other.unwrap_or(&Value::Null)),
            };
            (!matches(rest, &got)).then(|| format!("off {got}"))
        }
        "evicts" | "may-evict" | "preemption:" => preemption_differs(&pod["preemption"], what, rest),
        other => panic!("unknown expectation {other}"),
    }
}

fn preemption_differs(got: &Value, what: &str, rest: &str) -> Option<String> {
    if what == "preemption:" {
        let message = got["message"].as_str().unwrap_or("absent");
        let text = message.strip_prefix("preemption: ").unwrap_or(message);
        return (!matches(rest, text)).then(|| format!("preemption: {got}"));
    }
    let (node, victims) = rest.strip_prefix("on ").unwrap().split_once(": ").unwrap();
    let (victims, violations) = victims.split_once("; violations ").unwrap_or((victims, "0"));
    let candidate = got["candidates"].as_array().into_iter().flatten().find(|c| c["node"] == node);
    let is_so = candidate.is_some_and(|candidate| {
        let victims: Vec<&str> = victims.split(", ").collect();
        candidate["victims"] == Value::from(victims) && candidate["budgetViolations"] == json_number(violations)
    });
    let chosen = what == "may-evict" || got["node"] == node;
    (!(is_so && chosen)).then(|| format!("{what}: {got}"))
}

fn check_error(folder: &Path, block: &Block, mismatches: &mut Vec<Mismatch>) {
    for command in ["simulate", "explain"] {
        let output = berth(folder, &[command]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap_or(-1);
        for (line, expected) in lines(block) {
            let said = stderr.lines().any(|got| matches(&format!("error: {expected}"), got));
            if code != 1 || !said || !output.stdout.is_empty() {
                let actual = format!("{command}, exit code {code}: {}", stderr.trim());
                mismatches.push(Mismatch { line, expected: expected.to_owned(), actual });
            }
        }
    }
}

/// Whether `text` is `pattern`, in which each `…` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn an_ellipsis_stands_for_any_text() {
    assert!(matches("a", "a") && matches("a…c", "abc") && matches("…b…", "abc") && matches("a…", "a"));
    assert!(!matches("a", "ab") && !matches("a…c", "abd") && !matches("…b…", "ac") && !matches("b…", "ab"));
}
