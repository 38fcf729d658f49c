//! The rows of each pane.

use super::facts::{Facts, NodeFact, Profile, Taken, Waiting};
use super::metrics::{OfExtender, OfProfile};
use super::pane::{Row, Target, Tone};
use super::rates::Counter;
use crate::cli::output::{age, bytes, cpu};
use berth_api::conditions::{ConditionType, Ready};
use berth_api::{CircuitState, DEFAULT_SCHEDULER_NAME, ExtenderState, ExtenderStatus};
use berth_core::model::Str;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Parts of one message that are taken for reasons, and characters of one.
const PARTS: usize = 16;
const PART: usize = 120;

/// Reasons that no scheduler has given.
const NOBODYS: &str = "no profile is known to serve";
const GATED: &str = "scheduling gates";
const NEW: &str = "not tried yet";

/// What stands where nothing is known.
const UNKNOWN: &str = "-";

fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

fn seconds_since(unix_us: i64, now_unix_us: i64) -> Option<i64> {
    (unix_us > 0).then(|| (now_unix_us - unix_us).max(0) / 1_000_000)
}

fn per_second(rate: Option<f64>) -> String {
    or_unknown(rate.map(|rate| format!("{rate:.1}")))
}

// Profiles.

pub(super) fn profiles(facts: &Facts, now_unix_us: i64) -> impl ExactSizeIterator<Item = Row> {
    facts.profiles.iter().map(move |profile| {
        let scraped = facts.scrape.as_ref().and_then(|scrape| scrape.profiles.get(&profile.name));
        let (state, tone) = state(profile);
        let mut cells = vec![profile.name.clone(), state];
        cells.extend(queues(profile, scraped).map(|count| or_unknown(count.map(|count| count.to_string()))));
        let since = profile.status.pods.as_ref().and_then(|pods| pods.oldest_pending_since.as_ref());
        let by_status = since.and_then(|since| seconds_since(since.0.as_microsecond(), now_unix_us));
        let oldest = scraped.and_then(|of| of.oldest).map(|seconds| seconds as i64).or(by_status);
        cells.push(or_unknown(oldest.filter(|seconds| *seconds > 0).map(age)));
        cells.push(per_second(bound_by(facts, profile)));
        cells.push(per_second(facts.of_scrapes.rate(Counter::Tried, &profile.name, "")));
        let nodes = profile.status.nodes.as_ref();
        cells.push(or_unknown(nodes.map(|nodes| format!("{}/{}", nodes.schedulable, nodes.matched))));
        cells.push(or_unknown(most_refused_by(profile, scraped)));
        Row::new(tone, Target::Profile(profile.name.clone()), cells)
    })
}

/// What its condition Ready says, in a word.
fn state(profile: &Profile) -> (String, Tone) {
    let conditions = &profile.status.conditions;
    let Some(ready) = conditions.iter().find(|one| one.type_ == ConditionType::Ready.as_str()) else {
        return ("Unseen".to_owned(), Tone::Note);
    };
    let tone = match &*ready.status {
        "True" if [Ready::Paused.as_str(), Ready::DryRun.as_str()].contains(&&*ready.reason) => Tone::Note,
        "True" => Tone::Plain,
        "False" => Tone::Bad,
        _ => Tone::Note,
    };
    (ready.reason.clone(), tone)
}

/// Waiting pods by part of the queue: as scraped, else as the status says.
fn queues(profile: &Profile, scraped: Option<&OfProfile>) -> [Option<u64>; 5] {
    if let Some(of) = scraped {
        return of.queues;
    }
    let counts = profile.status.pods.as_ref();
    let parts = counts.map(|of| [of.active, of.backoff, of.unschedulable, of.gated, of.held]);
    parts.map_or([None; 5], |parts| parts.map(|count| u64::try_from(count).ok()))
}

