//! What must never happen, checked at each request: S1 to S7, and evictions for nobody. (What a bind must count is in `room.rs`, and for
//! pods that are to be spread in `spreading.rs`; S4 of pods that go is in `deleted.rs`; S5 of how many are evicted in `victims.rs`; S7 of what
//! is written of profiles, and statuses that go backwards, in `statuses.rs`; two gates at once are in `leases.rs`; S8 is the ledger's own
//! audit, in `ends.rs`; S9 is in `profiles.rs`; claims and volumes are in `claims.rs`, devices in `devices.rs`, and what operators say of
//! pods in `said.rs`.)
//!
//! An operator is held to what it knew when it sent a request: everything that its watches had shown before, and all that it has bound
//! itself. What is on its way to it does not count against it.

use super::budgets::Strict;
use super::claims::claims_of_bind;
use super::facts::{Facts, NodeLife, PodFact};
use super::model::api::{Answer, Asked, Place};
use super::model::kinds::Of;
use super::model::store::text;
use super::plan::Plan;
use super::profiles::against_profile;
use super::room::{against_node, against_pods};
use super::spreading::against_spreading;
use super::statuses::Statuses;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// A rule that is broken, and why.
pub(crate) type Wrong = (&'static str, String);

/// No writer waits longer for an answer, and the API server must not work on it any longer.
const TIME_LIMIT: Duration = Duration::from_secs(4);

/// What an extender was asked to bind it may bind for so long, whatever it answers but a failure.
pub(crate) const MAY_BIND_WITHIN: Duration = berth_extender::BOUND_WITHIN;

/// What others bound counts from so long after it was shown: a decision may have been made before, and waited to be sent.
const KNOWN_AFTER: Duration = Duration::from_secs(40);

/// What one operator has seen of a kind.
#[derive(Debug, Default)]
struct Seen {
    /// Versions, and when they were shown.
    steps: VecDeque<(Instant, u64)>,
    /// The newest version that was shown long ago.
    long: u64,
}

impl Seen {
    fn show(&mut self, version: u64, now: Instant) {
        self.steps.push_back((now, version));
    }

    /// The newest version that was shown before `now`.
    fn before(&self, now: Instant) -> u64 {
        self.steps.iter().rev().find(|(at, _)| *at < now).map_or(self.long, |(_, version)| *version)
    }

    /// When this version was shown first, unless that was long ago.
    fn shown_at(&self, version: u64) -> Option<Instant> {
        let newer = self.steps.iter().find(|(_, shown)| *shown >= version).map(|(at, _)| *at);
        newer.filter(|_| self.long < version)
    }

    fn newest(&self) -> u64 {
        self.steps.back().map_or(self.long, |(_, version)| *version)
    }

    fn long_before(&mut self, now: Instant) -> u64 {
        while let Some((_, version)) = self.steps.front().copied().filter(|(at, _)| *at + KNOWN_AFTER < now) {
            self.long = version;
            self.steps.pop_front();
        }
        self.long
    }
}

/// Longest between the read of a pod and the request that is sent because of it, the way to an extender included.
const READ_WITHIN: Duration = Duration::from_secs(15);

/// What an operator knew when it sent a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) pods: u64,
    /// What was shown before any read that the request may follow.
    pub(crate) pods_before_reads: u64,
    pub(crate) pods_long: u64,
    nodes: u64,
    pub(crate) nodes_long: u64,
    /// What was shown at this very moment included.
    pub(crate) pods_now: u64,
    pub(crate) nodes_now: u64,
}

