//! What a solution is written as, after `Allocate` and `createNodeSelector` of `allocator_incubating.go`.

use crate::candidates::{Candidate, Candidates};
use crate::model::{AllocationResult, DeviceResult, ResourceClaim, Str};
use crate::node_selector::{NodeSelector, NodeSelectorTerm};
use crate::outcome::Stop;
use crate::plan::{Plan, Slot};
use crate::takes::Take;
use crate::{capacity, config};

/// Gives each share of a device a name that no other share has.
pub trait ShareIds {
    /// In the form of a UUID, which API servers ask for.
    fn next_share_id(&mut self) -> Str;
}

/// One allocation for each claim. `chosen` are the slots of the requests.
pub(crate) fn of_solution<'a>(
    claims: &[&'a ResourceClaim],
    plan: &Plan<'a>,
    candidates: &Candidates<'a>,
    (takes, chosen): (&[Take], &[usize]),
    share_ids: &mut dyn ShareIds,
) -> Result<Vec<AllocationResult>, Stop> {
    let of_claim = |(index, claim): (usize, &&'a ResourceClaim)| {
        let asks = plan.asks.iter().zip(chosen).filter(|(ask, _)| ask.claim == index);
        let slots: Vec<&Slot<'a>> = asks.map(|(_, slot)| &plan.slots[*slot]).collect();
        let own: Vec<&Take> = takes.iter().filter(|take| take.claim() == index).collect();
        let devices: Vec<Candidate<'a>> = own.iter().map(|take| *candidates.get(take.device)).collect();
        let pairs = own.iter().zip(&devices);
        let results = pairs.map(|(take, device)| result(&plan.slots[take.slot], device, share_ids)).collect();
        let node_selector = node_selector(&devices, candidates.node.name)
            .map_err(|error| Stop::Error(format!("create NodeSelector for claim {}: {error}", claim.name)))?;
        Ok(AllocationResult { results, config: config::of_claim(claim, &slots), node_selector })
    };
    claims.iter().enumerate().map(of_claim).collect()
}

fn result(slot: &Slot<'_>, candidate: &Candidate<'_>, share_ids: &mut dyn ShareIds) -> DeviceResult {
    let Candidate { slice, device, .. } = *candidate;
    let is_share = device.allow_multiple_allocations;
    let mut consumed_capacity = Vec::new();
    if is_share {
        let amounts = capacity::of_share(device, &slot.details.capacity);
        consumed_capacity = device.capacity.iter().map(|(name, _)| name.clone()).zip(amounts).collect();
    }
    DeviceResult {
        request: slot.full_name(),
        driver: slice.id.driver.clone(),
        pool: slice.id.pool.clone(),
        device: device.name.clone(),
        admin_access: slot.admin_access,
        tolerations: slot.details.tolerations.clone(),
        binding_conditions: device.binding_conditions.clone(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
        share_id: is_share.then(|| share_ids.next_share_id()),
        consumed_capacity,
    }
}

/// From which nodes all of the devices can be used: the requirements of all in one term. One device that is local to a node, or ties the
/// claim to one, makes it this node alone.
fn node_selector(devices: &[Candidate<'_>], node: &str) -> Result<Option<NodeSelector>, String> {
    let mut merged = NodeSelectorTerm::default();
    for Candidate { slice, device, .. } in devices {
        let nodes = slice.nodes_of(device);
        if nodes.node_name.is_some() || device.binds_to_node {
            return Ok(Some(NodeSelector::of_node(node)));
        }
        match nodes.node_selector.as_ref().map_or(&[][..], NodeSelector::terms) {
            [] => {}
            [term] => merged.merge(term),
            // No API server takes such a slice (#141212).
            terms => return Err(format!("unsupported ResourceSlice.NodeSelector with {} terms", terms.len())),
        }
    }
    Ok((!merged.is_empty()).then(|| NodeSelector::new(vec![merged])))
}