/// Pods bound a second: as scraped, else as the watches have seen.
fn bound_by(facts: &Facts, profile: &Profile) -> Option<f64> {
    if facts.scrape.is_some() {
        return facts.of_scrapes.rate(Counter::Bound, &profile.name, "");
    }
    let seen = profile.names.iter().filter_map(|name| facts.of_watches.rate(Counter::Placed, name, ""));
    seen.reduce(|sum, rate| sum + rate).or_else(|| facts.of_watches.is_open().then_some(0.0))
}

/// Pods that all profiles bound a second, if any is known.
pub(super) fn bound(facts: &Facts) -> Option<f64> {
    facts.profiles.iter().filter_map(|profile| bound_by(facts, profile)).reduce(|sum, rate| sum + rate)
}

fn most_refused_by(profile: &Profile, scraped: Option<&OfProfile>) -> Option<String> {
    let scraped =
        scraped.and_then(|of| of.refused.iter().filter(|(_, pods)| **pods > 0).max_by_key(|(_, pods)| **pods));
    if let Some((plugin, pods)) = scraped {
        return Some(format!("{plugin} {pods}"));
    }
    profile.status.top_reasons.first().map(|top| format!("{} {}", top.plugin, top.pods))
}

// Pods.

/// The waiting pods that a profile of ours serves or that nobody is known to serve, oldest first.
pub(super) struct Pods<'a> {
    all: Vec<(&'a Waiting, Option<&'a str>)>,
    now_unix_us: i64,
}

impl<'a> Pods<'a> {
    pub(super) fn of(facts: &'a Facts, now_unix_us: i64) -> Self {
        let names = |profile: &'a Profile| profile.names.iter().map(move |name| (&**name, &*profile.name));
        let served: BTreeMap<&str, &str> = facts.profiles.iter().flat_map(names).collect();
        let with_profile = |pod: &'a Waiting| {
            let profile = served.get(&*pod.scheduler_name).copied();
            // Those of kube-scheduler are its own affair.
            (profile.is_some() || *pod.scheduler_name != *DEFAULT_SCHEDULER_NAME).then_some((pod, profile))
        };
        let mut all: Vec<_> = facts.pods.waiting().filter_map(with_profile).collect();
        all.sort_unstable_by_key(|(pod, _)| (pod.created_unix_us, &pod.key));
        Self { all, now_unix_us }
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = Row> {
        self.all.iter().map(move |(pod, profile)| {
            let waits = or_unknown(seconds_since(pod.created_unix_us, self.now_unix_us).map(age));
            let (state, tone) = match (pod.gates, &*pod.reason) {
                _ if profile.is_none() => ("NoProfile", Tone::Note),
                (1.., _) => ("Gated", Tone::Plain),
                (0, "") => ("New", Tone::Plain),
                (0, reason) => (reason, Tone::Bad),
            };
            // In the words of the reasons, so that a reason finds its pods.
            let why = match (profile, state) {
                (None, _) => format!("{NOBODYS} {}", pod.scheduler_name),
                (_, "Gated") => format!("{GATED}: {}", pod.gates),
                (_, "New") => NEW.to_owned(),
                _ => pod.message.to_string(),
            };
            let profile = or_unknown(profile.map(str::to_owned));
            let cells = [pod.key.to_string(), profile, waits, state.to_owned(), why];
            Row::new(tone, Target::Pod(pod.key.clone()), cells)
        })
    }

    /// How many pods wait for what, by profile; most first.
    pub(super) fn reasons(&self) -> Vec<Row> {
        let mut said: HashMap<(&str, bool, &Str, &Str), usize> = HashMap::new();
        for (pod, profile) in &self.all {
            *said.entry((profile.unwrap_or(UNKNOWN), pod.gates > 0, &pod.reason, &pod.message)).or_default() += 1;
        }
        let mut by_reason: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for ((profile, gated, reason, message), pods) in said {
            for text in reasons_of(profile == UNKNOWN, gated, reason, message) {
                *by_reason.entry((profile, text)).or_default() += pods;
            }
        }
        let mut rows: Vec<_> = by_reason.into_iter().collect();
        rows.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        let row = |((profile, text), pods): ((&str, String), usize)| {
            let target = Target::Reason(profile.to_owned(), text.clone());
            Row::new(Tone::Plain, target, [pods.to_string(), profile.to_owned(), text])
        };
        rows.into_iter().map(row).collect()
    }
}

