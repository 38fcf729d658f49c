//! The requests of a worker that have no answer yet, and whether it may make more of them.

use crate::io::AttemptId;
use crate::limits::LATE_ANSWER;
use crate::model::{Str, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// As long as answers come, pods are tried in their order until `most` requests are on the way. A namespace is late while one of its
/// requests has had no answer for [`LATE_ANSWER`]. What is late does not count for others, which have `most` among themselves; but
/// while there is such a namespace each has at most as many as are left of twice `most`. So one whose requests hang leaves room for
/// others, each of several that hang leaves half of what is left, and one alone has `most`, late or not.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    asked: FxHashMap<AttemptId, Asked>,
    /// Who has how many on the way, while a namespace is late and there are `most` or more.
    shares: Option<Shares>,
}

#[derive(Debug)]
struct Asked {
    at: Time,
    namespace: Str,
}

#[derive(Debug, Default)]
struct Shares {
    of: BTreeMap<Str, Share>,
    /// Requests of namespaces that are not late.
    in_time: usize,
}

#[derive(Debug, Default)]
struct Share {
    asked: usize,
    late: bool,
}

impl Default for Window {
    /// Without a bound.
    fn default() -> Self {
        Self { most: usize::MAX, asked: FxHashMap::default(), shares: None }
    }
}

impl Window {
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most.max(1);
    }

    pub(super) fn begin(&mut self, id: AttemptId, at: Time, namespace: &Str) {
        self.asked.insert(id, Asked { at, namespace: namespace.clone() });
        if let Some(Shares { of, in_time }) = &mut self.shares {
            let share = of.entry(namespace.clone()).or_default();
            share.asked += 1;
            *in_time += usize::from(!share.late);
        }
    }

    /// The request is answered, or is waited for elsewhere.
    pub(super) fn end(&mut self, id: AttemptId) {
        let Some(Asked { namespace, .. }) = self.asked.remove(&id) else { return };
        if let Some(Shares { of, in_time }) = &mut self.shares
            && let Some(share) = of.get_mut(&namespace)
        {
            share.asked -= 1;
            *in_time -= usize::from(!share.late);
        }
    }

    /// Requests on the way.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Finds out who is late: this holds until the next call. O(requests on the way), where there are `most` or more.
    pub(super) fn look(&mut self, now: Time) {
        self.shares = None;
        let is_late = |asked: &Asked| asked.at + LATE_ANSWER <= now;
        if self.asked.len() < self.most || !self.asked.values().any(is_late) {
            return;
        }
        let mut shares = Shares::default();
        self.asked.values().for_each(|asked| {
            let share = shares.of.entry(asked.namespace.clone()).or_default();
            share.asked += 1;
            share.late |= is_late(asked);
        });
        shares.in_time = shares.of.values().filter(|share| !share.late).map(|share| share.asked).sum();
        self.shares = Some(shares);
    }

    /// Whether a request for a pod of `namespace` may be made.
    pub(super) fn has_room(&self, namespace: &str) -> bool {
        let Some(shares) = &self.shares else { return !self.is_full() };
        let share = shares.of.get(namespace);
        let in_time = shares.in_time < self.most || share.is_some_and(|share| share.late);
        in_time && share.map_or(0, |share| share.asked) < self.left()
    }

    /// Whether there is room for nobody.
    pub(super) fn is_full(&self) -> bool {
        let left = self.left();
        let has_room = |share: &Share| share.late && share.asked < left;
        left == 0 || self.shares.as_ref().is_some_and(|s| s.in_time >= self.most && !s.of.values().any(has_room))
    }

    fn left(&self) -> usize {
        let most = if self.shares.is_some() { self.most.saturating_mul(2) } else { self.most };
        most.saturating_sub(self.asked.len())
    }

    /// When the next namespace is late, which makes room for others.
    pub(super) fn next_late(&self) -> Option<Time> {
        let is_late =
            |namespace: &Str| self.shares.as_ref().is_some_and(|s| s.of.get(namespace).is_some_and(|s| s.late));
        let in_time = self.asked.values().filter(|asked| !is_late(&asked.namespace));
        in_time.map(|asked| asked.at).min().map(|at| at + LATE_ANSWER)
    }

    /// The attempts whose requests are on the way, sorted.
    #[cfg(test)]
    pub(super) fn attempts(&self) -> Vec<AttemptId> {
        let mut all: Vec<AttemptId> = self.asked.keys().copied().collect();
        all.sort_unstable();
        all
    }
}
