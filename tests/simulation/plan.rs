//! What one seed draws: the cluster, who is in it, and everything that happens, as a list of steps of which any may be left out.

use super::devices::Devices;
use super::extenders::{ExtenderMix, ExtenderPlan};
use super::model::kinds::Of;
use super::network::Mix;
use super::odd::OddStep;
use super::profiles::ProfilePlan;
use super::random::Random;
use super::spreading::SpreadPlan;
use std::collections::BTreeMap;
use std::time::Duration;

/// Users and faults are at work for so long; then everything heals.
pub(crate) const BUSY: Duration = Duration::from_secs(220);

/// After that everything that can be placed must be.
pub(crate) const HEALED: Duration = Duration::from_secs(60);

/// Then all pods go, and all that was held for them.
pub(crate) const DRAINED: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePlan {
    pub(crate) cpu: u64,
    /// Gibibytes.
    pub(crate) memory: u64,
    /// How many pods it takes.
    pub(crate) pods: u64,
    pub(crate) pool: &'static str,
    pub(crate) zone: Option<&'static str>,
    pub(crate) tainted: bool,
}

/// Of a node that has more of both than pods of these worlds ask for.
const MUCH_MEMORY: u64 = 64;
const MANY_PODS: u64 = 40;

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub(crate) struct PodPlan {
    pub(crate) profile: usize,
    /// Thousandths of a CPU.
    pub(crate) cpu: u64,
    /// Mebibytes; 0 for a pod that asks for no memory.
    pub(crate) memory: u64,
    pub(crate) priority: u64,
    pub(crate) port: Option<u64>,
    /// No two of its kind on one node.
    pub(crate) alone: bool,
    pub(crate) pool: Option<&'static str>,
    pub(crate) zone: Option<&'static str>,
    /// Whether it tolerates the taint that some nodes have.
    pub(crate) tolerates: bool,
    /// Whether it names the scheduler that profiles hand to each other.
    pub(crate) is_shared: bool,
    /// It ends by itself after so long.
    pub(crate) runs: Option<Duration>,
    /// Its scheduling gate is taken away after so long.
    pub(crate) gated: Option<Duration>,
    /// Seconds that it takes to end when it is deleted.
    pub(crate) grace: u64,
    pub(crate) claims: Vec<ClaimPlan>,
    /// Whether it asks for the resource that some extenders manage.
    pub(crate) managed: bool,
    pub(crate) spread: Option<SpreadPlan>,
    pub(crate) devices: Option<Devices>,
}

/// A budget for the pods of an app in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BudgetPlan {
    pub(crate) namespace: &'static str,
    pub(crate) app: &'static str,
    /// How many of them are to run at least.
    pub(crate) least: u64,
}

