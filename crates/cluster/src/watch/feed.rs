use super::{Tracked, WatchEvent};
use berth_core::ledger::Ledger;
use berth_core::model::Str;
use std::collections::HashSet;
use std::marker::PhantomData;

/// Applies what one watch sends to a ledger.
#[derive(Debug)]
pub struct Feed<K> {
    /// The objects that the whole read under way has shown; `None` between two reads.
    seen: Option<HashSet<Str>>,
    kind: PhantomData<fn(K)>,
}

impl<K> Default for Feed<K> {
    fn default() -> Self {
        Self { seen: None, kind: PhantomData }
    }
}

impl<K: Tracked> Feed<K> {
    /// Applies the next event. At the end of a whole read, every object that it has not shown is deleted.
    pub fn apply(&mut self, event: WatchEvent<K::Object>, ledger: &mut Ledger) {
        match event {
            WatchEvent::Begin => self.seen = Some(HashSet::new()),
            WatchEvent::Item(object) | WatchEvent::Apply(object) => {
                if let Some(seen) = &mut self.seen {
                    seen.insert(K::identity(&object));
                }
                K::apply(object, ledger);
            }
            // What cannot be read is kept as it was.
            WatchEvent::Bad(bad) => {
                if let Some(seen) = &mut self.seen {
                    seen.insert(K::identity_of(&bad.key));
                }
            }
            WatchEvent::Delete(key) => {
                let identity = K::identity_of(&key);
                if let Some(seen) = &mut self.seen {
                    seen.remove(&identity);
                }
                K::delete(&identity, ledger);
            }
            WatchEvent::Synced => {
                if let Some(seen) = self.seen.take() {
                    K::retain(&seen, ledger);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::kinds::{Namespaces, Nodes, Pods};
    use crate::watch::{BadObject, ObjectKey};
    use berth_core::model::{Labels, Namespace, Pod};
    use berth_core::testing::{node, pod, shape_of};

    fn namespace(name: &str) -> WatchEvent<Namespace> {
        WatchEvent::Item(Namespace { name: name.into(), labels: Labels::none() })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { name: name.to_owned(), ..ObjectKey::default() }
    }

    fn known<const N: usize>(ledger: &Ledger, names: [&str; N]) -> [bool; N] {
        names.map(|name| ledger.namespace(name).is_some())
    }

    #[test]
    fn a_re_read_drops_what_it_did_not_see() {
        let (mut feed, mut ledger) = (Feed::<Namespaces>::default(), Ledger::new());
        let mut apply = |event| feed.apply(event, &mut ledger);
        let bad = WatchEvent::Bad(BadObject { key: key("c"), ..BadObject::default() });
        let whole = [WatchEvent::Begin, namespace("a"), namespace("b"), namespace("c"), WatchEvent::Synced];
        whole.into_iter().chain([WatchEvent::Begin, namespace("a"), bad]).for_each(&mut apply);
        assert_eq!(known(&ledger, ["a", "b", "c"]), [true; 3], "nothing is dropped before the end");
        feed.apply(WatchEvent::Synced, &mut ledger);
        assert_eq!(known(&ledger, ["a", "b", "c"]), [true, false, true]);
    }

    /// 31977, 51313, 55587 and 85726: deletions that were missed while the API server was away left ghosts on their nodes.
    #[test]
    fn a_pod_whose_deletion_was_missed_takes_nothing_after_a_whole_read_31977() {
        let (mut feed, mut ledger) = (Feed::<Pods>::default(), Ledger::new());
        ledger.apply_node(&node("a", 1_000, 1 << 30, 10));
        let running = |name: &str| Pod { node_name: Some("a".into()), ..pod(name, shape_of(100, 0)) };
        for names in [vec!["p", "ghost"], vec!["p"]] {
            feed.apply(WatchEvent::Begin, &mut ledger);
            for name in names {
                feed.apply(WatchEvent::Item(running(name)), &mut ledger);
            }
            feed.apply(WatchEvent::Synced, &mut ledger);
        }
        let on_a: Vec<&str> = ledger.pods_on(ledger.nodes().find("a").unwrap()).iter().map(|one| &*one.uid).collect();
        assert_eq!(on_a, ["p"]);
        ledger.audit().expect("the sums are those of the pods");
    }

    /// 56261 and 94437: pods were bound to a node that was gone until the scheduler was started anew.
    #[test]
    fn a_node_whose_deletion_was_missed_goes_with_a_whole_read_56261() {
        let (mut feed, mut ledger) = (Feed::<Nodes>::default(), Ledger::new());
        for names in [vec!["a", "gone"], vec!["a"]] {
            feed.apply(WatchEvent::Begin, &mut ledger);
            for name in names {
                feed.apply(WatchEvent::Item(node(name, 1_000, 1 << 30, 10)), &mut ledger);
            }
            feed.apply(WatchEvent::Synced, &mut ledger);
        }
        assert_eq!(["a", "gone"].map(|name| ledger.nodes().find(name).is_some()), [true, false]);
    }

    #[test]
    fn deletes_are_applied() {
        let (mut feed, mut ledger) = (Feed::<Namespaces>::default(), Ledger::new());
        feed.apply(namespace("a"), &mut ledger);
        feed.apply(WatchEvent::Delete(key("a")), &mut ledger);
        assert_eq!(known(&ledger, ["a"]), [false]);
    }
}
