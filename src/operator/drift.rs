//! Every few minutes: has each watch shown what the API server has? What differs is said and counted, and its kind is read anew.
//! Leaders and standbys ask alike, and need no right beyond that to list.
//!
//! One kind is listed at a time. What differs waits for its watch, all kinds together.

use super::context::Context;
use super::printable::{NAME, printable};
use super::watches::Fed;
use berth_cluster::watch::{Comparison, Drift, ObjectKey, Patience, Suspect, Uid};
use berth_core::ledger::{Ledger, PodState};
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Objects of a kind that are named.
const NAMED: usize = 10;

/// What audits have found. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Audits(Arc<Mutex<Found>>);

#[derive(Default)]
pub(super) struct Found {
    /// The last one that came to its end.
    pub(super) last: Option<Audit>,
    /// Objects that differed, by the plural of their kind; each kind that was audited is there.
    pub(super) drifted: BTreeMap<&'static str, u64>,
    /// Comparisons that said nothing, by the plural of the kind.
    pub(super) incomplete: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Audit {
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) took: Duration,
    pub(super) kinds: Vec<OfKind>,
}

/// What an audit has found of one kind.
#[derive(Debug, Clone)]
pub(super) struct OfKind {
    pub(super) plural: &'static str,
    /// Objects on the API server.
    pub(super) objects: usize,
    /// Objects that the watch has shown, when all was looked at again.
    pub(super) shown: usize,
    /// The version at which they were listed.
    pub(super) version: u64,
    pub(super) verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Agrees,
    Drifted {
        count: usize,
        /// The first of them, in words.
        named: Vec<String>,
        /// Whether the kind is read anew.
        mended: bool,
    },
    /// Nothing is known, and why.
    Unknown(String),
}

impl Audits {
    pub(super) fn lock(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A counter must be seen at 0, or nobody sees that it rises.
    fn begin(&self, watches: &[Arc<Fed>]) {
        let mut found = self.lock();
        for fed in watches {
            found.drifted.entry(fed.plural).or_default();
            found.incomplete.entry(fed.plural).or_default();
        }
    }

    fn post(&self, audit: Audit) {
        let mut found = self.lock();
        for of in &audit.kinds {
            let (drifted, incomplete) = match &of.verdict {
                Verdict::Agrees => (0, 0),
                Verdict::Drifted { count, .. } => (*count as u64, 0),
                Verdict::Unknown(_) => (0, 1),
            };
            *found.drifted.entry(of.plural).or_default() += drifted;
            *found.incomplete.entry(of.plural).or_default() += incomplete;
        }
        found.last = Some(audit);
    }
}

/// What a kind was read anew for, and when that was ordered.
struct Ordered {
    at: Instant,
    differing: BTreeSet<(Uid, Drift, u64)>,
}

/// By the plural of the kind.
type Orders = BTreeMap<&'static str, Ordered>;

/// Compares `every` so often until `stop`.
pub(super) async fn run(
    cx: Context,
    watches: Vec<Arc<Fed>>,
    every: Duration,
    patience: Patience,
    stop: CancellationToken,
) {
    let mut orders = Orders::new();
    cx.audits.begin(&watches);
    let work = async {
        loop {
            sleep(every).await;
            let audit = audit(&cx, &watches, patience, &mut orders).await;
            tracing::debug!(
                kinds = audit.kinds.len(),
                ms = audit.took.as_millis(),
                "watches compared with the API server"
            );
            cx.audits.post(audit);
        }
    };
    stop.run_until_cancelled(work).await;
}

async fn audit(cx: &Context, watches: &[Arc<Fed>], patience: Patience, orders: &mut Orders) -> Audit {
    let (began, clock, turn) = (Timestamp::now(), Instant::now(), tokio::sync::Mutex::new(()));
    // A kind that the cluster does without, or that was not read yet, has nothing to compare.
    let present = watches.iter().filter(|fed| fed.stats.absence().is_none() && fed.stats.whole_read_began().is_some());
    let compared = join_all(present.map(|fed| compare(cx, fed, patience, &turn))).await;
    let kinds = compared.into_iter().map(|(fed, compared)| conclude(cx, fed, compared, orders)).collect();
    Audit { began, ended: Timestamp::now(), took: clock.elapsed(), kinds }
}

/// What a comparison has found.
struct Compared {
    objects: usize,
    version: u64,
    /// What differs, and how much more; or why that is not known.
    differing: Result<(Vec<Suspect>, usize), String>,
}

async fn compare<'a>(
    cx: &Context,
    fed: &'a Fed,
    patience: Patience,
    turn: &tokio::sync::Mutex<()>,
) -> (&'a Fed, Compared) {
    let are_kept = |keys: &[ObjectKey]| {
        cx.engine.read(|ledger: &Ledger| keys.iter().map(|key| (fed.is_kept)(key, ledger)).collect::<Vec<bool>>())
    };
    let comparison = Comparison {
        client: &cx.clients.reads,
        plural: fed.plural,
        path: fed.path,
        fields: fed.fields,
        stats: &fed.stats,
        orders: &fed.orders,
        are_kept: &are_kept,
    };
    let look = {
        let _turn = turn.lock().await;
        comparison.look().await
    };
    let compared = match look {
        Ok(look) => {
            let (objects, version) = (look.objects, look.version);
            let settled = comparison.settle(look, patience).await;
            Compared { objects, version, differing: settled.map_err(|error| error.to_string()) }
        }
        Err(error) => Compared { objects: 0, version: 0, differing: Err(error.to_string()) },
    };
    (fed, compared)
}

