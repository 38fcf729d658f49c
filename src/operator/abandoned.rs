//! What no profile looks after any more: nominations of ours, for which room is kept, and claims that we made for extended resources, which
//! hold devices. Nobody will schedule their pods.
//!
//! Whoever gives a name up ends the nominations of its pods. This finds what that missed: a profile that was deleted, or gave up a
//! name, while nobody led; a request that failed at every try; a nomination that was written after all. A nomination that another scheduler
//! made stays.
//!
//! A claim is left where its pod's profile goes while the claim is written, or after that and before the pod is bound. This finds those that
//! this process has made; those of an earlier one go with their pods.

use super::context::Context;
use berth_cluster::managed_fields::is_nominated_by_us;
use berth_core::model::{ClaimKey, Pod, Str};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time between two looks. A pod is acted on when two in a row find it: workers may be about to start, and what ends a nomination may be
/// under way.
const EVERY: Duration = Duration::from_secs(10);

/// Pods that are read in one look, one after the other, and claims that are deleted. Pods whose nominations are not ours are read once.
const READ: usize = 64;

/// A claim that is still there is deleted again after so many looks.
const LOOKS_BETWEEN: u32 = 30;

/// Looks until `stop`.
pub(super) async fn run(cx: Context, stop: CancellationToken) {
    let mut seen = Seen::default();
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        if cx.gate.is_open() {
            look(&cx, &mut seen).await;
        }
    }
}

async fn look(cx: &Context, seen: &mut Seen) {
    // A profile that gets its name may have no worker yet.
    let Some(granted) = cx.board.lock().granted.clone() else { return };
    let mut claims = cx.engine.abandoned_claims();
    claims.retain(|(_, pod)| !granted.contains(&pod.scheduler_name));
    for (key, pod) in seen.due_claims(claims) {
        tracing::info!(pod = %pod.key, claim = %key, "claim for extended resources is deleted: no profile serves the pod");
        cx.engine.delete_claim(pod, key);
    }
    let mut abandoned = cx.engine.abandoned();
    abandoned.retain(|pod| !granted.contains(&pod.scheduler_name));
    for pod in seen.due(abandoned) {
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
            Ok(false) => seen.leave(&pod),
            Err(fault) => {
                tracing::warn!(pod = %pod.key, error = %fault, "not known who nominated the pod, which no profile serves");
                cx.denials.note_fault(&fault);
            }
        }
    }
}

/// What the last look found.
#[derive(Debug, Default)]
struct Seen {
    /// By the uid of the pod.
    nominations: BTreeMap<Str, Nomination>,
    /// When it was sent that they be deleted, in looks before the last one.
    claims: BTreeMap<ClaimKey, Option<u32>>,
}

#[derive(Debug)]
struct Nomination {
    reported: Option<Str>,
    /// Whether another scheduler wrote it.
    is_foreign: bool,
}

impl Seen {
    /// Takes in what a look found. Returns what is to be read now: nominations that the last look found, too.
    fn due(&mut self, found: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let before = std::mem::take(&mut self.nominations);
        let mut due = Vec::new();
        for pod in found {
            let known = before.get(&pod.uid).filter(|known| known.reported == pod.nominated_node);
            let is_foreign = known.is_some_and(|known| known.is_foreign);
            self.nominations.insert(pod.uid.clone(), Nomination { reported: pod.nominated_node.clone(), is_foreign });
            if known.is_some() && !is_foreign && due.len() < READ {
                due.push(pod);
            }
        }
        due
    }

    /// The same for claims: those that the last look found, too, and that were not sent lately.
    fn due_claims(&mut self, found: Vec<(ClaimKey, Arc<Pod>)>) -> Vec<(ClaimKey, Arc<Pod>)> {
        let before = std::mem::take(&mut self.claims);
        let mut due = Vec::new();
        for (key, pod) in found {
            let sent = before.get(&key).copied();
            let looks = sent.flatten().map(|looks| looks + 1).filter(|looks| *looks < LOOKS_BETWEEN);
            let is_due = sent.is_some() && looks.is_none() && due.len() < READ;
            self.claims.insert(key.clone(), if is_due { Some(0) } else { looks });
            if is_due {
                due.push((key, pod));
            }
        }
        due
    }

    /// Another scheduler nominated it.
    fn leave(&mut self, pod: &Pod) {
        if let Some(nomination) = self.nominations.get_mut(&pod.uid) {
            nomination.is_foreign = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::reconciler_tests::{context, options};
    use berth_core::testing::{node, pending_pod};
    use berth_testing::{Reply, Scripted};
    use serde_json::json;

    fn nominated(name: &str, node: Option<&str>) -> Pod {
        Pod { nominated_node: node.map(Into::into), ..pending_pod("ns", name) }
    }

    #[test]
    fn a_pod_is_read_when_two_looks_find_it_and_not_again_when_another_scheduler_nominated_it() {
        let mut seen = Seen::default();
        let mut due = |nodes: &[(&str, &str)], foreign: &str| {
            let found = nodes.iter().map(|(name, node)| Arc::new(nominated(name, Some(node)))).collect();
            let due = seen.due(found);
            due.iter().filter(|pod| &*pod.key.name == foreign).for_each(|pod| seen.leave(pod));
            due.into_iter().map(|pod| pod.key.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(due(&[("a", "n"), ("b", "n")], ""), [""; 0]);
        assert_eq!(due(&[("a", "n"), ("b", "n"), ("c", "n")], "b"), ["a", "b"]);
        assert_eq!(due(&[("a", "m"), ("b", "n"), ("c", "n")], ""), ["c"], "a has another nomination");
        assert_eq!(due(&[("a", "m"), ("b", "m")], ""), ["a"], "b has another nomination");
        assert_eq!(due(&[("b", "m")], ""), ["b"]);
    }

    #[test]
    fn a_claim_is_deleted_when_two_looks_in_a_row_find_it_and_again_after_a_while() {
        let mut seen = Seen::default();
        let mut due = |names: &[&str]| {
            let key = |name: &&str| ClaimKey { namespace: "ns".into(), name: (*name).into() };
            let found = names.iter().map(|name| (key(name), Arc::new(pending_pod("ns", "p")))).collect();
            seen.due_claims(found).into_iter().map(|(key, _)| key.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(due(&["a", "b"]), [""; 0]);
        assert_eq!(due(&["b", "c"]), ["b"]);
        assert_eq!(due(&["b"]), [""; 0], "it was sent");
        assert_eq!(due(&["a"]), [""; 0]);
        let sent = (0..2 * LOOKS_BETWEEN).filter(|_| due(&["a"]) == ["a"]).count();
        assert_eq!(sent, 2);
        let names: Vec<String> = (0..READ + 9).map(|i| i.to_string()).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        assert_eq!([due(&names).len(), due(&names).len(), due(&names).len()], [0, READ, 9]);
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
}
