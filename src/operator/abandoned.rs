//! What was to end and is still there: nominations of ours, for which room is kept, and claims that we made for extended resources, which
//! hold devices.
//!
//! Of pods that no profile serves: whoever gives a name up ends the nominations of its pods. This finds what that missed: a profile that
//! was deleted, or gave up a name, while nobody led; a request that failed at every try; a nomination that was written after all. A
//! nomination that another scheduler made stays.
//!
//! A claim is left where its pod's profile goes while the claim is written, or after that and before the pod is bound; or where a process
//! ended before it had deleted the claim, and its successor does not serve the pod. A claim that another scheduler made stays.
//!
//! Of pods that a profile serves: a nomination that ended here, in the object of the pod. The write that was to end it there was refused, as by
//! a webhook, or failed at every try, and nothing may have the pod tried again for minutes.

use super::context::Context;
use berth_cluster::client::Fault;
use berth_cluster::managed_fields::{is_made_by_us, is_nominated_by_us};
use berth_cluster::paced::Paced;
use berth_core::model::{ClaimKey, Pod, Str};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time between two looks. What two in a row find is acted on: workers may be about to start, and what ends a nomination may be under
/// way.
const EVERY: Duration = Duration::from_secs(10);

/// Objects of each kind that are read in one look, one after the other. Those that are not ours are read once.
const READ: usize = 64;

/// A claim that is still there is deleted again after so many looks.
const LOOKS_BETWEEN: u32 = 30;

/// An end that still does not show is written again after so many looks.
const LOOKS_BETWEEN_ENDS: u32 = 3;

static UNREAD: Paced = Paced::new();
static NOT_ENDED: Paced = Paced::new();

/// Looks until `stop`.
pub(super) async fn run(cx: Context, stop: CancellationToken) {
    let mut seen = Seen::default();
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        if cx.gate.is_open() {
            look(&cx, &mut seen).await;
        }
    }
}

/// The uid of a pod, and the node that its object reports.
type Nomination = (Str, Option<Str>);

/// What the last look found.
struct Seen {
    nominations: Findings<Nomination>,
    claims: Findings<ClaimKey>,
    /// Ends that the objects of served pods do not report.
    ends: Findings<Nomination>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            nominations: Findings::new(1),
            claims: Findings::new(LOOKS_BETWEEN),
            ends: Findings::new(LOOKS_BETWEEN_ENDS),
        }
    }
}

async fn look(cx: &Context, seen: &mut Seen) {
    end_nominations(cx, &mut seen.nominations).await;
    delete_claims(cx, &mut seen.claims).await;
    end_again(cx, &mut seen.ends);
}

/// What was found for pods that no profile serves; `None` while that is not known.
fn unserved<K>(cx: &Context, mut found: Vec<(K, Arc<Pod>)>) -> Option<Vec<(K, Arc<Pod>)>> {
    // A profile that gets its name may have no worker yet.
    let board = cx.board.lock();
    let granted = board.granted.as_ref()?;
    found.retain(|(_, pod)| !granted.contains(&pod.scheduler_name));
    Some(found)
}

fn by_nomination(pods: Vec<Arc<Pod>>) -> Vec<(Nomination, Arc<Pod>)> {
    pods.into_iter().map(|pod| ((pod.uid.clone(), pod.nominated_node.clone()), pod)).collect()
}

fn end_again(cx: &Context, seen: &mut Findings<Nomination>) {
    for (_, pod) in seen.due(by_nomination(cx.engine.unreported_ends())) {
        if let Some(left_out) = NOT_ENDED.line() {
            let node = pod.nominated_node.as_deref();
            tracing::info!(pod = %pod.key, node, left_out, "nomination ends: its end was not written");
        }
        cx.writers.pre_binder.end_reported_nomination(pod);
    }
}

