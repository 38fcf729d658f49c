//! From what a watch saw to the ledger: one write for a batch, and the sweep at the end of a re-read.

use super::engine::Engine;
use super::tracked::Tracked;
use berth_core::ledger::Ledger;
use berth_core::model::Str;
use rustc_hash::FxHashSet;
use std::marker::PhantomData;

/// What a watch says.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<T> {
    /// A re-read begins: whatever is not seen before [`Seen::Synced`] is gone.
    Begin,
    /// An object as it is now.
    Object(T),
    /// The object with this identity is there, but cannot be read: it is kept as it was.
    Unreadable(Str),
    /// The object with this identity is gone.
    Gone(Str),
    /// The re-read is complete.
    Synced,
}

/// Applies what one watch says to the engine's ledger.
#[derive(Debug)]
pub struct Feed<K> {
    engine: Engine,
    sweep: Option<FxHashSet<Str>>,
    kind: PhantomData<fn(K)>,
}

impl<K: Tracked> Feed<K> {
    /// A feed into `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine, sweep: None, kind: PhantomData }
    }

    /// Applies a batch under one write lock, in order, and wakes the workers. Says whether a re-read was completed.
    pub fn apply(&mut self, batch: impl IntoIterator<Item = Seen<K::Object>>) -> bool {
        let sweep = &mut self.sweep;
        self.engine.apply(|ledger| {
            let mut synced = false;
            for seen in batch {
                synced |= Self::apply_one(sweep, seen, ledger);
            }
            synced
        })
    }

    fn apply_one(sweep: &mut Option<FxHashSet<Str>>, seen: Seen<K::Object>, ledger: &mut Ledger) -> bool {
        match seen {
            Seen::Begin => *sweep = Some(FxHashSet::default()),
            Seen::Object(object) => {
                if let Some(seen) = sweep {
                    seen.insert(K::identity(&object));
                }
                K::apply(object, ledger);
            }
            Seen::Unreadable(identity) => {
                if let Some(seen) = sweep {
                    seen.insert(identity);
                }
            }
            Seen::Gone(identity) => {
                if let Some(seen) = sweep {
                    seen.remove(&identity);
                }
                K::delete(&identity, ledger);
            }
            Seen::Synced => {
                if let Some(seen) = sweep.take() {
                    K::retain(&seen, ledger);
                }
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Nowhere;
    use berth_cluster::watch::Namespaces;
    use berth_core::model::{Labels, Namespace};

    fn namespace(name: &str) -> Seen<Namespace> {
        Seen::Object(Namespace { name: name.into(), labels: Labels::none() })
    }

    fn known(engine: &Engine, name: &str) -> bool {
        engine.read(|ledger| ledger.namespace(name).is_some())
    }

    #[test]
    fn a_re_read_drops_what_it_did_not_see() {
        let engine = Engine::new(|_| Nowhere);
        let mut feed = Feed::<Namespaces>::new(engine.clone());
        assert!(feed.apply([Seen::Begin, namespace("a"), namespace("b"), namespace("c"), Seen::Synced]));
        assert!(!feed.apply([Seen::Begin, namespace("a"), Seen::Unreadable("c".into())]));
        assert!(known(&engine, "b"), "nothing is dropped before the end");
        assert!(feed.apply([Seen::Synced]));
        assert!(known(&engine, "a") && !known(&engine, "b") && known(&engine, "c"));
    }

    #[test]
    fn deletes_are_applied() {
        let engine = Engine::new(|_| Nowhere);
        let mut feed = Feed::<Namespaces>::new(engine.clone());
        feed.apply([namespace("a"), Seen::Gone("a".into())]);
        assert!(!known(&engine, "a"));
    }
}
