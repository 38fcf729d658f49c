use super::frame::{Frame, ReadObject};
use super::kinds::{Nodes, PersistentVolumeClaims, Pods, StorageClasses};
use super::*;
use crate::decode::Decoder;
use crate::proto::{Encoded, Type};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use berth_core::model::{BindingMode, Node, PersistentVolumeClaim, Pod, StorageClass};
use bytes::Bytes;
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One answer of the scripted server.
#[derive(Clone)]
pub(super) enum Answer {
    /// A status with a message.
    Refuse(u16),
    /// These pieces, then the end.
    Send(Vec<String>),
    /// These pieces, then nothing, for ever.
    Hang(Vec<String>),
    /// These pieces once it is told to, then the end; of a watch nothing comes then.
    Late(Vec<String>),
    /// These pieces, then the connection breaks.
    Break(Vec<String>),
    /// This code with this body in protobuf, and then the end, or nothing for ever.
    Protobuf { code: u16, body: Vec<u8>, ends: bool },
}

#[derive(Clone, Default)]
pub(super) struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// The encodings that each call takes.
    pub(super) accepted: Arc<Mutex<Vec<String>>>,
    /// Whether what is late is sent.
    pub(super) go: Arc<AtomicBool>,
}

async fn answer(State(script): State<Script>, uri: Uri, headers: HeaderMap) -> Response {
    script.asked.lock().unwrap().push(uri.to_string());
    let accepted = headers.get(ACCEPT).map(|accepted| accepted.to_str().unwrap().to_owned());
    script.accepted.lock().unwrap().push(accepted.unwrap_or_default());
    let next = script.answers.lock().unwrap().pop_front().unwrap_or(Answer::Hang(Vec::new()));
    let (pieces, end) = match next {
        Answer::Refuse(code) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": "BadRequest"});
            let code = StatusCode::from_u16(code).unwrap();
            return Response::builder().status(code).body(Body::from(status.to_string())).unwrap();
        }
        Answer::Send(pieces) => (pieces, None),
        Answer::Hang(pieces) => (pieces, Some(false)),
        Answer::Late(pieces) => {
            berth_testing::until("it is told to", || script.go.load(Ordering::Relaxed)).await;
            (pieces, uri.query().is_some_and(|query| query.contains("watch=")).then_some(false))
        }
        Answer::Break(pieces) => (pieces, Some(true)),
        Answer::Protobuf { code, body, ends } => {
            let sent = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(body))]);
            let body =
                if ends { Body::from_stream(sent) } else { Body::from_stream(sent.chain(futures::stream::pending())) };
            let kind = "application/vnd.kubernetes.protobuf;stream=watch";
            return Response::builder().status(code).header(CONTENT_TYPE, kind).body(body).unwrap();
        }
    };
    let sent = futures::stream::iter(pieces.into_iter().map(|p| Ok::<_, std::io::Error>(Bytes::from(p))));
    let tail = futures::stream::unfold(end, |end| async move {
        match end {
            None => None,
            Some(true) => {
                // Let what was sent go out before the connection is torn down.
                tokio::time::sleep(Duration::from_millis(100)).await;
                Some((Err(std::io::Error::other("broken by the script")), None))
            }
            Some(false) => std::future::pending().await,
        }
    });
    Response::new(Body::from_stream(sent.chain(tail)))
}

/// A watch against a scripted server.
pub(super) struct Bench<T> {
    pub(super) events: mpsc::UnboundedReceiver<WatchEvent<T>>,
    pub(super) script: Script,
    pub(super) stats: Arc<WatchStats>,
    pub(super) orders: Orders,
    pub(super) client: kube::Client,
    _stop: DropGuard,
}

pub(super) fn quick() -> WatchOptions {
    WatchOptions {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(5),
        silence: Duration::from_secs(20),
        list_silence: Duration::from_secs(20),
        ..WatchOptions::default()
    }
}

pub(super) async fn start<W: Watched>(options: WatchOptions, answers: Vec<Answer>) -> Bench<W::Object> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = Script { answers: Arc::new(Mutex::new(answers.into())), ..Script::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cancel = CancellationToken::new();
    let router = axum::Router::new().fallback(answer).with_state(script.clone());
    tokio::spawn(cancel.clone().run_until_cancelled_owned(async move { axum::serve(listener, router).await }));
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    let (send, events) = mpsc::unbounded_channel();
    let stats = Arc::new(WatchStats::default());
    let sink = move |event| drop(send.send(event));
    let orders = Orders::default();
    tokio::spawn(run::<W>(client.clone(), options, stats.clone(), orders.clone(), cancel.clone(), sink, None));
    Bench { events, script, stats, orders, client, _stop: cancel.drop_guard() }
}

