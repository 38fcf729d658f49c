use super::*;
use crate::bind::Leftover;
use crate::scripted::{Asked, Cluster, Inputs, Reply, Scripted, inbox, open, open_gate, pod, until};
use crate::write::Known;
use berth_core::model::{BindingWrite, ClaimKey, ProvisionWrite, VolumeWrites};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const WORKER: WorkerId = WorkerId(1);

pub(super) fn quick() -> Options {
    let patience = Patience { tries: 3, pause: Duration::from_millis(1), longest: Duration::from_secs(10) };
    Options { concurrency: 4, limits: Duration::from_secs(20).into(), patience }
}

pub(super) struct Bench {
    pub(super) server: Scripted,
    pub(super) pre_binder: PreBinder,
    own: OwnWrites,
    pub(super) cluster: Arc<Cluster>,
    pub(super) inputs: Inputs,
}

impl Bench {
    pub(super) fn with(server: Scripted, options: Options, gate: Gate) -> Self {
        let (inputs, deliver) = inbox();
        let (own, cluster) = (OwnWrites::default(), Arc::<Cluster>::default());
        let pre_binder = PreBinder::new(server.client(), options, gate, own.clone(), cluster.clone(), deliver);
        Self { server, pre_binder, own, cluster, inputs }
    }

    pub(super) async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::with(Scripted::start(script).await, quick(), open_gate())
    }

    fn submit(&self, attempt: u64, bindings: Vec<BindingWrite>) {
        self.submit_writes(attempt, VolumeWrites { bindings, provisions: Vec::new() });
    }

    fn submit_writes(&self, attempt: u64, writes: VolumeWrites) {
        let pod = Arc::new(pod("ns", &format!("p{attempt}")));
        let request = VolumeRequest { attempt: AttemptId(attempt), pod, node: "n1".into(), writes };
        self.pre_binder.submit(WORKER, &"profile".into(), request);
    }

    /// Nominations that were written or in conflict.
    fn nominations(&self) -> u64 {
        let [.., (_, nominations)] = self.pre_binder.counters();
        nominations.of(WriteResult::Written) + nominations.of(WriteResult::Conflict)
    }

    /// What was delivered, once there is so much: the outcome, or `Err` where the attempt was taken back.
    async fn outcomes(&self, count: usize) -> Vec<Result<(), String>> {
        until("outcomes", || self.inputs.lock().unwrap().len() >= count).await;
        let outcome = |input: &Input| match input {
            Input::VolumesWritten { outcome: VolumesOutcome::Written, .. } => Ok(()),
            Input::VolumesWritten { outcome: VolumesOutcome::Failed { message, .. }, .. } => Err(message.clone()),
            Input::BindRevoked { .. } => Err("revoked".to_owned()),
            other => panic!("{other:?}"),
        };
        self.inputs.lock().unwrap().iter().map(|(_, input)| outcome(input)).collect()
    }
}

fn claim() -> ClaimKey {
    ClaimKey { namespace: "ns".into(), name: "data".into() }
}

fn bind_of(by_controller: bool) -> BindingWrite {
    BindingWrite {
        volume: "pv".into(),
        volume_uid: "uid-pv".into(),
        resource_version: "7".into(),
        claim: claim(),
        claim_uid: "uid-data".into(),
        claim_version: "9".into(),
        by_controller,
        needed: true,
    }
}

fn provision() -> ProvisionWrite {
    ProvisionWrite { claim: claim(), claim_uid: "uid-data".into(), resource_version: "9".into(), needed: true }
}

fn bind() -> BindingWrite {
    bind_of(true)
}

fn volume_with(uid: &str, version: &str, claim: Value) -> Reply {
    Reply::json(200, json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"claimRef": claim}}))
}

