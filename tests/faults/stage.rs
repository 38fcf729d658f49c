//! The cluster in which things break: two operators behind a proxy, pods that keep coming, and what is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_lab::{Api, ControlPlane, Driver, Managed, NodeSpec, Operator, OperatorOptions};
use jiff::Timestamp;
use serde_json::json;

use crate::audit::{Audit, Bind};
use crate::cases::signal;
use crate::checker::{Known, Verdict, judge};
use crate::cluster::{HOME, binary, namespace, own_plane};
use crate::kubelets::Kubelets;
use crate::load::{LOADED, Load, delete_all, name};
use crate::objects::{PROFILES, change_profile, pod_path, profile, wait_bound, wait_reason};
use crate::proxy::Proxy;
use crate::sizes::Sizes;
use crate::stopped::{Late, Stopped};
use crate::{LATER, Scale, authority, devices, volumes};

/// How soon a kubelet restarts a container that ended.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// How soon a pod on a node that is lost is replaced by another one: the chart's `lostNodeTolerationSeconds`.
const REPLACE_AFTER: Duration = Duration::from_secs(30);

/// How operators reach the API server, and whose clock they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// Through the proxy.
    Proxied,
    /// Through the proxy, and with a wall clock that [`Stage::set_clock`] sets.
    OwnClock,
    /// Over TLS, as pods do: whom they trust stands in [`authority::file`].
    Direct,
}

/// What came of one fault.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// From healing to the first bind.
    pub(super) first_bind: Duration,
    /// From healing until no pod waited any more, those included that came meanwhile.
    pub(super) all_bound: Duration,
    pub(super) pods: usize,
    /// How many pods a second came before it.
    pub(super) rate: f64,
    /// Bind requests that the API server refused.
    pub(super) refused: usize,
    /// Writes that an operator sent again. Where the proxy does not see them, bind requests beyond one for each pod.
    pub(super) sent_again: usize,
    /// Pods for which two binds succeeded.
    pub(super) doubled: usize,
    pub(super) verdict: Verdict,
    /// The largest resident set of any operator, from before the fault until all are ready after it.
    pub(super) peak_mib: u64,
    pub(super) restarts: usize,
    /// Whether all operators became ready again.
    pub(super) is_ready: bool,
    /// What else is to be said of the fault; may be empty.
    pub(super) remark: String,
}

/// One replica, and what a kubelet does about it.
struct Replica {
    operator: Operator,
    /// Its pod.
    name: String,
    ended: Option<Instant>,
    /// Whether its node is lost, so that nothing comes back in its pod.
    is_lost: bool,
}

/// How a leader ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is told to, as in a drain or a rolling update.
    Told,
    /// It is killed, and its container comes back.
    Killed,
    /// It is killed, and its pod never comes back.
    Lost,
}

pub(super) struct Stage {
    replicas: Vec<Replica>,
    restarts: usize,
    /// How many pods of operators there were.
    replaced: usize,
    /// Since [`Self::measure_anew`], as all of `Figures`.
    peak_kib: u64,
    /// Whether the kernel began the peak of each operator anew. Otherwise what is seen ten times a second has to do.
    has_peaks: bool,
    /// Where the audit log of this fault begins.
    audited: u64,
    pub(super) load: Load,
    pub(super) proxy: Proxy,
    setting: Setting,
    remark: String,
    /// Nodes that were deleted for good, and when.
    gone: BTreeMap<String, Timestamp>,
    audit: Audit,
    /// Those of volumes and of devices, where pods have claims.
    _controllers: Option<Managed>,
    /// Those that refuse what does not fit, as long as somebody may bind beside another.
    pub(super) kubelets: Option<Kubelets>,
    /// The driver of their devices.
    pub(super) driver: Option<Driver>,
    pub(super) scale: Scale,
    pub(super) plane: ControlPlane,
}