impl<T: Named> Bench<T> {
    /// The next `count` events, in short.
    pub(super) async fn next(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..count {
            let event = tokio::time::timeout(Duration::from_secs(30), self.events.recv()).await;
            events.push(match event.unwrap_or_else(|_| panic!("nothing after {events:?}")).unwrap() {
                WatchEvent::Begin => "begin".to_owned(),
                WatchEvent::Item(object) => format!("item {}", object.name()),
                WatchEvent::Synced => "synced".to_owned(),
                WatchEvent::Apply(object) => format!("apply {}", object.name()),
                WatchEvent::Delete(key) => format!("delete {}/{} {}", key.namespace, key.name, key.uid),
                WatchEvent::Bad(bad) => {
                    format!("bad {}/{} {} {}", bad.key.namespace, bad.key.name, bad.field, bad.message)
                }
            });
        }
        events
    }

    /// The query of each call so far, its parts sorted.
    pub(super) fn asked(&self) -> Vec<String> {
        self.script.asked.lock().unwrap().clone()
    }
}

pub(super) trait Named {
    fn name(&self) -> String;
}

impl Named for Pod {
    fn name(&self) -> String {
        self.key.name.to_string()
    }
}

impl Named for StorageClass {
    fn name(&self) -> String {
        let waits = if self.binding_mode == Some(BindingMode::WaitForFirstConsumer) { "waits" } else { "immediate" };
        format!("{} of {} {waits}", self.name, self.provisioner)
    }
}

impl Named for PersistentVolumeClaim {
    fn name(&self) -> String {
        format!("{} {}", self.key, if self.is_fully_bound() { "bound" } else { "waits" })
    }
}

impl Named for Node {
    fn name(&self) -> String {
        self.name.to_string()
    }
}

fn object(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": version.to_string()}})
}

fn line(kind: &str, object: Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

pub(super) fn added(name: &str, version: u32) -> String {
    line("ADDED", object(name, version))
}

pub(super) fn bookmark(version: u32) -> String {
    line("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": version.to_string()}}))
}

pub(super) fn list(names: &[&str], version: u32, token: &str) -> String {
    let items: Vec<Value> = names.iter().map(|name| object(name, 1)).collect();
    json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string(), "continue": token}, "items": items})
        .to_string()
}

/// All that there is, in one page.
pub(super) fn whole(names: &[&str], version: u32) -> Answer {
    Answer::Send(vec![list(names, version, "")])
}

#[tokio::test]
async fn a_whole_read_goes_on_as_a_watch_which_resumes_from_a_bookmark() {
    let mut bench = start::<Pods>(
        quick(),
        vec![
            whole(&["a", "b"], 5),
            Answer::Send(vec![line("MODIFIED", object("a", 6)), bookmark(9)]),
            Answer::Hang(vec![line("DELETED", object("b", 11))]),
        ],
    )
    .await;
    let events = bench.next(6).await;
    assert_eq!(events, ["begin", "item a", "item b", "synced", "apply a", "delete n/b u-b"]);
    let asked = bench.asked();
    assert!(asked[0].contains("limit=10000") && !asked[0].contains("resourceVersion"), "{asked:?}");
    for call in &asked[..2] {
        assert!(call.contains("fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"), "{asked:?}");
    }
    assert!(asked[1].ends_with("resourceVersion=5") && asked[1].contains("allowWatchBookmarks=true"), "{asked:?}");
    assert!(asked[2].ends_with("resourceVersion=9"), "{asked:?}");
    assert!(bench.stats.age_of_last_frame().is_some());
    assert_eq!(bench.stats.errors(), WatchErrors::default());
}

#[tokio::test]
async fn a_whole_read_that_is_refused_or_silent_is_made_again() {
    let options = WatchOptions { list_silence: Duration::from_millis(300), ..quick() };
    let answers = vec![Answer::Refuse(422), Answer::Hang(Vec::new()), whole(&["a", "b"], 7)];
    let mut bench = start::<Pods>(options, answers).await;
    assert_eq!(bench.next(6).await, ["begin", "begin", "begin", "item a", "item b", "synced"]);
    let errors = bench.stats.errors();
    assert_eq!((errors.refused, errors.silent), (1, 1));
}

