use super::schedulers::SchedulersInTurn;
use super::{DeviceChange, MatchClass, NodeId};
use crate::limits::{CHANGE_LOG_BYTES, CHANGE_LOG_ENTRIES};
use crate::model::{ClaimKey, Footprint, Pod, PodShape, Str, Usage};
use std::collections::VecDeque;
use std::sync::Arc;

/// What of a node changed, as far as a queueing hint may care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeAspects(u8);

impl NodeAspects {
    pub const ADDED: Self = Self(1);
    pub const ALLOCATABLE: Self = Self(2);
    pub const LABELS: Self = Self(4);
    /// A taint changed, or the node was uncordoned.
    pub const TAINTS: Self = Self(8);
    pub const CORDONED: Self = Self(16);
    pub const IMAGES: Self = Self(32);
    pub const REMOVED: Self = Self(64);
    /// The features it declares, its conditions or the annotation to avoid pods changed.
    pub const DECLARED: Self = Self(128);

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

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

#[derive(Debug, Clone)]
pub enum Change {
    /// A pod without a node appeared or changed.
    PodPending {
        pod: Arc<Pod>,
        /// Whether it was not pending before.
        is_new: bool,
    },
    /// A pod that was pending is bound, but not by a commit of this ledger. `pod` is as last pending.
    BoundElsewhere {
        pod: Arc<Pod>,
        node: Str,
    },
    /// A pod that was assumed is seen bound to the node it was assumed on.
    Confirmed {
        pod: Str,
    },
    /// A pending or assumed pod was deleted or has finished.
    PodDeleted {
        pod: Arc<Pod>,
    },
    /// A pod was assumed on a node or seen bound to it.
    PodPlaced {
        node: NodeId,
        match_class: Arc<MatchClass>,
    },
    /// A pod no longer takes anything from its node: deleted, finished, or its assumption undone.
    Freed {
        node: NodeId,
        usage: Arc<Usage>,
        match_class: Arc<MatchClass>,
    },
    /// A placed pod changed what it takes from its node: a resize in place.
    Resized {
        node: NodeId,
        before: Arc<Usage>,
        after: Arc<Usage>,
    },
    /// A placed pod changed what other pods see of it: its labels, its terms, or that it is being deleted.
    ///
    /// Its node's row is not stamped: no column depends on it, and answers cached by row come from columns alone. What
    /// counts or matches placed pods follows this change in the log, and anti-affinity terms have a version of their own.
    Regrouped {
        pod: Str,
        node: NodeId,
        before: Arc<MatchClass>,
        after: Arc<MatchClass>,
    },
    Node {
        node: NodeId,
        aspects: NodeAspects,
    },
    /// The nomination of a pending pod ended or moved, or its node was deleted: its capacity is free for pods of at most
    /// its priority, and not for the pod itself.
    NominationEnded {
        priority: i32,
    },
    /// A victim that the pending pod with this uid counted on is not evicted after all.
    VictimStays {
        preemptor: Str,
    },
    /// A Service, or a controller that default spreading goes by, was added, changed or deleted.
    Workload,
    Volume(VolumeChange),
    DeviceClass,
    Device(DeviceChange),
    Budget {
        /// Whether the budget may now allow an eviction that it did not allow before.
        loosened: bool,
    },
    Namespace {
        name: Str,
    },
}

impl Change {
    /// Whether a search or a preemption may read what changed. Nothing reads pods that wait but their nominations, which have a version
    /// of their own, and a confirmation only says that what was assumed is so.
    const fn is_fact(&self) -> bool {
        !matches!(self, Self::PodPending { .. } | Self::PodDeleted { .. } | Self::Confirmed { .. })
    }
}

/// What changed of volumes and their like, as far as a queueing hint may care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeChange {
    VolumeAdded {
        names: VolumeNames,
    },
    VolumeUpdated {
        names: VolumeNames,
        /// Whether the zones or regions of its labels changed.
        zones: bool,
    },
    VolumeDeleted {
        names: VolumeNames,
    },
    ClaimAdded(ClaimKey),
    ClaimUpdated(ClaimKey),
    ClaimDeleted(ClaimKey),
    ClassAdded {
        /// Whether its claims wait for their first consumer.
        waits: bool,
    },
    ClassUpdated {
        /// Whether the places where its volumes can be made changed.
        topologies: bool,
    },
    ClassDeleted,
    CsiNodeAdded,
    CsiNodeUpdated {
        /// Whether some driver can attach more than before.
        raised: bool,
        /// Whether the plugins that it has handed over to CSI drivers changed.
        migrated: bool,
    },
    CsiNodeDeleted,
    /// A CSIDriver was added, changed or deleted.
    CsiDriver {
        /// Whether its capacity was checked before and is no more.
        boundless: bool,
    },
    /// There may be more capacity for volumes: a CSIStorageCapacity was added or reports more.
    CapacityGrew,
    /// A CSIStorageCapacity changed otherwise, or was deleted.
    CapacityChanged,
    /// A VolumeAttachment was added or changed.
    Attached,
    /// A VolumeAttachment was deleted.
    Detached,
    /// What was assumed for a pod was undone: a volume or claim is free again.
    Released,
}

