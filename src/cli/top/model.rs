//! What is to be seen, as texts: the same for the screen and for `--once`. Pure: facts in, rows out.

use super::facts::Facts;
use super::pane::{Filters, Pane, Section};
use super::rows;
use crate::cli::live::lease::Leader;
use crate::cli::output::{counted, plain};

/// Everything that is to be seen at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    /// Two lines.
    pub(super) header: [String; 2],
    /// What could not be read, and what stands in for it.
    pub(super) notes: Vec<String>,
    sections: [Section; 5],
}

impl Model {
    pub(super) fn of(facts: &Facts, filters: &Filters, now_unix_us: i64) -> Self {
        let pods = rows::Pods::of(facts, now_unix_us);
        let filter = |pane: Pane| &*filters[pane as usize];
        Self {
            header: [first_line(facts), second_line(facts, &pods)],
            notes: notes(facts),
            sections: [
                Section::of(rows::profiles(facts, now_unix_us), filter(Pane::Profiles)),
                Section::of(pods.rows(), filter(Pane::Pods)),
                Section::of(pods.reasons().into_iter(), filter(Pane::Reasons)),
                Section::of(rows::extenders(facts).into_iter(), filter(Pane::Extenders)),
                Section::of(rows::nodes(facts), filter(Pane::Nodes)),
            ],
        }
    }

    pub(super) const fn section(&self, pane: Pane) -> &Section {
        &self.sections[pane as usize]
    }
}

fn first_line(facts: &Facts) -> String {
    let leader = match &facts.leader {
        None => "who leads is not known".to_owned(),
        Some(Leader::Never) => "no operator has ever led here".to_owned(),
        Some(Leader::Nobody) => "nobody leads".to_owned(),
        Some(Leader::Silent { holder, seconds }) => format!("{holder} has not renewed its lease for {seconds} s"),
        Some(Leader::Leads { holder, .. }) => format!("{holder} leads"),
    };
    plain(&format!("berth top · {} · {leader}", facts.server)).into_owned()
}

fn second_line(facts: &Facts, pods: &rows::Pods<'_>) -> String {
    if !(facts.pods.is_whole && facts.nodes.is_whole) {
        return "reading pods and nodes …".to_owned();
    }
    let [cpu, memory] = rows::taken(facts).map(|share| share.map_or("-".to_owned(), |share| format!("{share} %")));
    let profiles = counted(facts.profiles.len(), "profile");
    let wait = if pods.len() == 1 { "waits" } else { "wait" };
    let waiting = format!("{} {wait}", counted(pods.len(), "pod"));
    let placed = format!("{} on {}", facts.pods.placed(), counted(facts.nodes.len(), "node"));
    let bound = rows::bound(facts).map_or_else(String::new, |rate| format!(" · {rate:.1} bound/s"));
    format!("{profiles} · {waiting} · {placed} · {cpu} of cpu, {memory} of memory taken{bound}")
}

fn notes(facts: &Facts) -> Vec<String> {
    let note = |(what, why): (&&str, &String)| match *what {
        "metrics" => format!("metrics not read: {why}. Queues are from status, rates from watches"),
        what => format!("{what} not read: {why}"),
    };
    facts.troubles.iter().map(note).map(|note| plain(&note).into_owned()).collect()
}