/// A bind that may still be carried out.
#[derive(Debug)]
pub(crate) struct Doubt {
    sent: Instant,
    pub(crate) until: Instant,
    pub(crate) node: String,
    /// Since when the nodes of that name were there that may have been meant.
    pub(crate) lives: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct OfOperator {
    pods: Seen,
    nodes: Seen,
    volumes: Seen,
    budgets: Seen,
    profiles: Seen,
    namespaces: Seen,
    /// The last bind or eviction of another operator before this one took the Lease.
    pub(crate) inherited: u64,
    /// Up to which version pods had been shown to it when it took the Lease: it has decided nothing before.
    pub(crate) began_with: u64,
    /// The same, when it was last told how a bind of a pod had ended, by the pod's uid.
    pub(crate) settled_with: BTreeMap<String, u64>,
    /// What was bound by it, as it was told.
    /// When it was told, in microseconds of Unix time.
    told_bound: BTreeMap<String, i64>,
    told_deleted: BTreeSet<String>,
    /// For which scheduler it has marked a victim, by its uid.
    marked: BTreeMap<String, String>,
    /// Binds without an answer, by the pod's uid.
    pub(crate) doubtful: BTreeMap<String, Vec<Doubt>>,
    /// The node that each bind was sent to last, by the pod's uid.
    tried: BTreeMap<String, String>,
}

impl OfOperator {
    /// Up to which version nodes had been shown to it before pods were up to this one; 0 where that was long ago.
    pub(crate) fn nodes_shown_before(&self, pods: u64) -> u64 {
        self.pods.shown_at(pods).map_or(0, |at| self.nodes.before(at))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) operators: BTreeMap<usize, OfOperator>,
    /// The operator that holds the Lease.
    pub(crate) leader: Option<usize>,
    /// The newest write of each operator that changed a pod.
    last_write: BTreeMap<usize, u64>,
    /// Since when an operator has said that the worker of a profile runs with which version of it.
    pub(crate) runs_with: BTreeMap<(usize, String), (Instant, u64)>,
    pub(crate) strict: Strict,
    pub(crate) statuses: Statuses,
    /// Whether watches leave something out.
    pub(crate) leaves_out: bool,
    pub(crate) broken: Vec<String>,
}

impl Rules {
    pub(crate) fn of(plan: &Plan) -> Self {
        let schedulers = plan.strict.iter().map(|profile| format!("berth-{profile}")).collect();
        Self { strict: Strict::of(schedulers), leaves_out: plan.leaves_out, ..Self::default() }
    }

    fn operator(&mut self, operator: usize) -> &mut OfOperator {
        self.operators.entry(operator).or_default()
    }

    pub(crate) fn breaks(&mut self, rule: &str, what: &str) {
        if self.broken.len() < 20 {
            self.broken.push(format!("{rule}: {what}"));
        }
    }

    /// A watch or a list has shown an operator a kind up to this version.
    pub(crate) fn saw(&mut self, operator: usize, of: Of, version: u64, now: Instant) {
        let seen = self.operator(operator);
        match of {
            Of::Pods => seen.pods.show(version, now),
            Of::Nodes => seen.nodes.show(version, now),
            Of::Volumes => seen.volumes.show(version, now),
            Of::Budgets => seen.budgets.show(version, now),
            Of::Profiles => seen.profiles.show(version, now),
            Of::Namespaces => seen.namespaces.show(version, now),
            _ => {}
        }
    }

    /// The Lease changed hands.
    pub(crate) fn leads(&mut self, operator: Option<usize>) {
        if self.leader == operator {
            return;
        }
        self.leader = operator;
        if let Some(operator) = operator {
            let others = self.last_write.iter().filter(|(other, _)| **other != operator).map(|(_, version)| *version);
            let inherited = others.max().unwrap_or_default();
            self.statuses.leads(operator);
            let seen = self.operator(operator);
            (seen.inherited, seen.began_with) = (inherited, seen.pods.newest());
        }
    }