/// A volume, and the claim that it is bound to or kept for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeNames {
    pub volume: Str,
    pub claim: Option<ClaimKey>,
}

impl VolumeChange {
    /// The claim that was added, changed or deleted: that concerns only pods that name it.
    pub const fn claim(&self) -> Option<&ClaimKey> {
        match self {
            Self::ClaimAdded(key) | Self::ClaimUpdated(key) | Self::ClaimDeleted(key) => Some(key),
            _ => None,
        }
    }
}

/// The cursor is older than the log: anything may have changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGap;

/// One change, and the bytes that it keeps alive.
#[derive(Debug)]
struct Entry {
    change: Change,
    bytes: u32,
}

/// The last values that were weighed: the pods of changes in a row share most of what they are.
#[derive(Debug, Default)]
struct Weighed {
    shape: Option<Arc<PodShape>>,
    usage: Option<Arc<Usage>>,
    match_class: Option<Arc<MatchClass>>,
}

/// The bytes of `value`; 0 if it is the one that was weighed last.
fn weigh<T: Footprint>(last: &mut Option<Arc<T>>, value: &Arc<T>) -> usize {
    if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, value)) {
        return 0;
    }
    *last = Some(value.clone());
    value.heap_bytes()
}

impl Weighed {
    /// About how many bytes `change` keeps alive beside the changes before it.
    fn bytes(&mut self, change: &Change) -> usize {
        match change {
            Change::PodPending { pod, .. } | Change::BoundElsewhere { pod, .. } | Change::PodDeleted { pod } => {
                pod.own_bytes() + weigh(&mut self.shape, &pod.shape) + weigh(&mut self.usage, &pod.usage)
            }
            Change::PodPlaced { match_class, .. } => weigh(&mut self.match_class, match_class),
            Change::Freed { usage, match_class, .. } => {
                weigh(&mut self.match_class, match_class) + weigh(&mut self.usage, usage)
            }
            Change::Resized { before, after, .. } => weigh(&mut self.usage, before) + weigh(&mut self.usage, after),
            Change::Regrouped { before, after, .. } => {
                weigh(&mut self.match_class, before) + weigh(&mut self.match_class, after)
            }
            // Three names at most.
            _ => 0,
        }
    }
}

/// The newest changes in order; the change of version `v` is followed by that of `v + 1`. Bounded in number and in bytes: the
/// oldest are dropped.
#[derive(Debug, Default)]
pub struct ChangeLog {
    entries: VecDeque<Entry>,
    /// Bytes of all entries.
    bytes: usize,
    weighed: Weighed,
    schedulers: SchedulersInTurn,
    version: u64,
    /// The version of the last change that gave capacity back.
    freed: u64,
    /// The version of the last change that [is a fact](Change::is_fact).
    facts: u64,
}

impl ChangeLog {
    /// The version of the newest change; 0 before the first.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version up to which changes are not kept any more.
    fn dropped_until(&self) -> u64 {
        self.version - self.entries.len() as u64
    }

