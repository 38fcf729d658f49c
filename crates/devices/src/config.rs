//! `devices.config` of an allocation, after `Allocate` of `allocator_incubating.go`.

use crate::model::{AllocationConfigSource, DeviceAllocationConfiguration, ResourceClaim, Str};
use crate::plan::Slot;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What the drivers are told of the claim, whose requests have these slots.
pub(crate) fn of_claim(claim: &ResourceClaim, slots: &[&Slot<'_>]) -> Vec<DeviceAllocationConfiguration> {
    let names: Vec<Str> = slots.iter().map(|slot| slot.full_name()).collect();
    let mut all = of_classes(slots, &names);
    for entry in &claim.config {
        let covers = |slot: &Slot<'_>, name: &Str| {
            entry.requests.contains(name) || slot.parent.is_some_and(|parent| entry.requests.contains(parent))
        };
        // One copy for each request that it covers, as upstream until 1.37 (#139730).
        let copies = match &entry.requests[..] {
            [] => 1,
            _ => slots.iter().zip(&names).filter(|(slot, name)| covers(slot, name)).count(),
        };
        let copy = DeviceAllocationConfiguration {
            source: AllocationConfigSource::FromClaim,
            requests: entry.requests.clone(),
            configuration: entry.configuration.clone(),
        };
        all.extend(std::iter::repeat_n(copy, copies));
    }
    all
}

/// Each class once, where its first request is.
fn of_classes(slots: &[&Slot<'_>], names: &[Str]) -> Vec<DeviceAllocationConfiguration> {
    let mut all: Vec<DeviceAllocationConfiguration> = Vec::new();
    let mut entries: FxHashMap<&str, Range<usize>> = FxHashMap::default();
    for (slot, name) in slots.iter().zip(names) {
        if let Some(range) = entries.get(&*slot.class.name) {
            all[range.clone()].iter_mut().for_each(|entry| entry.requests.push(name.clone()));
            continue;
        }
        let start = all.len();
        all.extend(slot.class.config.iter().map(|configuration| DeviceAllocationConfiguration {
            source: AllocationConfigSource::FromClass,
            requests: vec![name.clone()],
            configuration: configuration.clone(),
        }));
        entries.insert(&slot.class.name, start..all.len());
    }
    all
}
