//! Scheduler extenders as they are drawn: what a profile says of one, what it would answer, and how it fails.

use super::facts::PodFact;
use super::model::api::Asked;
use super::model::kinds::Of;
use super::model::store::{key, text};
use super::plan::{Plan, Step};
use super::random::Random;
use super::world::{Act, Inner};
use berth_core::fnv::fnv1a;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The namespace of Services in front of extenders.
const NAMESPACE: &str = "extenders";

/// What operators are started with: they may speak plain http there.
pub(crate) const ALLOWED: [&str; 2] = ["*.extenders.svc", "10.9.0.0/16"];

/// The resource that some extenders manage. Nodes have more of it than pods ask for.
pub(crate) const RESOURCE: &str = "example.com/drawn";

/// Which pods concern an extender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern {
    All,
    /// Pods that ask for [`RESOURCE`], which NodeResourcesFit may leave to the extender.
    Managed {
        is_left_to_it: bool,
    },
    App(&'static str),
}

/// One extender. A verb that it has comes with its failure policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtenderPlan {
    /// Among all of the world: its name, its address, and what it thinks of nodes follow from it.
    pub(crate) number: u8,
    pub(crate) profile: usize,
    concern: Concern,
    filter: Option<&'static str>,
    prioritize: Option<&'static str>,
    preempt: Option<&'static str>,
    binds: bool,
    /// Whether it is sent whole nodes.
    pub(crate) full: bool,
    /// Whether it is behind a Service, and not at a URL.
    is_service: bool,
    /// Of each of its verbs.
    pub(crate) timeout: Duration,
}

/// How often an extender fails in which way, in so many of a thousand calls. These are the nine ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExtenderMix {
    /// 1. It is not reached: its connections are refused, or nobody takes them up.
    pub(crate) unreachable: u64,
    /// 2. It takes the request and never answers, or its connection breaks then.
    pub(crate) silent: u64,
    /// 3. It answers with a status that is not 200.
    pub(crate) failing: u64,
    /// 4. Its answer is not JSON, breaks off, or does not follow the protocol.
    pub(crate) junk: u64,
    /// 5. Its answer has the field `Error`.
    pub(crate) errors: u64,
    /// 6. It names nodes and victims that it was not asked about.
    pub(crate) strangers: u64,
    /// 7. It answers too late; what it does comes late too, maybe when another process leads.
    pub(crate) late: u64,
    /// 8. Its answer has no end, or one that is too far.
    pub(crate) large: u64,
    /// 9. What it says of a bind is not true: success, and nothing is bound (or later); failure, and the pod is bound.
    pub(crate) untrue: u64,
}

/// One of the nine ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ill {
    Unreachable,
    Silent,
    Failing,
    Junk,
    Error,
    Strangers,
    Late,
    Large,
    Untrue,
}

impl ExtenderMix {
    /// In most mixes few of them occur, and those often.
    fn draw(random: &mut Random) -> Self {
        let mut chance = || if random.in_thousand(300) { random.between(50, 600) } else { 0 };
        Self {
            unreachable: chance(),
            silent: chance(),
            failing: chance(),
            junk: chance(),
            errors: chance(),
            strangers: chance(),
            late: chance(),
            large: chance(),
            untrue: chance(),
        }
    }

    pub(crate) fn pick(&self, mut ticket: u64) -> Option<Ill> {
        let chances = [
            (self.unreachable, Ill::Unreachable),
            (self.silent, Ill::Silent),
            (self.failing, Ill::Failing),
            (self.junk, Ill::Junk),
            (self.errors, Ill::Error),
            (self.strangers, Ill::Strangers),
            (self.late, Ill::Late),
            (self.large, Ill::Large),
            (self.untrue, Ill::Untrue),
        ];
        for (chance, ill) in chances {
            if ticket < chance {
                return Some(ill);
            }
            ticket -= chance;
        }
        None
    }
}

impl ExtenderPlan {
    /// Of the extenders of a profile one may bind, and one may manage the resource: `before` are those that it has.
    fn draw(random: &mut Random, number: u8, profile: usize, before: &[Self]) -> Self {
        let policy = |random: &mut Random, chance| {
            let has = random.in_thousand(chance);
            let policy = random.pick(&["Fail", "Ignore"]);
            has.then_some(policy)
        };
        let concern = match random.below(5) {
            0 if before.is_empty() => Concern::Managed { is_left_to_it: random.in_thousand(500) },
            1 => Concern::App(random.pick(&["w0", "w1", "bare0", "bare1"])),
            _ => Concern::All,
        };
        let mut plan = Self {
            number,
            profile,
            concern,
            filter: policy(random, 800),
            prioritize: policy(random, 500),
            preempt: policy(random, 300),
            binds: random.in_thousand(500) && !before.iter().any(|one| one.binds),
            full: random.in_thousand(300),
            is_service: random.in_thousand(600),
            timeout: random.millis(300, 5_000),
        };
        let is_asked = plan.prioritize.is_some() || plan.preempt.is_some() || plan.binds;
        if !is_asked || plan.concern == (Concern::Managed { is_left_to_it: true }) {
            plan.filter = plan.filter.or(Some("Fail"));
        }
        plan
    }

