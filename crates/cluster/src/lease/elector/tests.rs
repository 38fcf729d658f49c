use super::*;
use crate::scripted::{Asked, Reply, Scripted, until};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A Lease with compare-and-swap, as the API server keeps it, and a switch for its writes.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) lease: Option<Value>,
    version: u64,
    pub(super) marked: bool,
    /// What the making of the mark is answered with instead.
    pub(super) unmarkable: Option<u16>,
    /// The next write is carried out, and its answer is lost.
    pub(super) loses_answer: bool,
    failing: bool,
}

fn exists() -> Reply {
    Reply::json(409, json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409}))
}

impl Kept {
    fn answer(&mut self, asked: &Asked) -> Reply {
        if self.failing {
            return Reply::status(500, "etcd is away");
        }
        let current = self.lease.as_ref().map(|l| l["metadata"]["resourceVersion"].clone());
        if asked.body["metadata"]["name"] == MARK_NAME {
            if let Some(code) = self.unmarkable {
                return Reply::status(code, "not marked");
            }
            let was_marked = std::mem::replace(&mut self.marked, true);
            return if was_marked { exists() } else { Reply::json(201, asked.body.clone()) };
        }
        match asked.method.as_str() {
            "GET" => self.lease.clone().map_or(Reply::status(404, "no lease"), |l| Reply::json(200, l)),
            "POST" if current.is_some() => exists(),
            "PUT" if current.as_ref() != Some(&asked.body["metadata"]["resourceVersion"]) => {
                Reply::status(409, "modified")
            }
            _ => {
                self.put(asked.body.clone());
                if std::mem::take(&mut self.loses_answer) {
                    return Reply::status(500, "lost");
                }
                Reply::json(200, self.lease.clone().unwrap())
            }
        }
    }

    fn put(&mut self, mut lease: Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease);
    }

    /// The event after version `since`, if there was one.
    fn after(&self, since: u64) -> Option<Reply> {
        let lease = self.lease.as_ref().filter(|_| since < self.version)?;
        Some(Reply::json(200, json!({"type": "MODIFIED", "object": lease})))
    }

    pub(super) fn held_by(&mut self, holder: &str) {
        self.put(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE_NAME},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1, "leaseTransitions": 4}}));
    }

    fn renewed_at(&mut self, time: &str) {
        let mut lease = self.lease.clone().unwrap();
        lease["spec"]["renewTime"] = json!(time);
        self.put(lease);
    }

    pub(super) fn lasts(&mut self, seconds: u32) {
        let mut lease = self.lease.clone().unwrap();
        lease["spec"]["leaseDurationSeconds"] = json!(seconds);
        self.put(lease);
    }

    pub(super) fn spec(&self, field: &str) -> Value {
        self.lease.as_ref().unwrap()["spec"][field].clone()
    }
}

const POD_UID: &str = "0a0b0c0d-0000-4000-8000-000000000001";

pub(super) async fn rig() -> (Scripted, Arc<Mutex<Kept>>) {
    let kept = Arc::new(Mutex::new(Kept::default()));
    (Scripted::start(lease_server(&kept)).await, kept)
}