impl Stage {
    pub(super) fn start(scale: Scale, seed: u64) -> Self {
        let audit = Audit::new("faults");
        let mut flags = audit.flags();
        // Thousands of pods go after each fault.
        flags.push("--delete-collection-workers=16".to_owned());
        // Claims and volumes go at once: no controller that ends their protection runs.
        flags.push("--disable-admission-plugins=StorageObjectInUseProtection".to_owned());
        let plane = own_plane(flags);
        namespace(&plane, LOADED);
        let controllers = scale.claims.then(|| {
            volumes::set_up(&plane);
            // The second takes devices back, as in a cluster. If the test did so itself it would hide a reservation that nothing else
            // ends, and an operator that is about to write a claim could add its finalizer again.
            plane.start_controller_manager(&["persistentvolume-binder", "resourceclaim-controller"]).unwrap()
        });
        let driver = scale.claims.then(|| devices::set_up(&plane, scale.nodes));
        plane.create_nodes(scale.nodes, node).unwrap();
        let proxy = Proxy::start(&plane.server, &plane.authority, seed);
        let replicas = ["berth-a", "berth-b"].map(|name| Replica {
            operator: operator(&plane, &proxy, name, Setting::Proxied),
            name: name.to_owned(),
            ended: None,
            is_lost: false,
        });
        plane.api.post(PROFILES, &profile(LOADED, &json!({"preset": "BinPack"}))).unwrap();
        let load = Load::start(&plane, scale.makers, scale.pace, scale.claims);
        let mut stage = Self {
            replicas: replicas.into(),
            restarts: 0,
            replaced: 0,
            peak_kib: 0,
            has_peaks: false,
            audited: 0,
            load,
            proxy,
            setting: Setting::Proxied,
            remark: String::new(),
            gone: BTreeMap::new(),
            audit,
            _controllers: controllers,
            kubelets: None,
            driver,
            scale,
            plane,
        };
        wait_reason(&stage.plane, LOADED, "Ready", "Serving");
        for replica in &mut stage.replicas {
            stage.plane.wait_until_ready(&mut replica.operator).unwrap();
        }
        stage
    }

    /// Runs one fault with pods that come before, during and after it.
    pub(super) fn run(&mut self, fault: fn(&mut Self)) -> Figures {
        let restarts_before = self.restarts;
        self.measure_anew();
        let rate = self.begin_flow();
        fault(self);
        let healed = (Instant::now(), now_us());
        self.pass(self.scale.lead);
        self.load.flow(false);
        let mut verdict = self.judge_when_none_waits(LATER.saturating_sub(healed.0.elapsed()));
        if let Some(kubelets) = self.kubelets.take() {
            let (refused, ours) = kubelets.stop();
            self.remark(format!("kubelets refused {refused} pods, {ours} of them bound by Berth"));
            verdict = self.judge_when_none_waits(LATER.saturating_sub(healed.0.elapsed()));
        }
        let is_ready = self.become_ready();
        self.tend();
        let mut figures = Figures {
            rate,
            verdict,
            peak_mib: self.peak_kib / 1024,
            restarts: self.restarts - restarts_before,
            is_ready,
            remark: mem::take(&mut self.remark),
            ..self.counted(healed.1)
        };
        figures.verdict.broken.extend(self.clear());
        if self.setting != Setting::Proxied {
            self.restart_as(Setting::Proxied);
        }
        figures
    }

    /// From now on memory, repeats and binds are those of the next fault.
    fn measure_anew(&mut self) {
        self.peak_kib = 0;
        self.has_peaks = self.replicas.iter().all(|one| one.operator.process.reset_rss_peak().is_ok());
        self.proxy.count_anew();
        self.audited = self.audit.end();
    }

    /// Lets pods come for a while; how many came a second.
    fn begin_flow(&mut self) -> f64 {
        let (before, began) = (self.load.made(), Instant::now());
        self.load.flow(true);
        self.pass(self.scale.lead);
        (self.load.made() - before) as f64 / began.elapsed().as_secs_f64()
    }

    /// The binds of this fault.
    pub(super) fn binds(&self) -> Vec<Bind> {
        self.audit.binds_from(self.audited)
    }

