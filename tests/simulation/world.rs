//! One world: the model API server, what is known to be true, what is to happen, and who is in it.

use super::actors::Workload;
use super::devices::ClaimController;
use super::extenders::Extenders;
use super::facts::{By, Facts, News};
use super::model::api::{Answer, Asked, Place, answer};
use super::model::kinds::{KINDS, Of};
use super::model::store::Store;
use super::network::Network;
use super::operators::Home;
use super::plan::{ClaimPlan, NodePlan, Plan, Step};
use super::protobuf;
use super::random::Random;
use super::rules::Rules;
use super::steady::Steady;
use super::trace::Trace;
use super::victims::Victims;
use berth::operator::Inside;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the cluster's own parts do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// The next step of the plan.
    Step(Step),
    /// The kubelet takes up a pod, or refuses it.
    Start(String),
    /// A pod's containers have ended by themselves.
    Succeed(String),
    /// The kubelet has ended a pod that was deleted.
    Remove(String),
    /// A pod that ended is deleted, or one whose node is gone.
    Collect(String),
    /// A controller looks after its pods.
    Replicas(usize),
    Ungate(String),
    /// The pod that waits with the highest priority is deleted.
    DeleteHighest,
    /// Another scheduler binds this pod.
    ForeignBind(String),
    /// The volume controller looks.
    Volumes,
    /// The claim controller looks.
    Devices,
    /// The claim controller makes the claim of a pod, for so many devices.
    DeviceClaim {
        pod: String,
        count: u8,
    },
    /// The disruption controller looks.
    Budgets,
    /// Somebody makes a claim, unless the pod that it `goes_with` is gone.
    Claim {
        at: String,
        plan: ClaimPlan,
        goes_with: Option<String>,
    },
    NodeBack {
        node: usize,
        back: NodePlan,
    },
    Uncordon(usize),
    ProfileBack(usize),
    ExtenderBack(u8),
    /// A namespace has access again.
    AccessBack(&'static str),
    NoFaults,
    /// A process begins in this replica's place.
    Begin(usize, Home),
    /// The API server carries out a request of an operator that waits for the answer no more.
    CarryOut(usize, Asked),
}

#[derive(Debug, PartialEq, Eq)]
struct Due {
    at: Instant,
    order: u64,
    act: Act,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// One process of an operator.
#[derive(Debug)]
pub(crate) struct Operator {
    /// Which replica it is.
    pub(crate) replica: usize,
    /// The number of its pod: that of the first process in it.
    pub(crate) pod: usize,
    /// What it calls itself in the Lease.
    pub(crate) holder: String,
    /// Whether its requests reach anything: not any more once it was killed.
    pub(crate) connected: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) inside: Option<Inside>,
    /// How it ended.
    pub(crate) ended: Option<Result<(), String>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    pub(crate) facts: Facts,
    pub(crate) network: Network,
    pub(crate) extenders: Extenders,
    pub(crate) rules: Rules,
    pub(crate) trace: Trace,
    pub(crate) random: Random,
    pub(crate) operators: Vec<Operator>,
    pub(crate) workloads: Vec<Workload>,
    /// Pods by uid that end by themselves, and after how long.
    pub(crate) runs: BTreeMap<String, Duration>,
    pub(crate) healed: bool,
    /// Whether the volume controller is about to look.
    pub(crate) volumes_are_due: bool,
    pub(crate) budgets_are_due: bool,
    pub(crate) claim_controller: ClaimController,
    /// Until when another scheduler takes pods that come.
    pub(crate) foreign_until: Option<Instant>,
    /// The profile that has the scheduler name which profiles hand to each other.
    pub(crate) shared: Option<usize>,
    /// Profiles that were deleted for good.
    pub(crate) gone_profiles: Vec<usize>,
    pub(crate) victims: Victims,
    /// When a pod last moved.
    pub(crate) moved_at: Instant,
    /// Pods that wait, by uid, with each node that has room for them, and since when.
    pub(crate) has_room_since: BTreeMap<(String, String), Instant>,
    /// Since when a process has had binds of a profile under way each time that it was looked.
    pub(crate) binds_since: BTreeMap<(usize, String), Instant>,
    pub(crate) steady: Steady,
    agenda: BinaryHeap<Reverse<Due>>,
    order: u64,
    settled: u64,
}