/// Says what differs, and has the kind read anew, unless that was done for the same objects before and did not help.
fn conclude(cx: &Context, fed: &Fed, compared: Compared, orders: &mut Orders) -> OfKind {
    let Compared { objects, version, differing } = compared;
    let verdict = match differing {
        Err(why) => {
            tracing::info!(resource = fed.plural, why, "watch not compared with the API server");
            Verdict::Unknown(printable(&why, NAME))
        }
        Ok((differing, _)) if differing.is_empty() => {
            orders.remove(fed.plural);
            Verdict::Agrees
        }
        Ok((differing, left_out)) => {
            let named: Vec<String> = differing.iter().take(NAMED).map(|one| in_words(cx, one)).collect();
            let (count, mended) = (differing.len() + left_out, is_mendable(fed, &differing, orders));
            let objects = named.join("; ");
            if mended {
                tracing::warn!(
                    resource = fed.plural,
                    count,
                    objects,
                    "watch has not shown what the API server has; its kind is read anew"
                );
                fed.orders.read();
            } else {
                tracing::error!(
                    resource = fed.plural,
                    count,
                    objects,
                    "watch has not shown what the API server has, and reading anew did not help"
                );
            }
            Verdict::Drifted { count, named, mended }
        }
    };
    OfKind { plural: fed.plural, objects, shown: fed.stats.shown().len(), version, verdict }
}

/// Whether reading the kind anew may help: not if it was read since for all these very objects. Notes that it will be read.
fn is_mendable(fed: &Fed, differing: &[Suspect], orders: &mut Orders) -> bool {
    let differing: BTreeSet<_> = differing.iter().map(|one| (one.uid, one.drift, one.version)).collect();
    let in_vain = orders.get(fed.plural).is_some_and(|ordered| {
        fed.stats.whole_read_began().is_some_and(|began| began >= ordered.at) && differing.is_subset(&ordered.differing)
    });
    if !in_vain {
        orders.insert(fed.plural, Ordered { at: Instant::now(), differing });
    }
    !in_vain
}

