//! Writes of profile status. When: conditions at once, counters seldom, nothing without a change; that part is pure. How:
//! server-side apply with uid and resourceVersion, so that a late write never overwrites a newer status.

use super::observed_spec::ObservedSpec;
use super::printable::{drop_lists, fit_status};
use berth_api::{GROUP, SchedulerProfile, SchedulerProfileStatus, VERSION, conditions::ConditionType};
use berth_cluster::client::Fault;
use berth_cluster::lease::Gate;
use berth_core::model::Str;
use berth_runtime::panic_message;
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MANAGER: &str = "berth";

const RESOURCE: &str = "schedulerprofiles.scheduling.berth.dev/status";

const TIMEOUT: Duration = Duration::from_secs(5);

/// Changes of nothing but counters are written this often at most while they go on changing: they are for people; scrapes read
/// `/metrics`.
const COUNTERS_EVERY: Duration = Duration::from_secs(30);

/// Counters that have come to rest are written this often at most.
const SETTLED_EVERY: Duration = Duration::from_secs(2);

/// Counters are at rest if they have not changed for longer than the second in which a worker publishes them.
const SETTLED_FOR: Duration = Duration::from_millis(1_400);

/// Where no pod waits nothing is about to change: once is enough to have seen it.
const IDLE_FOR: Duration = Duration::from_millis(500);

/// Changes of nothing but `SchedulingHealthy` are written this often at most: a queue that fills and empties must not
/// become a write each second.
const HEALTH_EVERY: Duration = SETTLED_EVERY;

#[derive(Debug)]
pub(super) enum Written {
    /// The object has the status, at this resourceVersion.
    Done(String),
    /// The API server refused the whole status with this message, and took it without its lists: their entries are others'
    /// words, and no word of a tenant's may keep a profile's conditions from being written. At this resourceVersion.
    Reduced(String, String),
    /// The object changed meanwhile, or another process leads; the watch will show how.
    Overtaken,
    Deleted,
    Failed(Fault),
}

