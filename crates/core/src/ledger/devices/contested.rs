use super::DeviceTable;
use super::claims::Claim;
use crate::ledger::Ledger;
use crate::model::{ClaimKey, Str};
use berth_devices::model::{AllocationResult, PoolId};

/// A device that several claims hold though one of them has it alone: another scheduler gave it away at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContestedDevice {
    pub driver: Str,
    pub pool: Str,
    pub device: Str,
    /// Sorted; two or more.
    pub claims: Vec<ClaimKey>,
    /// The scheduler names of the pods that these claims are reserved for, sorted.
    pub scheduler_names: Vec<Str>,
}

/// Of so many devices it is looked at who holds them.
const LOOKED_AT: usize = 16;

impl Ledger {
    /// The devices that several claims hold, sorted, as the claims are seen: what is only being written may still be refused. At most
    /// sixteen. O(1) where there is none, else O(claims) for each.
    pub fn contested_devices(&self) -> Vec<ContestedDevice> {
        let contested = self.devices.allocated.contested().take(LOOKED_AT);
        contested.filter_map(|(id, device)| self.contested_device(id, device)).collect()
    }

    fn contested_device(&self, id: &PoolId, device: &Str) -> Option<ContestedDevice> {
        let mut claims = self.devices.seen_with(id, device);
        claims.sort_unstable_by(|a, b| a.seen().key.cmp(&b.seen().key));
        if claims.len() < 2 {
            return None;
        }
        let pods = claims.iter().flat_map(|claim| &claim.seen().reserved_for);
        let mut scheduler_names: Vec<Str> =
            pods.filter_map(|uid| self.pod(uid)).map(|pod| pod.scheduler_name().clone()).collect();
        scheduler_names.sort_unstable();
        scheduler_names.dedup();
        let claims = claims.iter().map(|claim| claim.seen().key.clone()).collect();
        let (driver, pool) = (id.driver.clone(), id.pool.clone());
        Some(ContestedDevice { driver, pool, device: device.clone(), claims, scheduler_names })
    }
}

impl DeviceTable {
    /// The claims that are seen with the device.
    fn seen_with(&self, id: &PoolId, device: &Str) -> Vec<&Claim> {
        let has_it = |result: &AllocationResult| {
            let mut held = result.results.iter().filter(|one| !one.admin_access);
            held.any(|one| one.driver == id.driver && one.pool == id.pool && one.device == *device)
        };
        let is_one = |claim: &&Claim| claim.seen().allocation.as_ref().is_some_and(|seen| has_it(&seen.result));
        self.claims.values().filter(is_one).collect()
    }
}
