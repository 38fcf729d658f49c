//! Where two answers part.

use super::answer::{Answer, NodeAnswer, PodAnswer};
use super::coverage::normalise;
use super::preemption;
use std::collections::{BTreeMap, BTreeSet};

/// The plugin that upstream lists with 0 on every node of a pod without resource claims.
const NO_CLAIMS: &str = "DynamicResources";

/// What upstream calls the only profile of a configuration that names none, and Berth the one that it makes up.
const UNNAMED: &str = "default-scheduler";
const DEFAULT: &str = "default";

/// Parts of an answer that are not compared; each has its section in `docs/differences.md`.
pub const PARTS_LEFT_OUT: &[&str] =
    &["DynamicResources scores nothing", "Static pods are no victims", "Victims that are equally important"];

/// What came of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Both say the same.
    Same,
    /// They part.
    Differs(Difference),
}

/// A difference: its class says what kind, its text what exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `namespace/name` of the pod; empty where the cluster as a whole has no answer.
    pub pod: String,
    /// What differs, without names and numbers.
    pub class: String,
    /// What differs, line by line.
    pub text: String,
}

/// Compares the answers for one cluster, pod by pod.
pub fn compare(upstream: &Answer, berth: &Answer) -> Vec<Outcome> {
    let whole = |class: String, text: String| vec![Outcome::Differs(Difference { pod: String::new(), class, text })];
    if !upstream.error.is_empty() {
        return whole(
            format!("the oracle refuses the cluster: {}", normalise(&upstream.error)),
            upstream.error.clone(),
        );
    }
    if !berth.error.is_empty() {
        return whole(format!("Berth refuses the cluster: {}", normalise(&berth.error)), berth.error.clone());
    }
    let keys = |answer: &Answer| answer.pods.iter().map(PodAnswer::key).collect::<Vec<_>>();
    if keys(upstream) != keys(berth) {
        return whole("other pods".to_owned(), format!("upstream {:?}\nBerth {:?}", keys(upstream), keys(berth)));
    }
    upstream.pods.iter().zip(&berth.pods).map(|(upstream, berth)| pod(upstream, berth)).collect()
}

fn pod(upstream: &PodAnswer, berth: &PodAnswer) -> Outcome {
    let mut notes = Vec::new();
    match (outcome(upstream), outcome(berth)) {
        ("judged", "judged") => nodes(upstream, berth, &mut notes),
        // Berth has one word for pods that it cannot judge; the text says why.
        ("failed", "held") if why(upstream) == why(berth) => {}
        ("failed", "held") => notes.push((
            format!("text of a failure: {}", normalise(&why(upstream))),
            format!("upstream {:?}\nBerth {:?}", why(upstream), why(berth)),
        )),
        (a, b) if a != b => notes.push((
            format!("upstream {a}, Berth {b}: {}", normalise(&why(if a == "judged" { berth } else { upstream }))),
            format!("upstream {a}: {}\nBerth {b}: {}", why(upstream), why(berth)),
        )),
        ("no profile", _) => {}
        (a, _) if why(upstream) != why(berth) => notes
            .push((format!("text of what was {a}"), format!("upstream {:?}\nBerth {:?}", why(upstream), why(berth)))),
        _ => {}
    }
    let profile =
        |answer: &PodAnswer| answer.profile.clone().map(|name| if name == UNNAMED { DEFAULT.into() } else { name });
    if profile(upstream) != profile(berth) {
        let text = format!("profile: upstream {:?}\nprofile: Berth {:?}", upstream.profile, berth.profile);
        notes.push(("profile".to_owned(), text));
    }
    let Some(class) = notes.first().map(|(class, _)| class.clone()) else { return Outcome::Same };
    let lines: Vec<String> = notes.into_iter().map(|(_, line)| line).collect();
    Outcome::Differs(Difference { pod: upstream.key(), class, text: lines.join("\n") })
}

fn outcome(answer: &PodAnswer) -> &'static str {
    match answer {
        PodAnswer { error: Some(_), .. } => "failed",
        PodAnswer { nodes: Some(_), .. } => "judged",
        PodAnswer { profile: None, .. } => "no profile",
        PodAnswer { reason: Some(reason), .. } if reason.starts_with("waiting for scheduling gates") => "gated",
        _ => "held",
    }
}

fn why(answer: &PodAnswer) -> String {
    answer.error.clone().or_else(|| answer.reason.clone()).or_else(|| answer.message.clone()).unwrap_or_default()
}

/// What differs: its class, and a text.
pub type Note = (String, String);

/// Compares two judgements, most telling first: what a node is refused for, then scores, then what follows from them.
fn nodes(upstream: &PodAnswer, berth: &PodAnswer, notes: &mut Vec<Note>) {
    let by_name = |answer: &PodAnswer| -> BTreeMap<String, NodeAnswer> {
        answer.nodes().iter().map(|n| (n.name().to_owned(), n.clone())).collect()
    };
    let (theirs, ours) = (by_name(upstream), by_name(berth));
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let pairs: Vec<_> = names.into_iter().map(|name| (name, theirs.get(name), ours.get(name))).collect();
    for (name, a, b) in &pairs {
        let (a, b) = (verdict(*a), verdict(*b));
        if a != b {
            let class = format!("upstream {}, Berth {}", normalise(&a), normalise(&b));
            notes.push((class, format!("node {name}: upstream {a}\nnode {name}: Berth {b}")));
        }
    }
    if !notes.is_empty() {
        return;
    }
    for (name, a, b) in pairs {
        if let (
            Some(NodeAnswer::Fits { scores: a, total: x, .. }),
            Some(NodeAnswer::Fits { scores: b, total: y, .. }),
        ) = (a, b)
        {
            scores(name, (a, *x), (b, *y), notes);
        }
    }
    for (what, a, b) in [
        ("feasible", upstream.feasible.to_string(), berth.feasible.to_string()),
        ("message", format!("{:?}", upstream.message), format!("{:?}", berth.message)),
    ] {
        if a != b {
            notes.push((what.to_owned(), format!("{what}: upstream {a}\n{what}: Berth {b}")));
        }
    }
    if notes.is_empty() {
        preemption::compare(upstream.preemption.as_ref(), berth.preemption.as_ref(), notes);
    }
}

/// The scores of a node, and their sum.
type Scores<'a> = (&'a BTreeMap<String, i64>, i64);

fn scores(node: &str, (upstream, x): Scores<'_>, (berth, y): Scores<'_>, notes: &mut Vec<Note>) {
    let number = |score: Option<&i64>| score.map_or("nothing".to_owned(), i64::to_string);
    for plugin in upstream.keys().chain(berth.keys()).collect::<BTreeSet<_>>() {
        let (a, b) = (upstream.get(plugin), berth.get(plugin));
        let left_out = plugin == NO_CLAIMS && a == Some(&0) && b.is_none();
        if a != b && !left_out {
            let text = format!("node {node}: {plugin}: upstream {}, Berth {}", number(a), number(b));
            notes.push((format!("score {plugin}"), text));
        }
    }
    if x != y {
        notes.push(("total".to_owned(), format!("node {node}: total: upstream {x}, Berth {y}")));
    }
}

fn verdict(node: Option<&NodeAnswer>) -> String {
    match node {
        None => "does not know the node".to_owned(),
        Some(NodeAnswer::Fits { .. }) => "fits".to_owned(),
        Some(NodeAnswer::Refused { plugin, code, reasons, .. }) => format!("{plugin} {code}: {}", reasons.join(", ")),
    }
}