/// Why a pod waits, by what its condition says; a message of kube-scheduler's form names several reasons.
fn reasons_of(unserved: bool, gated: bool, reason: &str, message: &str) -> Vec<String> {
    if unserved {
        return vec![NOBODYS.to_owned()];
    }
    if gated {
        return vec![GATED.to_owned()];
    }
    if reason.is_empty() {
        return vec![NEW.to_owned()];
    }
    let filters = message.split(" preemption: ").next().unwrap_or_default().trim_end_matches('.');
    let Some((_, listed)) = filters.split_once(" nodes are available: ") else {
        let said = if message.is_empty() { reason } else { message };
        return vec![said.chars().take(PART).collect()];
    };
    let mut parts: Vec<String> = Vec::new();
    for part in listed.split(", ") {
        let text = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let comma_inside_of_a_reason = text.len() == part.len();
        if comma_inside_of_a_reason && let Some(last) = parts.last_mut() {
            last.extend([", ", part]);
        } else if parts.len() < PARTS {
            parts.push(text.trim_start().to_owned());
        } else {
            break;
        }
    }
    parts.into_iter().map(|part| part.chars().take(PART).collect()).collect()
}

// Extenders.

pub(super) fn extenders(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for profile in &facts.profiles {
        let scraped = facts.scrape.as_ref().and_then(|scrape| scrape.profiles.get(&profile.name));
        for extender in &profile.status.extenders {
            let scraped = scraped.and_then(|of| of.extenders.get(&extender.name));
            rows.push(of_extender(facts, &profile.name, extender, scraped));
        }
    }
    rows
}

fn of_extender(facts: &Facts, profile: &str, extender: &ExtenderStatus, scraped: Option<&OfExtender>) -> Row {
    let name = &extender.name;
    let by_status = extender.circuit == Some(CircuitState::Open);
    let open = scraped.and_then(|of| of.open).unwrap_or(by_status);
    let (state, tone) = match extender.state {
        Some(ExtenderState::Healthy) => ("Healthy", Tone::Plain),
        Some(ExtenderState::Degraded) => ("Degraded", Tone::Bad),
        Some(ExtenderState::Unknown) | None => ("Unknown", Tone::Note),
    };
    let rate = |counter| per_second(facts.of_scrapes.rate(counter, profile, name));
    let in_flight = scraped.map(|of| match of.waiting {
        0 => of.in_flight.to_string(),
        waiting => format!("{}+{waiting}", of.in_flight),
    });
    let failed = extender.last_error.as_ref().filter(|_| extender.state == Some(ExtenderState::Degraded));
    let cells = [
        name.clone(),
        profile.to_owned(),
        state.to_owned(),
        if open { "Open" } else { "Closed" }.to_owned(),
        or_unknown(extender.p99.clone()),
        rate(Counter::Asked),
        rate(Counter::Failed),
        or_unknown(in_flight),
        failed.map_or_else(String::new, |failed| format!("{}: {}: {}", failed.verb, failed.reason, failed.message)),
    ];
    Row::new(if open { Tone::Bad } else { tone }, Target::Profile(profile.to_owned()), cells)
}

// Nodes.

