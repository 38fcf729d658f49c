//! What preemption comes to, in the form in which both sides give it; upstream says more, for the table of paths.

use super::cluster::Drawn;
use super::compare::Note;
use super::coverage::normalise;
use super::crowd::is_mirror;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The class of live searches in which upstream looks for no candidate at all.
pub const WANTS_NONE: &str = "live preemption: upstream wants no candidate";

/// The `preemption` of a pod that fits nowhere.
#[derive(Debug, Clone, Deserialize)]
pub struct Preemption {
    /// The node that it would be nominated to.
    pub node: Option<String>,
    /// Why it does not help.
    pub message: Option<String>,
    /// The nodes on which it helps, every potential one tried.
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    /// What upstream alone says.
    #[serde(flatten)]
    pub detail: Detail,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub node: String,
    pub victims: Vec<String>,
    pub budget_violations: i64,
    /// Pods of lower priority on the node, victims or not.
    #[serde(default)]
    pub lower: usize,
    /// Whether there would be other victims without budgets.
    #[serde(default)]
    pub budgets_matter: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// `Success`, `Unschedulable` or `Error`.
    pub code: String,
    /// Whether the pod's own nomination is taken back.
    pub clears: bool,
    pub eligibility: Eligibility,
    /// The nodes on which it could help, as they are tried.
    pub potential: Vec<String>,
    /// Those on which it does not, with the first reason.
    pub refused: Vec<Refused>,
    /// The candidates among which upstream's choice is arbitrary.
    pub best: Vec<String>,
    /// The criterion that left them.
    pub decided: String,
    pub live: Option<Live>,
    /// Pods that upstream would delete, and pods that would lose the node that they are nominated to.
    pub deleted: Vec<String>,
    pub cleared: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Eligibility {
    pub eligible: bool,
    pub reason: String,
    pub nominated: String,
    pub unresolvable: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Refused {
    pub plugin: String,
    pub reasons: Vec<String>,
}

/// What a scheduling cycle looks at, from an offset and no further than the profile's arguments say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Live {
    pub offset: usize,
    pub wanted: usize,
    pub tried: Vec<String>,
    /// In the order in which the choice sees them: those that violate no budget first.
    pub candidates: Vec<String>,
    /// Those among which the choice is arbitrary; Berth's is the only one.
    pub best: Vec<String>,
}

/// What upstream leaves to chance, or sees otherwise by documented difference, for the request about `drawn`.
pub fn asked(drawn: &Drawn) -> Value {
    let mirrors = drawn.objects.iter().filter(|o| o["kind"] == "Pod" && is_mirror(o));
    let never: Vec<String> = mirrors.map(key).collect();
    json!({"offset": offset(drawn), "never": never})
}

/// The potential node at which a live search for this cluster begins, modulo their number.
pub fn offset(drawn: &Drawn) -> usize {
    (drawn.seed % 16) as usize
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or("default").to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Where the two part: candidates, victims, violations, the message, and a choice that upstream would never make.
pub fn compare(upstream: Option<&Preemption>, berth: Option<&Preemption>, notes: &mut Vec<Note>) {
    let (theirs, ours) = match (upstream, berth) {
        (None, None) => return,
        (Some(theirs), Some(ours)) => (theirs, ours),
        (theirs, ours) => {
            let says = |side: Option<&Preemption>| if side.is_some() { "speaks" } else { "does not speak" };
            let class = format!("preemption: upstream {}, Berth {}", says(theirs), says(ours));
            notes.push((class, format!("upstream {theirs:?}\nBerth {ours:?}")));
            return;
        }
    };
    for (one, other) in pairs(theirs, ours) {
        if let Some(note) = candidate(one, other) {
            notes.push(note);
        }
    }
    if !notes.is_empty() {
        return;
    }
    if theirs.message != ours.message {
        let class =
            format!("preemption: another text: upstream {}, Berth {}", alone(theirs, ours), alone(ours, theirs));
        notes.push((class, format!("preemption: upstream {:?}\npreemption: Berth {:?}", theirs.message, ours.message)));
    }
    let chosen = ours.node.iter().all(|node| theirs.detail.best.contains(node));
    if !chosen || ours.node.is_none() != theirs.detail.best.is_empty() {
        let class = format!("preemption: another choice, where upstream's falls by {}", theirs.detail.decided);
        notes.push((class, format!("best to upstream {:?}\nBerth's choice {:?}", theirs.detail.best, ours.node)));
    }
    if notes.is_empty() {
        live(theirs.detail.live.as_ref(), ours.detail.live.as_ref(), notes);
    }
}

/// Where a live cycle would see other candidates, or make a choice that upstream would never make.
fn live(theirs: Option<&Live>, ours: Option<&Live>, notes: &mut Vec<Note>) {
    let nothing = Live::default();
    let (theirs, ours) = (theirs.unwrap_or(&nothing), ours.unwrap_or(&nothing));
    if theirs.candidates != ours.candidates {
        let class = if theirs.wanted == 0 { WANTS_NONE } else { "live preemption: other candidates" };
        let text = format!(
            "upstream, from {} of {:?}: {:?}\nBerth: {:?}",
            theirs.offset, theirs.tried, theirs.candidates, ours.candidates
        );
        notes.push((class.to_owned(), text));
    } else if ours.best.iter().any(|node| !theirs.best.contains(node)) || ours.best.is_empty() != theirs.best.is_empty()
    {
        let text = format!("best to upstream {:?}\nBerth's choice {:?}", theirs.best, ours.best);
        notes.push(("live preemption: another choice".to_owned(), text));
    }
}

/// The reasons that only one side's message has.
fn alone(one: &Preemption, other: &Preemption) -> String {
    let reasons = |side: &Preemption| -> BTreeSet<String> {
        let text = side.message.clone().unwrap_or_default();
        let list = text.split_once(" are available: ").map_or(&*text, |(_, list)| list);
        let uncounted = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit()).trim().to_owned();
        list.trim_end_matches('.').split(", ").map(|part| normalise(&uncounted(part))).collect()
    };
    let only: Vec<String> = reasons(one).difference(&reasons(other)).cloned().collect();
    if only.is_empty() { "no other reasons".to_owned() } else { only.join(" and ") }
}

type Pair<'a> = (Option<&'a Candidate>, Option<&'a Candidate>);

fn pairs<'a>(theirs: &'a Preemption, ours: &'a Preemption) -> Vec<Pair<'a>> {
    let find = |side: &'a Preemption, node: &str| side.candidates.iter().find(|c| c.node == node);
    let both = theirs.candidates.iter().map(|c| (Some(c), find(ours, &c.node)));
    let only_ours = ours.candidates.iter().filter(|c| find(theirs, &c.node).is_none());
    both.chain(only_ours.map(|c| (None, Some(c)))).collect()
}

fn candidate(theirs: Option<&Candidate>, ours: Option<&Candidate>) -> Option<Note> {
    let node = &theirs.or(ours)?.node;
    let sorted = |of: &Candidate| {
        let mut victims = of.victims.clone();
        victims.sort();
        victims
    };
    let class = match (theirs, ours) {
        (Some(a), Some(b)) if sorted(a) != sorted(b) => "preemption: other victims",
        (Some(a), Some(b)) if a.budget_violations != b.budget_violations => "preemption: other violations of budgets",
        (Some(_), Some(_)) => return None,
        (Some(_), None) => "preemption: only to upstream a candidate",
        (None, _) => "preemption: only to Berth a candidate",
    };
    let say = |side: Option<&Candidate>| {
        side.map_or("none".to_owned(), |c| format!("{:?}, {} violations", sorted(c), c.budget_violations))
    };
    Some((class.to_owned(), format!("node {node}: upstream {}\nnode {node}: Berth {}", say(theirs), say(ours))))
}
