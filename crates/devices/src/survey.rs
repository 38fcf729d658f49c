//! What stands between each device that a node sees and one request: for people who ask why there is none.

use crate::allocator::Allocator;
use crate::candidates::{Candidate, Candidates};
use crate::capacity;
use crate::counters::CounterUse;
use crate::model::{Device, DeviceClass, DeviceTaint, RequestDetails, ResourceSlice, Selector};
use crate::node_selector::Node;
use crate::pool::PoolState;
use crate::pools::Pools;
use crate::select::{PublishedDevice, Select};
use crate::state::DeviceUse;
use crate::taints;
use std::sync::Arc;

/// The first thing that keeps a request from a device, whatever else the pod gets. Selectors are counted from 0, as in their lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// This selector of the class does not select it, or has no answer.
    ClassSelector(usize),
    /// This selector of the request does not.
    RequestSelector(usize),
    /// It is for other nodes.
    OtherNode,
    /// It has not the capacity that is asked for, or others consume too much of it.
    Capacity,
    /// Somebody has all of it.
    Taken,
    /// The request does not tolerate it.
    Taint(DeviceTaint),
    /// It is cut from counters of which too little is left.
    Counters,
}

/// A device, and what keeps the request from it.
#[derive(Debug, Clone)]
pub struct SurveyedDevice {
    slice: Arc<ResourceSlice>,
    in_slice: u32,
    pub obstacle: Option<Obstacle>,
}

impl SurveyedDevice {
    pub fn published(&self) -> PublishedDevice<'_> {
        PublishedDevice { slice: &self.slice, in_slice: self.in_slice }
    }
}

/// The devices of the usable pools that a node sees, in the order of the search, and the names of pools that are not usable.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub devices: Vec<SurveyedDevice>,
    pub unusable: Vec<String>,
}

/// A request, for a survey.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedRequest<'a> {
    pub details: &'a RequestDetails,
    pub admin_access: bool,
    pub class: &'a DeviceClass,
}

impl Allocator<'_> {
    /// Asks each device that the node sees whether the request could have it by itself. O(devices · selectors), however long selectors take.
    /// The error is a node selector that cannot be read.
    pub fn survey(
        &self,
        node: Node<'_>,
        request: SurveyedRequest<'_>,
        select: &mut dyn Select,
    ) -> Result<Survey, String> {
        let pools = Pools::for_node(self.slices, &node)?;
        let candidates = Candidates::new(node, &pools, self.allocated);
        let mut asking = Asking { request, select, counters: CounterUse::new(pools.len()), candidates: &candidates };
        let devices = (0..candidates.len()).map(|number| {
            let Candidate { slice, in_slice, .. } = candidates.get(number);
            SurveyedDevice { slice: (*slice).clone(), in_slice: *in_slice, obstacle: asking.obstacle(number) }
        });
        let devices = devices.collect();
        let unusable = pools.iter().filter(|pool| pool.state != PoolState::Usable).map(|pool| pool.id.to_string());
        Ok(Survey { devices, unusable: unusable.collect() })
    }
}

struct Asking<'a, 's> {
    request: SurveyedRequest<'a>,
    select: &'s mut dyn Select,
    counters: CounterUse,
    candidates: &'s Candidates<'a>,
}

impl Asking<'_, '_> {
    fn obstacle(&mut self, number: u32) -> Option<Obstacle> {
        let SurveyedRequest { details, admin_access, class } = self.request;
        let Candidate { slice, in_slice, device, .. } = *self.candidates.get(number);
        let published = PublishedDevice { slice, in_slice };
        if let Some(index) = self.refusing(&class.selectors, published) {
            return Some(Obstacle::ClassSelector(index));
        }
        if let Some(index) = self.refusing(&details.selectors, published) {
            return Some(Obstacle::RequestSelector(index));
        }
        if slice.per_device_node_selection && !device.nodes.includes(&self.candidates.node).unwrap_or(false) {
            return Some(Obstacle::OtherNode);
        }
        // First of all, as a request for all does not mean such a device, whoever has it.
        if !self.has_capacity(number, device) {
            return Some(Obstacle::Capacity);
        }
        if !admin_access && self.candidates.use_of(number).is_some_and(DeviceUse::is_dedicated) {
            return Some(Obstacle::Taken);
        }
        if let Some(taint) = taints::preventing(device, &details.tolerations).next() {
            return Some(Obstacle::Taint(taint.clone()));
        }
        (!self.is_paid_for(number)).then_some(Obstacle::Counters)
    }

    fn refusing(&mut self, selectors: &[Selector], device: PublishedDevice<'_>) -> Option<usize> {
        let mut selects = |asked| self.select.selects(asked, device, &mut { i64::MAX }) == Ok(true);
        selectors.iter().position(|selector| !selector.cel.as_ref().is_some_and(&mut selects))
    }

    fn has_capacity(&self, number: u32, device: &Device) -> bool {
        let in_use = self.candidates.use_of(number);
        let taken = |_, name: &_| in_use.map_or_else(Default::default, |in_use| in_use.consumed(name));
        capacity::fits(device, &self.request.details.capacity, taken)
    }

    fn is_paid_for(&mut self, number: u32) -> bool {
        let Candidate { pool, in_pool, device, .. } = *self.candidates.get(number);
        let is_shared = || self.candidates.use_of(number).is_some_and(DeviceUse::has_sums);
        if device.consumes_counters.is_empty() || device.allow_multiple_allocations && is_shared() {
            return true;
        }
        let mark = self.counters.mark();
        let is_enough = self.counters.take(pool, self.candidates.pool(pool), in_pool, self.candidates.pool_use(pool));
        self.counters.undo_to(mark, |pool| self.candidates.pool(pool));
        is_enough
    }
}