    pub(crate) fn name(&self) -> String {
        format!("ext-{}", self.number)
    }

    /// Whether it binds pods.
    pub(crate) fn binds(&self) -> bool {
        self.binds
    }

    /// What the profile says of it.
    fn spec(&self) -> Value {
        let timeout = format!("{}ms", self.timeout.as_millis());
        let mut verbs = json!({});
        for (verb, policy) in [("filter", self.filter), ("prioritize", self.prioritize), ("preempt", self.preempt)] {
            if let Some(policy) = policy {
                verbs[verb] = json!({"path": verb, "timeout": timeout, "failurePolicy": policy});
            }
        }
        if self.binds {
            verbs["bind"] = json!({"path": "bind", "timeout": timeout});
        }
        let endpoint = if self.is_service {
            json!({"service": {"name": self.name(), "namespace": NAMESPACE, "port": 80, "scheme": "Http"}})
        } else {
            json!({"url": format!("http://10.9.{}.1:8080", self.number)})
        };
        let mut spec = json!({"name": self.name(), "endpoint": endpoint, "verbs": verbs});
        if self.full {
            spec["nodePayload"] = "Full".into();
        }
        match self.concern {
            Concern::All => {}
            Concern::Managed { is_left_to_it } => {
                let check = if is_left_to_it { "Skip" } else { "Keep" };
                spec["managedResources"] = json!([{"name": RESOURCE, "fitCheck": check}]);
            }
            Concern::App(app) => spec["podSelector"] = json!({"matchLabels": {"app": app}}),
        }
        spec
    }

    /// Its Service, and one slice of two addresses, which are both its own.
    fn service(&self) -> [Value; 2] {
        let name = self.name();
        let service = json!({"metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
        let endpoint =
            |last: u8| json!({"addresses": [format!("10.9.{}.{last}", self.number)], "conditions": {"ready": true}});
        let slice = json!({
            "metadata": {"name": format!("{name}-a"), "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [endpoint(1), endpoint(2)],
        });
        [service, slice]
    }

    /// Whether it lets pods of this app go to a node: always the same, so that the end can be told.
    pub(crate) fn lets(&self, app: &str, node: &str) -> bool {
        let hash = fnv1a([app, "/", node].into_iter().flat_map(str::bytes));
        !Random::new(hash).fork(u64::from(self.number)).in_thousand(200)
    }

    fn concerns(&self, pod: &PodFact) -> bool {
        match self.concern {
            Concern::All => true,
            Concern::Managed { .. } => pod.managed,
            Concern::App(app) => pod.app == app,
        }
    }
}

impl Plan {
    /// In some worlds most profiles have extenders, and some pods ask for what an extender manages.
    pub(crate) fn draw_extenders(&mut self, random: &mut Random) {
        if !random.in_thousand(400) {
            return;
        }
        self.has_resource = true;
        for pod in self.pods_mut() {
            pod.managed = random.in_thousand(300);
        }
        let mut number = 0;
        for profile in 0..self.profiles {
            let mut its = Vec::new();
            for _ in 0..random.pick(&[0, 1, 1, 2]) {
                let plan = ExtenderPlan::draw(random, number, profile, &its);
                its.push(plan);
                let at = if random.in_thousand(700) { Duration::ZERO } else { random.millis(0, 60_000) };
                self.steps.push((at, Step::Extender(plan)));
                self.draw_failures(random, number);
                number += 1;
            }
        }
    }

    fn draw_failures(&mut self, random: &mut Random, number: u8) {
        for _ in 0..random.between(1, 4) {
            self.at_random(random, |random| Step::ExtenderFaults {
                number,
                mix: ExtenderMix::draw(random),
                lasts: random.millis(8_000, 80_000),
            });
        }
        for _ in 0..random.pick(&[0, 0, 1, 3]) {
            self.at_random(random, |_| Step::RestartExtender { number });
        }
        for _ in 0..random.pick(&[0, 0, 0, 1]) {
            self.at_random(random, |random| Step::RemoveExtender { number, lasts: random.millis(100, 30_000) });
        }
    }
}

/// One extender that there is.
#[derive(Debug)]
pub(crate) struct Extender {
    pub(crate) plan: ExtenderPlan,
    mix: ExtenderMix,
    /// Until when it fails.
    fails_until: Option<Instant>,
    /// The version since which its profile names it, if it does.
    since: Option<u64>,
    /// Its connections, until they are cut.
    pub(crate) connections: CancellationToken,
}

impl Extender {
    /// How it fails at present.
    pub(crate) fn mix(&self, now: Instant) -> ExtenderMix {
        if self.fails_until.is_some_and(|until| until > now) { self.mix } else { ExtenderMix::default() }
    }

    fn cut(&mut self) {
        std::mem::take(&mut self.connections).cancel();
    }
}

/// The extenders of a world, by number.
#[derive(Debug)]
pub(crate) struct Extenders {
    pub(crate) random: Random,
    pub(crate) all: BTreeMap<u8, Extender>,
}

impl Extenders {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, all: BTreeMap::new() }
    }

    /// What a profile says of its extenders.
    pub(crate) fn specs(&self, profile: usize) -> Vec<Value> {
        let its = self.all.values().filter(|one| one.plan.profile == profile && one.since.is_some());
        its.map(|one| one.plan.spec()).collect()
    }

    /// Those that a pod concerns.
    fn of_pod(&self, pod: &PodFact) -> impl Iterator<Item = &Extender> {
        let is_its =
            move |plan: &ExtenderPlan| pod.scheduler == format!("berth-{}", plan.profile) && plan.concerns(pod);
        self.all.values().filter(move |one| is_its(&one.plan))
    }

    /// Whether one of them filters the nodes of a pod.
    pub(crate) fn filter(&self, pod: &PodFact) -> bool {
        self.of_pod(pod).any(|one| one.plan.filter.is_some())
    }

    /// Whether those that filter let a pod go to a node.
    pub(crate) fn let_pod(&self, pod: &PodFact, node: &str) -> bool {
        self.of_pod(pod).filter(|one| one.plan.filter.is_some()).all(|one| one.plan.lets(&pod.app, node))
    }
}

impl Inner {
    pub(crate) fn perform_extender_step(&mut self, step: Step, now: Instant) {
        match step {
            Step::Extender(plan) => self.add_extender(plan, now),
            Step::ExtenderFaults { number, mix, lasts } => {
                if let Some(one) = self.extenders.all.get_mut(&number) {
                    (one.mix, one.fails_until) = (mix, Some(now + lasts));
                    if mix.unreachable > 0 {
                        one.cut();
                    }
                }
            }
            Step::RestartExtender { number } => {
                if let Some(one) = self.extenders.all.get_mut(&number) {
                    one.cut();
                }
            }
            Step::RemoveExtender { number, lasts } => {
                self.set_named(number, false, now);
                self.later(now + lasts, Act::ExtenderBack(number));
            }
            _ => {}
        }
    }