    /// The changes after version `cursor`, with their versions, oldest first.
    pub fn since(&self, cursor: u64) -> Result<impl Iterator<Item = (u64, &Change)>, LogGap> {
        let oldest = self.dropped_until();
        if cursor < oldest {
            return Err(LogGap);
        }
        let skip = (cursor - oldest) as usize;
        Ok(self.entries.range(skip..).zip(cursor + 1..).map(|(entry, version)| (version, &entry.change)))
    }

    /// The version up to which the changes after version `cursor` are about no pods that wait or waited for schedulers which are `served`.
    /// It may be up to 127 lower than it could. O(changes ÷ 128).
    pub fn without(&self, cursor: u64, served: impl FnMut(&Str) -> bool) -> u64 {
        if cursor < self.dropped_until() { cursor } else { self.schedulers.without(cursor, self.version, served) }
    }

    /// The version from which on the newer half of the kept changes goes; 0 as long as all are kept.
    pub(super) fn newer_half(&self) -> u64 {
        let kept = self.entries.len() as u64;
        if kept == self.version { 0 } else { self.version - kept / 2 }
    }

    /// The version of the last change that gave capacity back on some node, 0 before the first: others may have waited for it.
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// The version of the last change that searches or preemptions may read, 0 before the first.
    pub(super) fn facts(&self) -> u64 {
        self.facts
    }

    /// Only `Ledger::record` may call this: a row carries the version of its last change.
    pub(super) fn push(&mut self, change: Change) -> u64 {
        let bytes = self.weighed.bytes(&change) as u32;
        self.bytes += bytes as usize;
        while self.entries.len() == CHANGE_LOG_ENTRIES || self.bytes > CHANGE_LOG_BYTES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes as usize;
        }
        self.version += 1;
        self.schedulers.push(self.version, change.scheduler(), self.version - 1 - self.entries.len() as u64);
        if matches!(change, Change::Freed { .. } | Change::NominationEnded { .. }) {
            self.freed = self.version;
        }
        if change.is_fact() {
            self.facts = self.version;
        }
        self.entries.push_back(Entry { change, bytes });
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pod, shape};

    /// A pod that nobody else keeps, with a label of so many bytes.
    fn labelled(i: usize, bytes: usize) -> Arc<Pod> {
        let mut shape = shape();
        shape.labels = [("label", &*format!("{i}{}", "x".repeat(bytes)))].into_iter().collect();
        Arc::new(pod("p", shape))
    }

    #[test]
    fn changes_of_large_pods_keep_a_bounded_number_of_bytes() {
        let mut log = ChangeLog::default();
        for i in 0..100 {
            log.push(Change::PodPending { pod: labelled(i, 1 << 20), is_new: i == 0 });
        }
        let kept: usize = log.since(log.version - log.entries.len() as u64).expect("kept").count();
        assert!((20..32).contains(&kept), "{kept} pods of a megabyte");
        // A bound pod is relabelled.
        let classes: Vec<_> = (0..100).map(|i| Arc::new(MatchClass::of(&labelled(i, 1 << 20)))).collect();
        for classes in classes.windows(2) {
            let (before, after) = (classes[0].clone(), classes[1].clone());
            log.push(Change::Regrouped { pod: "p".into(), node: NodeId::new(0), before, after });
        }
        assert!(log.entries.len() < 32, "{} entries", log.entries.len());
        assert!(log.since(log.version - 1).is_ok(), "the newest is there");
        for i in 0..40 {
            log.push(named(i));
        }
        let sum: usize = log.entries.iter().map(|entry| entry.bytes as usize).sum();
        assert_eq!(sum, log.bytes);
    }

    #[test]
    fn pods_of_one_shape_are_weighed_once() {
        let mut log = ChangeLog::default();
        let one = labelled(0, 1 << 20);
        for _ in 0..1_000 {
            log.push(Change::PodPending { pod: one.clone(), is_new: false });
        }
        assert_eq!(log.entries.len(), 1_000);
    }

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
    fn a_cursor_older_than_the_log_is_a_gap() {
        let mut log = ChangeLog::default();
        for i in 0..CHANGE_LOG_ENTRIES + 2 {
            log.push(named(i));
        }
        assert!(log.since(1).is_err());
        assert_eq!(log.since(2).expect("the oldest kept").count(), CHANGE_LOG_ENTRIES);
    }
}