#[tokio::test]
async fn volumes_and_claims_are_written_in_order_with_what_was_judged_as_precondition() {
    let bench = Bench::start(|_| async { Reply::json(200, json!({})) }).await;
    let writes = VolumeWrites { bindings: vec![bind(), bind_of(false)], provisions: vec![provision()] };
    bench.submit_writes(1, writes);
    assert_eq!(bench.outcomes(1).await, [Ok(())]);
    let asked = bench.server.requests();
    assert_eq!((asked.len(), &*asked[0].method, &*asked[0].content_type), (3, "PATCH", "application/merge-patch+json"));
    assert_eq!(asked[0].path, "/api/v1/persistentvolumes/pv");
    let precondition = json!({"uid": "uid-pv", "resourceVersion": "7", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    assert_eq!(asked[0].body["metadata"], precondition);
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data",
        "uid": "uid-data", "resourceVersion": "9"});
    assert_eq!(asked[0].body["spec"]["claimRef"], reference);
    assert_eq!(asked[1].body["metadata"], json!({"uid": "uid-pv", "resourceVersion": "7"}), "meant for it before");
    assert_eq!(asked[2].path, "/api/v1/namespaces/ns/persistentvolumeclaims/data");
    let precondition =
        json!({"uid": "uid-data", "resourceVersion": "9", "annotations": {"volume.kubernetes.io/selected-node": "n1"}});
    assert_eq!(asked[2].body, json!({"metadata": precondition}));
    let [(_, volumes), (_, claims), ..] = bench.pre_binder.counters();
    assert_eq!((volumes.seen(), claims.seen()), (vec![("written", 2)], vec![("written", 1)]));
    assert_eq!(bench.pre_binder.pending(), Pending { queued: 0, in_flight: 0 });
}

#[tokio::test]
async fn a_conflict_is_fine_if_the_object_says_what_was_wanted() {
    let table = [
        (volume_with as fn(&str, &str, Value) -> Reply, "uid-pv", json!({"uid": "uid-data"}), None),
        (
            volume_with,
            "uid-pv",
            json!({"uid": "uid-other"}),
            Some("persistentvolume pv has changed since it was chosen"),
        ),
        (volume_with, "uid-new", json!({"uid": "uid-data"}), Some("persistentvolume pv is another one by now")),
        (|_, _, _| Reply::status(404, "not found"), "", json!(null), Some("persistentvolume pv is gone")),
    ];
    for (reply, uid, reference, want) in table {
        let bench =
            Bench::start(move |asked| {
                let reference = reference.clone();
                async move {
                    if asked.method == "GET" { reply(uid, "8", reference) } else { Reply::status(409, "conflict") }
                }
            })
            .await;
        bench.submit(1, vec![bind()]);
        let want = want.map_or(Ok(()), |message| Err(message.to_owned()));
        assert_eq!(bench.outcomes(1).await, std::slice::from_ref(&want));
        assert_eq!(bench.server.requests().len(), 2, "one try, one look");
        let [(_, volumes), ..] = bench.pre_binder.counters();
        assert_eq!(volumes.seen(), [(if want.is_ok() { "written" } else { "conflict" }, 1)]);
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_read_back_and_the_same_write_sent_again() {
    // The first is lost, the second was carried out without an answer.
    let bench = Bench::start(|asked| async move {
        match asked.number {
            0 | 2 => Reply::status(500, "who knows"),
            1 => volume_with("uid-pv", "7", Value::Null),
            _ => volume_with("uid-pv", "8", json!({"uid": "uid-data"})),
        }
    })
    .await;
    bench.submit(1, vec![bind()]);
    assert_eq!(bench.outcomes(1).await, [Ok(())]);
    let asked = bench.server.requests();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[0].body, asked[2].body);
}

#[tokio::test]
async fn a_refusal_ends_the_pods_writes_and_names_the_object() {
    let bench = Bench::start(|_| async { Reply::status(403, "no rule") }).await;
    bench.submit_writes(1, VolumeWrites { bindings: vec![bind()], provisions: vec![provision()] });
    assert_eq!(bench.outcomes(1).await, [Err("persistentvolume pv: no rule".to_owned())]);
    assert_eq!(bench.server.requests().len(), 1, "the second write is not begun");
}

#[tokio::test]
async fn a_refusal_carries_its_status_whatever_its_message_says() {
    let bench = Bench::start(|_| async { Reply::status(403, "verboten") }).await;
    bench.submit(1, vec![bind()]);
    until("an outcome", || !bench.inputs.lock().unwrap().is_empty()).await;
    let outcome = VolumesOutcome::Failed { code: Some(403), message: "persistentvolume pv: verboten".into() };
    assert_eq!(bench.inputs.lock().unwrap()[0], (WORKER, Input::VolumesWritten { attempt: AttemptId(1), outcome }));
}

#[tokio::test]
async fn a_server_that_never_recovers_ends_in_failure_after_a_few_tries() {
    let bench = Bench::start(|asked| async move {
        if asked.method == "GET" { Reply::status(500, "down") } else { Reply::status(429, "later").retry_after(0) }
    })
    .await;
    bench.submit(1, vec![bind()]);
    let message = bench.outcomes(1).await[0].clone().unwrap_err();
    assert!(message.contains("persistentvolume pv: not written in 3 tries"), "{message}");
    assert_eq!(bench.server.requests().len(), 3);
}

#[tokio::test]
async fn after_the_last_try_nothing_is_waited_for() {
    let patience = Patience { tries: 1, pause: Duration::from_hours(1), longest: Duration::from_hours(1) };
    let server = Scripted::start(|_| async { Reply::status(500, "down") }).await;
    let bench = Bench::with(server, Options { patience, ..quick() }, open_gate());
    bench.submit(1, vec![bind()]);
    let message = bench.outcomes(1).await[0].clone().unwrap_err();
    assert!(message.contains("not written in 1 tries"), "{message}");
}

#[tokio::test]
async fn nothing_is_written_without_leadership_and_what_was_not_begun_is_taken_back() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let gate = Gate::new();
    let bench = Bench::with(server, quick(), gate.clone());
    bench.submit(1, vec![bind()]);
    bench
        .pre_binder
        .nominate(&"profile".into(), NominateRequest { pod: Arc::new(pod("ns", "p2")), node: Some("n1".into()) });
    bench.submit(2, vec![bind()]);
    assert_eq!(bench.pre_binder.pending().queued, 3);
    assert_eq!(bench.pre_binder.revoke(WORKER), [AttemptId(1), AttemptId(2)]);
    bench.submit(3, vec![bind()]);
    open(&gate);
    assert_eq!(bench.outcomes(1).await, [Ok(())], "taken up once the gate opens");
    assert_eq!(bench.server.requests().len(), 1, "the nomination was taken back with its pod");
}

