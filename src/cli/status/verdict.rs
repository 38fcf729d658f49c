//! What `berth status` says of what it saw. Pure.

use super::super::live::lease::Leader;
use super::super::output::{counted, some_of};
use super::facts::{Facts, Profile, Rights, Running};
use crate::operator::{self, Orphans};
use berth_api::CRD_NAME;
use berth_api::conditions::{ConditionType, NamespacesRouted, Programmed, Ready, SchedulingHealthy};
use berth_cluster::client::Fault;
use berth_cluster::served_crd::ServedCrdError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// Findings of one part; the worst are kept. A cluster has at most 64 profiles that serve.
const OF_PART: usize = 80;

/// Characters of a text. Messages of conditions may be longer; `kubectl describe` has them whole.
const TEXT: usize = 500;

/// Names in a list.
const NAMES: usize = 8;

/// How well something is, from good to bad as far as the exit code goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum State {
    Well,
    /// Worth a look; it may be meant.
    Note,
    /// Not looked at: the caller may not, and the rest says enough.
    NotChecked,
    /// Not looked at, and without it nothing can be said.
    NotSeen,
    NotWell,
}

impl State {
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Note => "note",
            Self::NotChecked => "not checked",
            Self::NotSeen => "not seen",
            Self::NotWell => "not well",
        }
    }
}

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) state: State,
    /// What it is about: definition, operator, rights, profile, extender or pods.
    pub(super) part: &'static str,
    pub(super) text: String,
    /// A command, or a section of the documentation; nothing where the text says it.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    fn new(state: State, part: &'static str, text: impl Into<String>) -> Self {
        Self { state, part, text: cut(text.into()), advice: None }
    }

    fn well(part: &'static str, text: impl Into<String>) -> Self {
        Self::new(State::Well, part, text)
    }

    fn not_well(part: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(State::NotWell, part, text).with(advice)
    }

    fn with(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Something could not be read. The text of a fault names the right to grant. A right that the caller lacks is no fault of the
    /// cluster's: it only matters where the part is `essential`.
    fn unseen(part: &'static str, fault: &Fault, essential: bool) -> Self {
        let state = if essential || !fault.is_forbidden() { State::NotSeen } else { State::NotChecked };
        Self::new(state, part, fault.to_string())
    }
}

/// Everything that there is to say, in the order in which to mend it.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![definition(facts)];
    findings.push(leader(facts));
    findings.extend(bounded(deployments(facts)));
    findings.push(rights(facts));
    let (mut of_profiles, mut of_extenders) = (Vec::new(), Vec::new());
    match &facts.profiles {
        Err(fault) => of_profiles.push(Finding::unseen("profile", fault, true)),
        Ok(profiles) if profiles.is_empty() => of_profiles.extend(no_profile(facts)),
        Ok(profiles) => {
            let is_stale = facts.leader.as_ref().is_ok_and(|leader| !leader.leads());
            for profile in profiles {
                of_profiles.extend(of_profile(profile, is_stale));
                of_extenders.extend(of_its_extenders(profile));
            }
        }
    }
    findings.extend(bounded(of_profiles));
    findings.extend(bounded(of_extenders));
    findings.extend(bounded(pods(facts)));
    findings
}

/// The state that the exit code follows.
pub(super) fn worst(findings: &[Finding]) -> State {
    findings.iter().map(|finding| finding.state).max().unwrap_or(State::Well)
}

/// The worst of the findings, in their order, and how many more there are.
fn bounded(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(OF_PART);
    if more > 0 {
        let part = findings[0].part;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.state));
        let left_out = findings.split_off(OF_PART);
        findings.push(Finding::new(worst(&left_out), part, format!("and {}", counted(more, "more line"))));
    }
    findings
}

fn definition(facts: &Facts) -> Finding {
    let part = "definition";
    match &facts.definition {
        Ok(lacks) if lacks.is_empty() => {
            let version = env!("CARGO_PKG_VERSION");
            Finding::well(part, format!("{CRD_NAME} is established and has every field that berth {version} knows"))
        }
        Ok(lacks) => Finding::not_well(
            part,
            format!("{CRD_NAME} is older than this berth and lacks {}", some_of(lacks, NAMES)),
            "berth crd | kubectl apply --server-side -f -, with the operator's own version; docs/conditions.md#programmed-crdoutdated",
        ),
        Err(ServedCrdError::Unread(fault)) => Finding::unseen(part, fault, false),
        // The error says what to do.
        Err(error) => Finding::new(State::NotWell, part, error.to_string()),
    }
}

