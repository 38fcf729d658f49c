//! What profiles say that others do not: whose pods they serve, in which namespaces, on which nodes, and by which plugins. S9: a pod is
//! bound by what its own profile says, whatever the others say and whatever it said before.

use super::facts::{Facts, NodeLife, PodFact};
use super::model::api::Asked;
use super::model::kinds::Of;
use super::model::store::{Change, Verb, key};
use super::plan::{BUSY, Plan, Step};
use super::random::Random;
use super::rules::{Rules, Wrong};
use super::world::{Act, Inner};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The label of namespaces that some profiles ask for.
const TEAM: &str = "team";

/// The scheduler name that profiles hand to each other.
pub(crate) const SHARED: &str = "berth-shared";

/// Of a profile or namespace: more than changes within any time that is looked at.
const REMEMBERED: usize = 100;

/// So long after an operator has said in a profile's status that its worker runs with a spec, nothing is decided by an older one: what was
/// decided and not sent is taken back.
const IN_FORCE_AFTER: Duration = Duration::from_secs(2);

/// What a profile says all along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProfilePlan {
    /// The only nodes that it places on.
    pool: Option<&'static str>,
    /// Whether it serves only namespaces with a label.
    is_restricted: bool,
    /// Whether it runs without the plugin TaintToleration.
    ignores_taints: bool,
}

impl ProfilePlan {
    /// Adds what it says to a spec.
    pub(crate) fn add_to(self, spec: &mut Value) {
        if let Some(pool) = self.pool {
            spec["nodes"] = json!({"selector": {"matchLabels": {"pool": pool}}});
        }
        if self.is_restricted {
            spec["namespaces"] = json!({"access": "Restricted", "matchLabels": {TEAM: "drawn"}});
        }
        if self.ignores_taints {
            spec["filters"] = json!([{"name": "TaintToleration", "state": "Disabled"}]);
        }
    }
}

impl Plan {
    /// In some worlds profiles differ, a scheduler name goes from one to the other, and namespaces lose their access for a while.
    pub(crate) fn draw_profiles(&mut self, random: &mut Random) {
        // With extenders it would have to be known whose a pod is at each moment.
        let has_extenders = self.has_resource;
        if random.in_thousand(400) {
            for profile in 0..self.profiles {
                self.profile_plans[profile] = ProfilePlan {
                    pool: random.in_thousand(400).then(|| random.pick(&["a", "b"])),
                    is_restricted: random.in_thousand(400),
                    ignores_taints: random.in_thousand(300),
                };
            }
            for _ in 0..random.between(0, 4) {
                self.at_random(random, |random| Step::TakeAccess {
                    namespace: random.pick(&super::actors::NAMESPACES),
                    lasts: random.millis(500, 150_000),
                });
            }
        }
        if self.profiles > 1 && !has_extenders && random.in_thousand(300) {
            self.shared = Some(random.index(self.profiles));
            for pod in self.pods_mut() {
                pod.is_shared = random.in_thousand(300);
            }
            for _ in 0..random.between(2, 8) {
                let profiles = self.profiles;
                let at = random.millis(5_000, BUSY.as_millis() as u64 - 60_000);
                self.steps.push((at, Step::HandName { to: random.index(profiles) }));
            }
        }
    }
}

/// What a profile says at one version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Says {
    profile: String,
    names: Vec<String>,
    pool: Option<String>,
    is_restricted: bool,
    ignores_taints: bool,
    /// Whether its pods may evict others.
    preempts: bool,
}

impl Says {
    fn of(profile: &str, spec: &Value) -> Self {
        let names = spec["schedulerNames"].as_array().map_or_else(
            || vec![profile.to_owned()],
            |names| names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        );
        Self {
            names,
            pool: spec.pointer("/nodes/selector/matchLabels/pool").and_then(Value::as_str).map(str::to_owned),
            is_restricted: spec.pointer("/namespaces/access").is_some_and(|access| access == "Restricted"),
            ignores_taints: spec.get("filters").is_some(),
            // While it is tried, the last good spec decides for others, which may say otherwise.
            preempts: spec.pointer("/preemption/policy").is_none_or(|policy| policy != "Never")
                || spec.get("rollout").is_some(),
            profile: profile.to_owned(),
        }
    }