async fn end_nominations(cx: &Context, seen: &mut Findings<Nomination>) {
    let Some(found) = unserved(cx, by_nomination(cx.engine.abandoned())) else { return };
    for (nomination, pod) in seen.due(found) {
        // What no object reports was decided here.
        let is_ours = match &pod.nominated_node {
            None => Ok(true),
            Some(_) => is_nominated_by_us(&cx.clients.rest, &pod).await,
        };
        match is_ours {
            Ok(true) => {
                tracing::info!(pod = %pod.key, node = pod.nominated_node.as_deref(), "nomination ends: no profile serves the pod");
                cx.engine.let_go(&pod.uid);
            }
            Ok(false) => seen.set(nomination, Finding::Foreign),
            Err(fault) => unread(cx, &pod, &fault, "not known who nominated the pod"),
        }
    }
}

async fn delete_claims(cx: &Context, seen: &mut Findings<ClaimKey>) {
    let Some(found) = unserved(cx, cx.engine.abandoned_claims()) else { return };
    for (key, pod) in seen.due(found) {
        match is_made_by_us(&cx.clients.rest, &key).await {
            Ok(true) => {
                tracing::info!(pod = %pod.key, claim = %key, "claim for extended resources is deleted: no profile serves the pod");
                cx.engine.delete_claim(pod, key);
            }
            Ok(false) => seen.set(key, Finding::Foreign),
            Err(fault) => {
                seen.set(key, Finding::New);
                unread(cx, &pod, &fault, "not known who made the claim for extended resources of the pod");
            }
        }
    }
}

fn unread(cx: &Context, pod: &Pod, fault: &Fault, what: &str) {
    if let Some(left_out) = UNREAD.line() {
        tracing::warn!(pod = %pod.key, error = %fault, left_out, "{what}, which no profile serves");
    }
    cx.denials.note_fault(fault);
}

/// What is known of something that looks find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// It is to be read at the next look that finds it.
    New,
    /// It was acted on so many looks ago.
    ActedOn(u32),
    /// Another scheduler made it.
    Foreign,
}

/// What the last look found, by a key.
#[derive(Debug)]
struct Findings<K> {
    found: BTreeMap<K, Finding>,
    /// What was acted on and is found again is due after so many looks.
    looks_between: u32,
}

impl<K: Ord + Clone> Findings<K> {
    fn new(looks_between: u32) -> Self {
        Self { found: BTreeMap::new(), looks_between }
    }

    /// Takes in what a look found. Returns what is to be read and acted on now: what the last look found, too.
    fn due(&mut self, found: Vec<(K, Arc<Pod>)>) -> Vec<(K, Arc<Pod>)> {
        let before = std::mem::take(&mut self.found);
        let mut due = Vec::new();
        for (key, pod) in found {
            let (is_due, otherwise) = match before.get(&key) {
                None => (false, Finding::New),
                Some(Finding::New) => (true, Finding::New),
                Some(Finding::ActedOn(looks)) => (looks + 1 >= self.looks_between, Finding::ActedOn(looks + 1)),
                Some(Finding::Foreign) => (false, Finding::Foreign),
            };
            let is_due = is_due && due.len() < READ;
            self.set(key.clone(), if is_due { Finding::ActedOn(0) } else { otherwise });
            if is_due {
                due.push((key, pod));
            }
        }
        due
    }

