//! Where two answers part.

use super::answer::{Answer, NodeAnswer, PodAnswer};
use super::coverage::normalise;
use std::collections::{BTreeMap, BTreeSet};

/// Plugins that Berth does not have yet; what they refuse and score is left out, and counted.
pub const AWAITED: [&str; 1] = ["InterPodAffinity"];

/// The plugin that upstream lists with 0 on every node of a pod without resource claims.
const NO_CLAIMS: &str = "DynamicResources";

/// Parts of an answer that are not compared; each has its section in `docs/differences.md`.
pub const PARTS_LEFT_OUT: &[&str] = &["DynamicResources scores nothing"];

/// Whether pods that Berth holds are left out, and counted.
pub const ALLOW_HELD: bool = true;

/// What came of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Both say the same.
    Same,
    /// Berth does not judge it: the features, or the plugin, it lacks.
    Awaited(String),
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
    if berth.error.contains("KubeSchedulerConfiguration: not read by this version") {
        return upstream.pods.iter().map(|_| Outcome::Awaited("KubeSchedulerConfiguration".to_owned())).collect();
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
    if ALLOW_HELD && let Some(features) = held(berth) {
        return Outcome::Awaited(features);
    }
    let (mut class, mut lines, mut awaited) = (None, Vec::new(), BTreeSet::new());
    let mut note = |of: String, line: String| {
        class.get_or_insert(of);
        lines.push(line);
    };
    match (outcome(upstream), outcome(berth)) {
        ("judged", "judged") => nodes(upstream, berth, &mut note, &mut awaited),
        ("failed", "held") if why(upstream) == why(berth) => {}
        ("failed", "held") => {
            let class = format!("text of a failure: {}", normalise(&why(upstream)));
            note(class, format!("upstream {:?}\nBerth {:?}", why(upstream), why(berth)));
        }
        ("failed", "judged") if ALLOW_HELD => {
            let text: String = normalise(&why(upstream)).chars().take(90).collect();
            awaited.insert(format!("failed: {text}"));
        }
        (a, b) if a != b => note(
            format!("upstream {a}, Berth {b}: {}", normalise(&why(if a == "judged" { berth } else { upstream }))),
            format!("upstream {a}: {}\nBerth {b}: {}", why(upstream), why(berth)),
        ),
        ("no profile", _) => {}
        (a, _) if why(upstream) != why(berth) => {
            note(format!("text of what was {a}"), format!("upstream {:?}\nBerth {:?}", why(upstream), why(berth)));
        }
        _ => {}
    }
    if let Some(class) = class {
        return Outcome::Differs(Difference { pod: upstream.key(), class, text: lines.join("\n") });
    }
    match awaited.first() {
        Some(what) => Outcome::Awaited(what.clone()),
        None => Outcome::Same,
    }
}

/// The features for which Berth holds the pod.
fn held(berth: &PodAnswer) -> Option<String> {
    let features = berth.reason.as_ref()?.strip_prefix("the pod uses ")?;
    let features = features.split(", which this version").next()?;
    let first = features.split(", ").next()?;
    (!features.contains("an unknown value")).then(|| format!("held: {first} …"))
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

/// Compares two judgements, most telling first: what a node is refused for, then scores, then what follows from them.
fn nodes(
    upstream: &PodAnswer,
    berth: &PodAnswer,
    note: &mut impl FnMut(String, String),
    awaited: &mut BTreeSet<String>,
) {
    let by_name = |answer: &PodAnswer| -> BTreeMap<String, NodeAnswer> {
        answer.nodes().iter().map(|n| (n.name().to_owned(), n.clone())).collect()
    };
    let (theirs, ours) = (by_name(upstream), by_name(berth));
    let names: Vec<&String> = theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>().into_iter().collect();
    let mut verdicts_differ = false;
    for name in &names {
        let (a, b) = (theirs.get(*name), ours.get(*name));
        let (said_a, said_b) = (verdict(a), verdict(b));
        if said_a == said_b {
            continue;
        }
        if let Some(plugin) = awaited_plugin(a).or_else(|| awaited_plugin(b)) {
            awaited.insert(plugin.to_owned());
            continue;
        }
        verdicts_differ = true;
        note(
            format!("upstream {}, Berth {}", normalise(&said_a), normalise(&said_b)),
            format!("node {name}: upstream {said_a}\nnode {name}: Berth {said_b}"),
        );
    }
    if verdicts_differ || !awaited.is_empty() {
        return;
    }
    let mut scores_differ = false;
    for name in &names {
        if let (
            Some(NodeAnswer::Fits { scores: a, total, .. }),
            Some(NodeAnswer::Fits { scores: b, total: ours, .. }),
        ) = (theirs.get(*name), ours.get(*name))
        {
            let mut skipped = false;
            for plugin in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let (x, y) = (a.get(plugin), b.get(plugin));
                if x == y || (plugin == NO_CLAIMS && x == Some(&0) && y.is_none()) {
                    continue;
                }
                if let Some(known) = AWAITED.iter().find(|p| *p == plugin && y.is_none()) {
                    awaited.insert((*known).to_owned());
                    skipped = true;
                    continue;
                }
                scores_differ = true;
                let number = |s: Option<&i64>| s.map_or("nothing".to_owned(), i64::to_string);
                note(
                    format!("score {plugin}"),
                    format!("node {name}: {plugin}: upstream {}, Berth {}", number(x), number(y)),
                );
            }
            if !skipped && !scores_differ && total != ours {
                note("total".to_owned(), format!("node {name}: total: upstream {total}, Berth {ours}"));
            }
        }
    }
    if upstream.feasible != berth.feasible {
        note("feasible".to_owned(), format!("feasible: upstream {}, Berth {}", upstream.feasible, berth.feasible));
    }
    if upstream.message != berth.message {
        note(
            "message".to_owned(),
            format!("message: upstream {:?}\nmessage: Berth {:?}", upstream.message, berth.message),
        );
    }
}

fn verdict(node: Option<&NodeAnswer>) -> String {
    match node {
        None => "does not know the node".to_owned(),
        Some(NodeAnswer::Fits { .. }) => "fits".to_owned(),
        Some(NodeAnswer::Refused { plugin, code, reasons, .. }) => format!("{plugin} {code}: {}", reasons.join(", ")),
    }
}

fn awaited_plugin(node: Option<&NodeAnswer>) -> Option<&'static str> {
    match node {
        Some(NodeAnswer::Refused { plugin, .. }) => AWAITED.iter().find(|p| *p == plugin).copied(),
        _ => None,
    }
}
