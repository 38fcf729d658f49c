//! The memory of our own writes to pods' status: they move the resourceVersion, and are no reason to judge the pod anew.

use super::lock;
use berth_core::model::{Pod, Str};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Pods remembered that are nominated by us, and as many that are not; beyond that the oldest are forgotten. Pods that wait for
/// volumes or victims are far fewer. Of the others a write counts only until the watch has shown it.
const REMEMBERED: usize = 8_192;

/// Versions remembered of one pod: those of two attempts, of which the watch may not have shown the later ones yet. An attempt
/// writes a nomination, its end and a condition.
const VERSIONS: usize = 6;

/// What we wrote last to a pod's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWrite {
    /// The node that the pod is nominated to since; `None` where it is to none.
    pub node: Option<Str>,
    /// Whether one of these writes has set `PodScheduled` to False.
    pub refused: bool,
    /// The pod's resourceVersions that our own writes have followed: the one before we wrote at all, and that of each write but the last.
    pub before: Vec<Str>,
    /// The pod's resourceVersion after our last write.
    pub after: Str,
}

impl OwnWrite {
    /// Whether only writes of ours came after this version.
    pub(crate) fn follows(&self, judged: &Str) -> bool {
        self.before.contains(judged)
    }

    /// The version to write at for a pod that was judged at `judged`: our own writes since do not count as changes.
    pub(crate) fn version(&self, judged: &Str) -> Str {
        if self.follows(judged) { self.after.clone() } else { judged.clone() }
    }

    /// What is remembered after one more write, at version `at`; `ours` is what was remembered before.
    fn then(self, ours: Option<Self>, at: Str) -> Self {
        match ours {
            // The answers came in another order than the writes: this one is the older.
            Some(ours) if ours.follows(&at) => {
                Self { refused: self.refused || ours.refused, before: kept(ours.before, self.after), ..ours }
            }
            Some(ours) if ours.after == at => {
                Self { refused: self.refused || ours.refused, before: kept(ours.before, at), ..self }
            }
            _ => Self { before: vec![at], ..self },
        }
    }
}

fn kept(mut versions: Vec<Str>, newest: Str) -> Vec<Str> {
    versions.push(newest);
    versions.drain(..versions.len().saturating_sub(VERSIONS));
    versions
}

/// Our own writes, by the pod's uid. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    /// Each with the number of its newest entry in `order`.
    by_pod: HashMap<Str, (OwnWrite, u64)>,
    nominated: VecDeque<(Str, u64)>,
    others: VecDeque<(Str, u64)>,
    next: u64,
}

impl OwnWrites {
    /// A write at version `at` has made version `after`. `node`: the nomination that the pod has since. `refused`: the write has set
    /// `PodScheduled` to False.
    pub(crate) fn wrote(&self, uid: &Str, at: Str, after: Str, node: Option<Str>, refused: bool) {
        let write = OwnWrite { node, refused, before: Vec::new(), after };
        lock(&self.0).note(uid, |ours| write.then(ours, at));
    }

    /// A write that names no version has ended the pod's nomination and made version `after`. What others may have written since
    /// our last write is taken for ours.
    pub(crate) fn ended(&self, pod: &Pod, after: Str) {
        let write = OwnWrite { node: None, refused: false, before: Vec::new(), after };
        lock(&self.0).note(&pod.uid, |ours| {
            let at = ours.as_ref().map_or(&pod.resource_version, |ours| &ours.after).clone();
            write.then(ours, at)
        });
    }

    pub fn of(&self, uid: &str) -> Option<OwnWrite> {
        lock(&self.0).by_pod.get(uid).map(|(write, _)| write.clone())
    }

    /// The pod is bound or deleted, or somebody else writes there.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).by_pod.remove(uid);
    }
}

impl Written {
    fn note(&mut self, uid: &Str, write: impl FnOnce(Option<OwnWrite>) -> OwnWrite) {
        let Self { by_pod, nominated, others, next } = self;
        let write = write(by_pod.remove(uid).map(|(ours, _)| ours));
        *next += 1;
        // In two orders, so that thousands of pods that fit nowhere do not make us forget whom we have nominated.
        let order = if write.node.is_some() { nominated } else { others };
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

    fn write(own: &OwnWrites, at: &str, after: &str, node: Option<&str>) {
        own.wrote(&"u".into(), at.into(), after.into(), node.map(Into::into), false);
    }

    fn versions<const N: usize>(own: &OwnWrites, judged: [&str; N]) -> [String; N] {
        judged.map(|judged| own.of("u").unwrap().version(&judged.into()).to_string())
    }

    #[test]
    fn a_pod_judged_between_our_writes_is_written_at_the_version_of_the_last_one() {
        let own = OwnWrites::default();
        write(&own, "1", "2", Some("a"));
        write(&own, "2", "3", None);
        assert_eq!(versions(&own, ["1", "2", "3", "9"]), ["3", "3", "3", "9"]);
        write(&own, "7", "8", None);
        assert_eq!(versions(&own, ["1", "2", "7"]), ["1", "2", "8"], "somebody else has written before 7");
    }

    #[test]
    fn the_answers_to_our_writes_may_come_in_any_order() {
        let own = OwnWrites::default();
        let pod = Pod { uid: "u".into(), resource_version: "1".into(), ..berth_core::testing::pending_pod("ns", "p") };
        own.ended(&pod, "3".into());
        own.wrote(&"u".into(), "1".into(), "2".into(), Some("a".into()), true);
        assert_eq!(versions(&own, ["1", "2", "3"]), ["3", "3", "3"]);
        let ours = own.of("u").unwrap();
        assert_eq!((ours.node, ours.refused), (None, true), "the end was the later one");
    }

    #[test]
    fn the_newest_writes_are_remembered_and_nominations_apart_from_others() {
        let own = OwnWrites::default();
        let wrote = |uid: &str, node: Option<&str>| {
            own.wrote(&uid.into(), "1".into(), "2".into(), node.map(Into::into), true);
        };
        let node = |uid| own.of(uid).map(|ours| ours.node);
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