    fn set(&mut self, key: K, finding: Finding) {
        self.found.insert(key, finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::reconciler_tests::{context, options};
    use berth_core::model::ResourceClaim;
    use berth_core::profile::CompiledProfile;
    use berth_core::testing::{node, pending_pod, pod, resource_claim, shape_of};
    use berth_testing::{Asked, Reply, Scripted};
    use serde_json::json;

    fn nominated(name: &str, node: Option<&str>) -> Pod {
        Pod { nominated_node: node.map(Into::into), ..pending_pod("ns", name) }
    }

    /// The names that are due after each look; what is in `foreign` is another scheduler's.
    fn due<'n>(findings: &mut Findings<&'n str>, names: &[&'n str], foreign: &str) -> Vec<&'n str> {
        let found = names.iter().map(|name| (*name, Arc::new(pending_pod("ns", name)))).collect();
        let due: Vec<&str> = findings.due(found).into_iter().map(|(name, _)| name).collect();
        due.iter().filter(|name| **name == foreign).for_each(|name| findings.set(name, Finding::Foreign));
        due
    }

    #[test]
    fn what_two_looks_in_a_row_find_is_due_and_what_is_anothers_no_more() {
        let mut findings = Findings::new(1);
        assert_eq!(due(&mut findings, &["a", "b"], ""), [""; 0]);
        assert_eq!(due(&mut findings, &["a", "b", "c"], "b"), ["a", "b"]);
        assert_eq!(due(&mut findings, &["b", "c"], ""), ["c"]);
        assert_eq!(due(&mut findings, &["a", "b", "c"], ""), ["c"], "a was away for a look");
        let names: Vec<String> = (0..READ + 9).map(|i| i.to_string()).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let mut findings = Findings::new(9);
        assert_eq!([0; 3].map(|_| due(&mut findings, &names, "").len()), [0, READ, 9]);
    }

    #[test]
    fn what_was_acted_on_and_is_still_there_is_due_again_after_a_while() {
        let mut findings = Findings::new(30);
        assert_eq!(due(&mut findings, &["a"], ""), [""; 0]);
        let acted = (0..60).filter(|_| !due(&mut findings, &["a"], "").is_empty()).count();
        assert_eq!(acted, 2);
    }

    /// The process that made them ended before it had deleted them, and the profile went while nobody led.
    #[tokio::test]
    async fn a_claim_of_ours_whose_pod_no_profile_serves_is_deleted_and_that_of_another_scheduler_stays() {
        let claim = |name: &str| ResourceClaim {
            controller: Some(pending_pod("ns", name).uid),
            is_extended: true,
            ..resource_claim("ns", name)
        };
        let server = Scripted::start(|asked| {
            let name = asked.path.split('/').nth(7).unwrap_or_default().to_owned();
            let manager = if name == "ours" { "berth" } else { "kube-scheduler" };
            let owner = json!([{"kind": "Pod", "name": name, "uid": pending_pod("ns", &name).uid, "controller": true}]);
            let object = json!({"metadata": {"name": name, "namespace": "ns", "uid": "uid", "resourceVersion": "5",
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, "ownerReferences": owner,
                "managedFields": [{"manager": manager, "fieldsV1": {"f:spec": {}}}]}});
            // What the first look asks is not answered.
            let code = if asked.number < 2 { 500 } else { 200 };
            async move { Reply::json(code, object) }
        })
        .await;
        let (cx, _notices) = context(&server, &options());
        cx.engine.apply(|ledger| {
            for name in ["ours", "theirs"] {
                ledger.apply_pod(pending_pod("ns", name));
                ledger.apply_resource_claim(claim(name));
            }
        });
        cx.board.lock().granted = Some([].into());
        let mut seen = Seen::default();
        for _ in 0..4 {
            look(&cx, &mut seen).await;
        }
        let of = |method: &str| {
            let asked = server.requests().into_iter().filter(|one| one.method == method);
            asked.map(|one| one.path.rsplit('/').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        berth_testing::until("the end of the claim", || !of("DELETE").is_empty()).await;
        assert_eq!(of("DELETE"), ["ours"]);
        assert_eq!(of("GET").iter().filter(|name| *name == "theirs").count(), 2, "it is not asked for again");
    }

    /// A profile that goes while nobody leads: the leader before had nominated `ours`, and the next one never served its name.
    #[tokio::test]
    async fn a_nomination_of_ours_that_no_profile_looks_after_ends_and_that_of_another_scheduler_stays() {
        let server = Scripted::start(|asked| {
            let name = asked.path.split('/').nth(6).unwrap_or_default().to_owned();
            let manager = if name == "ours" { "berth" } else { "kube-scheduler" };
            let managed = json!([{"manager": manager, "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}]);
            let object = json!({"status": {"nominatedNodeName": "n"},
                "metadata": {"name": name, "namespace": "ns", "uid": pending_pod("ns", &name).uid, "managedFields": managed}});
            async move { Reply::json(200, object) }
        })
        .await;
        let (cx, _notices) = context(&server, &options());
        cx.engine.apply(|ledger| {
            ledger.apply_node(&node("n", 1_000, 0, 10));
            ledger.apply_pod(nominated("ours", Some("n")));
            ledger.apply_pod(nominated("theirs", Some("n")));
        });
        let kept_for = || {
            cx.engine.read(|ledger| {
                ledger.nominations().on("n").iter().map(|pod| pod.key.name.to_string()).collect::<Vec<_>>()
            })
        };
        let mut seen = Seen::default();
        let served = nominated("ours", None).scheduler_name;
        for granted in [None, None, Some([served].into()), Some([].into())] {
            cx.board.lock().granted = granted;
            look(&cx, &mut seen).await;
            assert_eq!(kept_for(), ["ours", "theirs"], "profiles are not read, or the name is a profile's");
        }
        assert_eq!(kept_for(), ["ours", "theirs"], "workers may be about to start");
        look(&cx, &mut seen).await;
        assert_eq!(kept_for(), ["theirs"]);
        let patched = || {
            server.requests().iter().filter(|one| one.method == "PATCH").map(|one| one.path.clone()).collect::<Vec<_>>()
        };
        berth_testing::until("the end of the nomination in its object", || !patched().is_empty()).await;
        assert_eq!(patched(), ["/api/v1/namespaces/ns/pods/ours/status"]);
        let reads =
            || server.requests().iter().filter(|one| one.method == "GET" && one.path.ends_with("theirs")).count();
        look(&cx, &mut seen).await;
        assert_eq!(reads(), 1, "it is not asked for again");
    }

    /// Else the nomination stays until something has the pod tried again, and the next leader keeps room for it.
    #[tokio::test]
    async fn a_nomination_whose_end_a_webhook_denied_is_ended_all_the_same() {
        fn is_end(asked: &Asked) -> bool {
            asked.method == "PATCH" && asked.body.is_array()
        }
        let server = Scripted::start(|asked| {
            // The refusal, and with it the end of the nomination.
            let code = if asked.method == "PATCH" && !is_end(&asked) { 403 } else { 200 };
            async move { Reply::json(code, json!({"metadata": {"resourceVersion": "9"}})) }
        })
        .await;
        let (cx, _notices) = context(&server, &options());
        let reporting = |node: Option<&str>| Pod {
            resource_version: "7".into(),
            nominated_node: node.map(Into::into),
            ..pod("p", shape_of(9_000, 1))
        };
        let pod = reporting(Some("gone"));
        let names = [pod.scheduler_name.clone()].into();
        cx.engine.apply(|ledger| {
            ledger.apply_node(&node("n", 1_000, 1 << 20, 10));
            ledger.apply_pod(pod);
        });
        cx.engine
            .run(Arc::new(CompiledProfile { scheduler_names: names, ..CompiledProfile::default_preset("a") }))
            .unwrap();
        berth_testing::until("the end here", || !cx.engine.unreported_ends().is_empty()).await;
        let patches = || server.requests().into_iter().filter(|asked| asked.method == "PATCH").collect::<Vec<_>>();
        berth_testing::until("the refusal", || !patches().is_empty()).await;
        let mut seen = Seen::default();
        look(&cx, &mut seen).await;
        assert!(!patches().iter().any(is_end), "the refusal may be under way");
        look(&cx, &mut seen).await;
        berth_testing::until("the end in the object", || patches().iter().any(is_end)).await;
        cx.engine.apply(|ledger| ledger.apply_pod(reporting(None)));
        assert!(cx.engine.unreported_ends().is_empty());
        cx.engine.stop("a").await;
    }
}