/// Answers with what is kept.
pub(super) fn lease_server(
    kept: &Arc<Mutex<Kept>>,
) -> impl Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync + 'static {
    let shared = kept.clone();
    move |asked| {
        let shared = shared.clone();
        async move {
            let since = asked.query.split("resourceVersion=").nth(1).and_then(|v| v.split('&').next()?.parse().ok());
            let Some(since) = since.filter(|_| asked.query.contains("watch=")) else {
                return shared.lock().unwrap().answer(&asked);
            };
            // A watch that ends after its first event.
            loop {
                if let Some(reply) = shared.lock().unwrap().after(since) {
                    return reply;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        .boxed()
    }
}

pub(super) fn timing() -> Timing {
    Timing {
        duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry: Duration::from_millis(40),
        answer_within: Duration::from_millis(350),
        request_limit: Duration::from_millis(300),
        dead_after: Duration::from_millis(300),
    }
}

pub(super) fn options(me: &str, timing: Timing) -> LeaseOptions {
    let installation = "berth-system/berth".to_owned();
    LeaseOptions { namespace: "kube-system".into(), identity: Identity::new(me, POD_UID), installation, timing }
}

pub(super) fn start(server: &Scripted, me: &str, gate: &Gate) -> LeaseHandle {
    elect(server.config(), options(me, timing()), gate.clone())
}

pub(super) async fn reaches(handle: &LeaseHandle, what: &str, want: impl Fn(&LeaseState) -> bool) -> LeaseState {
    let mut state = handle.state();
    let found = tokio::time::timeout(Duration::from_secs(20), state.wait_for(|s| want(s))).await;
    found.unwrap_or_else(|_| panic!("never: {what}")).unwrap().clone()
}

#[tokio::test]
async fn creates_renews_and_gives_back() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    assert!(gate.is_open());
    assert!(kept.lock().unwrap().spec("holderIdentity").as_str().unwrap().starts_with("berth-0_0a0b0c0d-"));
    until("renewals", || kept.lock().unwrap().version > 3).await;
    assert_eq!(server.count("GET", LEASE_NAME), 1, "the holder does not read");
    handle.release().await;
    assert!(!gate.is_open());
    assert_eq!(kept.lock().unwrap().spec("holderIdentity"), "");
}

#[tokio::test]
async fn a_release_without_an_answer_is_not_awaited_for_a_whole_retry_period() {
    let server = Scripted::start(|asked| async move {
        match (&*asked.method, asked.number) {
            ("GET", 0) => Reply::status(404, "no lease"),
            ("POST", _) => Reply::json(201, asked.body),
            _ => Reply::hang().await,
        }
    })
    .await;
    let hour = Duration::from_secs(3_600);
    let seldom = Timing { duration: hour * 3, renew_deadline: hour * 2, retry: hour, answer_within: hour, ..timing() };
    let handle = elect(server.config(), options("berth-0", seldom), Gate::new());
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    tokio::time::timeout(Duration::from_secs(20), handle.release()).await.expect("it is given up");
}

/// Its credentials may be gone: it must not be taken for one that could lead.
#[tokio::test]
async fn who_waits_and_cannot_read_the_lease_says_so_until_it_can() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let leader = start(&server, "berth-0", &gate);
    reaches(&leader, "leading", |s| *s == LeaseState::Leading).await;
    let standby = start(&server, "berth-1", &Gate::new());
    reaches(&standby, "standing by", |s| matches!(s, LeaseState::Standby { .. })).await;
    drop(leader);
    kept.lock().unwrap().held_by("berth-9");
    kept.lock().unwrap().failing = true;
    reaches(&standby, "unread", |s| matches!(s, LeaseState::Unread { .. })).await;
    kept.lock().unwrap().failing = false;
    reaches(&standby, "leading", |s| *s == LeaseState::Leading).await;
}

/// What is sent last must have come to its end when another may lead.
#[tokio::test]
async fn the_gate_shuts_so_long_before_the_lease_is_over_as_a_request_may_take_and_opens_again_with_a_renewal() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let [duration, renew_deadline] = [60_000, 50_000].map(Duration::from_millis);
    let slow = Timing { duration, renew_deadline, request_limit: Duration::from_millis(59_500), ..timing() };
    let handle = elect(server.config(), options("berth-0", slow), gate.clone());
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    kept.lock().unwrap().failing = true;
    until("the gate is shut", || !gate.is_open()).await;
    assert!(gate.leads() && *handle.state().borrow() == LeaseState::Leading);
    kept.lock().unwrap().failing = false;
    until("it is open again", || gate.is_open()).await;
}

#[tokio::test]
async fn takes_over_what_is_not_renewed_whatever_the_clocks_of_others_show_125761() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    kept.lock().unwrap().held_by("dead");
    kept.lock().unwrap().renewed_at("2001-01-01T00:00:00.000000Z");
    let began = Instant::now();
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "waiting", |s| *s == LeaseState::Waiting { holder: "dead".into() }).await;
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "taken before it expired");
    assert_eq!(kept.lock().unwrap().spec("leaseTransitions"), 5);
}

