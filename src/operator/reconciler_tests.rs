//! The reconciler on an API server that takes everything: which names serve, what the status says, which events are written.

use super::announce;
use super::context::Context;
use super::denials::Denials;
use super::observed_spec::ObservedSpec;
use super::options::Options;
use super::process::assemble;
use super::reconciler::Reconciler;
use super::refs::References;
use berth_api::{SchedulerProfile, SchedulerProfileStatus};
use berth_cluster::client::Clients;
use berth_cluster::lease::{Gate, Identity, Timing};
use berth_cluster::revisions::Revisions;
use berth_core::model::{Pod, Str};
use berth_core::testing::pending_pod;
use berth_extender::Notice;
use berth_extender::address::AddressPolicy;
use berth_runtime::Workers;
use berth_telemetry::Logs;
use berth_testing::{Reply, Scripted, until};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

pub(super) fn options() -> Options {
    Options {
        kubeconfig: None,
        http_address: "127.0.0.1:0".parse().unwrap(),
        probe_address: None,
        debug_address: None,
        flags: BTreeMap::new(),
        metrics_authorization: false,
        plugin_metrics: false,
        audit_interval: None,
        lease_namespace: "home".to_owned(),
        lease_timing: Timing::default(),
        installation: "home/berth".to_owned(),
        state_namespace: "home".to_owned(),
        serve_default_scheduler: false,
        namespace_routing: false,
        extender_allow_host: Vec::new(),
        extender_allow_http: Vec::new(),
        bind_concurrency: 8,
        bind_qps: None,
        events: true,
        logs: Logs::default(),
        pod: None,
        identity: Identity::new("berth-0", ""),
    }
}

/// The operator's parts on a server, with the gate open.
pub(super) fn context(server: &Scripted, options: &Options) -> (Context, mpsc::UnboundedReceiver<Notice>) {
    let client = || server.client();
    let clients = Clients {
        watch: client(),
        reads: client(),
        bind: client().into(),
        events: client().into(),
        writes: client().into(),
        rest: client(),
        lease: server.config().into(),
        requests: Arc::default(),
        server: String::new(),
        version: String::new(),
    };
    let gate = Gate::new();
    gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
    gate.admit();
    let policy = AddressPolicy::new(&[], &[]).unwrap();
    let (notify, notices) = mpsc::unbounded_channel();
    let evidence = Arc::new(Notify::new());
    let (denials, connector) = (Denials::default(), berth_extender::tcp());
    (assemble(options, Workers::OnThreads, clients, denials, &gate, &evidence, policy, connector, notify), notices)
}