    /// An operator sends a request.
    pub(crate) fn sent(&mut self, operator: usize, asked: &Asked, facts: &Facts, now: Instant) {
        if asked.method == "GET" {
            return;
        }
        let Some(place) = Place::of(&asked.path) else { return };
        if place.of == Of::Profiles && place.subresource == "status" {
            self.profile_status_sent(operator, &place.name, asked, now);
        }
        if !matches!(place.of, Of::Pods | Of::Volumes | Of::Claims | Of::DeviceClaims) {
            return;
        }
        let what = format!("operator {operator}: {} {}", asked.method, asked.path);
        let sent = self.entitled(operator, &what, now);
        if asked.timeout().is_none_or(|limit| limit > TIME_LIMIT) {
            self.breaks("S7", &format!("{what} without a time limit for the server"));
        }
        if place.of != Of::DeviceClaims || asked.method != "POST" {
            self.is_preconditioned(&what, &place, asked);
        }
        match (asked.method.as_str(), place.subresource.as_str()) {
            ("POST", "binding") => {
                let until = now + asked.timeout().unwrap_or_default();
                self.bind_sent(operator, &what, asked, facts, (sent, now, until));
            }
            ("DELETE", _) if place.of == Of::Pods => self.eviction_sent(operator, &what, asked, facts, (sent, now)),
            ("PATCH", "status") if place.of == Of::Pods => self.mark_sent(operator, asked),
            _ if place.of == Of::Volumes => {
                let long = self.operator(operator).volumes.long_before(now);
                self.volume_sent(&what, &place, asked, facts, long);
            }
            _ => {}
        }
    }

    /// What an operator knows that makes a write, or has it made: it must lead, and have seen what the last leader wrote.
    fn entitled(&mut self, operator: usize, what: &str, now: Instant) -> Sent {
        let seen = self.operator(operator);
        let sent = Sent {
            pods: seen.pods.before(now),
            pods_before_reads: seen.pods.before(now.checked_sub(READ_WITHIN).unwrap_or(now)),
            pods_long: seen.pods.long_before(now),
            nodes: seen.nodes.before(now),
            nodes_long: seen.nodes.long_before(now),
            pods_now: seen.pods.newest(),
            nodes_now: seen.nodes.newest(),
        };
        let inherited = seen.inherited;
        if self.leader != Some(operator) {
            self.breaks("S7", &format!("{what} while it does not hold the Lease"));
        }
        if sent.pods_now < inherited {
            self.breaks("barrier", &format!("{what} before it has seen what the leader before it wrote"));
        }
        sent
    }

    /// An operator asks an extender to bind: what holds for its own binds holds for this one.
    pub(crate) fn asked_to_bind(&mut self, operator: usize, binding: &Asked, facts: &Facts, now: Instant) {
        let what = format!("operator {operator} asks an extender: {} {}", binding.method, binding.path);
        let sent = self.entitled(operator, &what, now);
        self.bind_sent(operator, &what, binding, facts, (sent, now, now + MAY_BIND_WITHIN));
    }

    /// Whether pods, nodes and namespaces have been shown to an operator up to these versions.
    pub(crate) fn has_been_shown(&self, operator: usize, versions: [u64; 3]) -> bool {
        let Some(seen) = self.operators.get(&operator) else { return false };
        let shown = [&seen.pods, &seen.nodes, &seen.namespaces].map(Seen::newest);
        shown.iter().zip(versions).all(|(shown, version)| *shown >= version)
    }

    /// Up to which version an operator has known the profiles for long.
    pub(crate) fn profiles_known(&mut self, operator: usize, now: Instant) -> u64 {
        self.operator(operator).profiles.long_before(now)
    }

    /// The same, and of the namespaces.
    pub(crate) fn profiles_and_namespaces_known(&mut self, operator: usize, now: Instant) -> (u64, u64) {
        let seen = self.operator(operator);
        (seen.profiles.long_before(now), seen.namespaces.long_before(now))
    }

    /// When an operator was told that it has bound a pod, in microseconds of Unix time.
    pub(crate) fn told_bound(&self, operator: usize, uid: &str) -> Option<i64> {
        self.operators.get(&operator)?.told_bound.get(uid).copied()
    }