fn leader(facts: &Facts) -> Finding {
    let (part, lease) = ("operator", &facts.lease);
    let effect = "no operator leads, and pods wait until one does";
    let text = match &facts.leader {
        Err(fault) => return Finding::unseen(part, fault, true),
        Ok(Leader::Leads { holder, seconds }) => {
            return Finding::well(part, format!("{holder} leads; it renewed lease {lease} {seconds} s ago"));
        }
        Ok(Leader::Silent { holder, seconds }) => {
            format!("nobody has renewed lease {lease} for {seconds} s, last {holder}: {effect}")
        }
        Ok(Leader::Nobody) => format!("nobody holds lease {lease}: {effect}"),
        Ok(Leader::Never) => {
            format!(
                "there is no lease {lease}: no operator has led in this cluster, or its Lease is elsewhere (--lease-namespace)"
            )
        }
    };
    let pods = format!("kubectl -n {} get pods", facts.home);
    Finding::not_well(
        part,
        text,
        format!("{pods}, and the log of those that are not ready; docs/alerts.md#berthnoleader"),
    )
}

fn deployments(facts: &Facts) -> Vec<Finding> {
    let (part, home) = ("operator", &facts.home);
    match &facts.deployments {
        Err(fault) => vec![Finding::unseen(part, fault, false)],
        Ok(found) if found.is_empty() => {
            let text = format!(
                "no Deployment of it is in namespace {home}: it runs outside of the cluster, or elsewhere (--namespace)"
            );
            vec![Finding::new(State::Note, part, text)]
        }
        Ok(found) => found.iter().map(|deployment| of_deployment(deployment, home)).collect(),
    }
}

fn of_deployment(deployment: &Running, home: &str) -> Finding {
    let Running { name, replicas, ready, troubles, .. } = deployment;
    let part = "operator";
    if *replicas == 0 {
        return Finding::new(
            State::Note,
            part,
            format!("deployment {home}/{name} has no replicas: it runs outside of the cluster, or not at all"),
        );
    }
    let text = format!(
        "deployment {home}/{name}: {ready} of {} ready",
        counted(usize::try_from(*replicas).unwrap_or(0), "replica")
    );
    if ready >= replicas {
        return Finding::well(part, text);
    }
    let text = if troubles.is_empty() { text } else { format!("{text} ({})", troubles.join(", ")) };
    Finding::not_well(
        part,
        text,
        format!("kubectl -n {home} describe deployment/{name}, and kubectl -n {home} logs deployment/{name}"),
    )
}

fn rights(facts: &Facts) -> Finding {
    match &facts.rights {
        Rights::NotChecked(why) => Finding::new(State::NotChecked, "rights", why.as_str()),
        Rights::Reviewed { account, lacks } if lacks.is_empty() => {
            Finding::well("rights", format!("{account} has every right that the operator needs"))
        }
        Rights::Reviewed { account, lacks } => Finding::not_well(
            "rights",
            format!("{account} may not: {}", some_of(lacks, NAMES)),
            "grant it, as the chart does with rbac.create=true; docs/rbac.md#when-a-right-is-missing",
        ),
    }
}

/// Nothing where the definition is not there: its own line says so.
fn no_profile(facts: &Facts) -> Option<Finding> {
    let text = "there is none: Berth schedules nothing until one is made";
    facts.definition.is_ok().then(|| Finding::new(State::Note, "profile", text).with("docs/install.md#install"))
}

/// Of a profile whose worker does what it should, one line; else a line for each condition that is not well and says something new.
fn of_profile(profile: &Profile, is_stale: bool) -> Vec<Finding> {
    let name = &profile.name;
    let Some(ready) = condition(profile, ConditionType::Ready) else {
        let text = format!("{name}: no operator has written its status");
        return vec![Finding::not_well(
            "profile",
            text,
            advice(profile, ConditionType::Ready, Ready::Pending.as_str()),
        )];
    };
    let first = of_ready(profile, ready, is_stale);
    let said = first.text.clone();
    let mut findings = vec![first];
    for kind in [
        ConditionType::Accepted,
        ConditionType::Programmed,
        ConditionType::NamespacesRouted,
        ConditionType::SchedulingHealthy,
    ] {
        let Some(condition) = condition(profile, kind).filter(|condition| condition.status == "False") else {
            continue;
        };
        if said.contains(&condition.message) && !condition.message.is_empty() {
            continue;
        }
        let is_meant = condition.reason == SchedulingHealthy::Backlog.as_str()
            || condition.reason == Programmed::Draining.as_str()
            || condition.reason == NamespacesRouted::OlderProfileRoutes.as_str();
        let state = if is_meant { State::Note } else { State::NotWell };
        findings.push(of_condition(profile, condition, kind, state, "profile"));
    }
    findings
}

