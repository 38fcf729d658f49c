//! Everybody but the operators: users, controllers, kubelets, a second scheduler, and whoever breaks things.

use super::extenders::RESOURCE;
use super::facts::By;
use super::model::kinds::Of;
use super::model::store::{key, stamp};
use super::odd::TAINT;
use super::plan::{ClaimPlan, NodePlan, PodPlan, Step};
use super::profiles::{ProfilePlan, SHARED};
use super::storage::CLAIMED_WITHIN;
use super::world::{Act, Inner, World};
use super::{containers, operators};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

pub(crate) const NAMESPACES: [&str; 2] = ["red", "blue"];

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// What a controller keeps.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) app: String,
    pod: PodPlan,
    replicas: usize,
    made: u64,
}

/// Does what is due, until the world ends.
pub(crate) async fn run(world: Arc<World>) {
    loop {
        let now = Instant::now();
        let next = world.lock().next_act(now);
        match next {
            Ok(act) => perform(&world, act, now),
            Err(until) => {
                let hurried = world.hurry.notified();
                match until {
                    Some(until) => {
                        tokio::select! {
                            biased;
                            () = hurried => {}
                            () = sleep_until(until) => {}
                        }
                    }
                    None => hurried.await,
                }
            }
        }
    }
}

fn perform(world: &Arc<World>, act: Act, now: Instant) {
    match act {
        Act::Step(step) => perform_step(world, step, now),
        Act::Begin(replica, home) => operators::begin(world, replica, home),
        Act::ForeignBind(uid) => world.act(By::ForeignScheduler, |inner| inner.foreign_bind_of(&uid, now)),
        Act::NoFaults => world.lock().network.mix = super::network::Mix::default(),
        Act::CarryOut(operator, asked) => {
            let is_down = world.lock().network.down.is_some_and(|until| until > now);
            if !is_down {
                world.carry_out(operator, &asked);
            }
        }
        act => world.act(By::Cluster, |inner| inner.perform(act, now)),
    }
}

fn perform_step(world: &Arc<World>, step: Step, now: Instant) {
    match step {
        Step::Faults { mix, lasts } => {
            let mut inner = world.lock();
            inner.network.mix = mix;
            inner.later(now + lasts, Act::NoFaults);
        }
        Step::Outage { lasts } => world.lock().network.down = Some(now + lasts),
        Step::WebhookHangs { lasts } => world.lock().network.webhook_hangs = Some(now + lasts),
        Step::Silence { operator, lasts } => {
            let mut inner = world.lock();
            if let Some(process) = inner.process_of(operator) {
                inner.network.silence(process, now + lasts);
            }
        }
        Step::LeaveOut { operator, of, count } => {
            let mut inner = world.lock();
            if let Some(process) = inner.process_of(operator) {
                inner.network.leave_out(process, of, count);
            }
        }
        Step::Foreign { lasts } => world.lock().foreign_until = Some(now + lasts),
        Step::Restart => {
            let mut inner = world.lock();
            inner.network.started = Some(now);
            for of in Of::ALL {
                inner.store.compact(*of);
            }
            drop(inner);
            world.changed.iter().for_each(tokio::sync::Notify::notify_waiters);
        }
        Step::HandOver { pods, lag } => hand_over(world, &pods, lag, now),
        Step::Compact => {
            for of in [Of::Pods, Of::Nodes, Of::Profiles] {
                world.lock().store.compact(of);
            }
        }
        Step::DeleteLease { begins } => {
            let beside = world.act(By::Cluster, |inner| inner.lose_lease(begins, now));
            if let Some((replica, back_at)) = beside {
                operators::kill(world, replica, back_at);
            }
        }
        Step::ClearLease => world.act(By::Cluster, |inner| inner.clear_lease(now)),
        Step::Kill { operator, back_after } => operators::kill(world, operator, now + back_after),
        Step::Crash { pods, back_after } => containers::crash(world, &pods, back_after, now),
        Step::Stop { operator, back_after } => operators::stop(world, operator, now + back_after),
        Step::ForeignBind { pod, node } => world.act(By::ForeignScheduler, |inner| inner.foreign_bind(pod, node, now)),
        step => world.act(By::Cluster, |inner| inner.perform_step(step, now)),
    }
}