    /// Whether a bind goes on with what the operator has decided before.
    pub(crate) fn is_repeated(&self, operator: usize, uid: &str, node: &str) -> bool {
        self.operators.get(&operator).and_then(|one| one.tried.get(uid)).is_some_and(|tried| tried == node)
    }

    /// The outcome of the bind of a pod that an operator sent, or asked for, at `sent` is known to it.
    pub(crate) fn bind_settled(&mut self, operator: usize, uid: &str, sent: Instant) {
        if let Some(doubts) = self.operator(operator).doubtful.get_mut(uid) {
            doubts.retain(|doubt| doubt.sent != sent);
        }
    }

    /// An extender has bound a pod that it was asked at `sent` to bind. As with a bind of the operator's own, nobody else may lead as
    /// long as that is to be expected, and who leads next must have seen it.
    pub(crate) fn bound_by_extender(
        &mut self,
        operator: usize,
        what: &str,
        (sent, now): (Instant, Instant),
        version: u64,
    ) {
        if self.leader.is_none_or(|leader| leader == operator) {
            self.last_write.insert(operator, version);
        } else if now < sent + MAY_BIND_WITHIN {
            let what =
                format!("operator {operator}: {what} is carried out by an extender after another took the Lease");
            self.breaks("S7", &what);
        }
    }