    /// What the audit log and the proxy say of the fault, which was healed at this time. The rest is for the caller to fill in.
    fn counted(&self, healed_us: i64) -> Figures {
        let binds = self.binds();
        let done = |from: i64| binds.iter().filter(move |bind| bind.code == 201 && bind.received_us > from);
        let since_healed = |at: i64| Duration::from_micros(u64::try_from(at - healed_us).unwrap_or(0));
        let bound: BTreeSet<&str> = done(0).map(|bind| &*bind.pod).collect();
        let asked: BTreeSet<&str> = binds.iter().map(|bind| &*bind.pod).collect();
        Figures {
            first_bind: done(healed_us).map(|bind| bind.answered_us).min().map_or(LATER, since_healed),
            all_bound: done(healed_us).map(|bind| bind.answered_us).max().map_or(LATER, since_healed),
            pods: bound.len(),
            refused: binds.iter().filter(|bind| bind.code >= 400).count(),
            sent_again: match self.setting {
                Setting::Direct => binds.len() - asked.len(),
                Setting::Proxied | Setting::OwnClock => self.proxy.sent_again(),
            },
            doubled: done(0).count() - bound.len(),
            ..Figures::default()
        }
    }

    /// What the checker says once no pod waits and all are there, or at the end of `patience`.
    pub(super) fn judge_when_none_waits(&mut self, patience: Duration) -> Verdict {
        let end = Instant::now() + patience;
        loop {
            let verdict = judge(&self.plane, &Known { pods: self.load.there(), gone: self.gone.clone() });
            if verdict.lost() == 0 || Instant::now() > end {
                return verdict;
            }
            self.pass(Duration::from_millis(500));
        }
    }

