//! What is left on a row, what of it is stranded, and how much more a pod would strand.

use super::devices::{Count, Devices, Row};
use super::{Kind, Resource};
use crate::ledger::NodeId;
use crate::limits::{COMPARISONS_PER_WORK, FRAGMENTATION_DEVICE_STEPS};
use crate::model::Str;
use crate::plugins::context::{PluginContext, Work};
use crate::plugins::dynamic_resources::{NoShares, allocate, request_of};
use berth_devices::model::{AllocationResult, DeviceRequest, ResourceClaim as ClaimSpec};
use berth_devices::{Bits, Free, Outcome, Progress, Select, WholeDevices};
use smallvec::SmallVec;
use std::sync::Arc;

/// What rows are judged by.
pub(super) struct Judge<'a> {
    pub(super) cx: PluginContext<'a>,
    pub(super) resources: &'a [Resource],
    pub(super) kinds: &'a [Kind],
    pub(super) devices: &'a Devices,
}

/// What the pod takes that is looked at.
pub(super) struct Takes<'a> {
    pub(super) cpu: i64,
    pub(super) memory: i64,
    /// By resource.
    pub(super) amounts: SmallVec<[i64; 4]>,
    /// Its claims that have no devices yet.
    pub(super) claims: &'a [Arc<ClaimSpec>],
    /// Its extended resources for which DeviceClasses stand.
    pub(super) backed: SmallVec<[Backed; 1]>,
}

/// So many of an extended resource: by its place where some node offers it, and by its class elsewhere.
#[derive(Debug)]
pub(super) struct Backed {
    pub(super) place: Option<usize>,
    pub(super) class: Str,
    pub(super) count: i64,
}

/// What is left on a row.
struct Left<'a> {
    cpu: i64,
    memory: i64,
    pods: i64,
    /// By resource.
    amounts: SmallVec<[i64; 4]>,
    /// Whether the node offers it.
    offers: SmallVec<[bool; 4]>,
    devices: Option<(&'a Row, Free)>,
}

/// What was found on a row for what a pod takes.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// By how much the pod makes the row more fragmented, less than 0 where it takes what was stranded; not a number while it is not known.
    pub(super) growth: f64,
    /// The devices that it takes, where they are known: they are the same for any mix.
    takes: Option<WholeDevices>,
}

impl Default for Found {
    fn default() -> Self {
        Self { growth: f64::NAN, takes: None }
    }
}

