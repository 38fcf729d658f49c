//! The memory of our own writes to pods' status: they move the resourceVersion, and are no reason to judge the pod anew.

use super::lock;
use crate::send::{Answer, version_number};
use berth_core::model::{Pod, Str};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Pods remembered that are nominated by us, and as many that are not; beyond that the oldest are forgotten. Pods that wait for
/// volumes or victims are far fewer. A write to one of the others counts only until the watch has shown it.
const REMEMBERED: usize = 8_192;

/// A pod's status as far as is known: as it was judged, or as our own writes have left it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// The pod's resourceVersion.
    pub(crate) version: Str,
    /// The node that it is nominated to.
    pub(crate) nominated: Option<Str>,
    /// Whether we have set `PodScheduled` to False since the pod was judged, so that its condition is another one by now.
    pub(crate) refused: bool,
    /// The node of a nomination of ours of which nobody knows whether it was carried out.
    pub(crate) lost: Option<Str>,
}

/// What we wrote last to a pod's status.
#[derive(Debug, Clone, Default)]
struct OwnWrite {
    /// The pod's resourceVersion since then, and the node that it is nominated to.
    version: Str,
    nominated: Option<Str>,
    /// The resourceVersion that our last refusal made; 0 if there was none.
    refused: u64,
    /// The node of a nomination that was written after that, with an answer that was lost.
    lost: Option<Str>,
}

/// Our own writes, by the pod's uid. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    /// Each with the number of its newest entry in `nominated` or `others`.
    by_pod: HashMap<Str, (OwnWrite, u64)>,
    nominated: VecDeque<(Str, u64)>,
    others: VecDeque<(Str, u64)>,
    next: u64,
}

impl OwnWrites {
    /// A write has made `version` of the pod, which is `nominated` since. `refused`: it has set `PodScheduled` to False.
    pub(crate) fn wrote(&self, uid: &Str, version: Str, nominated: Option<Str>, refused: bool) {
        let refused = if refused { version_number(&version) } else { 0 };
        // What was lost before has come before it, and was seen, or is refused for its version.
        lock(&self.0).note(uid, OwnWrite { version, nominated, refused, lost: None });
    }

    /// Nobody knows whether a write that nominates the pod to `node` was carried out, or will be.
    pub(crate) fn lost(&self, uid: &Str, node: &Str) {
        let mut written = lock(&self.0);
        let ours = written.by_pod.get(uid).map(|(ours, _)| ours.clone()).unwrap_or_default();
        written.note(uid, OwnWrite { lost: Some(node.clone()), ..ours });
    }

    /// As [`Self::wrote`], of the version that the API server's answer has.
    pub(crate) fn answered(&self, uid: &Str, answer: &Answer, nominated: Option<Str>, refused: bool) {
        if let Some(version) = answer.resource_version() {
            self.wrote(uid, version, nominated, refused);
        }
    }

    /// The newer of the pod as it was judged and of what we wrote.
    pub(crate) fn known(&self, pod: &Pod) -> Known {
        let judged = version_number(&pod.resource_version);
        let written = lock(&self.0);
        let ours = written.by_pod.get(&pod.uid).map(|(ours, _)| ours);
        let lost = ours.and_then(|ours| ours.lost.clone());
        match ours {
            Some(ours) if version_number(&ours.version) > judged => Known {
                version: ours.version.clone(),
                nominated: ours.nominated.clone(),
                refused: ours.refused > judged,
                lost,
            },
            _ => {
                let (version, nominated) = (pod.resource_version.clone(), pod.nominated_node.clone());
                Known { version, nominated, refused: false, lost }
            }
        }
    }

    /// The pod is bound or deleted.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).by_pod.remove(uid);
    }
}

impl Written {
    fn note(&mut self, uid: &Str, mut write: OwnWrite) {
        let Self { by_pod, nominated, others, next } = self;
        if let Some((ours, _)) = by_pod.remove(uid) {
            let refused = ours.refused.max(write.refused);
            // Answers may come in another order than the writes.
            if version_number(&ours.version) > version_number(&write.version) {
                write = ours;
            }
            write.refused = refused;
        }
        *next += 1;
        // In two orders, so that thousands of pods that fit nowhere do not make us forget whom we have nominated.
        let order = if write.nominated.is_some() || write.lost.is_some() { nominated } else { others };
        order.push_back((uid.clone(), *next));
        by_pod.insert(uid.clone(), (write, *next));
        while order.len() > REMEMBERED {
            let Some((uid, number)) = order.pop_front() else { break };
            if by_pod.get(&uid).is_some_and(|(_, newest)| *newest == number) {
                by_pod.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;

    fn known(own: &OwnWrites, judged: &str) -> (String, Option<String>, bool) {
        let pod = Pod { resource_version: judged.into(), nominated_node: Some("judged".into()), ..pod("ns", "p") };
        let Known { version, nominated, refused, .. } = own.known(&pod);
        (version.to_string(), nominated.map(|node| node.to_string()), refused)
    }

    #[test]
    fn the_newer_of_what_was_judged_and_of_what_we_wrote_is_known() {
        let (own, uid) = (OwnWrites::default(), "uid-p".into());
        let want = |version: &str, node: Option<&str>, refused| (version.to_owned(), node.map(str::to_owned), refused);
        assert_eq!(known(&own, "9"), want("9", Some("judged"), false));
        own.wrote(&uid, "10".into(), Some("a".into()), true);
        assert_eq!(known(&own, "9"), want("10", Some("a"), true), "by number, not by text");
        own.wrote(&uid, "12".into(), None, false);
        assert_eq!(known(&own, "9"), want("12", None, true));
        assert_eq!(known(&own, "11"), want("12", None, false), "the refusal was seen");
        assert_eq!(known(&own, "12"), want("12", Some("judged"), false));
        own.forget("uid-p");
        assert_eq!(known(&own, "9"), want("9", Some("judged"), false));
    }

    #[test]
    fn the_answers_to_our_writes_may_come_in_any_order() {
        let (own, uid) = (OwnWrites::default(), "uid-p".into());
        own.wrote(&uid, "3".into(), None, false);
        own.wrote(&uid, "2".into(), Some("a".into()), true);
        assert_eq!(known(&own, "1"), ("3".to_owned(), None, true), "the end was the later one");
    }

    #[test]
    fn the_newest_writes_are_remembered_and_nominations_apart_from_others() {
        let own = OwnWrites::default();
        let wrote = |uid: &str, node: Option<&str>| {
            own.wrote(&uid.into(), "2".into(), node.map(Into::into), true);
        };
        let node = |uid| lock(&own.0).by_pod.get(uid).map(|(ours, _)| ours.nominated.clone());
        wrote("often", Some("a"));
        for n in 0..REMEMBERED - 1 {
            wrote(&format!("n{n}"), Some("b"));
        }
        for n in 0..2 * REMEMBERED {
            wrote(&format!("u{n}"), None);
        }
        assert_eq!(node("often"), Some(Some("a".into())), "those without a nomination take nothing from it");
        assert_eq!((node("u0"), node("u16383")), (None, Some(None)));
        own.forget("often");
        wrote("often", Some("c"));
        wrote("last", Some("d"));
        assert_eq!(node("often"), Some(Some("c".into())), "its first entry is forgotten, the newer one stays");
        assert_eq!(node("n0"), None);
        own.forget("last");
        assert_eq!(node("last"), None);
        assert!(lock(&own.0).by_pod.len() <= 2 * REMEMBERED);
    }
}