    /// Lets time pass, and restarts what ended as a kubelet does.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.tend();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(100)));
        }
    }

    fn tend(&mut self) {
        for replica in &mut self.replicas {
            let process = &replica.operator.process;
            let resident = if self.has_peaks { process.rss_peak_kib() } else { process.rss_kib() };
            self.peak_kib = self.peak_kib.max(resident.unwrap_or(0));
            if replica.operator.process.ended().unwrap().is_none() {
                continue;
            }
            let after = if replica.is_lost { REPLACE_AFTER } else { RESTART_AFTER };
            // Its token comes from the API server: while that is away, so is the replica.
            let is_due = replica.ended.get_or_insert_with(Instant::now).elapsed() >= after;
            if is_due && self.plane.api.get("/readyz").is_ok() {
                if mem::take(&mut replica.is_lost) {
                    self.replaced += 1;
                    replica.name = format!("berth-new-{}", self.replaced);
                }
                replica.operator = operator(&self.plane, &self.proxy, &replica.name, self.setting);
                replica.ended = None;
                self.restarts += 1;
            }
        }
    }

    /// The resident set of each operator, in MiB.
    pub(super) fn resident_mib(&self) -> Vec<u64> {
        self.replicas.iter().map(|one| one.operator.process.rss_kib().unwrap_or(0) / 1024).collect()
    }

    /// What the leader and the standby say of their sizes.
    pub(super) fn sizes(&mut self) -> [Sizes; 2] {
        let leader = self.who_leads();
        [leader, 1 - leader].map(|place| Sizes::read(&self.replicas[place].operator.page("/metrics").unwrap().1))
    }

    /// Gives each operator a token of the account as it is now, as kubelets do.
    pub(super) fn renew_tokens(&self) {
        for replica in &self.replicas {
            let token = self.plane.token_for(HOME, "berth").unwrap();
            self.plane.write_token(&replica.name, &token).unwrap();
        }
    }

    /// Restarts all operators. The stage gives them back to the proxy after the fault.
    pub(super) fn restart_as(&mut self, setting: Setting) {
        self.setting = setting;
        for replica in &mut self.replicas {
            replica.operator.process.kill().unwrap();
        }
        assert!(self.become_ready(), "not ready: {}", self.logs());
        self.leader();
    }

    /// How long something lasts that takes `full` seconds; in a short run `short`, which its row says.
    pub(super) fn lasting(&mut self, full: u64, short: u64) -> Duration {
        if self.scale.is_full {
            return Duration::from_secs(full);
        }
        self.remark(format!("here for {short} s"));
        Duration::from_secs(short)
    }

    /// Says something about the fault beside its figures.
    pub(super) fn remark(&mut self, text: String) {
        self.remark = text;
    }

    /// Steps the operators' wall clock: so many seconds from the machine's. libfaketime reads it once in ten seconds.
    pub(super) fn set_clock(&self, offset: &str) {
        fs::write(clock_file(&self.plane), offset).unwrap();
    }

    /// The process that leads; waits for one.
    pub(super) fn leader(&mut self) -> &mut Operator {
        let place = self.who_leads();
        &mut self.replicas[place].operator
    }

    fn who_leads(&mut self) -> usize {
        let end = Instant::now() + LATER;
        loop {
            let leads = |replica: &Replica| {
                let page = replica.operator.page("/readyz?verbose");
                page.is_ok_and(|(_, page)| page.contains("\nleader: this process"))
            };
            if let Some(place) = self.replicas.iter().position(leads) {
                return place;
            }
            assert!(Instant::now() < end, "nobody leads: {}", self.logs());
            self.pass(Duration::from_millis(100));
        }
    }

    /// Ends the leader. A container that ended comes back soon, and the pod of a node that is lost is replaced by another one later.
    pub(super) fn end_leader(&mut self, how: End) {
        let place = self.who_leads();
        let replica = &mut self.replicas[place];
        replica.is_lost = how == End::Lost;
        signal(replica.operator.process.pid(), if how == End::Told { "TERM" } else { "KILL" });
    }

    /// Ends the leader, and waits until all lead and stand by again. The longest time without a bind, in milliseconds.
    pub(super) fn gap_after(&mut self, how: End) -> f64 {
        let since = now_us();
        self.end_leader(how);
        self.pass(if how == End::Lost { REPLACE_AFTER } else { RESTART_AFTER });
        assert!(self.become_ready(), "not ready: {}", self.logs());
        self.leader();
        self.pass(Duration::from_secs(2));
        self.audit.longest_gap(since)
    }

    /// Stops the leader for so long, and lets it go on and end. `None` if it had nothing under way when it was stopped.
    pub(super) fn stop_leader(&mut self, time: Duration) -> Option<Late> {
        let place = self.who_leads();
        let mut stopped = Stopped::stop(&self.plane, &self.replicas[place].operator, &self.proxy.url);
        self.pass(time);
        let operator = &mut self.replicas[place].operator;
        stopped.wait_for_successor(&self.plane, operator);
        signal(operator.process.pid(), "CONT");
        operator.process.wait(LATER).unwrap();
        // What the proxy still had of it.
        self.pass(Duration::from_secs(1));
        stopped.late_writes(&self.audit)
    }

    /// Makes so many pods that are to be bound at once, and returns when a tenth of them is.
    pub(super) fn begin_backlog(&mut self, pods: usize) {
        change_profile(&self.plane, LOADED, &json!({"mode": "Paused"}));
        wait_reason(&self.plane, LOADED, "Ready", "Paused");
        let first = self.load.at_once(&self.plane.api, pods);
        change_profile(&self.plane, LOADED, &json!({"mode": "Active"}));
        // Not one that waits for a controller.
        let waits = |number: &usize| volumes::claim_of(*number).is_some() || devices::waits_for_controller(*number);
        let tenth = (first + pods / 10..first + pods).find(|number| !waits(number)).unwrap();
        wait_bound(&self.plane, LOADED, &name(tenth));
    }

    /// Deletes a node that does not come back. Pods that are on it stay: there is no controller that deletes them.
    pub(super) fn lose_node(&mut self, name: &str) {
        // Operators may see it before the answer is here.
        let asked = Timestamp::now();
        if self.plane.api.delete(&format!("/api/v1/nodes/{name}"), None).is_ok() {
            self.gone.insert(name.to_owned(), asked);
        }
    }

    /// Waits until every operator knows at least so many pods.
    pub(super) fn wait_until_known(&mut self, pods: usize) {
        let known = |replica: &Replica| {
            let page = replica.operator.page("/metrics").ok()?.1;
            let line = page.lines().find_map(|line| line.strip_prefix("scheduler_cache_size{type=\"pods\"} "))?;
            line.parse::<f64>().ok()
        };
        let end = Instant::now() + LATER;
        while !self.replicas.iter().all(|replica| known(replica).is_some_and(|known| known >= pods as f64)) {
            assert!(Instant::now() < end, "pods are not known: {}", self.logs());
            self.pass(Duration::from_millis(500));
        }
    }

    /// Waits until every operator says that it is ready; whether they all do.
    pub(super) fn become_ready(&mut self) -> bool {
        let end = Instant::now() + LATER;
        let is_ready = |replica: &Replica| replica.operator.page("/readyz").is_ok_and(|(status, _)| status == 200);
        while !self.replicas.iter().all(is_ready) {
            if Instant::now() > end {
                return false;
            }
            self.pass(Duration::from_millis(100));
        }
        true
    }

    pub(super) fn logs(&self) -> String {
        let log = |one: &Replica| format!("{}:\n{}", one.name, one.operator.process.log_tail(20));
        self.replicas.iter().map(log).collect::<Vec<_>>().join("\n")
    }

    /// How many pods the driver has refused so far: they were bound before they had their devices.
    pub(super) fn refused(&self) -> usize {
        self.driver.as_ref().map_or(0, Driver::refused)
    }

    /// Deletes all pods of the load, and their claims and volumes. The claims whose devices were not given back when all pods were gone.
    pub(super) fn clear(&mut self) -> Vec<String> {
        let now = json!({"gracePeriodSeconds": 0});
        self.wait_until_gone("pods", |api| delete_all(api, &pod_path(LOADED, ""), Some(&now)));
        let kept = self.kept_devices();
        if self.scale.claims {
            self.wait_until_gone("claims or volumes", |api| devices::clear(api) && volumes::clear(api));
        }
        self.load.forget();
        kept
    }

    fn wait_until_gone(&mut self, what: &str, are_gone: impl Fn(&Api) -> bool) {
        let end = Instant::now() + LATER;
        while !are_gone(&self.plane.api) {
            assert!(Instant::now() < end, "{what} are left");
            self.pass(Duration::from_millis(200));
        }
    }

    /// The claims of which the controller has not taken the devices back within reasonable time.
    fn kept_devices(&mut self) -> Vec<String> {
        let (end, mut round) = (Instant::now() + LATER, 0);
        loop {
            let held = devices::held(&self.plane.api);
            if held.is_empty() || Instant::now() > end {
                return held.iter().map(devices::told).collect();
            }
            // By then it has seen what it sees by itself.
            round += 1;
            if round % 20 == 0 {
                devices::touch(&self.plane.api, &held, round);
            }
            self.pass(Duration::from_millis(500));
        }
    }
}

