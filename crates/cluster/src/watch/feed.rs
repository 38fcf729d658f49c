use super::{Tracked, WatchEvent};
use berth_core::ledger::Ledger;
use berth_core::model::Str;
use std::collections::HashSet;
use std::marker::PhantomData;

/// Applies what one watch sends to a ledger, and knows what the ledger has from it: to find what a whole read shows no more, in some
/// hundred thousand objects, nobody has to wait for the ledger. It costs some 20 bytes an object, and the name of one that is not
/// known by its uid.
#[derive(Debug)]
pub struct Feed<K> {
    /// The objects that were applied and not deleted since, but for those in `seen`.
    known: HashSet<Str>,
    /// The objects that the whole read under way has shown; `None` between two reads.
    seen: Option<HashSet<Str>>,
    kind: PhantomData<fn(K)>,
}

impl<K> Default for Feed<K> {
    fn default() -> Self {
        Self { known: HashSet::new(), seen: None, kind: PhantomData }
    }
}

impl<K: Tracked> Feed<K> {
    /// Takes note of the next event, before it is [applied](Self::apply). Returns the objects that are to be [deleted](Self::delete)
    /// after it, in the order of their identities: those that a whole read has not shown.
    pub fn note(&mut self, event: &WatchEvent<K::Object>) -> Vec<Str> {
        match event {
            // What a read has shown that was broken off was applied.
            WatchEvent::Begin => self.known.extend(self.seen.replace(HashSet::new()).into_iter().flatten()),
            WatchEvent::Item(object) | WatchEvent::Apply(object) => {
                let current = self.seen.as_mut().unwrap_or(&mut self.known);
                current.insert(K::identity(object));
            }
            // What cannot be read is kept as it was.
            WatchEvent::Bad(bad) => {
                if let Some(seen) = &mut self.seen {
                    seen.insert(K::identity_of(&bad.key));
                }
            }
            // Not during a whole read, which shows what there is.
            WatchEvent::Delete(key) => drop(self.known.remove(&K::identity_of(key))),
            WatchEvent::Synced => return self.unseen(),
        }
        Vec::new()
    }

    fn unseen(&mut self) -> Vec<Str> {
        let Some(seen) = self.seen.take() else { return Vec::new() };
        let before = std::mem::replace(&mut self.known, seen);
        let mut unseen: Vec<Str> = before.into_iter().filter(|identity| !self.known.contains(identity)).collect();
        unseen.sort_unstable();
        unseen
    }

    /// Applies an event.
    pub fn apply(event: WatchEvent<K::Object>, ledger: &mut Ledger) {
        match event {
            WatchEvent::Item(object) | WatchEvent::Apply(object) => K::apply(object, ledger),
            WatchEvent::Delete(key) => K::delete(&K::identity_of(&key), ledger),
            WatchEvent::Begin => K::begin_read(ledger),
            WatchEvent::Synced | WatchEvent::Bad(_) => {}
        }
    }

    /// Deletes what a whole read has not shown.
    pub fn delete(unseen: &[Str], ledger: &mut Ledger) {
        for identity in unseen {
            K::delete(identity, ledger);
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

    impl<K: Tracked> Feed<K> {
        fn take(&mut self, event: WatchEvent<K::Object>, ledger: &mut Ledger) {
            let unseen = self.note(&event);
            Self::apply(event, ledger);
            Self::delete(&unseen, ledger);
        }
    }

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
        let mut apply = |event| feed.take(event, &mut ledger);
        let bad = WatchEvent::Bad(BadObject { key: key("c"), ..BadObject::default() });
        let whole = [WatchEvent::Begin, namespace("a"), namespace("b"), namespace("c"), WatchEvent::Synced];
        whole.into_iter().chain([WatchEvent::Begin, namespace("a"), bad]).for_each(&mut apply);
        assert_eq!(known(&ledger, ["a", "b", "c"]), [true; 3], "nothing is dropped before the end");
        feed.take(WatchEvent::Synced, &mut ledger);
        assert_eq!(known(&ledger, ["a", "b", "c"]), [true, false, true]);
    }

    /// 31977, 51313, 55587 and 85726: deletions that were missed while the API server was away left ghosts on their nodes.
    #[test]
    fn a_pod_whose_deletion_was_missed_takes_nothing_after_a_whole_read_31977() {
        let (mut feed, mut ledger) = (Feed::<Pods>::default(), Ledger::new());
        ledger.apply_node(&node("a", 1_000, 1 << 30, 10));
        let running = |name: &str| Pod { node_name: Some("a".into()), ..pod(name, shape_of(100, 0)) };
        for names in [vec!["p", "ghost"], vec!["p"]] {
            feed.take(WatchEvent::Begin, &mut ledger);
            for name in names {
                feed.take(WatchEvent::Item(running(name)), &mut ledger);
            }
            feed.take(WatchEvent::Synced, &mut ledger);
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
            feed.take(WatchEvent::Begin, &mut ledger);
            for name in names {
                feed.take(WatchEvent::Item(node(name, 1_000, 1 << 30, 10)), &mut ledger);
            }
            feed.take(WatchEvent::Synced, &mut ledger);
        }
        assert_eq!(["a", "gone"].map(|name| ledger.nodes().find(name).is_some()), [true, false]);
    }

    #[test]
    fn what_a_whole_read_does_not_show_is_found_without_the_ledger_in_order() {
        let mut feed = Feed::<Namespaces>::default();
        let whole = |feed: &mut Feed<Namespaces>, names: &[&str]| {
            assert!(feed.note(&WatchEvent::Begin).is_empty());
            for name in names {
                assert!(feed.note(&namespace(name)).is_empty());
            }
            feed.note(&WatchEvent::Synced).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(whole(&mut feed, &["c", "a", "b", "d"]).is_empty());
        feed.note(&WatchEvent::Delete(key("b")));
        assert_eq!(whole(&mut feed, &["d"]), ["a", "c"]);
        // One that is broken off is begun anew, and what it has shown may be gone by then.
        feed.note(&WatchEvent::Begin);
        feed.note(&namespace("shown"));
        assert_eq!(whole(&mut feed, &["e"]), ["d", "shown"]);
        assert_eq!(whole(&mut feed, &[]), ["e"]);
    }

    #[test]
    fn deletes_are_applied() {
        let (mut feed, mut ledger) = (Feed::<Namespaces>::default(), Ledger::new());
        feed.take(namespace("a"), &mut ledger);
        feed.take(WatchEvent::Delete(key("a")), &mut ledger);
        assert_eq!(known(&ledger, ["a"]), [false]);
    }
}