/// A claim that a pod mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimPlan {
    /// Of a volume that is on a node already.
    Local,
    /// Of a volume that is made once a node is chosen.
    Made,
    /// The same, and only one pod at a time may use it.
    OnePod,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A controller that keeps so many pods.
    Workload {
        pod: PodPlan,
        replicas: u64,
    },
    Pod(PodPlan),
    /// The pod at this place among those that there are.
    DeletePod(u64),
    DeleteNode {
        node: usize,
        back_after: Option<Duration>,
        /// As what it comes back.
        back: NodePlan,
    },
    Cordon {
        node: usize,
        lasts: Duration,
    },
    /// Another mode or preset.
    EditProfile {
        profile: usize,
        spec: u64,
    },
    /// Another spec, and at once the one before it again.
    EditProfileAndBack {
        profile: usize,
        spec: u64,
    },
    /// A profile is deleted, for so long or for good.
    DeleteProfile {
        profile: usize,
        lasts: Option<Duration>,
    },
    Faults {
        mix: Mix,
        lasts: Duration,
    },
    /// Nobody reaches the API server.
    Outage {
        lasts: Duration,
    },
    /// One operator's connections are silent.
    Silence {
        operator: usize,
        lasts: Duration,
    },
    /// The next of the changes that may be left out are not shown by one operator's watch, which goes on.
    LeaveOut {
        operator: usize,
        of: Of,
        count: usize,
    },
    WebhookHangs {
        lasts: Duration,
    },
    Compact,
    /// The API server is started anew: every watch is cut, and none goes on from before.
    Restart,
    /// The leader is told to end while pods come, binds are slow and what it wrote reaches the others late.
    HandOver {
        pods: Vec<PodPlan>,
        lag: Duration,
    },
    /// The Lease is deleted; with a replica, once its process has begun anew for so long, if it does not lead.
    DeleteLease {
        begins: Option<(usize, Duration)>,
    },
    /// Somebody takes the holder out of the Lease.
    ClearLease,
    Kill {
        operator: usize,
        back_after: Duration,
    },
    /// The leader is killed while pods come and binds are slow.
    Crash {
        pods: Vec<PodPlan>,
        back_after: Duration,
    },
    /// As on SIGTERM.
    Stop {
        operator: usize,
        back_after: Duration,
    },
    /// Another scheduler binds a pod that waits.
    ForeignBind {
        pod: u64,
        node: usize,
    },
    /// Another scheduler binds many of the pods that come, as fast as we do.
    Foreign {
        lasts: Duration,
    },
    /// A profile gets an extender.
    Extender(ExtenderPlan),
    ExtenderFaults {
        number: u8,
        mix: ExtenderMix,
        lasts: Duration,
    },
    /// Its connections are cut.
    RestartExtender {
        number: u8,
    },
    /// Its profile does without it for so long.
    RemoveExtender {
        number: u8,
        lasts: Duration,
    },
    /// A namespace has no access to some profiles for so long.
    TakeAccess {
        namespace: &'static str,
        lasts: Duration,
    },
    /// Another profile gets the scheduler name that profiles hand to each other.
    HandName {
        to: usize,
    },
    Odd(OddStep),
}

#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) operators: usize,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) profiles: usize,
    /// The nodes of volumes that are there from the beginning; none where no pod mounts any.
    pub(crate) locals: Vec<usize>,
    pub(crate) budgets: Vec<BudgetPlan>,
    /// How many devices each node has; 0 where no pod wants any, and they are not served.
    pub(crate) devices: u64,
    /// Whether profiles have the score Fragmentation.
    pub(crate) scores_fragmentation: bool,
    /// The profiles that keep budgets strictly.
    pub(crate) strict: Vec<usize>,
    /// The profiles that look soon for pods that were forgotten.
    pub(crate) sweep_soon: Vec<usize>,
    /// Whether nodes have the resource that some extenders manage.
    pub(crate) has_resource: bool,
    /// Whether watches leave something out, and operators look for that often.
    pub(crate) leaves_out: bool,
    /// By profile.
    pub(crate) profile_plans: Vec<ProfilePlan>,
    /// The profile that has the scheduler name which profiles hand to each other, if there is one.
    pub(crate) shared: Option<usize>,
    /// Whether profiles that serve are left alone when all faults are over: an edit would wake every pod.
    pub(crate) leaves_profiles: bool,
    /// Whether a process that has died comes back in its own pod.
    pub(crate) restarts_in_pod: bool,
    /// How many pods may be evicted for one, by the number of a profile that says so.
    pub(crate) most_victims: BTreeMap<usize, usize>,
    pub(crate) steps: Vec<(Duration, Step)>,
}