/// The leader is told to end at its worst moment.
fn hand_over(world: &Arc<World>, pods: &[PodPlan], lag: Duration, now: Instant) {
    world.act(By::Cluster, |inner| {
        inner.network.lags = Some((now + Duration::from_secs(5), lag));
        inner.network.binds_slow = Some(now + Duration::from_secs(5));
        for plan in pods {
            let name = format!("h{}", inner.store.version());
            inner.make_pod(plan, &name, "handed", now);
        }
        if let Some(leader) = inner.rules.leader {
            let (operator, back_after) = (inner.operators[leader].replica, inner.random.millis(500, 8_000));
            let at = now + inner.random.millis(20, 300);
            inner.later(at, Act::Step(Step::Stop { operator, back_after }));
        }
    });
}

/// A pod as its creator writes it.
pub(crate) fn pod(plan: &PodPlan, namespace: &str, name: &str, app: &str, claims: &[String]) -> Value {
    let scheduler = if plan.is_shared { SHARED.to_owned() } else { format!("berth-{}", plan.profile) };
    let mut pod = json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {
            "schedulerName": scheduler,
            "priority": plan.priority,
            "terminationGracePeriodSeconds": plan.grace,
            "containers": [{"name": "c", "image": "registry.example/c:1", "resources": {"requests": {"cpu": format!("{}m", plan.cpu)}}}],
        },
        "status": {"phase": "Pending"},
    });
    let spec = &mut pod["spec"];
    if let Some(port) = plan.port {
        spec["containers"][0]["ports"] = json!([{"containerPort": port, "hostPort": port, "protocol": "TCP"}]);
    }
    if plan.alone {
        let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"});
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    if let Some(pool) = plan.pool {
        spec["nodeSelector"] = json!({"pool": pool});
    }
    if let Some(zone) = plan.zone {
        let test = json!({"key": ZONE, "operator": "In", "values": [zone]});
        spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [test]}]}});
    }
    if plan.tolerates {
        spec["tolerations"] = json!([{"key": TAINT, "operator": "Exists"}]);
    }
    if plan.gated.is_some() {
        spec["schedulingGates"] = json!([{"name": "example.com/drawn"}]);
    }
    if plan.memory > 0 {
        spec["containers"][0]["resources"]["requests"]["memory"] = format!("{}Mi", plan.memory).into();
    }
    if plan.managed {
        spec["containers"][0]["resources"]["requests"][RESOURCE] = "1".into();
    }
    if let Some(devices) = plan.devices {
        devices.add_to(spec, name);
    }
    if !claims.is_empty() {
        let volume = |claim: &String| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
        spec["volumes"] = claims.iter().map(volume).collect();
    }
    if let Some(spread) = plan.spread {
        spread.add_to(&mut pod, app);
    }
    pod
}

fn node(name: &str, plan: &NodePlan) -> Value {
    let amounts = json!({"cpu": plan.cpu.div_euclid(1_000).to_string(), "memory": format!("{}Gi", plan.memory),
        "pods": plan.pods.to_string()});
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": plan.pool}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if let Some(zone) = plan.zone {
        node["metadata"]["labels"][ZONE] = zone.into();
    }
    if plan.tainted {
        node["spec"]["taints"] = json!([{"key": TAINT, "effect": "NoSchedule"}]);
    }
    node
}

/// Specs between which edits of a profile change.
fn profile_spec(choice: u64, is_strict: bool) -> Value {
    let mut spec = match choice {
        1 => json!({"preset": "BinPack"}),
        2 => json!({"mode": "Paused"}),
        3 => json!({"preset": "Default", "preemption": {"policy": "Never"}}),
        _ => json!({}),
    };
    if is_strict {
        spec["preemption"]["podDisruptionBudgets"] = "Strict".into();
    }
    spec
}

