//! The devices of each row, and which of them the kinds of pods can use.

use crate::ledger::{DeviceTable, Ledger, NodeId};
use crate::limits::{DEVICE_STEPS, FRAGMENTATION_REQUESTS, FRAGMENTATION_WANTED};
use crate::model::Str;
use crate::plugins::context::{Stop, Work};
use crate::plugins::dynamic_resources::LabelsOf;
use berth_devices::model::{AllocationMode, DeviceClass, Request, RequestDetails, ResourceClaim as ClaimSpec};
use berth_devices::node_selector::Node;
use berth_devices::{Bits, Free, NodeDevices, Pools, Select, Selected, Wish};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What kinds ask for, and what was found of it on rows; only to be faster.
#[derive(Debug, Default)]
pub(super) struct Devices {
    wanted: Vec<Wanted>,
    /// By driver, what a unit counts: the largest number of them that any node has counts 1.
    weights: BTreeMap<Str, f64>,
    /// Whether some devices are not for one node alone.
    are_some_shared: bool,
    rows: Vec<Option<Box<Row>>>,
}

/// A request that some kind makes, and its class.
#[derive(Debug)]
struct Wanted {
    request: RequestDetails,
    class: Arc<DeviceClass>,
}

/// The devices that only the row's node can use.
#[derive(Debug)]
pub(super) struct Row {
    made_of: MadeOf,
    pub(super) own: NodeDevices,
    /// What of them is free.
    pub(super) free: Free,
    /// By place of what is wanted. What came later was not asked yet.
    wishes: Vec<Wish>,
    /// Of what is asked next, and the steps that it took so far: after too many no more devices are selected.
    selected: Selected,
    steps: i64,
    /// By unit.
    pub(super) weights: SmallVec<[f64; 8]>,
}

/// What the devices of a row were found for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MadeOf {
    epoch: u64,
    /// Of the labels of all nodes.
    labels: u64,
    offers: u64,
}

impl MadeOf {
    fn now(ledger: &Ledger, node: NodeId) -> Self {
        let (epoch, labels) = (ledger.nodes().epoch[node.index()], ledger.node_labels_version());
        Self { epoch, labels, offers: ledger.devices().version_on(node) }
    }
}

/// What claims ask for, what is alike taken together; sorted.
pub(super) type Requested = SmallVec<[Requirement; 1]>;

/// A request, and how many devices it is for: all that are alike together, and the largest of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Requirement {
    pub(super) details: RequestDetails,
    pub(super) count: Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Count {
    pub(super) together: i64,
    pub(super) largest: i64,
}

impl Count {
    pub(super) const fn one_of(count: i64) -> Self {
        Self { together: count, largest: count }
    }
}

/// What an extended resource asks for where its class stands for it.
pub(super) fn any_of(class: &Str) -> RequestDetails {
    RequestDetails { device_class_name: class.clone(), ..RequestDetails::default() }
}

/// Whether claims ask for too much for a score: such a pod counts as asking for no devices.
pub(super) fn are_too_many(claims: &[Arc<ClaimSpec>]) -> bool {
    claims.iter().map(|claim| claim.requests.len()).sum::<usize>() > FRAGMENTATION_REQUESTS
}

/// Of a prioritized list its first alternative. `None` where they [`are_too_many`].
pub(super) fn requests_of(claims: &[Arc<ClaimSpec>]) -> Option<Requested> {
    if are_too_many(claims) {
        return None;
    }
    let mut all = Requested::new();
    for request in claims.iter().flat_map(|claim| &claim.requests) {
        let details = match &request.request {
            Request::Exactly { details, admin_access: false } => Some(details),
            Request::Exactly { .. } => None,
            Request::FirstAvailable(alternatives) => alternatives.first().map(|first| &first.details),
        };
        let Some(details) = details else { continue };
        let kind = RequestDetails { count: 0, ..details.clone() };
        match all.iter_mut().find(|known| known.details == kind) {
            Some(known) => {
                known.count.together = known.count.together.saturating_add(details.count);
                known.count.largest = known.count.largest.max(details.count);
            }
            None => all.push(Requirement { details: kind, count: Count::one_of(details.count) }),
        }
    }
    all.sort_unstable();
    Some(all)
}

impl Devices {
    /// The place of a request among those that are wanted; `None` where its class is not there, or too many are wanted already.
    pub(super) fn place(&mut self, table: &DeviceTable, request: &RequestDetails) -> Option<usize> {
        let class = table.classes().get(&request.device_class_name)?;
        let is_it = |known: &Wanted| known.request == *request && Arc::ptr_eq(&known.class, class);
        if let Some(place) = self.wanted.iter().position(is_it) {
            return Some(place);
        }
        if self.wanted.len() >= FRAGMENTATION_WANTED {
            return None;
        }
        self.wanted.push(Wanted { request: request.clone(), class: class.clone() });
        Some(self.wanted.len() - 1)
    }