fn of_ready(profile: &Profile, ready: &Condition, is_stale: bool) -> Finding {
    let name = &profile.name;
    let kind = cause(profile, ready).unwrap_or(ConditionType::Ready);
    let state = match (&*ready.status, &*ready.reason) {
        ("True", reason) if [Ready::Paused.as_str(), Ready::DryRun.as_str()].contains(&reason) => State::Note,
        ("True", _) if is_stale => State::Note,
        ("True", _) => State::Well,
        (_, reason) if reason == Ready::Deleting.as_str() => State::Note,
        _ => State::NotWell,
    };
    let found = of_condition(profile, ready, kind, state, "profile");
    let behind = ready.observed_generation.unwrap_or_default() < profile.generation;
    match (state, &*ready.status) {
        (State::Note, "True") if is_stale => {
            let text = format!("{}; as the last leader left it", found.text);
            Finding { text: cut(text), ..found }
        }
        (State::Well, _) if behind => {
            let text = format!("{name}: generation {} is not read yet; {}", profile.generation, found.text);
            Finding { state: State::Note, text: cut(text), ..found }
        }
        _ => found,
    }
}

/// The condition that says why the profile is not ready, whose section says more than that of `Ready`.
fn cause(profile: &Profile, ready: &Condition) -> Option<ConditionType> {
    let kind = match &*ready.reason {
        reason if reason == Ready::WorkerNotRunning.as_str() => ConditionType::Programmed,
        reason if reason == Ready::NotAccepted.as_str() || reason == Ready::ServingLastGood.as_str() => {
            ConditionType::Accepted
        }
        _ => return None,
    };
    condition(profile, kind).is_some_and(|condition| condition.status == "False").then_some(kind)
}

/// One line for each profile that has extenders.
fn of_its_extenders(profile: &Profile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in [ConditionType::ResolvedRefs, ConditionType::ExtendersHealthy] {
        let Some(condition) = condition(profile, kind).filter(|condition| condition.status == "False") else {
            continue;
        };
        findings.push(of_condition(profile, condition, kind, State::NotWell, "extender"));
    }
    let count = profile.status.extenders.len();
    if findings.is_empty() && count > 0 {
        findings
            .push(Finding::well("extender", format!("{}: {} as configured", profile.name, counted(count, "extender"))));
    }
    findings
}

/// The line of one condition. What to do stands in the section of `kind`'s present reason.
fn of_condition(
    profile: &Profile,
    condition: &Condition,
    kind: ConditionType,
    state: State,
    part: &'static str,
) -> Finding {
    let Condition { type_, status, reason, message, .. } = condition;
    let colon = if message.is_empty() { "" } else { ": " };
    let finding = Finding::new(state, part, format!("{}: {type_}={status}/{reason}{colon}{message}", profile.name));
    if state == State::Well {
        return finding;
    }
    let reason = self::condition(profile, kind).map_or(&**reason, |condition| &*condition.reason);
    finding.with(advice(profile, kind, reason))
}

fn condition(profile: &Profile, kind: ConditionType) -> Option<&Condition> {
    profile.status.conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// The object itself, and the section about the reason. A reason that we do not know is of another version: it has no section here.
fn advice(profile: &Profile, kind: ConditionType, reason: &str) -> String {
    let section = section(kind, reason).unwrap_or_default();
    format!("kubectl describe sprof {}; docs/conditions.md{section}", profile.name)
}

fn section(kind: ConditionType, reason: &str) -> Option<String> {
    let is_known = kind.reasons().contains(&reason);
    is_known.then(|| format!("#{}-{}", kind.as_str().to_lowercase(), reason.to_lowercase()))
}

fn pods(facts: &Facts) -> Vec<Finding> {
    let part = "pods";
    match &facts.orphans {
        None => vec![Finding::new(State::NotChecked, part, "which scheduler names are served is not known")],
        Some(Err(fault)) => vec![Finding::unseen(part, fault, false)],
        Some(Ok(orphans)) if orphans.is_empty() => {
            vec![Finding::well(part, "none has waited a minute for a scheduler name that nobody serves")]
        }
        Some(Ok(orphans)) => orphans.iter().map(of_orphans).collect(),
    }
}

fn of_orphans(orphans: &Orphans) -> Finding {
    let oldest = orphans.oldest().map_or_else(String::new, |oldest| format!(", the oldest {oldest}"));
    let wait = if orphans.pods.len() == 1 { "waits" } else { "wait" };
    let text = format!("{} {wait}{oldest}: {}", counted(orphans.pods.len(), "pod"), operator::advice(orphans));
    Finding::not_well("pods", text, "berth orphans -A")
}

/// At most [`TEXT`] characters.
fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
