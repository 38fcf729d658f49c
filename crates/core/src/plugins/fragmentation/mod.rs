//! Fragmentation: prefers the node on which the pod strands least of what is free of extended resources and devices. After the fragmentation
//! gradient descent of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).
//!
//! What is free on a node is stranded for a pod that does not fit there, or does not ask for it. A node's fragmentation is what is stranded
//! there for the profile's recent [`mix`] of pods, each kind by its share; the score is lowest where the pod adds most to it.
//!
//! Of devices those count that only one node can use, each for itself: whether a pod of the mix could have enough of them, not whether a
//! search that knows its constraints would find them together. Devices that nodes share are taken for free. What the pod that is scored
//! takes is what the allocator gives it.
//!
//! ```text
//!  mix      which pods came lately
//!  devices  the devices of rows, and which of them kinds of pods can use
//!  row      what is left on a row, and what of it is stranded
//!  by_row   what was found on rows, until they change
//! ```

mod by_row;
#[cfg(test)]
mod device_tests;
mod devices;
mod mix;
mod row;
#[cfg(test)]
mod tests;

use super::context::{MAX_NODE_SCORE, Plugin, PluginContext, ResolvedPod, Stop, Work};
use super::dynamic_resources::kept::Kept as KeptClaims;
use super::dynamic_resources::open_claims;
use crate::ledger::{NodeId, NodeTable, ScalarId};
use crate::limits::{FRAGMENTATION_ASKS_KEPT, FRAGMENTATION_KINDS, FRAGMENTATION_RESOURCES, FRAGMENTATION_ROWS_KEPT};
use crate::model::{Pod, Requests, Str};
use berth_devices::model::ResourceClaim as ClaimSpec;
use by_row::ByRow;
use devices::{Count, Devices, Requested, Requirement, any_of, are_too_many, requests_of};
use mix::{Ask, Mix};
use row::{Backed, Found, Judge, Takes};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// What is kept between attempts: which pods came lately, and what was found on rows.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    mix: Mix,
    /// The uid of the pod that was counted last: a look may be given up and made again.
    counted: Str,
    made_of: Versions,
    resources: Vec<Resource>,
    kinds: Vec<Kind>,
    devices: Devices,
    /// What is stranded on each row as it is.
    stranded: ByRow<Option<f64>>,
    /// What was asked last comes first.
    kept: Vec<Kept>,
}

/// What the rest was made of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Versions {
    mix: u64,
    scalar_offers: u64,
    slices: u64,
    classes: u64,
}

/// An extended resource that counts.
#[derive(Debug, PartialEq)]
struct Resource {
    name: Str,
    column: ScalarId,
    /// What a unit counts: the largest amount that any node offers counts 1.
    unit: f64,
}

/// A kind of pods that asks for extended resources or devices which there are.
#[derive(Debug)]
struct Kind {
    cpu: i64,
    memory: i64,
    scalars: SmallVec<[Scalar; 2]>,
    /// Of what is wanted of devices, by its place, and how many.
    devices: SmallVec<[(usize, Count); 1]>,
    /// Of all pods that count, 0 to 1.
    share: f64,
}

/// So much of an extended resource.
#[derive(Debug)]
struct Scalar {
    /// Among resources, if some node offers it.
    place: Option<usize>,
    /// Among what is wanted of devices, if a DeviceClass stands for it.
    devices: Option<usize>,
    amount: i64,
}

/// What was found for pods that ask for this.
#[derive(Debug)]
struct Kept {
    ask: Ask,
    claims: Vec<Arc<ClaimSpec>>,
    rows: ByRow<Found>,
}

impl Tables {
    /// Forgets all but which pods came.
    pub(crate) fn clear(&mut self) {
        let Self { mix, counted, .. } = std::mem::take(self);
        *self = Self { mix, counted, ..Self::default() };
    }

    /// The pod is looked at, maybe once more.
    pub(crate) fn count(&mut self, cx: PluginContext<'_>, pod: &Pod) {
        if self.counted != pod.uid {
            self.counted = pod.uid.clone();
            let devices = requests_of(&open_claims(cx, pod)).unwrap_or_default();
            self.mix.count(Ask::of(&pod.shape.row.requests, devices));
        }
    }

