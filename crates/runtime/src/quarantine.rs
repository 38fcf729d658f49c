use berth_core::model::Str;
use rustc_hash::FxHashMap;
use std::any::Any;

/// A pod that made its worker panic this often is held. The first time may be chance: another pod's event, a race.
const PANICS: u32 = 2;

/// Pods that one worker remembers: beyond, the fault is hardly that of single pods, and the worker restarts with growing pauses.
const REMEMBERED: usize = 1_024;

/// The pods whose attempts made one profile's worker panic, by uid.
#[derive(Debug, Default)]
pub(super) struct Quarantine(FxHashMap<Str, u32>);

/// What becomes of a pod whose attempt made its worker panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// It is tried once more.
    Noted,
    /// It is held from now on.
    Held,
    /// Too many pods are remembered already.
    Ignored,
}

impl Quarantine {
    /// Notes a panic in an attempt of the pod `uid`. Pods that do not `exist` any more are forgotten.
    pub(super) fn note(&mut self, uid: &Str, exists: impl Fn(&str) -> bool) -> Suspicion {
        self.0.retain(|uid, _| exists(uid));
        if self.0.len() >= REMEMBERED && !self.0.contains_key(uid) {
            return Suspicion::Ignored;
        }
        let panics = self.0.entry(uid.clone()).or_default();
        *panics += 1;
        if *panics >= PANICS { Suspicion::Held } else { Suspicion::Noted }
    }

    /// The pods to hold.
    pub(super) fn held(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().filter(|(_, panics)| **panics >= PANICS).map(|(uid, _)| uid)
    }

    /// Every pod gets another chance.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The text of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(quarantine: &Quarantine) -> Vec<String> {
        quarantine.held().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_is_held_from_its_second_panic_on_for_as_long_as_it_exists() {
        let mut quarantine = Quarantine::default();
        assert_eq!(quarantine.note(&"a".into(), |_| true), Suspicion::Noted);
        assert_eq!(quarantine.note(&"b".into(), |_| true), Suspicion::Noted);
        assert_eq!(quarantine.held().count(), 0);
        assert_eq!(quarantine.note(&"a".into(), |_| true), Suspicion::Held);
        assert_eq!(held(&quarantine), ["a"]);
        quarantine.note(&"b".into(), |uid| uid != "a");
        assert_eq!(held(&quarantine), ["b"], "a was deleted");
        quarantine.clear();
        assert_eq!(quarantine.held().count(), 0);
    }

    #[test]
    fn no_number_of_panicking_pods_is_remembered_without_bound() {
        let mut quarantine = Quarantine::default();
        for i in 0..REMEMBERED {
            quarantine.note(&i.to_string().into(), |_| true);
        }
        assert_eq!(quarantine.note(&"one more".into(), |_| true), Suspicion::Ignored);
        assert_eq!(quarantine.note(&"7".into(), |_| true), Suspicion::Held);
    }
}