/// A request of the process before it may land for as long as a request may take.
#[tokio::test]
async fn a_restarted_container_waits_for_the_requests_of_the_one_before_it_and_no_longer() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let (sender, mut state) = watch::channel(LeaseState::Starting { fault: None });
    let own = options("berth-0", timing());
    let elector = Elector::new(server.client(), own, gate.clone(), sender, Handover::default());
    tokio::select! {
        () = elector.run(CancellationToken::new()) => panic!("it ended by itself"),
        led = state.wait_for(|s| *s == LeaseState::Leading) => assert!(led.is_ok()),
    }
    kept.lock().unwrap().lasts(3_600);

    let began = Instant::now();
    let again = start(&server, "berth-0", &gate);
    reaches(&again, "waiting", |s| matches!(s, LeaseState::Standby { .. })).await;
    reaches(&again, "leading again", |s| *s == LeaseState::Leading).await;
    assert!(began.elapsed() >= Duration::from_millis(300), "requests of the killed one may land");
}

#[tokio::test]
async fn the_gate_is_shut_before_the_loss_is_told_81306() {
    let ((server, _), gate) = (rig().await, Gate::new());
    gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
    gate.admit();
    let (sender, state) = watch::channel(LeaseState::Leading);
    let own = options("berth-0", timing());
    let elector = Elector::new(server.client(), own, gate.clone(), sender, Handover::default());
    assert!(gate.is_open());
    elector.set_state(LeaseState::Lost { reason: "taken".to_owned() });
    assert!(!gate.is_open() && matches!(*state.borrow(), LeaseState::Lost { .. }));
}

/// Two processes of one host name once led side by side for minutes.
#[tokio::test]
async fn another_process_that_writes_under_our_identity_makes_us_step_down() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    kept.lock().unwrap().renewed_at("2026-01-01T00:00:00.000000Z");
    let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
    let LeaseState::Lost { reason } = state else { unreachable!() };
    assert!(reason.contains("another process that calls itself \"berth-0_"), "{reason}");
    assert!(!gate.is_open());
}

#[tokio::test]
async fn an_edit_that_leaves_the_renew_time_alone_is_no_other_holder() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    kept.lock().unwrap().lasts(2);
    let version = kept.lock().unwrap().version;
    until("renewed again", || kept.lock().unwrap().version > version + 1).await;
    assert_eq!(*handle.state().borrow(), LeaseState::Leading);
}

#[tokio::test]
async fn another_that_lives_is_named() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    kept.lock().unwrap().held_by("berth-in-other-namespace");
    let handle = start(&server, "berth-0", &gate);
    let renewing = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            kept.lock().unwrap().held_by("berth-in-other-namespace");
        }
    });
    let state = reaches(&handle, "named", |s| matches!(s, LeaseState::AnotherInstallation { .. })).await;
    assert_eq!(state, LeaseState::AnotherInstallation { holder: "berth-in-other-namespace".into() });
    renewing.abort();
    reaches(&handle, "it waits on, and leads when the other dies", |s| *s == LeaseState::Leading).await;
}

#[tokio::test]
async fn a_replica_of_ours_is_no_other_installation_and_sees_how_far_its_leader_had_come() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let leader = start(&server, "berth-0", &gate);
    reaches(&leader, "leading", |s| *s == LeaseState::Leading).await;
    assert_eq!(leader.last_seen(), None);
    let replica = start(&server, "berth-1", &Gate::new());
    reaches(&replica, "standby", |s| matches!(s, LeaseState::Standby { .. })).await;
    let version = kept.lock().unwrap().version;
    let began = Instant::now();
    until("renewals for longer than a lease duration", || {
        assert!(matches!(*replica.state().borrow(), LeaseState::Standby { .. }));
        kept.lock().unwrap().version > version && began.elapsed() > timing().duration * 2
    })
    .await;
    leader.leave(Some("pods=7".to_owned()));
    leader.release().await;
    reaches(&replica, "leading", |s| *s == LeaseState::Leading).await;
    assert_eq!(replica.last_seen().as_deref(), Some("pods=7"));
    let annotations = kept.lock().unwrap().lease.clone().unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({INSTALLATION: "berth-system/berth"}), "the word was for one successor");
}