    /// Writes the scores of the `feasible` nodes into `out`. False where the pod makes none of them more fragmented than another. O(nodes),
    /// and O(kinds · devices) for each row that has changed. `claims` knows which of its claims the pod that is scored has open.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        claims: &RefCell<KeptClaims>,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        self.follow(cx, work)?;
        if self.kinds.is_empty() || (self.resources.is_empty() && self.devices.is_empty()) {
            return Ok(false);
        }
        let requests = &pod.shape.row.requests;
        self.ask(requests, claims.borrow().open(), cx.ledger.nodes().rows());
        let Self { resources, kinds, kept, devices, stranded, .. } = self;
        let Some(kept) = kept.first_mut() else { return Ok(false) };
        kept.rows.follow(cx.ledger, !devices.is_empty());
        stranded.follow(cx.ledger, !devices.is_empty());
        let takes = takes(cx, requests, &kept.claims, resources);
        let mut known = claims.borrow_mut();
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for node in feasible {
            let found = &mut kept.rows[*node];
            if found.growth.is_nan() {
                work.take(1)?;
                if !devices.is_empty() {
                    devices.follow(cx.ledger, *node, &mut known.selectors, work)?;
                }
                let judge = Judge { cx, resources, kinds, devices };
                work.spend(judge.cost(*node));
                judge.judge(*node, &takes, &mut stranded[*node], found, &mut known.selectors, work);
            }
            least = least.min(found.growth);
            most = most.max(found.growth);
        }
        if most - least < SAME {
            return Ok(false);
        }
        let scale = MAX_NODE_SCORE as f64 / (most - least);
        out.extend(feasible.iter().map(|node| ((most - kept.rows[*node].growth) * scale).round() as i64));
        Ok(true)
    }

    /// Makes everything anew where the mix is another, or what nodes offer is. O(rows), and O(devices) where slices are others.
    fn follow(&mut self, cx: PluginContext<'_>, work: &mut Work) -> Result<(), Stop> {
        let (nodes, table) = (cx.ledger.nodes(), cx.ledger.devices());
        let looks_at_devices = cx.profile.filters.has(Plugin::DynamicResources);
        let now = Versions {
            mix: self.mix.version(),
            scalar_offers: nodes.scalar_offers_version(),
            slices: if looks_at_devices { table.slices_version() } else { 0 },
            classes: if looks_at_devices { table.classes_version() } else { 0 },
        };
        let before = self.made_of;
        if before == now {
            return Ok(());
        }
        work.take(1)?;
        let resources = resources(nodes);
        work.spend(nodes.rows() * resources.len() / COLUMN_ROWS_PER_WORK);
        let weighs_the_same = before.slices == now.slices || !self.devices.weigh(table, work);
        let is_same = weighs_the_same && self.resources == resources;
        self.made_of = now;
        if is_same && (before.mix, before.classes) == (now.mix, now.classes) {
            // Rows whose devices are others are seen by their versions.
            return Ok(());
        }
        self.forget(!is_same || before.classes != now.classes);
        self.resources = resources;
        self.devices.make_room();
        let mut kinds = Vec::new();
        for (ask, share) in self.mix.kinds() {
            if kinds.len() < FRAGMENTATION_KINDS {
                kinds.extend(kind(cx, ask, *share, &self.resources, &mut self.devices));
            }
        }
        self.kinds = kinds;
        Ok(())
    }

    /// What rows strand; where not only the mix is another, what pods take of their devices as well.
    fn forget(&mut self, all: bool) {
        self.stranded = ByRow::default();
        if all {
            self.kept.clear();
        }
        for found in self.kept.iter_mut().flat_map(|kept| kept.rows.rows_mut()) {
            found.growth = f64::NAN;
        }
    }

    /// Has what is kept for the pod's ask come first.
    fn ask(&mut self, requests: &Requests, mut claims: Vec<Arc<ClaimSpec>>, rows: usize) {
        if are_too_many(&claims) {
            claims.clear();
        }
        let ask = Ask::of(requests, Requested::default());
        let is_it = |kept: &Kept| kept.ask == ask && kept.asks_for(&claims);
        if let Some(at) = self.kept.iter().position(is_it) {
            self.kept[..=at].rotate_right(1);
        } else {
            let [least, most] = FRAGMENTATION_ASKS_KEPT;
            let most = (FRAGMENTATION_ROWS_KEPT / rows.max(1)).clamp(least, most);
            self.kept.truncate(most - 1);
            self.kept.insert(0, Kept { ask, claims, rows: ByRow::default() });
        }
    }
}