#[tokio::test]
async fn a_shutdown_gives_back_what_was_not_begun_and_waits_for_the_rest() {
    let (server, go) = Scripted::held().await;
    let bench = Bench::with(server, Options { concurrency: 1, ..quick() }, open_gate());
    bench.submit(1, vec![bind()]);
    until("one under way", || bench.server.requests().len() == 1).await;
    bench.submit(2, vec![bind()]);
    let pre_binder = bench.pre_binder.clone();
    let end = tokio::spawn(async move { pre_binder.shutdown(Duration::from_mins(1)).await });
    until("closed", || bench.pre_binder.pending().queued == 0).await;
    go.store(true, Ordering::Relaxed);
    let left = end.await.unwrap();
    assert_eq!(left, Leftover { unsent: vec![(WORKER, AttemptId(2))], ..Leftover::default() });
    assert_eq!(bench.outcomes(1).await, [Ok(())]);
    bench.submit(3, vec![bind()]);
    assert_eq!(bench.outcomes(2).await[1], Err("revoked".to_owned()), "nothing is taken after the end");
}

#[tokio::test]
async fn a_pod_is_nominated_before_its_volumes_are_written() {
    let answered = Arc::new(AtomicBool::new(false));
    let seen = answered.clone();
    let bench = Bench::start(move |asked| {
        let seen = seen.clone();
        async move {
            if asked.path.contains("/pods/") {
                // Long enough for another task to overtake, if it could.
                tokio::time::sleep(Duration::from_millis(200)).await;
                seen.store(true, Ordering::Relaxed);
                return Reply::json(200, json!({"metadata": {"uid": "uid-p1", "resourceVersion": "8"}}));
            }
            if seen.load(Ordering::Relaxed) { Reply::json(200, json!({})) } else { Reply::status(403, "too early") }
        }
    })
    .await;
    bench
        .pre_binder
        .nominate(&"profile".into(), NominateRequest { pod: Arc::new(pod("ns", "p1")), node: Some("n1".into()) });
    bench.submit(1, vec![bind()]);
    assert_eq!(bench.outcomes(1).await, [Ok(())]);
    let asked = bench.server.requests();
    assert_eq!(asked[0].path, "/api/v1/namespaces/ns/pods/p1/status");
    assert_eq!(asked[0].body["status"], json!({"nominatedNodeName": "n1"}));
    assert_eq!(asked[0].body["metadata"], json!({"uid": "uid-p1", "resourceVersion": "7"}));
    assert_eq!((asked.len(), &*asked[1].path), (2, "/api/v1/persistentvolumes/pv"));
    let known = Known { version: "8".into(), nominated: Some("n1".into()), refused: false, lost: None };
    assert_eq!(bench.own.known(&pod("ns", "p1")), known);
}

