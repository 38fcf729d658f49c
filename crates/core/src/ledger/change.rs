use super::{MatchClass, NodeId, VolumeChange};
use crate::limits::CHANGE_LOG_ENTRIES;
use crate::model::{Pod, Str, Usage};
use std::collections::VecDeque;
use std::sync::Arc;

/// What of a node changed, as far as a queueing hint may care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeAspects(u8);

impl NodeAspects {
    /// The node is new (or came back).
    pub const ADDED: Self = Self(1);
    /// Some amount of allocatable changed.
    pub const ALLOCATABLE: Self = Self(2);
    /// A label changed.
    pub const LABELS: Self = Self(4);
    /// A taint changed, or the node was uncordoned.
    pub const TAINTS: Self = Self(8);
    /// The node was cordoned.
    pub const CORDONED: Self = Self(16);
    /// Its images changed.
    pub const IMAGES: Self = Self(32);
    /// It is gone.
    pub const REMOVED: Self = Self(64);
    /// The features it declares, its conditions or the annotation to avoid pods changed.
    pub const DECLARED: Self = Self(128);

    /// Whether any aspect of `other` is among these.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing changed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::ops::BitOr for NodeAspects {
    type Output = Self;

    fn bitor(self, rhs: Self) -> Self {
        Self(self.0 | rhs.0)
    }
}

impl std::ops::BitOrAssign for NodeAspects {
    fn bitor_assign(&mut self, rhs: Self) {
        self.0 |= rhs.0;
    }
}

/// One change of the ledger.
#[derive(Debug, Clone)]
pub enum Change {
    /// A pod without a node appeared or changed.
    PodPending {
        /// As it is now.
        pod: Arc<Pod>,
        /// As it was, if it was pending before.
        before: Option<Arc<Pod>>,
    },
    /// A pod that was pending is bound; not by a commit of this ledger.
    BoundElsewhere {
        /// The pod as last pending.
        pod: Arc<Pod>,
        /// The node's name.
        node: Str,
    },
    /// A pod that was assumed is seen bound to the node it was assumed on.
    Confirmed {
        /// The pod's uid.
        uid: Str,
    },
    /// A pending or assumed pod is gone.
    PodGone {
        /// The pod as last seen.
        pod: Arc<Pod>,
    },
    /// A pod takes room on a node: assumed, or seen bound.
    Placed {
        /// The node.
        node: NodeId,
        /// What others see of it.
        match_class: Arc<MatchClass>,
    },
    /// A pod no longer takes room on a node: deleted, finished, or its assumption undone.
    Freed {
        /// The node.
        node: NodeId,
        /// What it took.
        usage: Arc<Usage>,
        /// What others saw of it.
        match_class: Arc<MatchClass>,
    },
    /// A placed pod changed what it takes: a resize in place.
    Resized {
        /// The node.
        node: NodeId,
        /// What it took.
        before: Arc<Usage>,
        /// What it takes.
        after: Arc<Usage>,
    },
    /// A placed pod changed what others see of it: its labels, its terms, or that it is being deleted.
    Regrouped {
        /// The node.
        node: NodeId,
        /// What others saw of it.
        before: Arc<MatchClass>,
        /// What others see of it.
        after: Arc<MatchClass>,
    },
    /// A node appeared, changed or went.
    Node {
        /// The node.
        node: NodeId,
        /// What changed.
        aspects: NodeAspects,
    },
    /// A promise of a node to a pending pod ended or moved, or the node went: room for pods of at most its priority, and none
    /// for the pod itself.
    NominationEnded {
        /// The pod's priority.
        priority: i32,
    },
    /// A Service, or a controller that Services stand for in default spreading, appeared, changed or went.
    Workload {
        /// Its namespace.
        namespace: Str,
    },
    /// Something that the volume plugins read appeared, changed or went.
    Volume(VolumeChange),
    /// A DeviceClass appeared, changed its extended resource or went.
    DeviceClass {
        /// Its name.
        name: Str,
    },
    /// A PodDisruptionBudget appeared, changed or went.
    Budget {
        /// Whether an eviction may be within it that was not before.
        loosened: bool,
    },
    /// A namespace appeared, changed or went.
    Namespace {
        /// Its name.
        name: Str,
    },
}

/// The cursor fell off the log: anything may have changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGap;

/// The newest changes in order; the change of version `v` is followed by that of `v + 1`. Bounded: the oldest go.
#[derive(Debug, Default)]
pub struct ChangeLog {
    entries: VecDeque<Change>,
    version: u64,
    /// The version of the last change that gave capacity back.
    freed: u64,
}

impl ChangeLog {
    /// The version of the newest change; 0 before the first.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The changes after version `cursor`, with their versions, oldest first.
    pub fn since(&self, cursor: u64) -> Result<impl Iterator<Item = (u64, &Change)>, LogGap> {
        let oldest = self.version - self.entries.len() as u64;
        if cursor < oldest {
            return Err(LogGap);
        }
        let skip = (cursor - oldest) as usize;
        Ok(self.entries.range(skip..).zip(cursor + 1..).map(|(change, version)| (version, change)))
    }

    /// The version of the last change that gave capacity back on some node, 0 before the first: others may have waited for it.
    pub fn freed(&self) -> u64 {
        self.freed
    }

    pub(super) fn push(&mut self, change: Change) -> u64 {
        if self.entries.len() == CHANGE_LOG_ENTRIES {
            self.entries.pop_front();
        }
        self.version += 1;
        if matches!(change, Change::Freed { .. } | Change::NominationEnded { .. }) {
            self.freed = self.version;
        }
        self.entries.push_back(change);
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(i: usize) -> Change {
        Change::Namespace { name: i.to_string().into() }
    }

    #[test]
    fn a_cursor_sees_exactly_what_came_after_it() {
        let mut log = ChangeLog::default();
        for i in 1..=5 {
            assert_eq!(log.push(named(i)), i as u64);
        }
        let seen: Vec<u64> = log.since(3).expect("within the log").map(|(v, _)| v).collect();
        assert_eq!(seen, [4, 5]);
        assert_eq!(log.since(5).expect("at the end").count(), 0);
    }

    #[test]
    fn a_cursor_that_fell_off_is_told_so() {
        let mut log = ChangeLog::default();
        for i in 0..CHANGE_LOG_ENTRIES + 2 {
            log.push(named(i));
        }
        assert!(log.since(1).is_err());
        assert_eq!(log.since(2).expect("the oldest kept").count(), CHANGE_LOG_ENTRIES);
    }
}