/// A word that is left over from an earlier release: the holder since then was of a version that knows no such word.
#[tokio::test]
async fn what_a_leader_left_counts_only_with_the_release_that_it_names() {
    let released = |at: &str, holder: &str| {
        let time: MicroTime = serde_json::from_value(json!(at)).unwrap();
        let word = format!("{} pods=7", time.0.as_microsecond());
        let lease = json!({"metadata": {"annotations": {LAST_SEEN: word}},
            "spec": {"holderIdentity": holder, "renewTime": "2026-01-01T00:00:01.000000Z"}});
        serde_json::from_value::<Lease>(lease).unwrap()
    };
    let said = released("2026-01-01T00:00:01.000000Z", "");
    assert_eq!(last_seen_of(&said).as_deref(), Some("pods=7"));
    assert_eq!(last_seen_of(&released("2026-01-01T00:00:00.000000Z", "")), None);
    assert_eq!(last_seen_of(&released("2026-01-01T00:00:01.000000Z", "berth-1")), None);
    assert_eq!(last_seen_of(&Lease::default()), None);
}

/// Two seconds between two looks are too long for those whose pods wait.
#[tokio::test]
async fn a_released_lease_is_taken_at_once_and_a_renewal_counts_from_when_it_was_made() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let seldom = Timing { retry: Duration::from_secs(3_600), duration: Duration::from_secs(7_200), ..timing() };
    kept.lock().unwrap().held_by("other");
    kept.lock().unwrap().lasts(7_200);
    let handle = elect(server.config(), options("berth-0", seldom), gate.clone());
    reaches(&handle, "waiting", |s| matches!(s, LeaseState::Waiting { .. })).await;
    until("a watch of one lease", || {
        let of_one = |asked: &Asked| {
            asked.query.contains("watch=") && asked.query.contains("metadata.name%3Dberth.scheduling.berth.dev")
        };
        server.requests().iter().any(of_one)
    })
    .await;
    kept.lock().unwrap().held_by("");
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
}

#[tokio::test]
async fn an_api_server_that_fails_for_too_long_ends_leadership() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    gate.admit();
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    kept.lock().unwrap().failing = true;
    let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
    let LeaseState::Lost { reason } = state else { unreachable!() };
    assert!(reason.contains("was not renewed for 0.7 s") && reason.contains("etcd is away"), "{reason}");
    assert!(!gate.is_open());
}

#[tokio::test]
async fn a_short_failure_does_not_end_it() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    let asked = server.requests().len();
    kept.lock().unwrap().failing = true;
    until("a failed renewal", || server.requests().len() > asked + 1).await;
    let version = {
        let mut kept = kept.lock().unwrap();
        kept.failing = false;
        kept.version
    };
    until("renewed again", || kept.lock().unwrap().version > version + 1).await;
    assert_eq!(*handle.state().borrow(), LeaseState::Leading);
}

#[tokio::test]
async fn one_that_takes_it_from_us_is_named() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let handle = start(&server, "berth-0", &gate);
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    kept.lock().unwrap().held_by("thief");
    let state = reaches(&handle, "lost", |s| matches!(s, LeaseState::Lost { .. })).await;
    let LeaseState::Lost { reason } = state else { unreachable!() };
    assert!(reason.contains("thief"), "{reason}");
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let server = Scripted::start(|_| async { Reply::status(403, "no") }).await;
    let handle = start(&server, "berth-0", &Gate::new());
    let state = reaches(&handle, "fault", |s| matches!(s, LeaseState::Starting { fault: Some(_) })).await;
    let LeaseState::Starting { fault: Some(fault) } = state else { unreachable!() };
    assert!(fault.is_forbidden() && fault.to_string().contains("`get` on `leases.coordination.k8s.io`"), "{fault}");
}