#[tokio::test]
async fn a_pod_that_changed_is_nominated_at_its_new_version_and_one_that_is_bound_is_not() {
    for (node, writes) in [("", 2), ("n9", 1)] {
        let bench = Bench::start(move |asked| async move {
            match (&*asked.method, asked.number) {
                ("PATCH", 0) => Reply::status(409, "changed"),
                ("PATCH", _) => Reply::json(200, json!({"metadata": {"uid": "uid-p1", "resourceVersion": "12"}})),
                _ => Reply::json(
                    200,
                    json!({"metadata": {"uid": "uid-p1", "resourceVersion": "11"}, "spec": {"nodeName": node}}),
                ),
            }
        })
        .await;
        bench
            .pre_binder
            .nominate(&"profile".into(), NominateRequest { pod: Arc::new(pod("ns", "p1")), node: Some("n1".into()) });
        until("settled", || bench.nominations() == 1).await;
        let patches: Vec<Asked> = bench.server.requests().into_iter().filter(|asked| asked.method == "PATCH").collect();
        assert_eq!(patches.len(), writes);
        assert_eq!(bench.own.known(&pod("ns", "p1")).nominated.is_some(), writes == 2);
        if writes == 2 {
            assert_eq!(patches[1].body["metadata"]["resourceVersion"], "11");
        }
    }
}

#[tokio::test]
async fn a_nomination_is_taken_back_if_it_is_still_ours() {
    for code in [200, 422] {
        let bench = Bench::start(move |asked| async move {
            let version = (8 + asked.number).to_string();
            let object = json!({"metadata": {"uid": "uid-p1", "resourceVersion": version}});
            if asked.number == 0 { Reply::json(200, object) } else { Reply::json(code, object) }
        })
        .await;
        let pod = Arc::new(pod("ns", "p1"));
        bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod: pod.clone(), node: Some("n1".into()) });
        bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod: pod.clone(), node: None });
        until("both done", || bench.nominations() == 2).await;
        let asked = bench.server.requests();
        assert_eq!((asked.len(), &*asked[1].content_type), (2, "application/json-patch+json"));
        assert_eq!(asked[1].body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
        assert_eq!(bench.own.known(&pod).nominated.is_some(), code == 422);
    }
}

/// A refusal of a pod that another scheduler has bound would be written at the version that the answer has.
#[tokio::test]
async fn the_end_of_a_nomination_tells_no_version_of_a_pod_that_waits_no_more() {
    let late = [
        ("p1", json!({}), "9"),
        ("p2", json!({"spec": {"nodeName": "n2"}}), "5"),
        ("p3", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "5"),
    ];
    let objects = late.clone();
    let bench = Bench::start(move |asked| {
        let (name, mut object, _) = objects[asked.number].clone();
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object["metadata"]["resourceVersion"] = json!("9");
        async move { Reply::json(200, object) }
    })
    .await;
    for (number, (name, _, version)) in late.into_iter().enumerate() {
        let reported = Pod { nominated_node: Some("n1".into()), resource_version: "5".into(), ..pod("ns", name) };
        bench.pre_binder.end_reported_nomination(Arc::new(reported.clone()));
        until("ended", || bench.nominations() == number as u64 + 1).await;
        assert_eq!(&*bench.own.known(&reported).version, version, "{name}");
    }
}

