//! Objects of one kind in the form in which extenders get them, in a bounded number of bytes.

use super::wire::sent_form;
use berth_core::model::Str;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Bytes that an object takes beside its key and its form, rounded up.
const ENTRY_BYTES: usize = 128;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of one form.
    pub(super) form: usize,
    /// Bytes of everything that is kept.
    pub(super) all: usize,
}

/// Nothing is kept that is not wanted. What does not fit is not there, and whoever needs it reads it from the API server.
#[derive(Debug)]
pub(super) struct Kept {
    limits: Limits,
    is_wanted: AtomicBool,
    forms: RwLock<Forms>,
    left_out: AtomicU64,
}

#[derive(Debug)]
struct Form {
    bytes: Bytes,
    /// The scheduler that a pod names.
    scheduler: Option<Str>,
}

#[derive(Debug, Default)]
struct Forms {
    by_key: HashMap<Str, Form>,
    bytes: usize,
}

impl Form {
    fn size(&self, key: &str) -> usize {
        ENTRY_BYTES + key.len() + self.bytes.len()
    }
}

impl Forms {
    /// Whether it fits; what was kept under the key is gone in any case.
    fn put(&mut self, key: &str, form: Form, limits: Limits) -> bool {
        self.forget(key);
        let size = form.size(key);
        if form.bytes.len() > limits.form || self.bytes + size > limits.all {
            return false;
        }
        self.bytes += size;
        self.by_key.insert(key.into(), form);
        true
    }

    fn forget(&mut self, key: &str) {
        if let Some(form) = self.by_key.remove(key) {
            self.bytes -= form.size(key);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Str, &Form) -> bool) {
        let bytes = &mut self.bytes;
        self.by_key.retain(|key, form| {
            let stays = keep(key, form);
            if !stays {
                *bytes -= form.size(key);
            }
            stays
        });
    }
}

impl Kept {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, is_wanted: AtomicBool::new(false), forms: RwLock::default(), left_out: AtomicU64::new(0) }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    pub(super) fn want(&self, wanted: bool) {
        self.is_wanted.store(wanted, Ordering::Relaxed);
        if !wanted {
            self.change(|forms| *forms = Forms::default());
        }
    }

    /// False if the object is left out because it is too large, or what is kept already.
    pub(super) fn put(&self, key: &str, scheduler: Option<&Str>, raw: &[u8]) -> bool {
        if !self.is_wanted() {
            return true;
        }
        // The form is made before the lock is taken: every reader may be waiting for it.
        let Ok(bytes) = sent_form(raw) else { return true };
        let form = Form { bytes, scheduler: scheduler.cloned() };
        let fits = self.change(|forms| forms.put(key, form, self.limits));
        if !fits {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    /// Keeps an object unless there is one under the key.
    pub(super) fn put_missing(&self, key: &str, raw: &[u8]) {
        if !self.is_wanted() {
            return;
        }
        let Ok(bytes) = sent_form(raw) else { return };
        let form = Form { bytes, scheduler: None };
        let fits = self.change(|forms| forms.by_key.contains_key(key) || forms.put(key, form, self.limits));
        if !fits {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn forget(&self, key: &str) {
        if self.is_wanted() {
            self.change(|forms| forms.forget(key));
        }
    }

    pub(super) fn retain_keys(&self, keep: impl Fn(&Str) -> bool) {
        self.change(|forms| forms.retain(|key, _| keep(key)));
    }

    /// Drops the pods that name no such scheduler.
    pub(super) fn retain_schedulers(&self, keep: impl Fn(&Str) -> bool) {
        self.change(|forms| forms.retain(|_, form| form.scheduler.as_ref().is_some_and(&keep)));
    }

    pub(super) fn len(&self) -> usize {
        self.read().by_key.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        self.read().by_key.get(key).map(|form| form.bytes.clone())
    }

    /// In the order of the keys.
    pub(super) fn get_all(&self, keys: &[Str]) -> Vec<Option<Bytes>> {
        let forms = self.read();
        keys.iter().map(|key| forms.by_key.get(key).map(|form| form.bytes.clone())).collect()
    }

    /// How often an object that came was left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Forms> {
        self.forms.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, f: impl FnOnce(&mut Forms) -> R) -> R {
        f(&mut self.forms.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { form: 1_000, all: 5_000 };

    fn raw(bytes: usize) -> Vec<u8> {
        format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes)).into_bytes()
    }

    #[test]
    fn what_is_kept_takes_a_bounded_number_of_bytes_and_gives_them_back() {
        let kept = Kept::new(LIMITS);
        kept.want(true);
        assert!(kept.put("small", None, &raw(900)));
        assert!(!kept.put("small", None, &raw(1_000)), "it has grown beyond the limit");
        assert!(kept.get("small").is_none(), "what it was before must not be sent");
        let stay = (0..100).filter(|n| kept.put(&format!("p{n}"), None, &raw(900))).count();
        assert_eq!((stay, kept.left_out()), (4, 97));
        assert!(kept.read().bytes <= LIMITS.all);
        assert!(kept.put("p0", None, &raw(800)), "what it took before counts no more");
        kept.forget("p0");
        assert!(kept.put("new", None, &raw(900)));
        kept.retain_keys(|key| &**key == "new");
        assert_eq!(kept.read().bytes, kept.read().by_key["new"].size("new"));
        kept.want(false);
        assert_eq!(kept.read().bytes, 0);
    }

    #[test]
    fn what_is_cut_out_of_a_form_takes_no_memory() {
        let kept = Kept::new(LIMITS);
        kept.want(true);
        let raw = format!(r#"{{"metadata":{{"managedFields":["{}"],"name":"a"}}}}"#, "x".repeat(1 << 20));
        assert!(kept.put("a", None, raw.as_bytes()));
        let form = kept.get("a").unwrap();
        assert_eq!(form.len(), r#"{"metadata":{"name":"a"}}"#.len());
        // A buffer that is not full is kept with all of its capacity.
        kept.want(false);
        assert!(form.try_into_mut().unwrap().capacity() < 100);
    }
}