    /// Why it does not let the pod go to a node; `has_access` says whether the pod's namespace has, or had, the label.
    fn against(&self, pod: &PodFact, life: &NodeLife, has_access: bool) -> Option<String> {
        let (profile, node) = (&self.profile, &life.name);
        if self.pool.as_ref().is_some_and(|pool| *pool != life.pool) {
            return Some(format!("{profile} does not place on node {node}"));
        }
        if self.is_restricted && !has_access {
            return Some(format!("{profile} does not serve the pod's namespace"));
        }
        let is_kept_away = life.tainted && !pod.tolerates && !self.ignores_taints;
        is_kept_away.then(|| format!("node {node} has a taint, which {profile} looks at"))
    }
}

/// What was so at which versions.
#[derive(Debug)]
struct History<T>(VecDeque<(u64, T)>);

impl<T: PartialEq> History<T> {
    fn add(&mut self, version: u64, what: T) {
        if self.0.back().is_none_or(|(_, last)| *last != what) {
            self.0.push_back((version, what));
            if self.0.len() > REMEMBERED {
                self.0.pop_front();
            }
        }
    }

    /// What may be so for somebody who knows what was so at `version`.
    fn since(&self, version: u64) -> impl Iterator<Item = &T> {
        let known = self.0.iter().rposition(|(at, _)| *at <= version).unwrap_or_default();
        self.0.iter().skip(known).map(|(_, what)| what)
    }

    fn now(&self) -> Option<&T> {
        self.0.back().map(|(_, what)| what)
    }
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[derive(Debug, Default)]
pub(crate) struct ProfileFacts {
    /// By name; `None` while there is none of that name.
    profiles: BTreeMap<String, History<Option<Says>>>,
    /// By name: whether a namespace has the label that some profiles ask for.
    namespaces: BTreeMap<String, History<bool>>,
}

impl ProfileFacts {
    pub(crate) fn profile(&mut self, change: &Change) {
        let name = change.object.text("/metadata/name");
        let says = (change.verb != Verb::Deleted).then(|| Says::of(name, &change.object.value["spec"]));
        self.profiles.entry(name.to_owned()).or_default().add(change.version, says);
    }

    pub(crate) fn namespace(&mut self, change: &Change) {
        let (name, labels) = (change.object.text("/metadata/name"), &change.object.value["metadata"]["labels"]);
        self.namespaces.entry(name.to_owned()).or_default().add(change.version, labels.get(TEAM).is_some());
    }

    /// Whether the profile that serves a pod lets it go to a node, as all is now; false where none serves it.
    pub(crate) fn let_pod(&self, pod: &PodFact, life: &NodeLife) -> bool {
        let has_access = self.namespaces.get(pod.namespace()).is_some_and(|history| history.now() == Some(&true));
        self.serving(pod).is_some_and(|says| says.against(pod, life, has_access).is_none())
    }

    /// What the profile says that serves a pod.
    pub(crate) fn serving(&self, pod: &PodFact) -> Option<&Says> {
        let mut now = self.profiles.values().filter_map(|history| history.now()?.as_ref());
        now.find(|says| says.names.contains(&pod.scheduler))
    }
}

/// What profiles may say to an operator that decides about a pod now.
#[derive(Debug)]
pub(crate) struct MaySay {
    says: Vec<Says>,
    has_access: bool,
}

impl MaySay {
    /// Whether any profile serves the pod, and lets it evict others.
    pub(crate) fn let_it_evict(&self) -> bool {
        self.says.iter().any(|says| says.preempts && (!says.is_restricted || self.has_access))
    }
}

impl Rules {
    /// What the profiles of a pod say, as an operator knows it, and what it may not know yet.
    pub(crate) fn may_say(&mut self, operator: usize, pod: &PodFact, facts: &Facts, now: Instant) -> MaySay {
        let (known, namespaces) = self.profiles_and_namespaces_known(operator, now);
        let facts = &facts.profiles;
        let mut says = Vec::new();
        for (name, history) in &facts.profiles {
            let said = self.said_to_run(operator, name, now);
            let may_say = history.since(known.max(said)).flatten();
            says.extend(may_say.filter(|one| one.names.contains(&pod.scheduler)).cloned());
        }
        let has_access =
            facts.namespaces.get(pod.namespace()).is_some_and(|history| history.since(namespaces).any(|has| *has));
        MaySay { says, has_access }
    }