/// The end comes late: meanwhile an attempt may have nominated the pod anew.
#[tokio::test]
async fn of_a_reported_nomination_the_end_ends_no_later_one() {
    let bench = Bench::start(|_| async { Reply::json(200, json!({"metadata": {"resourceVersion": "9"}})) }).await;
    let reported = |name: &str| Arc::new(Pod { nominated_node: Some("n1".into()), ..pod("ns", name) });
    bench.own.wrote(&reported("p1").uid, "8".into(), Some("n2".into()), true);
    bench.pre_binder.end_reported_nomination(reported("p1"));
    bench.pre_binder.end_reported_nomination(reported("p2"));
    until("done", || bench.nominations() == 1).await;
    let asked = bench.server.requests();
    assert_eq!((asked.len(), &*asked[0].path), (1, "/api/v1/namespaces/ns/pods/p2/status"));
    assert_eq!(asked[0].body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
}

/// Whoever leads next must have seen it.
#[tokio::test]
async fn the_newest_version_of_each_kind_that_was_written_is_known() {
    let answers = [(200, "20"), (504, ""), (200, "23")];
    let bench = Bench::start(move |asked| {
        let (code, version) = answers[asked.number % answers.len()];
        let metadata = json!({"uid": "uid-data", "resourceVersion": version,
            "annotations": {"volume.kubernetes.io/selected-node": "n1"}});
        async move { Reply::json(code, json!({"metadata": metadata})) }
    })
    .await;
    assert_eq!(bench.pre_binder.written(), [("persistentvolumes", 0), ("persistentvolumeclaims", 0)]);
    bench.submit(1, vec![bind_of(true)]);
    bench.outcomes(1).await;
    assert_eq!(bench.pre_binder.written(), [("persistentvolumes", 20), ("persistentvolumeclaims", 0)]);
    // Its answer is lost, and a look finds it.
    bench.submit_writes(2, VolumeWrites { bindings: Vec::new(), provisions: vec![provision()] });
    assert_eq!(bench.outcomes(2).await, [Ok(()), Ok(())]);
    assert_eq!(bench.pre_binder.written(), [("persistentvolumes", 20), ("persistentvolumeclaims", 23)]);
}

/// A write of somebody else comes between, and a webhook fails once: nobody else would take it back.
#[tokio::test]
async fn taking_a_nomination_back_is_tried_again() {
    for passes in [409, 500, 429] {
        let bench = Bench::start(move |asked| async move {
            let object = json!({"metadata": {"uid": "uid-p1", "resourceVersion": (8 + asked.number).to_string()}});
            if asked.number == 1 { Reply::status(passes, "not now") } else { Reply::json(200, object) }
        })
        .await;
        let pod = Arc::new(pod("ns", "p1"));
        bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod: pod.clone(), node: Some("n1".into()) });
        bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod: pod.clone(), node: None });
        until("taken back", || bench.nominations() == 2).await;
        assert_eq!((bench.server.requests().len(), bench.own.known(&pod).nominated), (3, None), "{passes}");
    }
}

/// The answer to the nomination is lost, and it is carried out all the same.
#[tokio::test]
async fn a_nomination_whose_write_was_lost_is_taken_back_once_it_can_come_no_more() {
    let server = Scripted::start(|asked| async move {
        if asked.number == 0 { Reply::status(504, "etcd is slow") } else { Reply::json(200, json!({})) }
    })
    .await;
    let limits = quick().limits.landing_within(Duration::from_millis(300));
    let bench = Bench::with(server, Options { limits, ..quick() }, open_gate());
    let pod = Arc::new(pod("ns", "p1"));
    bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod: pod.clone(), node: Some("n1".into()) });
    bench.pre_binder.nominate(&"profile".into(), NominateRequest { pod, node: None });
    until("taken back", || bench.nominations() == 1).await;
    let asked = bench.server.requests();
    assert_eq!((asked.len(), &*asked[1].content_type), (2, "application/json-patch+json"));
    assert_eq!(asked[1].body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
}