impl Inner {
    /// The cluster at its beginning.
    pub(crate) fn set_up(&mut self, now: Instant) {
        for name in NAMESPACES.into_iter().chain(["kube-system", "default"]) {
            self.store.create(
                Of::Namespaces,
                json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}),
                now,
            );
        }
        let kubernetes = json!({"metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}});
        self.store.create(Of::Services, kubernetes, now);
        if self.plan.profile_plans.iter().any(|plan| *plan != ProfilePlan::default()) {
            for name in NAMESPACES {
                self.set_access(name, true, now);
            }
        }
        for (index, plan) in self.plan.nodes.clone().iter().enumerate() {
            self.make_node(index, plan, now);
        }
        self.set_up_storage(now);
        self.set_up_devices(now);
        self.set_up_budgets(now);
        for profile in 0..self.plan.profiles {
            self.make_profile(profile, 0, now);
        }
    }

    fn make_profile(&mut self, profile: usize, spec: u64, now: Instant) {
        let name = format!("berth-{profile}");
        if self.store.get(Of::Profiles, &key("", &name)).is_none() {
            let spec = self.spec_of(profile, spec);
            self.store.create(Of::Profiles, json!({"metadata": {"name": name}, "spec": spec}), now);
        }
    }

    /// One of the specs between which edits change, with the extenders that the profile has now.
    fn spec_of(&self, profile: usize, choice: u64) -> Value {
        let mut spec = profile_spec(choice, self.plan.strict.contains(&profile));
        self.plan.profile_plans[profile].add_to(&mut spec);
        self.plan.add_sweep_to(profile, &mut spec);
        self.plan.add_limit_to(profile, &mut spec);
        self.plan.add_fragmentation_to(&mut spec);
        if self.plan.shared.is_some() {
            spec["schedulerNames"] = self.names_of(profile);
        }
        let extenders = self.extenders.specs(profile);
        if !extenders.is_empty() {
            spec["extenders"] = extenders.into();
        }
        spec
    }

    fn perform_step(&mut self, step: Step, now: Instant) {
        match step {
            Step::Workload { pod, replicas } => {
                let app = format!("w{}", self.workloads.len());
                self.workloads.push(Workload { app, pod, replicas: replicas as usize, made: 0 });
                self.later(now, Act::Replicas(self.workloads.len() - 1));
            }
            Step::Pod(plan) => {
                let name = format!("p{}", self.store.version());
                let app = format!("bare{}", self.random.below(4));
                self.make_pod(&plan, &name, &app, now);
            }
            Step::DeletePod(which) => {
                let there: Vec<String> = self.store.of(Of::Pods).objects.keys().cloned().collect();
                if !there.is_empty() {
                    self.delete_pod(&there[(which % there.len() as u64) as usize], now);
                }
            }
            Step::DeleteNode { node, back_after, back } => self.delete_node(node, back_after, back, now),
            Step::Cordon { node, lasts } => {
                self.set_cordoned(node, true, now);
                self.later(now + lasts, Act::Uncordon(node));
            }
            Step::EditProfile { profile, spec } => self.edit_profile(profile, spec, now),
            Step::EditProfileAndBack { profile, spec } => {
                let before = self
                    .store
                    .get(Of::Profiles, &key("", &format!("berth-{profile}")))
                    .map(|p| p.value["spec"].clone());
                self.edit_profile(profile, spec, now);
                if let Some(before) = before {
                    self.set_spec(profile, before, now);
                }
            }
            Step::DeleteProfile { profile, lasts } => {
                self.store.delete(Of::Profiles, &key("", &format!("berth-{profile}")), now);
                match lasts {
                    Some(lasts) => self.later(now + lasts, Act::ProfileBack(profile)),
                    None => self.gone_profiles.push(profile),
                }
            }
            Step::TakeAccess { namespace, lasts } => self.take_access(namespace, lasts, now),
            Step::HandName { to } => self.hand_name(to, now),
            Step::Odd(step) => self.perform_odd(step, now),
            step => self.perform_extender_step(step, now),
        }
    }

    fn delete_node(&mut self, node: usize, back_after: Option<Duration>, back: NodePlan, now: Instant) {
        let name = format!("n{node}");
        if self.store.delete(Of::Nodes, &key("", &name), now).is_none() {
            return;
        }
        for uid in self.facts.on.get(&name).cloned().unwrap_or_default() {
            let at = now + self.random.millis(500, 20_000);
            self.later(at, Act::Collect(uid));
        }
        if let Some(after) = back_after {
            self.later(now + after, Act::NodeBack { node, back });
        }
    }

    fn perform(&mut self, act: Act, now: Instant) {
        match act {
            Act::Start(uid) => self.start_pod(&uid, now),
            Act::Succeed(uid) => self.end_pod(&uid, "Succeeded", "", now),
            Act::Remove(uid) | Act::Collect(uid) => self.remove_pod(&uid, now),
            Act::Replicas(workload) => self.replicas(workload, now),
            Act::Ungate(uid) => self.change_pod(&uid, now, |pod| {
                pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
            }),
            Act::NodeBack { node, back } => self.make_node(node, &back, now),
            Act::Uncordon(node) => self.set_cordoned(node, false, now),
            Act::ProfileBack(profile) => self.make_profile(profile, 0, now),
            Act::ExtenderBack(number) => self.set_named(number, true, now),
            Act::AccessBack(namespace) => self.set_access(namespace, true, now),
            Act::DeleteHighest => {
                let waiting = self.facts.pending.iter().map(|uid| &self.facts.pods[uid]);
                if let Some(key) = waiting.max_by_key(|pod| pod.priority).map(|pod| pod.key.clone()) {
                    self.delete_pod(&key, now);
                }
            }
            Act::Volumes => self.look_after_volumes(now),
            Act::Devices => self.look_after_devices(now),
            Act::DeviceClaim { pod, count } => self.make_device_claim(&pod, count, now),
            Act::Budgets => self.look_after_budgets(now),
            Act::Claim { at, plan, goes_with } => self.make_claim(&at, plan, goes_with.as_deref(), now),
            Act::Step(_) | Act::NoFaults | Act::Begin(..) | Act::ForeignBind(_) | Act::CarryOut(..) => {}
        }
    }

    /// Makes a node unless it is there.
    fn make_node(&mut self, index: usize, plan: &NodePlan, now: Instant) {
        let name = format!("n{index}");
        if self.store.get(Of::Nodes, &key("", &name)).is_none() {
            let mut node = node(&name, plan);
            if self.plan.has_resource {
                for amounts in ["allocatable", "capacity"] {
                    node["status"][amounts][RESOURCE] = "1000".into();
                }
            }
            self.store.create(Of::Nodes, node, now);
        }
    }

    fn set_cordoned(&mut self, node: usize, cordoned: bool, now: Instant) {
        let Some(there) = self.store.get(Of::Nodes, &key("", &format!("n{node}"))) else { return };
        let mut value = there.value.clone();
        value["spec"]["unschedulable"] = cordoned.into();
        self.store.update(Of::Nodes, value, now);
    }

    pub(crate) fn edit_profile(&mut self, profile: usize, spec: u64, now: Instant) {
        let mut spec = self.spec_of(profile, spec);
        self.roll_out(&mut spec);
        self.set_spec(profile, spec, now);
    }

    pub(crate) fn set_spec(&mut self, profile: usize, spec: Value, now: Instant) {
        let Some(there) = self.store.get(Of::Profiles, &key("", &format!("berth-{profile}"))) else { return };
        let mut value = there.value.clone();
        if value["spec"] == spec {
            return;
        }
        value["spec"] = spec;
        value["metadata"]["generation"] = (value["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        self.store.update(Of::Profiles, value, now);
    }

    pub(crate) fn make_pod(&mut self, plan: &PodPlan, name: &str, app: &str, now: Instant) {
        let namespace = NAMESPACES[self.random.index(NAMESPACES.len())];
        let claims = self.claim_names(plan, namespace, name, app);
        let made = self.store.create(Of::Pods, pod(plan, namespace, name, app, &claims), now);
        let uid = made.uid().to_owned();
        for (claim, of) in plan.claims.iter().zip(claims) {
            let goes_with = (!app.starts_with('w') && *claim != ClaimPlan::OnePod).then(|| key(namespace, name));
            let at = now + self.random.millis(0, CLAIMED_WITHIN.as_millis() as u64);
            self.later(at, Act::Claim { at: key(namespace, &of), plan: *claim, goes_with });
        }
        self.claim_devices(plan, &key(namespace, name), now);
        if let Some(after) = plan.gated {
            self.later(now + after, Act::Ungate(uid.clone()));
        }
        if self.foreign_until.is_some_and(|until| until > now) && self.random.in_thousand(400) {
            let at = now + self.random.millis(1, 25);
            self.later(at, Act::ForeignBind(uid.clone()));
        }
        if let Some(runs) = plan.runs {
            self.runs.insert(uid, runs);
        }
    }

    /// What the claims of a new pod are called. Those of a controller's pods stay when a pod goes, for the next in its place; what only
    /// one pod may use all want.
    fn claim_names(&self, plan: &PodPlan, namespace: &str, name: &str, app: &str) -> Vec<String> {
        let is_used = |claim: &str| {
            let at = key(namespace, claim);
            self.facts.pods.values().any(|pod| pod.gone.is_none() && pod.claims.contains(&at))
        };
        let named = |(index, claim): (usize, &ClaimPlan)| match claim {
            ClaimPlan::OnePod => format!("{app}-one-{index}"),
            _ if app.starts_with('w') => {
                let mut places = (0..).map(|place| format!("{app}-{index}-{place}"));
                places.find(|claim| !is_used(claim)).unwrap_or_default()
            }
            _ => format!("{name}-{index}"),
        };
        plan.claims.iter().enumerate().map(named).collect()
    }

    /// Makes and deletes pods until there are as many as wanted.
    fn replicas(&mut self, index: usize, now: Instant) {
        // None is left when the world is drained.
        let Some(workload) = self.workloads.get(index) else { return };
        let of_it = |pod: &&super::facts::PodFact| {
            pod.app == workload.app && pod.gone.is_none() && !pod.ended && pod.terminating.is_none()
        };
        let there = self.facts.pods.values().filter(of_it).count();
        for _ in there..workload.replicas {
            let workload = &mut self.workloads[index];
            workload.made += 1;
            let (name, app, plan) =
                (format!("{}-{}", workload.app, workload.made), workload.app.clone(), workload.pod.clone());
            self.make_pod(&plan, &name, &app, now);
        }
    }

    pub(crate) fn change_pod(&mut self, uid: &str, now: Instant, change: impl FnOnce(&mut Value)) {
        let Some(there) = self.there(uid) else { return };
        let mut value = there;
        change(&mut value);
        self.store.update(Of::Pods, value, now);
    }

    /// The pod as it is, if it is there.
    fn there(&self, uid: &str) -> Option<Value> {
        let pod = self.facts.pods.get(uid)?;
        let there = self.store.get(Of::Pods, &pod.key)?;
        (there.uid() == uid).then(|| there.value.clone())
    }

    pub(crate) fn end_pod(&mut self, uid: &str, phase: &str, reason: &str, now: Instant) {
        self.change_pod(uid, now, |pod| {
            pod["status"]["phase"] = phase.into();
            if !reason.is_empty() {
                pod["status"]["reason"] = reason.into();
            }
        });
    }

    fn remove_pod(&mut self, uid: &str, now: Instant) {
        if self.there(uid).is_some() {
            let key = self.facts.pods[uid].key.clone();
            self.store.delete(Of::Pods, &key, now);
        }
    }

    /// As a user deletes it.
    pub(crate) fn delete_pod(&mut self, key: &str, now: Instant) {
        let Some(there) = self.store.get(Of::Pods, key) else { return };
        if there.text("/spec/nodeName").is_empty() {
            self.store.delete(Of::Pods, key, now);
        } else if there.text("/metadata/deletionTimestamp").is_empty() {
            let mut value = there.value.clone();
            value["metadata"]["deletionTimestamp"] = stamp().into();
            value["metadata"]["deletionGracePeriodSeconds"] = value["spec"]["terminationGracePeriodSeconds"].clone();
            self.store.update(Of::Pods, value, now);
        }
    }

    /// Another scheduler binds one of the pods that wait, whoever's it is.
    fn foreign_bind(&mut self, which: u64, node: usize, now: Instant) {
        let name = format!("n{node}");
        let waiting: Vec<String> =
            self.facts.pending.iter().filter(|uid| !self.facts.pods[*uid].gated).cloned().collect();
        if waiting.is_empty() || self.store.get(Of::Nodes, &key("", &name)).is_none() {
            return;
        }
        let uid = &waiting[(which % waiting.len() as u64) as usize];
        self.change_pod(uid, now, |pod| pod["spec"]["nodeName"] = name.into());
    }

    /// Binds this pod somewhere, if it still waits.
    fn foreign_bind_of(&mut self, uid: &str, now: Instant) {
        let nodes: Vec<String> = self.facts.nodes().map(|life| life.name.clone()).collect();
        if !self.facts.pending.contains(uid) || self.facts.pods[uid].gated || nodes.is_empty() {
            return;
        }
        let node = nodes[self.random.index(nodes.len())].clone();
        self.change_pod(uid, now, |pod| pod["spec"]["nodeName"] = node.into());
    }

    /// The controllers stop. Returns the keys of all pods, each of which is to be deleted in an act of its own: the model keeps fewer changes
    /// than there may be pods.
    pub(crate) fn drain(&mut self, now: Instant) -> Vec<String> {
        self.workloads.clear();
        self.look_at_volumes_soon(now);
        self.store.of(Of::Pods).objects.keys().cloned().collect()
    }

    /// The newest process of a replica.
    pub(crate) fn process_of(&self, replica: usize) -> Option<usize> {
        self.operators.iter().rposition(|operator| operator.replica == replica)
    }

    /// Whatever is broken is mended: profiles are there and serve, nodes are not cordoned.
    pub(crate) fn mend(&mut self, now: Instant) {
        self.network.heal();
        self.healed = true;
        self.foreign_until = None;
        self.mend_extenders(now);
        for profile in 0..self.plan.profiles {
            // One that was deleted for good while it was to come back is there again.
            let is_there = self.store.get(Of::Profiles, &key("", &format!("berth-{profile}"))).is_some();
            if self.gone_profiles.contains(&profile) && !is_there {
                continue;
            }
            self.make_profile(profile, 3, now);
            if !self.plan.leaves_profiles || !self.serves(profile) {
                // Whoever does not see the profiles any more shows it.
                self.edit_profile(profile, 1, now);
                self.edit_profile(profile, 0, now);
            }
            let late = PodPlan { profile, cpu: 100, ..PodPlan::default() };
            let name = format!("late{}", self.store.version());
            self.make_pod(&late, &name, "late", now);
        }
        for node in 0..self.plan.nodes.len() {
            self.set_cordoned(node, false, now);
        }
        if self.plan.profile_plans.iter().any(|plan| *plan != ProfilePlan::default()) {
            for name in NAMESPACES {
                self.set_access(name, true, now);
            }
        }
    }

    /// Whether a profile says what it is to say in the end, or the same with another preset.
    fn serves(&self, profile: usize) -> bool {
        let there = self.store.get(Of::Profiles, &key("", &format!("berth-{profile}")));
        there.is_some_and(|there| [0, 1].map(|choice| self.spec_of(profile, choice)).contains(&there.value["spec"]))
    }
}