/// Passes connections on to `server`, but those whose number `is_dead` names swallow everything: no answer, no reset.
/// Returns the configuration that leads through it.
async fn through<F: Fn(usize) -> bool + Send + Sync + 'static>(server: &Scripted, is_dead: F) -> Config {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let target = server.config().cluster_url.authority().unwrap().to_string();
    let is_dead = Arc::new(is_dead);
    tokio::spawn(async move {
        for number in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let (target, is_dead) = (target.clone(), is_dead.clone());
            tokio::spawn(async move {
                let mut onward = tokio::net::TcpStream::connect(target).await.unwrap();
                let dies = async {
                    while !is_dead(number) {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                };
                tokio::select! {
                    biased;
                    () = dies => std::future::pending().await,
                    _ = tokio::io::copy_bidirectional(&mut client, &mut onward) => {}
                }
            });
        }
    });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    config
}

/// The times of production, three times as fast.
fn brisk() -> Timing {
    Timing {
        duration: Duration::from_secs(5),
        renew_deadline: Duration::from_millis(3_300),
        retry: Duration::from_millis(660),
        answer_within: Duration::from_millis(660),
        request_limit: Duration::from_millis(1_600),
        dead_after: Duration::from_millis(1_600),
    }
}

/// A load balancer that fails over without a word: the connection in use is dead, and so is the next one.
#[tokio::test]
async fn two_connections_that_hang_do_not_cost_leadership() {
    let ((server, kept), gate) = (rig().await, Gate::new());
    let dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = dead.clone();
    let config = through(&server, move |number| number < 2 && seen.load(std::sync::atomic::Ordering::SeqCst)).await;
    let handle = elect(config, options("berth-0", brisk()), gate.clone());
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    dead.store(true, std::sync::atomic::Ordering::SeqCst);
    let version = kept.lock().unwrap().version;
    until("renewed over a third connection", || {
        assert_eq!(*handle.state().borrow(), LeaseState::Leading);
        kept.lock().unwrap().version > version
    })
    .await;
}

#[tokio::test]
async fn the_first_two_connections_may_hang() {
    let (server, _kept) = rig().await;
    let config = through(&server, |number| number < 2).await;
    let handle = elect(config, options("berth-0", timing()), Gate::new());
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
}

/// Slower than a request first waits, for every answer: what is seen to have landed counts.
#[tokio::test]
async fn an_api_server_that_is_slow_is_borne() {
    let kept = Arc::new(Mutex::new(Kept::default()));
    let shared = kept.clone();
    let server = Scripted::start(move |asked| {
        let reply = shared.lock().unwrap().answer(&asked);
        async move {
            tokio::time::sleep(Duration::from_millis(900)).await;
            reply
        }
    })
    .await;
    let handle = elect(server.config(), options("berth-0", brisk()), Gate::new());
    reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
    let began = Instant::now();
    until("two deadlines later", || {
        assert_eq!(*handle.state().borrow(), LeaseState::Leading);
        began.elapsed() > brisk().renew_deadline * 2
    })
    .await;
}

/// Long computations and locks that are held for long block the threads that everything else shares.
#[test]
fn a_process_whose_threads_are_all_blocked_keeps_the_lease() {
    let apart = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let busy = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, kept) = apart.block_on(rig());
    let gate = Gate::new();
    gate.admit();
    let handle = busy.block_on(async {
        let handle = start(&server, "berth-0", &gate);
        reaches(&handle, "leading", |s| *s == LeaseState::Leading).await;
        handle
    });
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    let blocked = Arc::new(std::sync::Barrier::new(3));
    for _ in 0..2 {
        let (lock, blocked) = (lock.clone(), blocked.clone());
        busy.spawn(async move {
            blocked.wait();
            drop(lock.lock());
        });
    }
    blocked.wait();
    let (version, began) = (kept.lock().unwrap().version, Instant::now());
    apart.block_on(until("renewals for two deadlines", || {
        assert!(gate.is_open() && *handle.state().borrow() == LeaseState::Leading);
        kept.lock().unwrap().version > version + 4 && began.elapsed() > timing().renew_deadline * 2
    }));
    drop(held);
    busy.block_on(handle.release());
    assert_eq!(kept.lock().unwrap().spec("holderIdentity"), "");
}