/// A reconciler that has taken over, and the server that it works on. Kept revisions outlive the reconciler.
pub(super) struct Bench {
    server: Arc<Scripted>,
    pub(super) cx: Context,
    pub(super) reconciler: Reconciler,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let kept: Arc<Mutex<Vec<Value>>> = Arc::default();
        let server = Scripted::start(move |asked| {
            let kept = kept.clone();
            async move {
                let revisions = asked.path.ends_with("/controllerrevisions");
                match &*asked.method {
                    "GET" if revisions => Reply::json(
                        200,
                        json!({"kind": "ControllerRevisionList", "apiVersion": "apps/v1",
                        "metadata": {}, "items": *kept.lock().unwrap()}),
                    ),
                    "GET" => Reply::status(404, "not there"),
                    "POST" => {
                        if revisions {
                            kept.lock().unwrap().push(asked.body.clone());
                        }
                        Reply::json(201, asked.body)
                    }
                    _ => Reply::json(
                        200,
                        json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
                        "metadata": asked.body["metadata"], "spec": {}}),
                    ),
                }
            }
        })
        .await;
        Self::on(Arc::new(server)).await
    }

    /// Another process on the same server.
    async fn on(server: Arc<Scripted>) -> Self {
        let options = options();
        let (cx, notices) = context(&server, &options);
        let revisions = Revisions::load(server.client(), cx.gate.clone(), "home").await.unwrap();
        let references = References::default();
        let mut reconciler = Reconciler::new(cx.clone(), &options, Instant::now(), revisions, references, notices);
        reconciler.warm();
        Self { server, cx, reconciler }
    }

    pub(super) async fn restarted(self) -> Self {
        let Self { server, cx, reconciler } = self;
        drop(reconciler);
        cx.engine.stop_all().await;
        Self::on(server).await
    }

    /// The whole list of profiles: name, age, generation, spec.
    pub(super) async fn list(&mut self, profiles: &[(&str, u32, i64, Value)]) {
        self.reconciler.take(Ok(Event::Init));
        for (name, age, generation, spec) in profiles {
            self.reconciler.take(Ok(Event::InitApply(object(name, *age, *generation, spec))));
        }
        self.reconciler.take(Ok(Event::InitDone));
        self.reconciler.save_good().await;
    }

    pub(super) async fn edit(&mut self, name: &str, age: u32, generation: i64, spec: Value) {
        self.reconciler.take(Ok(Event::Apply(object(name, age, generation, &spec))));
        self.reconciler.save_good().await;
    }

    /// The names that the profile's worker serves; empty without a worker.
    fn served(&self, profile: &str) -> Vec<String> {
        let worker = self.cx.engine.worker(profile);
        worker.map(|view| view.profile.scheduler_names.iter().map(ToString::to_string).collect()).unwrap_or_default()
    }

    pub(super) async fn serves(&self, profile: &str, names: &[&str]) {
        until(&format!("{profile} to serve {names:?}"), || self.served(profile) == names).await;
    }

    pub(super) async fn status(&mut self, profile: &str) -> SchedulerProfileStatus {
        let snapshot = || self.cx.engine.worker(profile).is_none_or(|view| view.snapshot.is_some());
        until("the worker's first step", snapshot).await;
        self.reconciler.look(None);
        self.cx.board.lock().profiles[&Str::from(profile)].clone()
    }

    pub(super) async fn reasons(&mut self, profile: &str) -> Vec<String> {
        self.conditions(profile, &["Ready", "Accepted", "Stalled"]).await
    }

    async fn programmed(&mut self, profile: &str) -> Vec<String> {
        self.conditions(profile, &["Ready", "Programmed"]).await
    }

    pub(super) async fn conditions(&mut self, profile: &str, wanted: &[&str]) -> Vec<String> {
        let status = self.status(profile).await;
        let conditions = status.conditions.iter().filter(|c| wanted.contains(&&*c.type_));
        conditions.map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
    }

    /// The notes of events of this reason: on which object, and what they say.
    pub(super) async fn events(&self, reason: &str, count: usize) -> Vec<(String, String)> {
        let all = || {
            let requests = self.server.requests();
            let events = requests.iter().filter(|r| r.method == "POST" && r.body["reason"] == reason);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            events.map(|r| (text(&r.body["regarding"]["name"]), text(&r.body["note"]))).collect::<Vec<_>>()
        };
        until("events", || all().len() >= count).await;
        all()
    }
}

pub(super) fn object(name: &str, age: u32, generation: i64, spec: &Value) -> DeserializeGuard<SchedulerProfile> {
    let metadata = json!({"name": name, "uid": format!("uid-{name}"), "generation": generation, "resourceVersion": "1",
        "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z")});
    let object = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "metadata": metadata, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn names(names: &[&str]) -> Value {
    json!({"schedulerNames": names})
}

/// A leader that stood still does not know yet that another one leads.
#[tokio::test]
async fn without_leadership_no_status_and_no_last_good_spec_is_written() {
    let mut bench = Bench::new().await;
    bench.cx.gate.shut();
    bench.list(&[("batch", 1, 1, names(&["batch"]))]).await;
    bench.reconciler.look(None);
    let writes = |bench: &Bench| bench.server.requests().iter().filter(|asked| asked.method != "GET").count();
    assert_eq!(writes(&bench), 0);
    bench.cx.gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
    bench.reconciler.save_good().await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=True/Serving");
    assert!(bench.status("batch").await.last_good_revision.is_some());
}

#[tokio::test]
async fn a_reserved_name_leaves_the_earlier_names_served() {
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, names(&["batch"]))]).await;
    bench.serves("batch", &["batch"]).await;
    let kept = bench.status("batch").await.last_good_revision;
    assert!(kept.is_some());
    for (generation, asked) in [(2, names(&["default-scheduler"])), (3, names(&["batch", "default-scheduler"]))] {
        bench.edit("batch", 1, generation, asked).await;
        assert_eq!(bench.served("batch"), ["batch"]);
        let want = ["Ready=False/ServingLastGood", "Accepted=False/ReservedSchedulerName", "Stalled=True/InvalidSpec"];
        assert_eq!(bench.reasons("batch").await, want, "generation {generation}");
        let status = bench.status("batch").await;
        assert_eq!(status.last_good_revision, kept, "it still names the spec that serves");
        assert_eq!(status.scheduler_names.len(), 2, "{:?}", status.scheduler_names);
    }
    // A new process finds the same.
    let mut bench = bench.restarted().await;
    bench.list(&[("batch", 1, 3, names(&["batch", "default-scheduler"]))]).await;
    bench.serves("batch", &["batch"]).await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=False/ServingLastGood");
    bench.edit("batch", 1, 4, names(&["batch", "more"])).await;
    bench.serves("batch", &["batch", "more"]).await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=True/Serving");
}