pub(crate) struct World {
    inner: Mutex<Inner>,
    /// One for each kind.
    pub(crate) changed: Vec<Notify>,
    /// There is more to do, or it is to be done sooner.
    pub(crate) hurry: Notify,
    pub(crate) healed: Notify,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new(plan: Plan, keep_trace: bool) -> Arc<Self> {
        let (random, began) = (Random::new(plan.seed), Instant::now());
        let mut inner = Inner {
            store: Store::new(),
            facts: Facts::default(),
            network: Network::new(random.fork(2), protobuf::draw(plan.seed)),
            extenders: Extenders::new(random.fork(7)),
            rules: Rules::of(&plan),
            trace: Trace::new(began, keep_trace),
            random: random.fork(3),
            operators: Vec::new(),
            workloads: Vec::new(),
            runs: BTreeMap::new(),
            healed: false,
            volumes_are_due: false,
            claim_controller: ClaimController::default(),
            budgets_are_due: false,
            foreign_until: None,
            shared: plan.shared,
            gone_profiles: Vec::new(),
            victims: Victims::default(),
            moved_at: began,
            has_room_since: BTreeMap::new(),
            binds_since: BTreeMap::new(),
            steady: Steady::default(),
            agenda: BinaryHeap::new(),
            order: 0,
            settled: 0,
            plan,
        };
        for (at, step) in inner.plan.steps.clone() {
            inner.later(began + at, Act::Step(step));
        }
        Arc::new(Self {
            inner: Mutex::new(inner),
            changed: KINDS.iter().map(|_| Notify::new()).collect(),
            hurry: Notify::new(),
            healed: Notify::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something in the cluster that is no operator's.
    pub(crate) fn act<R>(&self, by: By, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = f(&mut inner);
        self.settle(&mut inner, by);
        result
    }

    pub(crate) fn do_later(&self, at: Instant, act: Act) {
        self.lock().later(at, act);
        self.hurry.notify_one();
    }

    /// Carries out a request of an operator.
    pub(crate) fn carry_out(&self, operator: usize, asked: &Asked) -> Answer {
        let (mut inner, now) = (self.lock(), Instant::now());
        let before = inner.store.version();
        let got = answer(&mut inner.store, asked, now);
        let Inner { trace, .. } = &mut *inner;
        trace.note(
            &[&asked.method, &asked.path],
            &[operator as u64, u64::from(got.code), asked.body.len() as u64],
            format_args!("operator {operator} {} {} -> {}", asked.method, asked.path, got.code),
        );
        if asked.method != "GET" {
            let Inner { rules, facts, store, .. } = &mut *inner;
            rules.carried_out(operator, asked, &got, facts, store.version());
        }
        if inner.store.version() > before {
            self.settle(&mut inner, By::Operator(operator));
        }
        got
    }

    /// Takes in what changed since the last call: facts, watches, and what follows from it.
    fn settle(&self, inner: &mut Inner, by: By) {
        let now = Instant::now();
        let since = inner.settled;
        inner.settled = inner.store.version();
        for of in Of::ALL.iter().copied() {
            let Inner { store, facts, trace, .. } = &mut *inner;
            let table = store.of(of);
            if table.newest <= since {
                continue;
            }
            assert!(
                table.forgotten <= since,
                "the world itself is wrong: more changes of {of:?} in one act than are kept"
            );
            let begin = table.log.partition_point(|change| change.version <= since);
            let mut news = Vec::new();
            for change in table.log.range(begin..) {
                match of {
                    Of::Pods => news.push(facts.pod(change, by)),
                    Of::Nodes => {
                        let name = change.object.text("/metadata/name");
                        let cpu = change.object.text("/status/allocatable/cpu");
                        let verb = change.verb;
                        trace.note(&[name, cpu], &[verb as u64], format_args!("node {name} {verb:?} cpu {cpu}"));
                        facts.node(change);
                    }
                    Of::Budgets => facts.budget(change),
                    Of::Profiles => facts.profiles.profile(change),
                    Of::Namespaces => facts.profiles.namespace(change),
                    Of::Claims | Of::Volumes => {
                        let (name, verb) = (change.object.text("/metadata/name"), change.verb);
                        let to =
                            change.object.value["spec"].get(if of == Of::Claims { "volumeName" } else { "claimRef" });
                        trace.note(&[name], &[verb as u64], format_args!("{of:?} {name} {verb:?} {to:?}"));
                        if of == Of::Claims { facts.claim(change) } else { facts.volume(change) }
                    }
                    _ => {}
                }
            }
            if of == Of::Leases {
                inner.lease_changed();
            }
            if matches!(of, Of::Claims | Of::Volumes) {
                inner.look_at_volumes_soon(now);
            }
            if of == Of::DeviceClaims {
                inner.device_claims_changed(now);
            }
            for (uid, news) in news {
                if news == News::Bound {
                    inner.has_devices_where_bound(&uid, by);
                }
                inner.follow(&uid, news, now);
            }
            self.changed[of as usize].notify_waiters();
        }
        inner.look_inside();
        self.hurry.notify_one();
    }
}

impl Inner {
    pub(crate) fn later(&mut self, at: Instant, act: Act) {
        self.order += 1;
        self.agenda.push(Reverse(Due { at, order: self.order, act }));
    }

    /// What is to be done now; otherwise when the next is due.
    pub(crate) fn next_act(&mut self, now: Instant) -> Result<Act, Option<Instant>> {
        match self.agenda.peek() {
            Some(Reverse(due)) if due.at <= now => Ok(self.agenda.pop().map(|Reverse(due)| due.act).ok_or(None)?),
            Some(Reverse(due)) => Err(Some(due.at)),
            None => Err(None),
        }
    }

    /// An operator sends a request. Nobody sees what a killed one sends.
    pub(crate) fn sent(&mut self, operator: usize, asked: &Asked) {
        self.look_inside();
        if self.operators[operator].connected && asked.method == "POST" && asked.path.ends_with("/binding") {
            self.is_extenders_will(operator, asked, false, Instant::now());
        }
        if self.operators[operator].connected && asked.method == "POST" && asked.path.ends_with("/events") {
            self.is_true(operator, asked);
            self.went_for(operator, asked);
        }
        let Self { rules, facts, operators, trace, .. } = self;
        if operators[operator].connected {
            if asked.method != "GET" {
                trace.note(
                    &["sent", &asked.path],
                    &[operator as u64],
                    format_args!(
                        "operator {operator} sends {} {} {}",
                        asked.method,
                        asked.path,
                        String::from_utf8_lossy(&asked.body)
                    ),
                );
            }
            let (now, is_ending) = (Instant::now(), operators[operator].stop.is_cancelled());
            rules.keeps_to_its_lease(operator, asked, is_ending, now);
            rules.sent(operator, asked, facts, now);
        }
    }

    /// An operator was told how a request ended that it sent at `sent`.
    pub(crate) fn answered(&mut self, operator: usize, asked: &Asked, answer: &Answer, sent: Instant) {
        self.look_inside();
        self.rules.answered(operator, asked, answer, sent);
        if let (Some(version), Some(place)) = (answer.shows, Place::of(&asked.path)) {
            self.saw(operator, place.of, version, Instant::now());
        }
    }

    pub(crate) fn saw(&mut self, operator: usize, of: Of, version: u64, now: Instant) {
        self.rules.saw(operator, of, version, now);
    }

    /// Changes of these versions are not shown to an operator, whose watch goes on.
    pub(crate) fn leave_out(&mut self, operator: usize, of: Of, versions: &[u64]) {
        self.network.were_left_out(operator, of, versions.len());
        for version in versions {
            self.trace.note(
                &["left out"],
                &[operator as u64, *version],
                format_args!("operator {operator} is not shown {of:?} {version}"),
            );
        }
    }

    fn follow(&mut self, uid: &str, news: News, now: Instant) {
        if news == News::None {
            return;
        }
        self.moved_at = now;
        self.look_at_budgets_soon(now);
        let pod = &self.facts.pods[uid];
        self.trace.note(
            &[&pod.key, pod.node.as_deref().unwrap_or_default()],
            &[news as u64],
            format_args!("pod {} {news:?} {}", pod.key, pod.node.as_deref().unwrap_or_default()),
        );
        let (app, is_bound) = (pod.app.clone(), pod.node.is_some());
        let owner = self.workloads.iter().position(|workload| workload.app == app);
        let random = &mut self.random;
        match news {
            News::Bound => {
                let at = now + random.millis(100, 2_000);
                self.later(at, Act::Start(uid.to_owned()));
            }
            News::Terminating => {
                let grace = self.grace(uid);
                let at = now + self.random.millis(100, grace * 1_000);
                self.later(at, Act::Remove(uid.to_owned()));
            }
            News::Ended => {
                let at = now + random.millis(1_000, 10_000);
                self.later(at, Act::Collect(uid.to_owned()));
                self.look_at_devices_soon(now);
            }
            News::Marked if !self.healed && random.in_thousand(200) => {
                let at = now + random.millis(1, 20);
                self.later(at, Act::DeleteHighest);
            }
            News::Gone => {
                self.look_at_volumes_soon(now);
                self.look_at_devices_soon(now);
            }
            News::None | News::Marked => {}
        }
        if let Some(owner) = owner.filter(|_| !matches!(news, News::Bound | News::Marked) || !is_bound) {
            let at = now + self.random.millis(50, 1_500);
            self.later(at, Act::Replicas(owner));
        }
    }

    fn grace(&self, uid: &str) -> u64 {
        let key = &self.facts.pods[uid].key;
        let seconds = self
            .store
            .get(Of::Pods, key)
            .and_then(|pod| pod.value.pointer("/metadata/deletionGracePeriodSeconds")?.as_u64());
        seconds.unwrap_or(1).max(1)
    }
}