    fn add_extender(&mut self, plan: ExtenderPlan, now: Instant) {
        let [service, slice] = plan.service();
        self.store.create(Of::Services, service, now);
        self.store.create(Of::Slices, slice, now);
        let number = plan.number;
        let extender = Extender {
            plan,
            mix: ExtenderMix::default(),
            fails_until: None,
            since: None,
            connections: CancellationToken::new(),
        };
        self.extenders.all.insert(number, extender);
        self.set_named(number, true, now);
    }

    /// Has its profile name an extender, or not.
    pub(crate) fn set_named(&mut self, number: u8, is_named: bool, now: Instant) {
        let Some(one) = self.extenders.all.get_mut(&number) else { return };
        // The edit takes the next version.
        let since = is_named.then(|| one.since.unwrap_or(self.store.version() + 1));
        one.since = since;
        let profile = one.plan.profile;
        self.renew_extenders(profile, now);
    }

    /// Edits the profile to name the extenders that it has now.
    fn renew_extenders(&mut self, profile: usize, now: Instant) {
        let Some(there) = self.store.get(Of::Profiles, &key("", &format!("berth-{profile}"))) else { return };
        let mut spec = there.value["spec"].clone();
        spec["extenders"] = self.extenders.specs(profile).into();
        self.set_spec(profile, spec, now);
    }

    /// E1 and E2, of what an operator has known for long: no pod is bound to a node to which an extender whose failures are not ignored
    /// lets it not go, and nobody binds a pod that an extender is to bind.
    pub(crate) fn is_extenders_will(&mut self, operator: usize, binding: &Asked, is_by_extender: bool, now: Instant) {
        let body = binding.json();
        let (uid, node) = (text(&body, "/metadata/uid"), text(&body, "/target/name"));
        // A pod with claims may have been decided long ago.
        let Some(pod) = self.facts.pods.get(uid).filter(|pod| !pod.is_prepared()) else { return };
        if self.rules.is_repeated(operator, uid, node) {
            return;
        }
        let known = self.rules.profiles_known(operator, now);
        let mut wrong = Vec::new();
        for one in self.extenders.of_pod(pod).filter(|one| one.since.is_some_and(|since| since <= known)) {
            let (plan, name) = (&one.plan, one.plan.name());
            if plan.filter == Some("Fail") && !plan.lets(&pod.app, node) {
                wrong.push((
                    "E1",
                    format!("operator {operator}: {} goes to {node} against the will of {name}", pod.key),
                ));
            }
            if plan.binds && !is_by_extender {
                wrong.push(("E2", format!("operator {operator}: {} is to be bound by {name}", pod.key)));
            }
        }
        for (rule, what) in wrong {
            self.rules.breaks(rule, &what);
        }
    }

    /// All extenders are there, and answer well.
    pub(crate) fn mend_extenders(&mut self, now: Instant) {
        let numbers: Vec<u8> = self.extenders.all.keys().copied().collect();
        for number in numbers {
            if let Some(one) = self.extenders.all.get_mut(&number) {
                one.fails_until = None;
            }
            self.set_named(number, true, now);
        }
    }
}
