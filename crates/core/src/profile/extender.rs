use crate::model::{LabelSelector, Pod, Str};

/// An extender as far as decisions depend on it. How it is reached is not the core's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extender {
    pub name: Str,
    /// The URL before the verbs' paths: messages name an extender by it, as upstream.
    pub url: Str,
    /// Whether it filters, and what a failure means.
    pub filter: Option<OnFailure>,
    /// Whether it scores, and what a failure means.
    pub prioritize: Option<OnFailure>,
    /// Whether it changes victims, and what a failure means.
    pub preempt: Option<OnFailure>,
    pub binds: bool,
    /// The weight of its score, 1 to 1,000,000. It enters a node's total times 10.
    pub weight: i64,
    /// Whether it is sent whole nodes and pods instead of names.
    pub full_nodes: bool,
    /// Unless empty, the extender is interested only in pods that request one of these resources. Sorted.
    pub managed: Vec<Str>,
    /// If given, the extender is interested only in pods that it matches.
    pub pod_selector: Option<LabelSelector>,
}

/// What a failed call does to the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    Fail,
    /// The attempt goes on as if the extender were not there.
    Ignore,
}

impl Extender {
    /// After `IsInterested` in `pkg/scheduler/extender.go`; limits are not looked at, since the API server makes requests of
    /// them.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        let asks = |name: &Str| pod.shape.row.requests.scalar(name).is_some();
        (self.managed.is_empty() || self.managed.iter().any(asks))
            && self.pod_selector.as_ref().is_none_or(|selector| selector.matches(&pod.shape.labels))
    }
}

/// A set of a profile's extenders, by their place in it. A profile has 8 at most; places from 64 on are in no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ExtenderSet(u64);

impl ExtenderSet {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u64::MAX);

    const fn bit(extender: usize) -> u64 {
        if extender < u64::BITS as usize { 1 << extender } else { 0 }
    }

    pub const fn insert(&mut self, extender: usize) {
        self.0 |= Self::bit(extender);
    }

    /// Says whether it was in.
    pub const fn remove(&mut self, extender: usize) -> bool {
        let was_in = self.has(extender);
        self.0 &= !Self::bit(extender);
        was_in
    }

    pub const fn has(self, extender: usize) -> bool {
        self.0 & Self::bit(extender) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// In the order in which they are called.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..u64::BITS as usize).filter(move |extender| self.has(*extender))
    }
}

impl FromIterator<usize> for ExtenderSet {
    fn from_iter<I: IntoIterator<Item = usize>>(extenders: I) -> Self {
        let mut set = Self::NONE;
        extenders.into_iter().for_each(|extender| set.insert(extender));
        set
    }
}