/// The nodes, fullest first.
pub(super) fn nodes<'a>(facts: &'a Facts) -> impl ExactSizeIterator<Item = Row> {
    let of = |(name, node): (&'a Str, &'a NodeFact)| {
        let taken = facts.pods.on(name).cloned().unwrap_or_default();
        let (share, resource) = fill(node, &taken);
        (share, resource, name, node, taken)
    };
    let mut all: Vec<(i64, Str, &'a Str, &'a NodeFact, Taken)> = facts.nodes.iter().map(of).collect();
    all.sort_unstable_by(|a, b| (Reverse(a.0), a.2).cmp(&(Reverse(b.0), b.2)));
    all.into_iter().map(|(share, resource, name, node, taken)| {
        let state = match (node.unschedulable, node.taints) {
            (true, _) => "cordoned",
            (false, 0) => "",
            (false, _) => "tainted",
        };
        let tone = if node.unschedulable { Tone::Note } else { Tone::Plain };
        let cells = [
            name.to_string(),
            or_unknown(node.zone.as_ref().map(ToString::to_string)),
            format!("{share} %"),
            resource.to_string(),
            format!("{}/{}", cpu(taken.requests.milli_cpu), cpu(node.allocatable.milli_cpu)),
            format!("{}/{}", bytes(taken.requests.memory), bytes(node.allocatable.memory)),
            format!("{}/{}", taken.pods, node.allocatable_pods),
            state.to_owned(),
        ];
        Row { share: Some(share), ..Row::new(tone, Target::Node(name.to_string()), cells) }
    })
}

/// Percent of `all`; all of nothing is taken as soon as something is.
fn percent(taken: i64, all: i64) -> i64 {
    match (taken, all) {
        (..=0, _) => 0,
        (_, ..=0) => 100,
        (taken, all) => i64::try_from(i128::from(taken) * 100 / i128::from(all)).unwrap_or(i64::MAX),
    }
}

/// The resource of which the pods of a node take the most, and the share in percent.
fn fill(node: &NodeFact, taken: &Taken) -> (i64, Str) {
    let offered = &node.allocatable;
    let named = ["cpu", "memory", "ephemeral-storage"].map(|name| (Str::from(name), offered.amount(name)));
    let scalars = offered.scalars.iter().cloned();
    let shares = named.into_iter().chain(scalars).map(|(name, all)| (percent(taken.requests.amount(&name), all), name));
    let pods = (percent(taken.pods, node.allocatable_pods), Str::from("pods"));
    shares.fold(pods, |most, next| if next.0 > most.0 { next } else { most })
}

/// How much of all CPU and memory is taken, in percent; `None` where there is none.
pub(super) fn taken(facts: &Facts) -> [Option<i64>; 2] {
    let (mut taken, mut all) = ([0_i64; 2], [0_i64; 2]);
    for (name, node) in facts.nodes.iter() {
        let amounts = |of: &berth_core::model::Requests| [of.milli_cpu, of.memory];
        let of_pods = facts.pods.on(name).map_or([0; 2], |taken| amounts(&taken.requests));
        for (i, (of_pods, of_node)) in of_pods.into_iter().zip(amounts(&node.allocatable)).enumerate() {
            taken[i] = taken[i].saturating_add(of_pods);
            all[i] = all[i].saturating_add(of_node);
        }
    }
    [0, 1].map(|i| (all[i] > 0).then(|| percent(taken[i], all[i])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_reasons() {
        let of = |message: &str| reasons_of(false, false, "Unschedulable", message);
        let message = "0/8 nodes are available: 2 Insufficient cpu, 4 node(s) had untolerated taint(s). \
                       preemption: 0/8 nodes are available: 8 No preemption victims found for incoming pod.";
        assert_eq!(of(message), ["Insufficient cpu", "node(s) had untolerated taint(s)"]);
        assert_eq!(of("0/1 nodes are available: 1 node(s) had a, b and c."), ["node(s) had a, b and c"]);
        assert_eq!(of("the volume is gone"), ["the volume is gone"]);
        assert_eq!(of(""), ["Unschedulable"]);
        assert_eq!(reasons_of(false, false, "", ""), ["not tried yet"]);
        assert_eq!(reasons_of(false, true, "SchedulingGated", ""), ["scheduling gates"]);
        let many: Vec<String> = (0..99).map(|i| format!("1 reason {i}")).collect();
        assert_eq!(of(&format!("0/99 nodes are available: {}.", many.join(", "))).len(), PARTS);
    }

    #[test]
    fn a_share_of_nothing_is_whole() {
        assert_eq!((percent(0, 0), percent(1, 0), percent(1, 3), percent(i64::MAX, 1)), (0, 100, 33, i64::MAX));
    }
}
