use berth_core::model::Str;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Promises remembered; the oldest go first. Pods that wait for volumes are far fewer.
const REMEMBERED: usize = 8_192;

/// A nomination that we wrote, or took back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The node; `None` where it was taken back.
    pub node: Option<Str>,
    /// The pod's resourceVersion before we wrote to it at all.
    pub before: Str,
    /// The pod's resourceVersion after our last write.
    pub after: Str,
}

impl Promise {
    /// The version to write at for whoever judged the pod at `judged`: our own writes since do not count as changes.
    pub fn version(&self, judged: &Str) -> Str {
        if self.before == *judged { self.after.clone() } else { judged.clone() }
    }
}

/// The nominations that we wrote, by pod: whoever writes to such a pod next needs the version that our own write made. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Nominated(Arc<Mutex<Promises>>);

#[derive(Debug, Default)]
struct Promises {
    by_pod: HashMap<Str, (Promise, u64)>,
    order: VecDeque<(Str, u64)>,
    next: u64,
}

impl Nominated {
    /// Notes what was written for the pod with this uid.
    pub fn note(&self, uid: Str, promise: Promise) {
        let mut all = self.lock();
        all.next += 1;
        let number = all.next;
        all.by_pod.insert(uid.clone(), (promise, number));
        all.order.push_back((uid, number));
        while all.order.len() > REMEMBERED {
            let Some((uid, number)) = all.order.pop_front() else { break };
            if all.by_pod.get(&uid).is_some_and(|(_, newest)| *newest == number) {
                all.by_pod.remove(&uid);
            }
        }
    }

    /// What was written for the pod with this uid.
    pub fn of(&self, uid: &str) -> Option<Promise> {
        self.lock().by_pod.get(uid).map(|(promise, _)| promise.clone())
    }

    /// The pod is bound, gone, or no longer nominated.
    pub fn forget(&self, uid: &str) {
        self.lock().by_pod.remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, Promises> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(node: &str) -> Promise {
        Promise { node: Some(node.into()), before: "1".into(), after: "2".into() }
    }

    #[test]
    fn the_newest_promises_are_remembered() {
        let nominated = Nominated::default();
        nominated.note("often".into(), promise("a"));
        for n in 0..REMEMBERED - 1 {
            nominated.note(format!("u{n}").into(), promise("b"));
        }
        assert_eq!(nominated.of("often"), Some(promise("a")));
        nominated.note("often".into(), promise("c"));
        nominated.note("last".into(), promise("d"));
        assert_eq!(nominated.of("often"), Some(promise("c")), "its first entry goes, the newer one stays");
        assert_eq!(nominated.of("u0"), None);
        nominated.forget("last");
        assert_eq!(nominated.of("last"), None);
    }
}