    /// The version of a profile with which its worker has been running for a while, as the operator has said in its status.
    fn said_to_run(&self, operator: usize, profile: &str, now: Instant) -> u64 {
        let said = self.runs_with.get(&(operator, profile.to_owned()));
        said.filter(|(at, _)| *at + IN_FORCE_AFTER < now).map_or(0, |(_, version)| *version)
    }

    /// An operator writes a profile's status.
    pub(crate) fn profile_status_sent(&mut self, operator: usize, profile: &str, asked: &Asked, now: Instant) {
        let body = asked.json();
        let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
        let runs = |one: &Value| one["type"] == "Programmed" && one["status"] == "True";
        let named = |field: &str| body.pointer(field).and_then(Value::as_str).filter(|value| !value.is_empty());
        let version = named("/metadata/resourceVersion").and_then(|v| v.parse().ok());
        if named("/metadata/uid").is_none() || version.is_none() {
            self.breaks(
                "S6",
                &format!("operator {operator}: a status of profile {profile} names no uid or no version"),
            );
        }
        if let Some(version) = version.filter(|_| conditions.is_some_and(|all| all.iter().any(runs))) {
            let said = self.runs_with.entry((operator, profile.to_owned())).or_insert((now, version));
            if said.1 < version {
                *said = (now, version);
            }
        }
    }
}

/// S9 of a bind to a node. A pod with claims may have been decided long ago: it waits for its volumes.
pub(crate) fn against_profile(pod: &PodFact, life: &NodeLife, may_say: &MaySay) -> Vec<Wrong> {
    if pod.is_prepared() {
        return Vec::new();
    }
    let mut wrong = vec![format!("no profile serves {}", pod.scheduler)];
    for says in &may_say.says {
        match says.against(pod, life, may_say.has_access) {
            None => return Vec::new(),
            Some(why) => wrong = vec![why],
        }
    }
    wrong.into_iter().map(|why| ("S9", why)).collect()
}

impl Inner {
    /// Gives a namespace the label that some profiles ask for, or takes it away.
    pub(crate) fn set_access(&mut self, namespace: &str, has_access: bool, now: Instant) {
        let Some(there) = self.store.get(Of::Namespaces, &key("", namespace)) else { return };
        let mut value = there.value.clone();
        let labels = &mut value["metadata"]["labels"];
        if has_access {
            labels[TEAM] = "drawn".into();
        } else if let Some(labels) = labels.as_object_mut() {
            labels.remove(TEAM);
        }
        if value != there.value {
            self.store.update(Of::Namespaces, value, now);
        }
    }

    pub(crate) fn take_access(&mut self, namespace: &'static str, lasts: Duration, now: Instant) {
        self.set_access(namespace, false, now);
        self.later(now + lasts, Act::AccessBack(namespace));
    }

    /// Has some edits of the preset tried on half of the pods or namespaces first. Where names or extenders change, too, an edit may be refused.
    pub(crate) fn roll_out(&self, spec: &mut Value) {
        let draw = self.store.version();
        let may =
            self.plan.shared.is_none() && !self.plan.steps.iter().any(|(_, step)| matches!(step, Step::Extender(_)));
        if may && draw.is_multiple_of(2) && spec["preset"].is_string() {
            let by = if draw.is_multiple_of(4) { "Pod" } else { "Namespace" };
            spec["rollout"] = json!({"percent": 50, "by": by, "duration": "20s", "window": "30s", "minPods": 3});
        }
    }

    /// Whoever serves the shared scheduler name gives it up, and another profile asks for it.
    pub(crate) fn hand_name(&mut self, to: usize, now: Instant) {
        let Some(from) = self.shared.replace(to) else { return };
        for profile in [from, to] {
            let Some(there) = self.store.get(Of::Profiles, &key("", &format!("berth-{profile}"))) else { continue };
            let mut spec = there.value["spec"].clone();
            spec["schedulerNames"] = self.names_of(profile);
            self.set_spec(profile, spec, now);
        }
    }

    /// The scheduler names that a profile asks for, where a name is shared.
    pub(crate) fn names_of(&self, profile: usize) -> Value {
        let own = format!("berth-{profile}");
        if self.shared == Some(profile) { json!([own, SHARED]) } else { json!([own]) }
    }
}