impl Judge<'_> {
    /// What [`Self::judge`] takes beyond a unit of work, with devices that were followed.
    pub(super) fn cost(&self, node: NodeId) -> usize {
        let devices = self.devices.row(node).map_or(0, |row| row.own.size());
        let wanted: usize = self.kinds.iter().map(|kind| 1 + kind.devices.len() + kind.scalars.len()).sum();
        (wanted + wanted * devices) / COMPARISONS_PER_WORK
    }

    /// Finds out by how much the pod makes the row more fragmented. `before` is what is stranded there without it, once that is known.
    pub(super) fn judge(
        &self,
        node: NodeId,
        takes: &Takes<'_>,
        before: &mut Option<f64>,
        found: &mut Found,
        select: &mut dyn Select,
        work: &mut Work,
    ) {
        let mut left = self.left(node);
        if left.amounts.iter().all(|amount| *amount <= 0) && left.devices.is_none() {
            found.growth = 0.0;
            return;
        }
        let before = *before.get_or_insert_with(|| self.stranded(&left));
        // Where a filter is off, a pod may ask for more than there is anywhere.
        left.cpu = left.cpu.saturating_sub(takes.cpu);
        left.memory = left.memory.saturating_sub(takes.memory);
        left.pods -= 1;
        for (amount, taken) in left.amounts.iter_mut().zip(&takes.amounts) {
            *amount = amount.saturating_sub(*taken);
        }
        if left.devices.is_some() {
            self.take_devices(node, takes, &mut left, found, select, work);
        }
        found.growth = self.stranded(&left) - before;
    }

    fn take_devices(
        &self,
        node: NodeId,
        takes: &Takes<'_>,
        left: &mut Left<'_>,
        found: &mut Found,
        select: &mut dyn Select,
        work: &mut Work,
    ) {
        if let (Some(devices), Some((row, free))) = (found.takes, &mut left.devices) {
            free.take_all_of(&row.own, devices);
            return;
        }
        let made = takes.made(left);
        let Some((row, free)) = &mut left.devices else { return };
        let claims: SmallVec<[&ClaimSpec; 2]> = takes.claims.iter().map(AsRef::as_ref).chain(made.as_ref()).collect();
        // Where the search took too long it takes none, and the next one may come further.
        let allocations = self.allocate(node, &claims, select, work);
        found.takes = allocations.as_ref().and_then(|all| WholeDevices::of(&row.own, all));
        allocations.iter().flatten().for_each(|allocation| free.take(&row.own, allocation));
    }

    fn left(&self, node: NodeId) -> Left<'_> {
        let nodes = self.cx.ledger.nodes();
        let row = &nodes.fixed[node.index()];
        let left = |r: &Resource| nodes.scalar_allocatable(r.column, node) - nodes.scalar_used(r.column, node);
        Left {
            cpu: row.allocatable_cpu - row.used_cpu,
            memory: row.allocatable_memory - row.used_memory,
            pods: row.allocatable_pods - row.used_pods,
            amounts: self.resources.iter().map(left).collect(),
            offers: self.resources.iter().map(|r| nodes.scalar_allocatable(r.column, node) > 0).collect(),
            devices: self.devices.row(node).map(|row| (row, row.free.clone())),
        }
    }

    /// The devices that the claims get; none where they get none, and `None` where that is not known.
    fn allocate(
        &self,
        node: NodeId,
        claims: &[&ClaimSpec],
        select: &mut dyn Select,
        work: &mut Work,
    ) -> Option<Vec<AllocationResult>> {
        if claims.is_empty() {
            return Some(Vec::new());
        }
        let (mut progress, mut steps) = (Progress::default(), FRAGMENTATION_DEVICE_STEPS);
        let outcome = allocate(self.cx, node, claims, &mut progress, select, &mut NoShares, &mut steps);
        work.spend_steps(FRAGMENTATION_DEVICE_STEPS - steps);
        match outcome {
            Outcome::Allocated(allocations) => Some(allocations),
            Outcome::OutOfSteps => None,
            _ => Some(Vec::new()),
        }
    }

    /// What is stranded for all kinds together, each by its share.
    fn stranded(&self, left: &Left<'_>) -> f64 {
        let counts = |place: usize| left.amounts[place].max(0) as f64 * self.resources[place].unit;
        let mut all: f64 = (0..self.resources.len()).map(counts).sum();
        let mut units: SmallVec<[f64; 8]> = SmallVec::new();
        if let Some((row, free)) = &left.devices {
            units.extend(free.units(&row.own).zip(&row.weights).map(|(free, weight)| free * weight));
            all += units.iter().sum::<f64>();
        }
        let mut usable = Bits::with_room(units.len());
        let mut of_kind = |kind: &Kind| {
            usable.clear();
            let Some(amounts) = self.can_use(left, kind, &mut usable) else { return kind.share * all };
            let devices: f64 = usable.iter().map(|unit| units[unit]).sum();
            kind.share * (all - amounts.into_iter().map(counts).sum::<f64>() - devices)
        };
        self.kinds.iter().map(&mut of_kind).sum()
    }

    /// The places of the resources that pods of the kind can use there, and in `usable` the units; `None` where none fits.
    fn can_use(&self, left: &Left<'_>, kind: &Kind, usable: &mut Bits) -> Option<SmallVec<[usize; 2]>> {
        if left.pods <= 0 || left.cpu < kind.cpu || left.memory < kind.memory {
            return None;
        }
        let mut places = SmallVec::new();
        let mut gets = |wanted| self.devices.mark(left.devices.as_ref(), wanted, usable).then_some(());
        for scalar in &kind.scalars {
            match (scalar.place.filter(|place| left.offers[*place]), scalar.devices) {
                (Some(place), _) if left.amounts[place] >= scalar.amount => places.push(place),
                (None, Some(wanted)) => gets((wanted, Count::one_of(scalar.amount)))?,
                _ => return None,
            }
        }
        kind.devices.iter().try_for_each(|wanted| gets(*wanted))?;
        Some(places)
    }
}

impl Takes<'_> {
    /// The claim for the extended resources that no device plugin provides on the node.
    fn made(&self, left: &Left<'_>) -> Option<ClaimSpec> {
        let needed = self.backed.iter().filter(|one| !one.place.is_some_and(|place| left.offers[place]));
        let request = |(index, one): (usize, &Backed)| request_of(index.to_string().into(), &one.class, one.count);
        let requests: Vec<DeviceRequest> = needed.enumerate().map(request).collect();
        (!requests.is_empty()).then(|| ClaimSpec { requests, ..ClaimSpec::default() })
    }
}