#[tokio::test]
async fn an_edit_that_is_refused_while_the_last_good_spec_serves_is_told_once() {
    let bad = || json!({"schedulerNames": ["batch"], "nodes": {"selector": {"matchLabels": {"a..b/c": "x"}}}});
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, names(&["batch"]))]).await;
    bench.edit("batch", 1, 2, bad()).await;
    let events = bench.events("ServingLastGood", 1).await;
    assert_eq!(events[0].0, "batch");
    let text = "generation 2 of the spec is refused and nothing of it is in force: generation 1 serves on";
    assert!(events[0].1.starts_with(text) && events[0].1.contains("nodes.selector"), "{events:?}");
    // Neither the same generation nor one that is accepted is told of; the next that is refused counts up the event.
    bench.edit("batch", 1, 2, bad()).await;
    bench.edit("batch", 1, 3, names(&["batch"])).await;
    let counts = |bench: &Bench| bench.server.requests().iter().filter(|r| r.body["series"].is_object()).count();
    assert_eq!(counts(&bench), 0);
    bench.edit("batch", 1, 4, bad()).await;
    until("the event to be counted", || counts(&bench) == 1).await;
    // Another process does not tell what the status says.
    let status = serde_json::to_value(bench.status("batch").await).unwrap();
    assert_eq!(status["observedGeneration"], 4);
    let mut bench = bench.restarted().await;
    let mut known = serde_json::to_value(object("batch", 1, 4, &bad()).0.unwrap()).unwrap();
    known["status"] = status;
    bench.reconciler.take(Ok(Event::Init));
    bench.reconciler.take(Ok(Event::InitApply(serde_json::from_value(known).unwrap())));
    bench.reconciler.take(Ok(Event::InitDone));
    bench.serves("batch", &["batch"]).await;
    bench.edit("batch", 1, 5, bad()).await;
    let events = bench.events("ServingLastGood", 2).await;
    assert!(events.len() == 2 && events[1].1.starts_with("generation 5"), "{events:?}");
}

#[tokio::test]
async fn what_changes_about_a_profile_is_told_once_whoever_leads() {
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, names(&["batch"]))]).await;
    bench.status("batch").await;
    let status = serde_json::to_value(bench.status("batch").await).unwrap();
    assert_eq!(bench.events("Accepted", 1).await, [("batch".to_owned(), "the newest spec is accepted".to_owned())]);
    let mut bench = bench.restarted().await;
    let mut known = serde_json::to_value(object("batch", 1, 1, &names(&["batch"])).0.unwrap()).unwrap();
    known["status"] = status;
    bench.reconciler.take(Ok(Event::Init));
    bench.reconciler.take(Ok(Event::InitApply(serde_json::from_value(known).unwrap())));
    bench.reconciler.take(Ok(Event::InitDone));
    bench.serves("batch", &["batch"]).await;
    bench.status("batch").await;
    // Were the first generation told of again, the second would be counted on it.
    bench.edit("batch", 1, 2, json!({"schedulerNames": ["batch"], "mode": "Paused"})).await;
    bench.status("batch").await;
    let text = "spec.mode is Paused: pods stay queued, and nothing is bound";
    assert_eq!(bench.events("Paused", 1).await, [("batch".to_owned(), text.to_owned())]);
    assert_eq!(bench.events("Accepted", 2).await.len(), 2);
    assert!(bench.server.requests().iter().all(|asked| !asked.body["series"].is_object()));
    bench.edit("batch", 1, 3, json!({"schedulerNames": ["batch"]})).await;
    bench.status("batch").await;
    assert_eq!(bench.events("Resumed", 1).await[0].0, "batch");
}

#[tokio::test]
async fn an_edit_takes_no_name_from_the_profile_that_serves_it() {
    let profiles = |generation, asked| [("batch", 1, generation, names(asked)), ("web", 2, 1, names(&["web"]))];
    let mut bench = Bench::new().await;
    bench.list(&profiles(1, &["batch"])).await;
    bench.edit("batch", 1, 2, names(&["batch", "web"])).await;
    let conflict = ["Ready=False/ServingLastGood", "Accepted=False/SchedulerNameConflict", "Stalled=True/InvalidSpec"];
    assert_eq!(bench.reasons("batch").await, conflict);
    assert_eq!(bench.reasons("web").await[0], "Ready=True/Serving");
    assert_eq!((bench.served("batch"), bench.served("web")), (vec!["batch".to_owned()], vec!["web".to_owned()]));
    let events = bench.events("SchedulerNameConflict", 2).await;
    let of = |object: &str| &events.iter().find(|(name, _)| name == object).unwrap().1;
    assert!(of("batch").contains("SchedulerProfile web serves scheduler name web and keeps it"), "{events:?}");
    assert!(of("web").contains("SchedulerProfile batch asks for scheduler name web"), "{events:?}");
    // Nor does a restart: the last good specs say who served what.
    let mut bench = bench.restarted().await;
    bench.list(&profiles(2, &["batch", "web"])).await;
    bench.serves("web", &["web"]).await;
    assert_eq!(bench.reasons("batch").await, conflict);
    // Once the other gives the name up, the edit is in force.
    bench.edit("web", 2, 2, names(&["other"])).await;
    bench.serves("batch", &["batch", "web"]).await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=True/Serving");
}