#[derive(Debug, Default)]
pub(super) struct WriteCounters {
    pub(super) written: AtomicU64,
    pub(super) reduced: AtomicU64,
    pub(super) overtaken: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl WriteCounters {
    pub(super) fn count(&self, written: &Written) {
        let counter = match written {
            Written::Done(_) => &self.written,
            Written::Reduced(..) => &self.reduced,
            Written::Overtaken | Written::Deleted => &self.overtaken,
            Written::Failed(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes `status` if the profile is still the one seen at `resource_version`, and if `gate` says before each request that we lead.
pub(super) async fn write(
    client: Client,
    gate: Option<Gate>,
    name: Str,
    uid: String,
    resource_version: String,
    status: SchedulerProfileStatus,
) -> Written {
    let api: Api<DeserializeGuard<SchedulerProfile>> = Api::all(client);
    let mut body = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "SchedulerProfile",
        "metadata": {"name": &*name, "uid": uid, "resourceVersion": resource_version},
        "status": status,
    });
    fit_status(&mut body["status"]);
    let leads = || gate.as_ref().is_none_or(Gate::leads);
    if !leads() {
        return Written::Overtaken;
    }
    match apply(&api, &name, &body).await {
        Err(kube::Error::Api(refused)) if refused.code == 422 => {
            drop_lists(&mut body["status"]);
            if !leads() {
                return Written::Overtaken;
            }
            match written(apply(&api, &name, &body).await) {
                Written::Done(version) => Written::Reduced(version, refused.message),
                other => other,
            }
        }
        answer => written(answer),
    }
}

/// The `write` of the profile's status with its end. A panic is a failure: the profile's status is written again after a pause,
/// where otherwise it would stay under way for ever.
pub(super) async fn ended(name: Str, uid: String, write: impl Future<Output = Written>) -> (Str, String, Written) {
    let failed = |panic: Box<dyn Any + Send>| {
        Written::Failed(Fault::Other {
            verb: "patch",
            resource: RESOURCE,
            message: format!("panic: {}", panic_message(&*panic)),
        })
    };
    let written = AssertUnwindSafe(write).catch_unwind().await.unwrap_or_else(failed);
    (name, uid, written)
}

type Answer = Result<DeserializeGuard<SchedulerProfile>, kube::Error>;

/// A request that is not answered in time fails as one that could not be sent.
async fn apply(api: &Api<DeserializeGuard<SchedulerProfile>>, name: &str, body: &Value) -> Answer {
    let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(body));
    let late = |_| {
        let text = format!("no answer within {} s", TIMEOUT.as_secs());
        kube::Error::Service(std::io::Error::new(std::io::ErrorKind::TimedOut, text).into())
    };
    tokio::time::timeout(TIMEOUT, api.patch_status(name, &params, &patch)).await.map_err(late)?
}

fn written(answer: Answer) -> Written {
    match answer {
        Ok(object) => {
            ObservedSpec::read(object).map_or(Written::Overtaken, |observed| Written::Done(observed.resource_version))
        }
        Err(kube::Error::Api(answer)) if answer.is_conflict() => Written::Overtaken,
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Written::Deleted,
        Err(error) => Written::Failed(Fault::of("patch", RESOURCE, &error)),
    }
}

/// The writes of one profile's status.
#[derive(Debug, Default)]
pub(super) struct NextWrite {
    under_way: bool,
    /// The status that we wrote last, and when; `None` makes the next write due at once.
    written: Option<(SchedulerProfileStatus, Instant)>,
    /// What was to be written when this was last asked, and since when.
    wanted: Option<(SchedulerProfileStatus, Instant)>,
    not_before: Option<Instant>,
}

impl NextWrite {
    pub(super) fn written(&self) -> Option<&SchedulerProfileStatus> {
        self.written.as_ref().map(|(status, _)| status)
    }

    /// Whether `wanted` is to be written now.
    pub(super) fn is_due(&mut self, wanted: &SchedulerProfileStatus, now: Instant) -> bool {
        let settled = self.settled_at(wanted, now);
        let written = self.written.as_ref().map(|(status, at)| (status, *at));
        !self.under_way
            && self.not_before.is_none_or(|at| at <= now)
            && due(written, wanted, settled, now).is_some_and(|at| at <= now)
    }

    /// When `wanted` will be at rest if it stays as it is.
    fn settled_at(&mut self, wanted: &SchedulerProfileStatus, now: Instant) -> Instant {
        let since = self.wanted.as_ref().filter(|(last, _)| last == wanted).map(|(_, since)| *since);
        let idle = wanted.pods.as_ref().is_none_or(|pods| pods.pending == 0);
        if since.is_none() {
            self.wanted = Some((wanted.clone(), now));
        }
        since.unwrap_or(now) + if idle { IDLE_FOR } else { SETTLED_FOR }
    }

    pub(super) fn begin(&mut self, status: SchedulerProfileStatus, now: Instant) {
        self.under_way = true;
        self.written = Some((status, now));
    }

    /// The write ended, and nothing is to be written again.
    pub(super) fn end(&mut self) {
        self.under_way = false;
    }

    /// The write had no effect: the status is written again, `at` the earliest.
    pub(super) fn retry(&mut self, at: Instant) {
        self.under_way = false;
        self.written = None;
        self.not_before = Some(at);
    }
}

/// When `wanted`, which is at rest from `settled` on, is to be written if the object says `written` since then; `None` if they are
/// equal.
fn due(
    written: Option<(&SchedulerProfileStatus, Instant)>,
    wanted: &SchedulerProfileStatus,
    settled: Instant,
    now: Instant,
) -> Option<Instant> {
    let Some((written, at)) = written else { return Some(now) };
    if written == wanted {
        return None;
    }
    let changed = |c: &&Condition| is_news(written, c);
    let mut news = wanted.conditions.iter().filter(changed).peekable();
    // Pods get the name that stands in the route: it must not wait.
    if written.route != wanted.route {
        return Some(now);
    }
    if written.observed_generation != wanted.observed_generation || written.mode != wanted.mode {
        return Some(now);
    }
    if news.peek().is_none() {
        return Some((at + COUNTERS_EVERY).min(settled.max(at + SETTLED_EVERY)));
    }
    let health = ConditionType::SchedulingHealthy.as_str();
    if news.all(|c| c.type_ == health) { Some(at + HEALTH_EVERY) } else { Some(now) }
}

/// Whether a condition changed in more than its message. While `SchedulingHealthy` is true its reason follows the load, so
/// that only another status counts.
fn is_news(written: &SchedulerProfileStatus, wanted: &Condition) -> bool {
    let Some(before) = written.conditions.iter().find(|c| c.type_ == wanted.type_) else { return true };
    let follows_load = wanted.type_ == ConditionType::SchedulingHealthy.as_str() && wanted.status == "True";
    before.status != wanted.status || (!follows_load && before.reason != wanted.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::MisnamedPods;
    use berth_api::conditions::{Accepted, Ready, SchedulingHealthy, set_condition};
    use berth_testing::{Reply, Scripted};
    use k8s_openapi::jiff::Timestamp;

    fn status(ready: Ready, health: SchedulingHealthy, matched: i64) -> SchedulerProfileStatus {
        let mut status = SchedulerProfileStatus { observed_generation: Some(1), ..Default::default() };
        let now = Timestamp::from_second(1).unwrap();
        set_condition(&mut status.conditions, ready, "", 1, now);
        set_condition(&mut status.conditions, Accepted::Accepted, &matched.to_string(), 1, now);
        set_condition(&mut status.conditions, health, "", 1, now);
        status.nodes = Some(berth_api::NodeCounts { matched, schedulable: matched });
        status
    }

    #[test]
    fn conditions_are_written_before_counters_and_equal_statuses_never() {
        use SchedulingHealthy::{Backlog, Idle, KeepingUp, NoMatchingNodes};
        let at = Instant::now();
        let base = status(Ready::Serving, Idle, 1);
        let moved = SchedulerProfileStatus { observed_generation: Some(2), ..base.clone() };
        let routed = SchedulerProfileStatus { route: Some(berth_api::RouteStatus::default()), ..base.clone() };
        let rows = [
            ("nothing", base.clone(), None),
            ("counters and a message", status(Ready::Serving, Idle, 2), Some(30)),
            ("healthy in another way", status(Ready::Serving, KeepingUp, 1), Some(30)),
            ("not healthy", status(Ready::Serving, Backlog, 1), Some(2)),
            ("not healthy in another way", status(Ready::Serving, NoMatchingNodes, 2), Some(2)),
            ("another condition", status(Ready::Paused, Backlog, 1), Some(1)),
            ("another reason", status(Ready::WorkerNotRunning, Idle, 1), Some(1)),
            ("generation", moved, Some(1)),
            ("which pods get it", routed, Some(1)),
        ];
        let now = at + Duration::from_secs(1);
        let later = at + Duration::from_mins(1);
        for (name, wanted, seconds) in rows {
            let want = seconds.map(|s| at + Duration::from_secs(s));
            assert_eq!(due(Some((&base, at)), &wanted, later, now), want, "{name}");
        }
        assert_eq!(due(None, &base, later, now), Some(now), "the first");
        let paused = status(Ready::Paused, Idle, 1);
        assert_eq!(due(Some((&paused, at)), &status(Ready::ServingLastGood, Idle, 1), later, now), Some(now));
    }

    /// Counters that go on changing are written each 30 s, and those that come to rest soon after.
    #[test]
    fn counters_that_have_come_to_rest_are_written_within_two_seconds() {
        let began = Instant::now();
        let at = |millis: u64| began + Duration::from_millis(millis);
        let mut next = NextWrite::default();
        let wanted = |matched: i64, pending: i64| {
            let mut status = status(Ready::Serving, SchedulingHealthy::KeepingUp, matched);
            status.pods = Some(berth_api::PodCounts { pending, ..Default::default() });
            status
        };
        assert!(next.is_due(&wanted(0, 3), at(0)), "the first");
        next.begin(wanted(0, 3), at(0));
        next.end();
        for second in 1..30 {
            assert!(!next.is_due(&wanted(second, 3), at(second as u64 * 1_000)), "{second} s");
            assert!(!next.is_due(&wanted(second, 3), at(second as u64 * 1_000 + 500)), "{second}.5 s");
        }
        assert!(next.is_due(&wanted(30, 3), at(30_000)), "each 30 s");
        next.begin(wanted(30, 3), at(30_000));
        next.end();
        assert!(!next.is_due(&wanted(31, 3), at(31_000)));
        assert!(!next.is_due(&wanted(31, 3), at(32_000)));
        assert!(next.is_due(&wanted(31, 3), at(32_500)), "at rest");
        next.begin(wanted(31, 3), at(32_500));
        next.end();
        assert!(!next.is_due(&wanted(40, 0), at(34_000)), "just seen");
        assert!(next.is_due(&wanted(40, 0), at(34_500)), "no pod waits");
    }

    /// A server that refuses every status with one of the `refused` fields.
    async fn server(refused: &'static [&'static str]) -> Scripted {
        Scripted::start(move |asked| async move {
            if let Some(field) = refused.iter().find(|field| !asked.body["status"][**field].is_null()) {
                return Reply::status(422, &format!("status.{field}: Invalid value"));
            }
            let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "8"});
            Reply::json(
                200,
                json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
                "metadata": metadata, "spec": {}}),
            )
        })
        .await
    }

    fn full() -> SchedulerProfileStatus {
        let misnamed = MisnamedPods { scheduler_name: "a".repeat(300), ..MisnamedPods::default() };
        SchedulerProfileStatus { misnamed_pods: vec![misnamed], ..status(Ready::Paused, SchedulingHealthy::Idle, 1) }
    }

    async fn write_to(server: &Scripted) -> Written {
        write(server.client(), None, "a".into(), "u".to_owned(), "7".to_owned(), full()).await
    }

    /// Leadership may end between two statuses, and between the two requests of one.
    #[tokio::test]
    async fn leadership_is_asked_for_before_each_request() {
        let gate = Gate::new();
        let of_server = gate.clone();
        let server = Scripted::start(move |_| {
            of_server.shut();
            async { Reply::status(422, "status.misnamedPods: Invalid value") }
        })
        .await;
        let write = || write(server.client(), Some(gate.clone()), "a".into(), "u".to_owned(), "7".to_owned(), full());
        assert!(matches!(write().await, Written::Overtaken));
        assert_eq!(server.requests().len(), 0);
        gate.lease_until(tokio::time::Instant::now() + Duration::from_hours(1));
        assert!(matches!(write().await, Written::Overtaken));
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn what_is_sent_fits_the_schema() {
        let server = server(&[]).await;
        assert!(matches!(write_to(&server).await, Written::Done(version) if version == "8"));
        let sent = &server.requests()[0].body["status"];
        assert_eq!(sent["misnamedPods"][0]["schedulerName"].as_str().unwrap().chars().count(), 253);
    }

    #[tokio::test]
    async fn a_refused_status_is_written_without_its_lists() {
        let server = server(&["misnamedPods"]).await;
        let written = write_to(&server).await;
        assert!(
            matches!(&written, Written::Reduced(version, why) if version == "8" && why.contains("status.misnamedPods")),
            "{written:?}"
        );
        let sent = &server.requests()[1].body["status"];
        assert!(sent["misnamedPods"].is_null() && sent["conditions"][0]["reason"] == "Paused", "{sent}");
        let counters = WriteCounters::default();
        counters.count(&written);
        assert_eq!(counters.reduced.load(Ordering::Relaxed), 1);
    }

    /// The API server then refuses it as a conflict where something was written since, or the profile is another one of its name.
    #[tokio::test]
    async fn each_write_names_the_object_and_the_version_that_it_is_about() {
        let server = server(&["misnamedPods"]).await;
        write_to(&server).await;
        let sent = server.requests();
        assert_eq!(sent.len(), 2, "one more without the lists");
        for request in sent {
            assert_eq!(request.body["metadata"], json!({"name": "a", "uid": "u", "resourceVersion": "7"}));
        }
    }

    #[tokio::test]
    async fn a_status_that_is_refused_without_its_lists_too_has_failed() {
        let server = server(&["misnamedPods", "conditions"]).await;
        assert!(matches!(write_to(&server).await, Written::Failed(_)));
        assert_eq!(server.requests().len(), 2);
    }

    #[tokio::test]
    async fn a_write_that_panics_has_failed_and_says_so() {
        let (name, uid, written) = ended("a".into(), "u".to_owned(), async { panic!("told to") }).await;
        let Written::Failed(fault) = written else { panic!("{written:?}") };
        assert_eq!((&*name, &*uid, fault.to_string().ends_with("panic: told to")), ("a", "u", true), "{fault}");
    }
}