    /// S6: a write says which object it is meant for.
    fn is_preconditioned(&mut self, what: &str, place: &Place, asked: &Asked) {
        let body = asked.json();
        let uid = match asked.method.as_str() {
            "DELETE" => text(&body, "/preconditions/uid"),
            "PATCH" if body.is_array() => text(&body, "/0/value"),
            _ => text(&body, "/metadata/uid"),
        };
        if uid.is_empty() {
            self.breaks("S6", &format!("{what} names no uid"));
        }
        let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
        let refuses = conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "PodScheduled"));
        if place.subresource == "status" && refuses && text(&body, "/metadata/resourceVersion").is_empty() {
            self.breaks("S6", &format!("{what} writes PodScheduled without a resourceVersion"));
        }
    }

    /// A bind is sent that may be carried out until `until`.
    fn bind_sent(
        &mut self,
        operator: usize,
        what: &str,
        asked: &Asked,
        facts: &Facts,
        (sent, now, until): (Sent, Instant, Instant),
    ) {
        let body = asked.json();
        let (uid, node) = (text(&body, "/metadata/uid"), text(&body, "/target/name"));
        if self.operator(operator).told_bound.contains_key(uid) {
            self.breaks("S3", &format!("{what}: it was told that the pod is bound"));
        }
        // What was shown at this very moment may count already, or not yet.
        let lives: Vec<&NodeLife> =
            [sent.nodes, sent.nodes_now].into_iter().filter_map(|version| facts.life_at(node, version)).collect();
        let Some(pod) = facts.pods.get(uid) else { return };
        // Whatever is asked for a pod that is gone, it is bound to nothing any more.
        if pod.gone.is_none() {
            self.is_no_second_bind(operator, what, uid, (node, &lives), (now, until));
        }
        if pod.gated {
            self.breaks("S4", &format!("{what}: the pod has scheduling gates"));
        }
        if !pod.scheduler.starts_with("berth-") {
            self.breaks("S4", &format!("{what}: the pod is of {}", pod.scheduler));
        }
        self.is_of_no_deleted_pod(operator, what, (pod, node), &sent);
        if lives.is_empty() {
            return self.breaks("S3", &format!("{what}: it knows that node {node} is gone"));
        }
        let counted = self.counted(operator, pod, &sent);
        let is_known = |one: &PodFact| counted.has(one);
        let stays = |node: &str| facts.nodes().any(|life| life.name == node && life.from <= sent.nodes_long);
        let uses_claims = |one: &PodFact| is_known(one) && one.node.as_deref().is_some_and(stays);
        // What it goes on with it has decided before: only the node is looked at again.
        let is_new = self.operator(operator).tried.insert(uid.to_owned(), node.to_owned()).as_deref() != Some(node);
        let mut known: Vec<&PodFact> = facts.pods_on(node).filter(|one| one.uid != uid && is_known(one)).collect();
        known.extend(self.on_their_way(operator, pod, (node, &lives), facts, now));
        let (may_say, view) = (self.may_say(operator, pod, facts, now), self.view(operator, &counted, &sent));
        let wrong = lives.iter().map(|life| {
            let mut wrong = against_node(pod, life);
            wrong.extend(claims_of_bind((pod, life), facts, uses_claims));
            if is_new {
                wrong.extend(against_pods(pod, life, &known));
                wrong.extend(against_spreading(pod, life, facts, view));
                wrong.extend(against_profile(pod, life, &may_say));
            }
            wrong
        });
        for (rule, why) in wrong.min_by_key(Vec::len).into_iter().flatten() {
            self.breaks(rule, &format!("{what}: {why}"));
        }
    }

    /// S3: no bind of a pod to another node than one to which an earlier bind may still be carried out.
    fn is_no_second_bind(
        &mut self,
        operator: usize,
        what: &str,
        uid: &str,
        (node, lives): (&str, &[&NodeLife]),
        (sent, until): (Instant, Instant),
    ) {
        let lives: Vec<u64> = lives.iter().map(|life| life.from).collect();
        let doubts = self.operator(operator).doubtful.entry(uid.to_owned()).or_default();
        doubts.retain(|doubt| doubt.until > sent);
        let another = doubts.iter().find_map(|doubt| {
            let is_same =
                doubt.node == node && (lives.is_empty() || lives.iter().any(|life| doubt.lives.contains(life)));
            (!is_same).then(|| doubt.node.clone())
        });
        doubts.push(Doubt { sent, until, node: node.to_owned(), lives });
        if let Some(other) = another {
            let other = if other == node { format!("the {node} before it") } else { other };
            self.breaks("S3", &format!("{what}: a bind to {other} may still be carried out"));
        }
    }

    /// Notes for which scheduler a victim is evicted.
    fn mark_sent(&mut self, operator: usize, asked: &Asked) {
        let body = asked.json();
        let condition = &body["status"]["conditions"][0];
        if condition["type"] == "DisruptionTarget" {
            let scheduler = text(condition, "/message").split(':').next().unwrap_or_default().to_owned();
            if !scheduler.starts_with("berth-") {
                self.breaks("B1", &format!("a victim is marked for {scheduler:?}, which is no profile"));
            }
            self.operator(operator).marked.insert(text(&body, "/metadata/uid").to_owned(), scheduler);
        }
    }

    /// S5, and no pod is evicted twice or for nobody.
    fn eviction_sent(
        &mut self,
        operator: usize,
        what: &str,
        asked: &Asked,
        facts: &Facts,
        (sent, now): (Sent, Instant),
    ) {
        let body = asked.json();
        let uid = text(&body, "/preconditions/uid");
        if self.operator(operator).told_deleted.contains(uid) {
            self.breaks("S5", &format!("{what}: it was told that the pod is deleted"));
        }
        let Some(victim) = facts.pods.get(uid) else { return };
        if victim.gone.is_some() {
            // Whatever was meant, nobody is evicted.
            return;
        }
        if let Some(scheduler) = self.operator(operator).marked.get(uid).cloned() {
            let long = self.operator(operator).budgets.long_before(now);
            self.strict_eviction(what, operator, (victim, &scheduler), facts, (long, now));
        }
        if victim.terminating.is_some_and(|version| version <= sent.pods) {
            self.breaks("S5", &format!("{what}: it knows that the pod is terminating"));
        }
        // Who waits as far as the operator knows, and is its to place.
        let waits = |pod: &&PodFact| {
            let known_gone = [pod.gone, pod.terminating, pod.bound.map(|(_, version)| version)];
            pod.priority > victim.priority
                && pod.made <= sent.pods_now
                && pod.ungated.is_some_and(|version| version <= sent.pods_now)
                && known_gone.into_iter().flatten().all(|version| version > sent.pods)
        };
        if !facts.pods.values().filter(waits).any(|pod| self.may_say(operator, pod, facts, now).let_it_evict()) {
            self.breaks("S5", &format!("{what}: no pod waits that may evict it"));
        }
    }

    /// A request has left the operator and reached nobody, which it was told.
    pub(crate) fn not_sent(&mut self, operator: usize, asked: &Asked, sent: Instant) {
        self.bind_settled(operator, text(&asked.json(), "/metadata/uid"), sent);
    }

    /// An operator was told how its request ended.
    pub(crate) fn answered(&mut self, operator: usize, asked: &Asked, answer: &Answer, sent: Instant) {
        let Some(place) = Place::of(&asked.path).filter(|place| place.of == Of::Pods && asked.method != "GET") else {
            return;
        };
        let body = asked.json();
        if answer.is_definite() && place.subresource == "binding" {
            self.bind_settled(operator, text(&body, "/metadata/uid"), sent);
            self.bind_answered(operator, text(&body, "/metadata/uid"), answer.code);
        }
        if !answer.is_success() {
            if answer.is_definite() && asked.method == "DELETE" {
                self.strict.refused(operator, text(&body, "/preconditions/uid"));
            }
            return;
        }
        match (asked.method.as_str(), place.subresource.as_str()) {
            ("POST", "binding") => {
                self.operator(operator).told_bound.insert(text(&body, "/metadata/uid").to_owned(), unix_us());
            }
            ("DELETE", _) => {
                self.operator(operator).told_deleted.insert(text(&body, "/preconditions/uid").to_owned());
            }
            _ => {}
        }
    }

    /// An operator was told how a bind ended: what it decides about the pod from now on it decides with all that was shown before. One that
    /// was refused as it was, with nothing left of it in doubt, is not sent again: the next one is a new decision, also if to the same node.
    fn bind_answered(&mut self, operator: usize, uid: &str, code: u16) {
        let now = Instant::now();
        let of = self.operator(operator);
        of.settled_with.insert(uid.to_owned(), of.pods.before(now));
        let is_in_doubt = of.doubtful.get(uid).is_some_and(|doubts| !doubts.is_empty());
        if matches!(code, 400 | 401 | 403 | 422) && !is_in_doubt {
            of.tried.remove(uid);
        }
    }

    /// A write of an operator was carried out, `version` being the newest now.
    pub(crate) fn carried_out(&mut self, operator: usize, asked: &Asked, answer: &Answer, facts: &Facts, version: u64) {
        let Some(place) = Place::of(&asked.path).filter(|_| asked.method != "GET" && answer.is_success()) else {
            return;
        };
        let body = asked.json();
        let what = format!("operator {operator}: {} {} is carried out", asked.method, asked.path);
        if matches!(place.of, Of::Pods | Of::Volumes | Of::Claims | Of::DeviceClaims)
            && self.leader.is_some_and(|leader| leader != operator)
        {
            self.breaks("S7", &format!("{what} after another took the Lease"));
        }
        match (place.of, place.subresource.as_str()) {
            (Of::Volumes | Of::Claims, _) => self.storage_changed(&what, &place, &body, facts),
            (Of::Pods, "status") => {
                let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
                let refused = conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "PodScheduled"));
                let uid = text(&body, "/metadata/uid");
                if refused && facts.pods.get(uid).is_some_and(|pod| pod.node.is_some()) {
                    self.breaks("late status", &format!("operator {operator}: {} of a bound pod", asked.path));
                }
            }
            (Of::Pods, _) => {
                self.last_write.insert(operator, version);
            }
            (Of::Profiles, "status") => self.status_written(operator, &body),
            (Of::Leases, _) => self.lease_written(operator, &body),
            _ => {}
        }
    }
}

/// Now, in microseconds of Unix time.
pub(crate) fn unix_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