    /// Before the kinds are told anew: makes room for what they want.
    pub(super) fn make_room(&mut self) {
        if self.wanted.len() > FRAGMENTATION_WANTED / 2 {
            self.wanted.clear();
            self.rows.clear();
        }
    }

    /// Says whether a unit counts something else now. O(devices).
    pub(super) fn weigh(&mut self, table: &DeviceTable, work: &mut Work) -> bool {
        let (largest, devices) = table.slices().most_units();
        work.spend(devices / super::COLUMN_ROWS_PER_WORK);
        let weights = largest.into_iter().map(|(driver, units)| (driver, 1.0 / units as f64)).collect();
        let before = (std::mem::replace(&mut self.weights, weights), self.are_some_shared);
        self.are_some_shared = table.slices().have_shared_devices();
        let are_others = (&before.0, before.1) != (&self.weights, self.are_some_shared);
        if are_others {
            self.rows.clear();
        }
        are_others
    }

    /// Whether no node has devices of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The row's devices as they were followed last, if it has any.
    pub(super) fn row(&self, node: NodeId) -> Option<&Row> {
        self.rows.get(node.index())?.as_deref().filter(|row| !row.own.is_empty())
    }

    /// Brings the row up to date with the slices, and asks what was not asked yet. Where `work` is used up, the next look goes on.
    pub(super) fn follow(
        &mut self,
        ledger: &Ledger,
        node: NodeId,
        select: &mut dyn Select,
        work: &mut Work,
    ) -> Result<(), Stop> {
        let now = MadeOf::now(ledger, node);
        if self.rows.len() < ledger.nodes().rows() {
            self.rows.resize_with(ledger.nodes().rows(), || None);
        }
        let before = self.rows[node.index()].take();
        let row = match before {
            Some(row) if row.made_of == now => row,
            other => self.renewed(ledger, node, (other, now), work),
        };
        let row = self.rows[node.index()].insert(row);
        for wanted in &self.wanted[row.wishes.len()..] {
            let wish = loop {
                let Wanted { request, class } = wanted;
                let ask = |steps: &mut i64| row.own.wish(request, class, select, &mut row.selected, steps);
                let (wish, steps) = work.search_devices(ask);
                row.steps += steps;
                if let Some(wish) = wish {
                    break wish;
                }
                if row.steps >= DEVICE_STEPS {
                    row.own.leave_rest(&mut row.selected);
                }
                work.take(0)?;
            };
            row.wishes.push(wish);
            (row.selected, row.steps) = (Selected::default(), 0);
        }
        Ok(())
    }

    /// What is free there now, and where the slices are the same what was asked.
    fn renewed(
        &self,
        ledger: &Ledger,
        node: NodeId,
        (before, made_of): (Option<Box<Row>>, MadeOf),
        work: &mut Work,
    ) -> Box<Row> {
        let (nodes, table) = (ledger.nodes(), ledger.devices());
        let labels = LabelsOf(nodes.labels(node));
        let at = Node { name: nodes.name(node), labels: &labels };
        let pools = Pools::of_node_alone(table.slices(), &at);
        let is_same = |row: &Row| row.made_of.epoch == made_of.epoch && row.own.is_of(&pools);
        if let Some(mut row) = before.filter(|row| is_same(row)) {
            row.free = Free::new(&row.own, table.allocated());
            row.made_of = made_of;
            return row;
        }
        let own = NodeDevices::new(&at, pools);
        work.spend(own.size());
        let weights = own.drivers().map(|driver| self.weights.get(driver).copied().unwrap_or_default()).collect();
        let free = Free::new(&own, table.allocated());
        Box::new(Row { made_of, own, free, wishes: Vec::new(), selected: Selected::default(), steps: 0, weights })
    }

    /// Marks the units that so many devices of what is wanted there could be of; says whether there are so many. What no device of the node
    /// can be may be had from those that nodes share.
    pub(super) fn mark(
        &self,
        on_row: Option<&(&Row, Free)>,
        (place, count): (usize, Count),
        usable: &mut Bits,
    ) -> bool {
        let on_row = on_row.and_then(|(row, free)| Some((row, free, row.wishes.get(place)?)));
        let Some((row, free, wish)) = on_row else { return self.are_some_shared };
        let selected = wish.number();
        if selected == 0 {
            return self.are_some_shared;
        }
        let found = free.usable(&row.own, wish, usable);
        match self.wanted[place].request.allocation_mode {
            AllocationMode::All => found.number == selected,
            _ => found.number as i64 >= if found.some_are_shared { count.largest } else { count.together },
        }
    }
}