#[tokio::test]
async fn names_that_nobody_held_go_to_the_older_profile() {
    let mut bench = Bench::new().await;
    bench.list(&[("a-young", 2, 1, names(&["x", "y"])), ("b-old", 1, 1, names(&["x"]))]).await;
    bench.serves("b-old", &["x"]).await;
    bench.serves("a-young", &["y"]).await;
    let status = bench.status("a-young").await;
    assert_eq!(status.last_good_revision, None, "it is not in force as a whole");
    assert_eq!(bench.reasons("a-young").await[0], "Ready=False/NotAccepted");
}

#[tokio::test]
async fn a_worker_that_could_not_be_started_is_tried_again_and_its_condition_says_so() {
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, json!({}))]).await;
    bench.cx.engine.stop("batch").await;
    bench.reconciler.note_unstarted("batch", "no thread for its worker");
    let status = bench.status("batch").await;
    let programmed = status.conditions.iter().find(|c| c.type_ == "Programmed").unwrap();
    assert_eq!((&*programmed.status, &*programmed.reason), ("False", "WorkerFailed"));
    assert!(programmed.message.contains("no thread for its worker"), "{}", programmed.message);
    bench.reconciler.start_again();
    bench.serves("batch", &["batch"]).await;
    assert_eq!(bench.reasons("batch").await[0], "Ready=True/Serving");
}

/// What counts is what the worker serves, not what it was given.
#[tokio::test]
async fn a_spec_is_programmed_once_its_worker_has_taken_it_up() {
    let mut bench = Bench::new().await;
    bench.list(&[("batch", 1, 1, names(&["batch"]))]).await;
    bench.serves("batch", &["batch"]).await;
    assert_eq!(bench.programmed("batch").await, ["Ready=True/Serving", "Programmed=True/Programmed"]);
    let (holder, release) = hold_ledger(&bench.cx);
    bench.cx.engine.wake_all();
    let (engine, clock) = (bench.cx.engine.clone(), bench.cx.engine.clock());
    let waits = |since| clock.now().since(since) > Duration::from_millis(100);
    until("a step that waits", || engine.worker("batch").unwrap().busy_since.is_some_and(waits)).await;
    bench.edit("batch", 1, 2, names(&["batch", "more"])).await;
    assert_eq!(bench.programmed("batch").await, ["Ready=True/Serving", "Programmed=Unknown/Pending"]);
    release.send(()).unwrap();
    assert_eq!(holder.join().unwrap(), Ok(()), "it waited for the ledger");
    bench.serves("batch", &["batch", "more"]).await;
    assert_eq!(bench.programmed("batch").await, ["Ready=True/Serving", "Programmed=True/Programmed"]);
}

/// Locks the ledger on a thread of its own until told to let go of it, or for 20 s, which is an error.
fn hold_ledger(cx: &Context) -> (JoinHandle<Result<(), RecvTimeoutError>>, Sender<()>) {
    let (holds, held) = channel::<()>();
    let (release, released) = channel::<()>();
    let engine = cx.engine.clone();
    let holder = std::thread::spawn(move || {
        engine.apply(|_| {
            holds.send(()).unwrap();
            released.recv_timeout(Duration::from_secs(20))
        })
    });
    held.recv().unwrap();
    (holder, release)
}

/// The reconciler looks after all profiles: it must not wait for the pods of one to be counted.
#[tokio::test]
async fn pods_of_a_deleted_profile_are_looked_for_beside_the_reconciler() {
    let bench = Bench::new().await;
    let pod = Pod { scheduler_name: "batch".into(), ..pending_pod("ns", "p") };
    bench.cx.engine.apply(|ledger| ledger.apply_pod(pod));
    let (holder, release) = hold_ledger(&bench.cx);
    let deleted = ObservedSpec::read(object("batch", 1, 1, &json!({}))).unwrap();
    announce::profile_deleted(bench.cx.clone(), deleted, vec!["batch".into()]);
    release.send(()).unwrap();
    assert_eq!(holder.join().unwrap(), Ok(()), "it waited for the ledger");
    let left = bench.events("PodsLeftPending", 1).await;
    assert!(left[0].0 == "batch" && left[0].1.starts_with("1 pending pod still names batch"), "{left:?}");
    assert_eq!(bench.events("SchedulerProfileDeleted", 1).await[0].0, "p");
}
