//! The files of this folder know each other: `mod.rs` says why.

use super::VolumeTable;
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::ledger::{CountsByNode, NodeId};
use crate::model::{Attachable, CsiNode, Str};
use smallvec::SmallVec;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// A placed pod that mounts the volume.
    Pod,
    /// A VolumeAttachment.
    Object,
}

/// One driver on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    driver: Str,
    /// The most volumes that the driver can attach there, where there is a limit.
    limit: Option<i64>,
    /// Distinct volumes that are attached there.
    used: i64,
}

/// Where one volume is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Places {
    pods: CountsByNode,
    objects: CountsByNode,
}

/// Attached volumes by node and driver.
#[derive(Debug, Default)]
pub(super) struct Attached {
    rows: Vec<SmallVec<[Slot; 1]>>,
    volumes: KeyedMap<Attachable, Places>,
}

impl VolumeTable {
    /// How many more volumes of `driver` the node can attach; `None` where there is no limit.
    #[inline]
    pub fn free_attachments(&self, node: NodeId, driver: &str) -> Option<i64> {
        let slots = self.attached.rows.get(node.index())?;
        let slot = slots.iter().find(|slot| *slot.driver == *driver)?;
        slot.limit.map(|limit| limit - slot.used)
    }

    pub fn mounted_on(&self, volume: &Attachable) -> Option<&CountsByNode> {
        self.attached.volumes.get(volume).map(|places| &places.pods)
    }

    /// Whether `volume` is attached to the node, by a pod or by an object.
    pub fn is_attached(&self, volume: &Attachable, node: NodeId) -> bool {
        self.attached.volumes.get(volume).is_some_and(|places| places.on(node))
    }

    /// Whether a VolumeAttachment attaches `volume` to the node: then it stays attached whatever pods are deleted.
    pub fn has_attachment(&self, volume: &Attachable, node: NodeId) -> bool {
        self.attached.volumes.get(volume).is_some_and(|places| places.objects.on(node) > 0)
    }
}

impl Attached {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { rows: Vec::new(), volumes: key.map() }
    }

    pub(super) fn add(&mut self, volume: &Attachable, node: NodeId, by: By) {
        let places = self.volumes.entry(volume.clone()).or_default();
        let was_there = places.on(node);
        places.by(by).add(node);
        if !was_there {
            self.slot(node, &volume.driver).used += 1;
        }
    }

    pub(super) fn remove(&mut self, volume: &Attachable, node: NodeId, by: By) {
        let Some(places) = self.volumes.get_mut(volume) else { return };
        let was_there = places.on(node);
        places.by(by).remove(node);
        let is_there = places.on(node);
        if places.pods.is_empty() && places.objects.is_empty() {
            self.volumes.remove(volume);
        }
        if was_there && !is_there {
            self.slot(node, &volume.driver).used -= 1;
            self.drop_unused(node);
        }
    }

    /// Sets the limits of a node: those of its CSINode, or none.
    pub(super) fn set_limits(&mut self, node: NodeId, csi_node: Option<&CsiNode>) {
        for slot in self.row(node) {
            slot.limit = None;
        }
        for (driver, limit) in csi_node.iter().flat_map(|csi_node| &csi_node.drivers) {
            if let Some(limit) = limit {
                self.slot(node, driver).limit = Some(i64::from(*limit));
            }
        }
        self.drop_unused(node);
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        let rows = self.rows.len().max(other.rows.len());
        let sorted = |table: &Self, row: usize| {
            let mut slots = table.rows.get(row).cloned().unwrap_or_default();
            slots.sort_by(|a, b| a.driver.cmp(&b.driver));
            slots
        };
        self.volumes == other.volumes && (0..rows).all(|row| sorted(self, row) == sorted(other, row))
    }

    fn row(&mut self, node: NodeId) -> &mut SmallVec<[Slot; 1]> {
        if self.rows.len() <= node.index() {
            self.rows.resize_with(node.index() + 1, SmallVec::new);
        }
        &mut self.rows[node.index()]
    }

    fn slot(&mut self, node: NodeId, driver: &Str) -> &mut Slot {
        let row = self.row(node);
        let at = row.iter().position(|slot| slot.driver == *driver).unwrap_or_else(|| {
            row.push(Slot { driver: driver.clone(), limit: None, used: 0 });
            row.len() - 1
        });
        &mut row[at]
    }

    fn drop_unused(&mut self, node: NodeId) {
        self.row(node).retain(|slot| slot.limit.is_some() || slot.used != 0);
    }
}

impl Places {
    fn on(&self, node: NodeId) -> bool {
        self.pods.on(node) > 0 || self.objects.on(node) > 0
    }

    const fn by(&mut self, by: By) -> &mut CountsByNode {
        match by {
            By::Pod => &mut self.pods,
            By::Object => &mut self.objects,
        }
    }
}
