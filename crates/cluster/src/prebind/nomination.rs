//! The writes of `status.nominatedNodeName`, best effort and never over a newer truth, and the memory of our own.

use crate::send::{Answer, Call};
use crate::write::{lock, status_uri};
use berth_core::model::{Pod, Str};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Nominations remembered; beyond that the oldest are forgotten. Pods that wait for volumes are far fewer.
const REMEMBERED: usize = 8_192;

/// Versions remembered of one pod: those of two attempts, of which the watch may not have shown the later ones yet.
const VERSIONS: usize = 4;

/// Nominates the pod as it is at `version`.
pub(super) fn nominate_call(pod: &Pod, node: &str, version: &str) -> Call {
    let patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": version},
        "status": {"nominatedNodeName": node},
    });
    Call::patch(status_uri(&pod.key), "application/merge-patch+json", &patch)
}

/// Nominates the pod as it was read at `version`, whatever its nomination was before; 422 means that it has changed since.
pub(crate) fn renominate_call(pod: &Pod, node: &str, version: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status/nominatedNodeName", "value": node},
    ]);
    Call::patch(status_uri(&pod.key), "application/json-patch+json", &patch)
}

/// Ends the nomination of this pod to this node, and no other; 422 means that it is another by now.
pub(crate) fn end_call(pod: &Pod, node: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "test", "path": "/status/nominatedNodeName", "value": node},
        {"op": "remove", "path": "/status/nominatedNodeName"},
    ]);
    Call::patch(status_uri(&pod.key), "application/json-patch+json", &patch)
}

/// The resourceVersion that a write has made, from its answer.
pub(super) fn version_of(answer: &Answer) -> Option<Str> {
    let object: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    Some(object.pointer("/metadata/resourceVersion")?.as_str()?.into())
}

/// A nomination that we wrote or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nomination {
    /// `None` where it was ended.
    pub node: Option<Str>,
    /// The pod's resourceVersions that our own writes have followed: the one before we wrote at all, and that of each write but the last.
    pub before: Vec<Str>,
    /// The pod's resourceVersion after our last write.
    pub after: Str,
}

impl Nomination {
    /// The version to write at for a pod that was judged at `judged`: our own writes since do not count as changes.
    pub fn version(&self, judged: &Str) -> Str {
        if self.before.contains(judged) { self.after.clone() } else { judged.clone() }
    }

    /// What is remembered after a write of ours at version `at` that made version `after`; `ours` is what we wrote before.
    pub(super) fn followed(ours: Option<Self>, node: Option<Str>, at: Str, after: Str) -> Self {
        let mut before = ours.filter(|ours| ours.after == at).map_or_else(Vec::new, |ours| ours.before);
        before.push(at);
        before.drain(..before.len().saturating_sub(VERSIONS));
        Self { node, before, after }
    }
}

/// The nominations that we wrote, by the pod's uid: the next write to such a pod needs the version that our own write made.
/// Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Nominated(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    /// Each with the number of its newest entry in `order`.
    by_pod: HashMap<Str, (Nomination, u64)>,
    order: VecDeque<(Str, u64)>,
    next: u64,
}

impl Nominated {
    pub fn note(&self, uid: Str, nomination: Nomination) {
        let mut all = lock(&self.0);
        all.next += 1;
        let number = all.next;
        all.by_pod.insert(uid.clone(), (nomination, number));
        all.order.push_back((uid, number));
        while all.order.len() > REMEMBERED {
            let Some((uid, number)) = all.order.pop_front() else { break };
            if all.by_pod.get(&uid).is_some_and(|(_, newest)| *newest == number) {
                all.by_pod.remove(&uid);
            }
        }
    }

    pub fn of(&self, uid: &str) -> Option<Nomination> {
        lock(&self.0).by_pod.get(uid).map(|(nomination, _)| nomination.clone())
    }

    /// The pod is bound, deleted, or no longer nominated.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).by_pod.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nomination(node: &str) -> Nomination {
        Nomination { node: Some(node.into()), before: vec!["1".into()], after: "2".into() }
    }

    #[test]
    fn a_pod_judged_between_our_writes_is_written_at_the_version_of_the_last_one() {
        let ended = Nomination::followed(Some(nomination("a")), None, "2".into(), "3".into());
        assert_eq!(
            ["1", "2", "3", "9"].map(|judged| ended.version(&judged.into())),
            ["3", "3", "3", "9"].map(Str::from)
        );
        let after_a_foreign_write = Nomination::followed(Some(nomination("a")), None, "7".into(), "8".into());
        assert_eq!(
            ["1", "2", "7"].map(|judged| after_a_foreign_write.version(&judged.into())),
            ["1", "2", "8"].map(Str::from)
        );
    }

    #[test]
    fn the_newest_nominations_are_remembered() {
        let nominated = Nominated::default();
        nominated.note("often".into(), nomination("a"));
        for n in 0..REMEMBERED - 1 {
            nominated.note(format!("u{n}").into(), nomination("b"));
        }
        assert_eq!(nominated.of("often"), Some(nomination("a")));
        nominated.note("often".into(), nomination("c"));
        nominated.note("last".into(), nomination("d"));
        assert_eq!(nominated.of("often"), Some(nomination("c")), "its first entry is forgotten, the newer one stays");
        assert_eq!(nominated.of("u0"), None);
        nominated.forget("last");
        assert_eq!(nominated.of("last"), None);
    }
}