#[tokio::test]
async fn pages_that_break_off_begin_anew() {
    let (whole, options) = (list(&["a", "b"], 7, ""), WatchOptions { page_size: 2, ..quick() });
    // Within the second of its objects.
    let half = whole[..whole.rfind("u-b").unwrap()].to_owned();
    let mut bench = start::<Pods>(
        options,
        vec![
            Answer::Break(vec![half.clone()]),
            Answer::Send(vec![half]),
            Answer::Send(vec![list(&["a", "b"], 7, "t t")]),
            Answer::Send(vec![list(&["c"], 7, "")]),
        ],
    )
    .await;
    assert_eq!(bench.next(4).await, ["begin", "item a", "begin", "item a"]);
    assert_eq!(bench.next(5).await, ["begin", "item a", "item b", "item c", "synced"]);
    let asked = bench.asked();
    assert!(asked[2].contains("limit=2") && asked[3].contains("continue=t+t"), "{asked:?}");
    assert_eq!(bench.stats.errors().connection, 2);
}

/// The server makes a page while the one before is read.
#[tokio::test]
async fn the_next_page_is_asked_for_before_a_page_ends() {
    let begun = format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"next"}},"items":[{},"#, object("a", 1));
    let options = WatchOptions { page_size: 2, ..quick() };
    let mut bench = start::<Pods>(options, vec![Answer::Hang(vec![begun])]).await;
    assert_eq!(bench.next(2).await, ["begin", "item a"]);
    berth_testing::until("the second page is asked for", || {
        bench.asked().get(1).is_some_and(|q| q.contains("continue=next"))
    })
    .await;
}

#[tokio::test]
async fn a_watch_cut_in_the_middle_of_a_line_resumes_from_the_last_whole_one_86626() {
    let mut half = line("MODIFIED", object("a", 9));
    half.truncate(40);
    let mut bench = start::<Pods>(
        quick(),
        vec![
            whole(&[], 3),
            Answer::Break(vec![added("a", 4), half]),
            Answer::Hang(vec![line("MODIFIED", object("a", 9))]),
        ],
    )
    .await;
    assert_eq!(bench.next(4).await, ["begin", "synced", "apply a", "apply a"]);
    assert!(bench.asked()[2].ends_with("resourceVersion=4"), "{:?}", bench.asked());
}

/// 63356: a deletion with the version of its object's last change made the watch begin there again.
#[tokio::test]
async fn an_event_of_an_older_version_does_not_turn_the_watch_back_63356() {
    let first = Answer::Send(vec![added("a", 9), line("DELETED", object("b", 4))]);
    let mut bench = start::<Pods>(quick(), vec![whole(&[], 3), first, Answer::Hang(vec![added("c", 10)])]).await;
    assert_eq!(bench.next(5).await, ["begin", "synced", "apply a", "delete n/b u-b", "apply c"]);
    assert!(bench.asked()[2].ends_with("resourceVersion=9"), "{:?}", bench.asked());
    assert_eq!(bench.stats.reached(), 10);
}

#[tokio::test]
async fn a_version_too_old_means_reading_everything_again() {
    for gone in [
        Answer::Refuse(410),
        Answer::Send(vec![line(
            "ERROR",
            json!({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}),
        )]),
    ] {
        let mut bench = start::<Pods>(quick(), vec![whole(&["a"], 3), gone, whole(&["b"], 9)]).await;
        assert_eq!(bench.next(6).await, ["begin", "item a", "synced", "begin", "item b", "synced"]);
        assert_eq!(bench.stats.errors().gone, 1);
    }
}