const POOLS: [&str; 2] = ["a", "b"];

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed).fork(1);
        let operators = random.pick(&[1, 2, 2, 2, 3]);
        let nodes = (0..random.between(3, 8))
            .map(|_| NodePlan {
                cpu: random.between(2, 6) * 1_000,
                memory: MUCH_MEMORY,
                pods: MANY_PODS,
                pool: random.pick(&POOLS),
                zone: None,
                tainted: false,
            })
            .collect::<Vec<_>>();
        let profiles = random.between(1, 3) as usize;
        let mut plan = Self {
            seed,
            operators,
            nodes,
            profiles,
            locals: Vec::new(),
            budgets: Vec::new(),
            devices: 0,
            scores_fragmentation: false,
            strict: Vec::new(),
            sweep_soon: Vec::new(),
            has_resource: false,
            leaves_out: false,
            profile_plans: vec![ProfilePlan::default(); profiles],
            shared: None,
            leaves_profiles: false,
            restarts_in_pod: false,
            most_victims: BTreeMap::new(),
            steps: Vec::new(),
        };
        plan.draw_pods(&mut random);
        plan.draw_disturbances(&mut random);
        plan.draw_faults(&mut random);
        plan.draw_storage(&mut Random::new(seed).fork(4));
        plan.draw_budgets(&mut Random::new(seed).fork(5));
        plan.draw_lost_leases(&mut Random::new(seed).fork(14));
        plan.draw_cleared_leases(&mut Random::new(seed).fork(15));
        plan.draw_extenders(&mut Random::new(seed).fork(6));
        plan.draw_left_out(&mut Random::new(seed).fork(8));
        plan.draw_late(&mut Random::new(seed).fork(9));
        plan.draw_profiles(&mut Random::new(seed).fork(10));
        plan.draw_odd(&mut Random::new(seed).fork(11));
        plan.draw_kinds_of_nodes(&mut Random::new(seed).fork(12));
        plan.draw_small_nodes(&mut Random::new(seed).fork(16));
        plan.draw_spreading(&mut Random::new(seed).fork(17));
        plan.draw_sweeps(&mut Random::new(seed).fork(18));
        plan.draw_containers(&mut Random::new(seed).fork(19));
        plan.draw_limits(&mut Random::new(seed).fork(20));
        plan.draw_held(&mut Random::new(seed).fork(21));
        plan.draw_devices(&mut Random::new(seed).fork(22));
        plan.leaves_profiles = Random::new(seed).fork(13).in_thousand(500);
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    pub(crate) fn pod(&self, random: &mut Random) -> PodPlan {
        let priority = random.pick(&[0, 0, 0, 10, 100]);
        PodPlan {
            profile: random.index(self.profiles),
            cpu: random.pick(&[100, 200, 500, 500, 1_000, 1_500]),
            memory: 0,
            priority,
            port: random.in_thousand(80).then(|| random.between(8_000, 8_001)),
            alone: random.in_thousand(100),
            pool: random.in_thousand(150).then(|| random.pick(&POOLS)),
            zone: None,
            tolerates: false,
            is_shared: false,
            runs: random.in_thousand(300).then(|| random.millis(3_000, 60_000)),
            gated: random.in_thousand(40).then(|| random.millis(500, 20_000)),
            grace: random.pick(&[1, 2, 5, 10]),
            claims: Vec::new(),
            managed: false,
            spread: None,
            devices: None,
        }
    }

    fn draw_pods(&mut self, random: &mut Random) {
        for _ in 0..random.between(2, 5) {
            let mut pod = self.pod(random);
            pod.runs = None;
            let step = Step::Workload { pod, replicas: random.between(1, 6) };
            self.steps.push((random.millis(0, 10_000), step));
        }
        for _ in 0..random.between(15, 60) {
            let pod = self.pod(random);
            self.steps.push((random.millis(0, BUSY.as_millis() as u64), Step::Pod(pod)));
        }
        for _ in 0..random.between(5, 25) {
            self.at_random(random, |random| Step::DeletePod(random.next()));
        }
        let foreign = random.pick(&[0, 0, 0, 6]);
        for _ in 0..foreign {
            let nodes = self.nodes.len();
            self.at_random(random, |random| Step::ForeignBind { pod: random.next(), node: random.index(nodes) });
        }
        for _ in 0..random.pick(&[0, 0, 0, 1]) {
            self.at_random(random, |random| Step::Foreign { lasts: random.millis(10_000, 100_000) });
        }
    }

    pub(crate) fn at_random(&mut self, random: &mut Random, step: impl FnOnce(&mut Random) -> Step) {
        let at = random.millis(5_000, BUSY.as_millis() as u64 - 10_000);
        let step = step(random);
        self.steps.push((at, step));
    }

    fn draw_disturbances(&mut self, random: &mut Random) {
        let (nodes, profiles, operators) = (self.nodes.len(), self.profiles, self.operators);
        let before = self.nodes.clone();
        for _ in 0..random.between(0, 8) {
            self.at_random(random, |random| {
                let node = random.index(nodes);
                let back_after = random.in_thousand(900).then(|| {
                    let most = random.pick(&[5, 1_000, 15_000]);
                    random.millis(0, most)
                });
                let back = NodePlan { cpu: random.between(1, 6) * 1_000, ..before[node].clone() };
                Step::DeleteNode { node, back_after, back }
            });
        }
        for _ in 0..random.between(0, 2) {
            self.at_random(random, |random| Step::Cordon {
                node: random.index(nodes),
                lasts: random.millis(1_000, 40_000),
            });
        }
        for _ in 0..random.between(0, 4) {
            self.at_random(random, |random| Step::EditProfile {
                profile: random.index(profiles),
                spec: random.below(4),
            });
        }
        for _ in 0..random.pick(&[0, 0, 3, 8]) {
            self.at_random(random, |random| Step::EditProfileAndBack { profile: random.index(profiles), spec: 2 });
        }
        for _ in 0..random.pick(&[0, 0, 1]) {
            self.at_random(random, |random| Step::DeleteProfile {
                profile: random.index(profiles),
                lasts: random.in_thousand(800).then(|| random.millis(500, 20_000)),
            });
        }
        for _ in 0..random.between(0, 3) {
            self.at_random(random, |random| {
                let (operator, back_after) = (random.index(operators), random.millis(500, 8_000));
                if random.in_thousand(500) {
                    Step::Kill { operator, back_after }
                } else {
                    Step::Stop { operator, back_after }
                }
            });
        }
    }

    /// Each seed has a mix of its own, in which most faults do not occur at all: what is rare beside much else is common in some.
    fn draw_faults(&mut self, random: &mut Random) {
        let operators = self.operators;
        for _ in 0..random.between(1, 4) {
            let mut chance = |most: u64| if random.in_thousand(300) { random.between(5, most) } else { 0 };
            let mix = Mix {
                refused: chance(100),
                throttled: chance(300),
                errors: chance(200),
                lost: chance(100),
                applied_and_lost: chance(200),
                late: 0,
                slow: chance(200),
                denied: chance(300),
                cut: chance(900),
                lag: chance(4_000),
            };
            self.at_random(random, |random| Step::Faults { mix, lasts: random.millis(5_000, 80_000) });
        }
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            self.at_random(random, |random| Step::Outage { lasts: random.millis(500, 25_000) });
        }
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            self.at_random(random, |random| Step::Silence {
                operator: random.index(operators),
                lasts: random.millis(1_000, 40_000),
            });
        }
        for _ in 0..random.pick(&[0, 0, 0, 1]) {
            self.at_random(random, |random| Step::WebhookHangs { lasts: random.millis(2_000, 30_000) });
        }
        for _ in 0..random.between(0, 2) {
            self.at_random(random, |_| Step::Compact);
        }
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            self.at_random(random, |_| Step::Restart);
        }
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            let pods = (0..4).map(|_| self.pod(random)).collect();
            self.at_random(random, |random| Step::HandOver { pods, lag: random.millis(50, 4_000) });
        }
    }

    /// All pods of the steps drawn so far.
    pub(crate) fn pods_mut(&mut self) -> impl Iterator<Item = &mut PodPlan> {
        self.steps.iter_mut().flat_map(|(_, step)| match step {
            Step::Workload { pod, .. } | Step::Pod(pod) | Step::Odd(OddStep::Many { pod, .. }) => {
                std::slice::from_mut(pod)
            }
            Step::HandOver { pods, .. } => pods.as_mut_slice(),
            _ => &mut [],
        })
    }

    /// In some worlds many pods have claims. Their profiles go while they wait for their volumes.
    fn draw_storage(&mut self, random: &mut Random) {
        if !random.in_thousand(350) {
            return;
        }
        self.locals = (0..random.between(3, 12)).map(|_| random.index(self.nodes.len())).collect();
        for pod in self.pods_mut() {
            let kinds = [ClaimPlan::Local, ClaimPlan::Local, ClaimPlan::Made, ClaimPlan::Made, ClaimPlan::OnePod];
            let claims = random.pick(&[0, 0, 1, 1, 2]);
            pod.claims = (0..claims).map(|_| random.pick(&kinds)).collect();
        }
        let profiles = self.profiles;
        for _ in 0..random.between(0, 2) {
            self.at_random(random, |random| Step::DeleteProfile {
                profile: random.index(profiles),
                lasts: Some(random.millis(200, 10_000)),
            });
        }
    }

    /// In some worlds watches leave changes out. In the others operators do not look for it: they would mend what known bugs break.
    fn draw_left_out(&mut self, random: &mut Random) {
        self.leaves_out = random.in_thousand(200);
        if !self.leaves_out {
            return;
        }
        let operators = self.operators;
        for _ in 0..random.between(1, 6) {
            let step = Step::LeaveOut {
                operator: random.index(operators),
                of: random.pick(&[Of::Pods, Of::Pods, Of::Pods, Of::Nodes]),
                count: random.between(1, 3) as usize,
            };
            // Early: an audit that other faults hinder is made once more before it must be well.
            self.steps.push((random.millis(5_000, 120_000), step));
        }
    }

    /// In some worlds requests are carried out whose client has given up.
    fn draw_late(&mut self, random: &mut Random) {
        if !random.in_thousand(400) {
            return;
        }
        for (_, step) in &mut self.steps {
            if let Step::Faults { mix, .. } = step {
                mix.late = random.pick(&[0, 30, 100, 300]);
            }
        }
        // What a webhook denies meanwhile, an earlier request may still do.
        let mix = Mix { late: 300, denied: random.pick(&[0, 300]), ..Mix::default() };
        self.at_random(random, |random| Step::Faults { mix, lasts: random.millis(5_000, 60_000) });
    }

    /// In some worlds nodes have zones and taints, and come back as others than they were.
    fn draw_kinds_of_nodes(&mut self, random: &mut Random) {
        if !random.in_thousand(400) {
            return;
        }
        let kind = |random: &mut Random| NodePlan {
            cpu: random.between(1, 6) * 1_000,
            memory: MUCH_MEMORY,
            pods: MANY_PODS,
            pool: random.pick(&POOLS),
            zone: Some(random.pick(&["x", "y"])),
            tainted: random.in_thousand(250),
        };
        for node in &mut self.nodes {
            *node = NodePlan { cpu: node.cpu, pool: node.pool, ..kind(random) };
        }
        for pod in self.pods_mut() {
            pod.zone = random.in_thousand(150).then(|| random.pick(&["x", "y"]));
            pod.tolerates = random.in_thousand(300);
        }
        for (_, step) in &mut self.steps {
            if let Step::DeleteNode { back, .. } = step
                && random.in_thousand(700)
            {
                *back = kind(random);
            }
        }
        let nodes = self.nodes.len();
        for _ in 0..random.between(0, 12) {
            self.at_random(random, |random| Step::DeleteNode {
                node: random.index(nodes),
                back_after: Some(random.millis(0, 300)),
                back: kind(random),
            });
        }
        for _ in 0..random.between(0, 20) {
            self.at_random(random, |random| Step::Odd(OddStep::Tolerate(random.next())));
        }
    }

    /// In some worlds pods ask for memory, and nodes have little of it and take few pods.
    fn draw_small_nodes(&mut self, random: &mut Random) {
        if !random.in_thousand(400) {
            return;
        }
        for pod in self.pods_mut() {
            pod.memory = random.pick(&[0, 256, 1_024, 2_048, 6_144]);
        }
        let back = self.steps.iter_mut().filter_map(|(_, step)| match step {
            Step::DeleteNode { back, .. } => Some(back),
            _ => None,
        });
        for node in self.nodes.iter_mut().chain(back) {
            (node.memory, node.pods) = (random.between(6, 24), random.between(3, 12));
        }
    }

    fn draw_budgets(&mut self, random: &mut Random) {
        if !random.in_thousand(350) {
            return;
        }
        let app =
            |random: &mut Random| random.pick(&["w0", "w0", "w1", "w1", "w2", "bare0", "bare1", "bare2", "bare3"]);
        self.budgets = (0..random.between(1, 6))
            .map(|_| BudgetPlan {
                namespace: random.pick(&["red", "blue"]),
                app: app(random),
                least: random.between(0, 3),
            })
            .collect();
        self.strict = (0..self.profiles).filter(|_| random.in_thousand(700)).collect();
    }

    /// The same without these steps.
    pub(crate) fn without(&self, left_out: &[usize]) -> Self {
        let mut plan = self.clone();
        let mut index = 0;
        plan.steps.retain(|_| {
            index += 1;
            !left_out.contains(&(index - 1))
        });
        plan
    }
}