fn request_in(namespace: &str, attempt: u64) -> VolumeRequest {
    let claim = ClaimKey { namespace: namespace.into(), name: "data".into() };
    let writes = VolumeWrites { bindings: Vec::new(), provisions: vec![ProvisionWrite { claim, ..provision() }] };
    let pod = Arc::new(pod(namespace, &format!("p{attempt}")));
    VolumeRequest { attempt: AttemptId(attempt), pod, node: "n1".into(), writes }
}

#[tokio::test]
async fn a_namespace_that_hangs_or_is_throttled_keeps_no_other_waiting() {
    for hangs in [true, false] {
        let server = Scripted::start(move |asked| async move {
            match (asked.path.contains("/namespaces/bad/"), hangs) {
                (true, true) => Reply::hang().await,
                (true, false) => Reply::status(429, "slow down").retry_after(25),
                _ => Reply::json(200, json!({})),
            }
        })
        .await;
        let bench = Bench::with(server, Options::default(), open_gate());
        for attempt in 0..64 {
            bench.pre_binder.submit(WORKER, &"profile".into(), request_in("bad", attempt));
        }
        until("the first is sent", || !bench.server.requests().is_empty()).await;
        let start = std::time::Instant::now();
        for many in 1..=3 {
            bench.pre_binder.submit(WorkerId(2), &"other".into(), request_in("fine", 100 + many));
            assert_eq!(bench.outcomes(many as usize).await, vec![Ok(()); many as usize]);
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(bench.server.requests().len() <= Options::default().concurrency + 3, "half for the bad one");
    }
}

#[tokio::test]
async fn slots_are_free_again_while_a_namespace_that_hangs_is_tried() {
    let server = Scripted::start(|asked| async move {
        if asked.path.contains("/namespaces/hung") { Reply::hang().await } else { Reply::json(200, json!({})) }
    })
    .await;
    let bench =
        Bench::with(server, Options { limits: Duration::from_millis(300).into(), ..Options::default() }, open_gate());
    // More namespaces than slots.
    for attempt in 0..40 {
        bench.pre_binder.submit(WORKER, &"profile".into(), request_in(&format!("hung{attempt}"), attempt));
    }
    until("all slots are taken", || bench.server.requests().len() >= Options::default().concurrency).await;
    bench.pre_binder.submit(WorkerId(2), &"other".into(), request_in("fine", 100));
    let start = std::time::Instant::now();
    until("the other is done", || !bench.inputs.lock().unwrap().is_empty()).await;
    assert_eq!(bench.inputs.lock().unwrap()[0].0, WorkerId(2));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn when_the_queue_is_full_the_owner_of_what_is_given_up_is_told() {
    let bench = Bench::with(Scripted::start(|_| Reply::hang()).await, quick(), Gate::new());
    for attempt in 0..4_097 {
        bench.pre_binder.submit(WORKER, &"profile".into(), request_in("greedy", attempt));
    }
    assert_eq!(bench.outcomes(1).await, [Err("not written: too many writes of its namespace wait".to_owned())]);
    bench.pre_binder.submit(WORKER, &"profile".into(), request_in("other", 5_000));
    assert_eq!((bench.pre_binder.pending().queued, bench.inputs.lock().unwrap().len()), (4_097, 1));
}

#[tokio::test]
async fn a_profile_with_many_scheduler_names_has_one_turn() {
    let gate = Gate::new();
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let bench = Bench::with(server, Options { concurrency: 1, ..quick() }, gate.clone());
    for n in 0..20 {
        let mut request = request_in("ns", n);
        request.pod = Arc::new(Pod { scheduler_name: format!("name-{n}").into(), ..pod("ns", &format!("p{n}")) });
        bench.pre_binder.submit(WORKER, &"many".into(), request);
    }
    bench.pre_binder.submit(WorkerId(2), &"other".into(), request_in("ns", 100));
    open(&gate);
    bench.outcomes(21).await;
    let workers: Vec<WorkerId> = bench.inputs.lock().unwrap().iter().map(|(worker, _)| *worker).collect();
    assert_eq!(workers[1], WorkerId(2), "{workers:?}");
}