/// `None` for pods that ask for nothing, and for those that can get nothing anywhere. The latter strand all that is free, on every node alike,
/// and so do the former: such pods take no place among the kinds.
fn kind(cx: PluginContext<'_>, ask: &Ask, share: f64, resources: &[Resource], devices: &mut Devices) -> Option<Kind> {
    let table = cx.ledger.devices();
    let mut scalar = |(name, amount): &(Str, i64)| {
        let place = resources.iter().position(|resource| resource.name == *name);
        let class = class_of(cx, name);
        let devices = class.and_then(|class| devices.place(table, &any_of(class)));
        (place.is_some() || devices.is_some()).then_some(Scalar { place, devices, amount: *amount })
    };
    let scalars: SmallVec<[Scalar; 2]> = ask.scalars.iter().map(&mut scalar).collect::<Option<_>>()?;
    let mut wanted = |one: &Requirement| Some((devices.place(table, &one.details)?, one.count));
    let devices: SmallVec<[(usize, Count); 1]> = ask.devices.iter().map(&mut wanted).collect::<Option<_>>()?;
    let asks_for_any = !scalars.is_empty() || !devices.is_empty();
    asks_for_any.then_some(Kind { cpu: ask.cpu, memory: ask.memory, scalars, devices, share })
}

/// The DeviceClass that stands for the resource, where the profile looks at devices.
fn class_of<'a>(cx: PluginContext<'a>, resource: &str) -> Option<&'a Str> {
    let looks_at_devices = cx.profile.filters.has(Plugin::DynamicResources);
    cx.ledger.device_classes().of_resource(resource).filter(|_| looks_at_devices)
}

fn takes<'a>(
    cx: PluginContext<'_>,
    requests: &Requests,
    claims: &'a [Arc<ClaimSpec>],
    resources: &[Resource],
) -> Takes<'a> {
    let amount =
        |resource: &Resource| requests.scalars.iter().find(|(own, _)| *own == resource.name).map_or(0, |s| s.1);
    let backed = |(name, amount): &(Str, i64)| {
        let place = resources.iter().position(|resource| resource.name == *name);
        let class = class_of(cx, name).filter(|_| *amount > 0)?;
        Some(Backed { place, class: class.clone(), count: *amount })
    };
    Takes {
        cpu: requests.milli_cpu,
        memory: requests.memory,
        amounts: resources.iter().map(amount).collect(),
        claims,
        backed: requests.scalars.iter().filter_map(backed).collect(),
    }
}

/// What rounding may make of differences that are none.
const SAME: f64 = 1e-9;

/// Rows of one column, or devices, that are looked at in the time of one unit of work.
const COLUMN_ROWS_PER_WORK: usize = 64;

impl Kept {
    fn asks_for(&self, claims: &[Arc<ClaimSpec>]) -> bool {
        let asks_alike = |(own, other): (&Arc<ClaimSpec>, &Arc<ClaimSpec>)| {
            Arc::ptr_eq(own, other) || (own.requests == other.requests && own.constraints == other.constraints)
        };
        self.claims.len() == claims.len() && self.claims.iter().zip(claims).all(asks_alike)
    }
}

/// The extended resources that most nodes offer, sorted by name.
fn resources(nodes: &NodeTable) -> Vec<Resource> {
    let mut all: Vec<(usize, Str, ScalarId)> = Vec::new();
    nodes.each_extended(|name, column, offered_by| all.push((offered_by, name.clone(), column)));
    all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.truncate(FRAGMENTATION_RESOURCES);
    all.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    let largest = |column| nodes.present_nodes().map(|node| nodes.scalar_allocatable(column, node)).max().unwrap_or(0);
    let resource = |(_, name, column)| Resource { name, column, unit: 1.0 / (largest(column).max(1) as f64) };
    all.into_iter().map(resource).collect()
}