pub(super) fn node(i: usize) -> NodeSpec {
    NodeSpec::new(&format!("n{i}"), &format!("zone-{}", i % volumes::ZONES), "16", "64Gi")
}

fn operator(plane: &ControlPlane, proxy: &Proxy, name: &str, setting: Setting) -> Operator {
    let mut options = OperatorOptions::new(binary());
    name.clone_into(&mut options.pod_name);
    match setting {
        Setting::Proxied => options.server = Some(proxy.url.clone()),
        Setting::OwnClock => {
            options.server = Some(proxy.url.clone());
            options.env = own_clock(plane);
        }
        Setting::Direct => options.authority = Some(authority::file(plane)),
    }
    plane.start_operator(&options).unwrap()
}

/// What makes the wall clock of a process be off by what the file says. Its monotonic clock stays the machine's.
fn own_clock(plane: &ControlPlane) -> Vec<(String, String)> {
    let mut libraries =
        fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|path| path.exists()).expect("libfaketime: install the package of this name");
    let env = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock_file(plane).display().to_string()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    env.map(|(name, value)| (name.to_owned(), value)).into()
}

fn clock_file(plane: &ControlPlane) -> PathBuf {
    plane.dir().join("clock")
}

/// Microseconds of Unix time.
pub(super) fn now_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}