/// One line about an object: how it differs, its name where that is known, and of a pod the node that the ledger has it on.
fn in_words(cx: &Context, suspect: &Suspect) -> String {
    let Suspect { key, uid, drift, version } = suspect;
    // The ledger knows the name of a pod that is gone.
    let (known, node) = cx.engine.read(|ledger: &Ledger| {
        let pod = ledger.pod(&key.uid);
        let node = pod.and_then(PodState::placed).map(|placed| ledger.nodes().name(placed.node).clone());
        (pod.map(|pod| pod.key().to_string()), node)
    });
    let listed = if key.namespace.is_empty() { key.name.clone() } else { format!("{}/{}", key.namespace, key.name) };
    let name = if key.name.is_empty() { known.unwrap_or_default() } else { listed };
    let mut text = format!("{} {} (uid {uid}, version {version}", drift.as_str(), printable(&name, 2 * NAME));
    if let Some(node) = node {
        let _ = write!(text, ", known on node {}", printable(&node, NAME));
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::reconciler_tests::{context, options};
    use crate::operator::watches;
    use berth_core::model::Str;
    use berth_testing::{Asked, Reply, Scripted, until};
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn node(name: &str, version: u64) -> Value {
        json!({"metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": version.to_string()}})
    }

    fn list(version: u64, items: &[Value]) -> Reply {
        Reply::json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}))
    }

    /// An API server whose watches show nothing. Node b is not in the first whole read, but in all lists of metadata, and in later reads
    /// if it `comes_back`.
    async fn leaves_out(comes_back: bool) -> Scripted {
        let reads = AtomicUsize::new(0);
        Scripted::start(move |asked: Asked| {
            let is_audit = asked.query.contains("resourceVersionMatch=NotOlderThan");
            let is_nodes = asked.path == "/api/v1/nodes";
            let is_watch = asked.query.contains("watch=true");
            let first = is_nodes && !is_watch && !is_audit && reads.fetch_add(1, Ordering::Relaxed) == 0;
            let both = [node("a", 5), node("b", 7)];
            async move {
                if is_watch {
                    return Reply::hang().await;
                }
                if !is_nodes {
                    return list(9, &[]);
                }
                let is_whole = is_audit || comes_back && !first;
                list(9, if is_whole { &both } else { &both[..1] })
            }
        })
        .await
    }

    const AT_ONCE: Patience = Patience { least: Duration::ZERO, most: Duration::from_secs(20) };

    async fn running(cx: &Context, stop: &CancellationToken) -> Vec<Arc<Fed>> {
        let watches = watches::start(cx, stop);
        until("all is read", || watches::unread(&watches).is_none()).await;
        until("all is compared from somewhere", || watches.iter().all(|fed| fed.stats.reached() == 9)).await;
        watches
    }

    fn of_nodes(audit: &Audit) -> &Verdict {
        &audit.kinds.iter().find(|of| of.plural == "nodes").unwrap().verdict
    }

    fn has(cx: &Context, name: &str) -> bool {
        cx.engine.read(|ledger: &Ledger| ledger.nodes().find(name).is_some())
    }

    #[tokio::test]
    async fn a_node_that_its_watch_left_out_is_there_after_the_audit_102790() {
        let server = leaves_out(true).await;
        let (cx, _notices) = context(&server, &options());
        let stop = CancellationToken::new();
        let (watches, mut orders) = (running(&cx, &stop).await, Orders::new());
        assert!(has(&cx, "a") && !has(&cx, "b"));
        let found = audit(&cx, &watches, AT_ONCE, &mut orders).await;
        let Verdict::Drifted { count: 1, named, mended: true } = of_nodes(&found) else { panic!("{found:?}") };
        assert_eq!(named, &["missing b (uid ?, version 7)"]);
        assert!(found.kinds.iter().all(|of| of.plural == "nodes" || of.verdict == Verdict::Agrees), "{found:?}");
        cx.audits.post(found);
        until("the node is there", || has(&cx, "b")).await;
        let nodes = watches.iter().find(|fed| fed.plural == "nodes").unwrap();
        until("the read is noted", || nodes.stats.shown().len() == 2).await;
        let again = audit(&cx, &watches, AT_ONCE, &mut orders).await;
        assert_eq!(*of_nodes(&again), Verdict::Agrees);
        cx.audits.post(again);
        let found = cx.audits.lock();
        assert_eq!((found.drifted["nodes"], found.drifted["pods"], found.incomplete["nodes"]), (1, 0, 0));
        stop.cancel();
    }

    #[tokio::test]
    async fn what_reading_anew_does_not_mend_is_not_read_anew_for_ever() {
        let server = leaves_out(false).await;
        let (cx, _notices) = context(&server, &options());
        let stop = CancellationToken::new();
        let (watches, mut orders) = (running(&cx, &stop).await, Orders::new());
        let nodes = watches.iter().find(|fed| fed.plural == "nodes").unwrap();
        let read = nodes.stats.whole_read_began();
        audit(&cx, &watches, AT_ONCE, &mut orders).await;
        until("it was read anew", || nodes.stats.whole_read_began() > read).await;
        let again = audit(&cx, &watches, AT_ONCE, &mut orders).await;
        assert!(matches!(of_nodes(&again), Verdict::Drifted { mended: false, .. }), "{again:?}");
        stop.cancel();
    }

    #[tokio::test]
    async fn names_cannot_forge_a_line_and_a_pod_is_named_by_the_ledger() {
        let server = leaves_out(true).await;
        let (cx, _notices) = context(&server, &options());
        let uid = "00000007-0000-4000-8000-000000000000";
        cx.engine.apply(|ledger| {
            ledger.apply_node(&berth_core::testing::node("n", 1_000, 0, 10));
            let pod = berth_core::testing::pending_pod("ns", "p");
            ledger.apply_pod(berth_core::model::Pod { uid: uid.into(), node_name: Some(Str::from("n")), ..pod });
        });
        let suspect = |key: ObjectKey| Suspect { uid: Uid::of(&key.uid), key, drift: Drift::Gone, version: 3 };
        let gone = suspect(ObjectKey { uid: uid.to_owned(), ..ObjectKey::default() });
        assert_eq!(in_words(&cx, &gone), format!("gone ns/p (uid {uid}, version 3, known on node n)"));
        let forged = suspect(ObjectKey { name: "a\nb".to_owned(), ..ObjectKey::default() });
        assert_eq!(in_words(&cx, &forged), "gone a\\nb (uid ?, version 3)");
    }
}