#[tokio::test]
async fn a_bad_object_is_named_and_skipped() {
    let bad = |name: &str| {
        let mut bad = object(name, 2);
        bad["spec"] = json!({"containers": [{"resources": {"requests": {"cpu": "1.5.3"}}}]});
        bad
    };
    let mut worse = object("c", 4);
    worse["spec"] = json!({"priority": "high"});
    let items =
        |items: Value| Answer::Send(vec![json!({"metadata": {"resourceVersion": "5"}, "items": items}).to_string()]);
    let mut bench = start::<Pods>(
        quick(),
        vec![
            items(json!([bad("a"), object("b", 3)])),
            Answer::Send(vec![
                line("MODIFIED", worse),
                "gibberish\n".to_owned(),
                line("ODD", json!({})),
                added("z", 6),
            ]),
            Answer::Refuse(410),
            items(json!([bad("d"), object("e", 1), 5, null])),
        ],
    )
    .await;
    let events = bench.next(8).await;
    assert!(
        events[1].starts_with("bad n/a spec.containers[0].resources.requests[cpu] \"1.5.3\" is not a quantity"),
        "{events:?}"
    );
    assert_eq!(events[2..4], ["item b", "synced"]);
    assert!(events[4].starts_with("bad n/c spec.priority invalid type: string \"high\""), "{events:?}");
    assert!(events[5].starts_with("bad / "), "{events:?}");
    assert_eq!(events[6..], ["bad / type unknown kind of watch event \"ODD\"", "apply z"]);
    let events = bench.next(4).await;
    assert!(events[1].starts_with("bad n/d spec.containers[0]"), "{events:?}");
    assert_eq!(events[2..], ["item e", "synced"]);
    assert_eq!(bench.stats.bad_objects(), 5);
    assert!(
        bench.asked()[2].ends_with("resourceVersion=6"),
        "the watch goes on behind a bad object: {:?}",
        bench.asked()
    );
}

#[tokio::test]
async fn a_silent_watch_is_opened_again_102790() {
    let options = WatchOptions { silence: Duration::from_millis(300), ..quick() };
    let answers = vec![whole(&[], 3), Answer::Hang(Vec::new()), Answer::Hang(vec![added("a", 4)])];
    let mut bench = start::<Nodes>(options, answers).await;
    assert_eq!(bench.next(3).await, ["begin", "synced", "apply a"]);
    assert!(bench.asked()[2].ends_with("resourceVersion=3"), "{:?}", bench.asked());
    assert!(bench.asked()[0].starts_with("/api/v1/nodes?") && !bench.asked()[0].contains("fieldSelector"));
    assert_eq!(bench.stats.errors().silent, 1);
}

/// The watch stays open, goes past the pod's version, and does not show the pod.
#[tokio::test]
async fn an_event_that_a_watch_leaves_out_is_found_and_the_kind_read_anew_102790() {
    let of_audit = json!({"metadata": {"resourceVersion": "9"}, "items": [object("a", 1), object("b", 8)]});
    let answers = vec![
        whole(&["a"], 7),
        Answer::Hang(vec![bookmark(9)]),
        Answer::Send(vec![of_audit.to_string()]),
        whole(&["a", "b"], 9),
    ];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(3).await, ["begin", "item a", "synced"]);
    berth_testing::until("the watch is past the pod", || bench.stats.reached() == 9).await;

    let (client, stats) = (bench.client.clone(), bench.stats.clone());
    let are_kept = |keys: &[ObjectKey]| vec![true; keys.len()];
    let comparison = Comparison {
        client: &client,
        plural: Pods::PLURAL,
        path: Pods::PATH,
        fields: Pods::FIELDS,
        stats: &stats,
        orders: &bench.orders,
        are_kept: &are_kept,
    };
    let patience = Patience { least: Duration::ZERO, most: Duration::from_secs(20) };
    let look = comparison.look().await.unwrap();
    let (differing, _) = comparison.settle(look, patience).await.unwrap();
    let found: Vec<_> = differing.iter().map(|one| (one.drift, &*one.key.name, one.version)).collect();
    assert_eq!(found, [(Drift::Missing, "b", 8)]);
    bench.orders.read();
    assert_eq!(bench.next(4).await, ["begin", "item a", "item b", "synced"]);
}

#[tokio::test]
async fn overload_never_leads_to_a_whole_read_but_other_errors_do() {
    let mut answers = vec![whole(&[], 3)];
    answers.extend(vec![Answer::Refuse(503); 12]);
    answers.push(Answer::Hang(vec![added("a", 4)]));
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(3).await, ["begin", "synced", "apply a"]);
    assert_eq!(bench.stats.errors().api, 12);

    let mut answers = vec![whole(&[], 3)];
    answers.extend(vec![Answer::Refuse(504); 6]);
    answers.push(whole(&["a"], 5));
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(5).await, ["begin", "synced", "begin", "item a", "synced"]);
}

/// Nodes, as if a cluster could do without.
struct Spare;

impl Watched for Spare {
    type Object = Node;
    const PLURAL: &'static str = Nodes::PLURAL;
    const RESOURCE: &'static str = Nodes::RESOURCE;
    const PATH: &'static str = Nodes::PATH;
    const OPTIONAL: bool = true;

    fn message() -> Type {
        Nodes::message()
    }

    fn item(decoder: &mut Decoder, item: Encoded<'_>) -> ReadObject<Node> {
        Nodes::item(decoder, item)
    }

    fn frame(decoder: &mut Decoder, event: Encoded<'_>) -> Frame<Node> {
        Nodes::frame(decoder, event)
    }
}

#[tokio::test]
async fn a_kind_that_a_cluster_may_do_without_is_empty_until_it_comes() {
    for (code, absence) in [(403, Absence::Forbidden), (404, Absence::NotServed)] {
        let mut bench = start::<Spare>(quick(), vec![Answer::Refuse(code)]).await;
        assert_eq!(bench.next(2).await, ["begin", "synced"]);
        assert_eq!(bench.stats.absence(), Some(absence));

        let options = WatchOptions { absent_pause: Duration::from_millis(1), ..quick() };
        let mut bench = start::<Spare>(options, vec![Answer::Refuse(code), whole(&["a"], 2)]).await;
        assert_eq!(bench.next(5).await, ["begin", "synced", "begin", "item a", "synced"]);
        assert_eq!((bench.stats.absence(), bench.stats.errors()), (None, WatchErrors::default()));
    }
}

#[tokio::test]
async fn a_kind_that_must_be_there_is_not_taken_as_empty() {
    let answers = vec![Answer::Refuse(403), Answer::Refuse(404), whole(&["a"], 2)];
    let mut bench = start::<Nodes>(quick(), answers).await;
    assert_eq!(bench.next(5).await, ["begin", "begin", "begin", "item a", "synced"]);
    assert_eq!((bench.stats.absence(), bench.stats.errors().api), (None, 2));
}

/// Every row of the table reads what stands outside of metadata, spec and status, from lists and from watches.
#[tokio::test]
async fn storage_objects_are_read_whole_from_lists_and_from_watches() {
    let class = |version: u32| {
        let mut class = object("fast", version);
        class["provisioner"] = json!("disk.example.com");
        class["volumeBindingMode"] = json!("WaitForFirstConsumer");
        class
    };
    let items = json!({"metadata": {"resourceVersion": "7"}, "items": [class(1)]});
    let lines = vec![line("MODIFIED", class(8)), line("DELETED", class(9))];
    let answers = vec![Answer::Send(vec![items.to_string()]), Answer::Hang(lines)];
    let mut bench = start::<StorageClasses>(quick(), answers).await;
    let whole = "fast of disk.example.com waits";
    let events = ["begin", &format!("item {whole}"), "synced", &format!("apply {whole}"), "delete n/fast u-fast"];
    assert_eq!(bench.next(5).await, events);

    let mut claim = object("data", 8);
    claim["spec"] = json!({"volumeName": "v", "storageClassName": "fast"});
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let items = json!({"metadata": {"resourceVersion": "3"}, "items": [claim.clone()]});
    let answers = vec![Answer::Send(vec![items.to_string()]), Answer::Hang(vec![line("MODIFIED", claim)])];
    let mut bench = start::<PersistentVolumeClaims>(quick(), answers).await;
    assert_eq!(bench.next(4).await, ["begin", "item n/data bound", "synced", "apply n/data bound"]);
}

#[test]
fn a_refusal_says_which_verb_is_missing() {
    let error = CallError::from_code(403, "watch", "pods", "forbidden".to_owned()).to_string();
    assert_eq!(error, "the API server answered 403 to watch pods: forbidden (grant watch on pods to this account)");
}

#[test]
fn pauses_double_and_are_bounded() {
    let options = WatchOptions::default();
    for (failures, most) in [(1, 500), (2, 1_000), (3, 2_000), (7, 30_000), (u32::MAX, 30_000)] {
        let pause = options.pause(failures).as_millis();
        assert!(pause >= most / 2 && pause <= most, "{failures}: {pause}");
    }
    for _ in 0..100 {
        assert!((300..=600).contains(&super::options::call_seconds()));
    }
}
