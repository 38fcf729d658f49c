//! How long decided pods waited until drivers had made their devices ready, after the metrics of `DRADeviceBindingConditions` in
//! `pkg/scheduler/metrics/metrics.go`.

use super::exponential_buckets::ExponentialBuckets;
use super::measures::nanos;
use crate::model::{Str, Time};
use crate::plugins::dynamic_resources::AwaitedDevice;
use std::collections::BTreeMap;
use std::time::Duration;

/// 0.1 s doubled up to 14 minutes.
type WaitTimes = ExponentialBuckets<100_000_000, 14>;

/// Drivers that are told apart, so that the number of series has a bound; a cluster mostly has one that says when devices are ready.
const DRIVERS: usize = 2;

/// Stands for the drivers beyond these; no driver can have this name, which is no DNS subdomain.
const OTHER_DRIVERS: &str = "<other>";

/// How a pod's wait for its devices ended, by upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    Success,
    /// A driver said that a device failed to get ready.
    Failure,
    Timeout,
    /// Anything else, such as a claim that was deleted, or a volume that was not bound.
    Error,
}

const STATUSES: [&str; 4] = ["success", "failure", "timeout", "error"];

/// A wait that is under way.
#[derive(Debug)]
pub(super) struct DeviceWait {
    pub(super) since: Time,
    pub(super) devices: Vec<AwaitedDevice>,
}

/// What was waited for devices of one driver that ended in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitedDevices {
    /// One for each device of a pod that waited, also for a device that needed no wait, as upstream.
    pub times: WaitTimes,
    /// Devices whose driver says when they are ready.
    pub allocations: u64,
}

/// Waits for devices since the worker began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceWaits {
    by_driver: BTreeMap<Str, [WaitedDevices; STATUSES.len()]>,
}

impl DeviceWaits {
    pub(super) fn record(&mut self, devices: &[AwaitedDevice], end: WaitEnd, took: Duration) {
        // First those that are waited for: they are not to be left without a name for the sake of others.
        let (awaited, others): (Vec<_>, Vec<_>) = devices.iter().partition(|device| device.has_conditions);
        for AwaitedDevice { driver, has_conditions } in awaited.into_iter().chain(others) {
            let is_told_apart = self.by_driver.contains_key(driver) || self.by_driver.len() < DRIVERS;
            let driver = if is_told_apart { driver.clone() } else { OTHER_DRIVERS.into() };
            let waited = &mut self.by_driver.entry(driver).or_default()[end as usize];
            waited.times.record(nanos(took));
            waited.allocations += u64::from(*has_conditions);
        }
    }

    /// Driver, status and what was waited, where something was.
    pub fn all(&self) -> impl Iterator<Item = (&str, &'static str, &WaitedDevices)> {
        let all = self.by_driver.iter().flat_map(|(driver, by_end)| {
            STATUSES.into_iter().zip(by_end).map(|(status, waited)| (&**driver, status, waited))
        });
        all.filter(|(.., waited)| waited.times.buckets().any(|(_, count)| count > 0))
    }

    /// One of everything that can be measured.
    pub(super) fn of_everything() -> Self {
        let mut all = Self::default();
        for driver in 0..=DRIVERS {
            let device = AwaitedDevice { driver: format!("driver-{driver}").into(), has_conditions: true };
            for end in [WaitEnd::Success, WaitEnd::Failure, WaitEnd::Timeout, WaitEnd::Error] {
                all.record(std::slice::from_ref(&device), end, Duration::ZERO);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_that_is_waited_for_has_its_name_whatever_other_devices_the_pod_has() {
        let device = |driver: &str, has_conditions| AwaitedDevice { driver: driver.into(), has_conditions };
        let devices = [device("gpu", false), device("nic", false), device("fabric", true)];
        let mut waits = DeviceWaits::default();
        waits.record(&devices, WaitEnd::Success, Duration::from_secs(1));
        let all: Vec<_> = waits.all().map(|(driver, _, waited)| (driver.to_owned(), waited.allocations)).collect();
        let want = [("<other>", 0), ("fabric", 1), ("gpu", 0)];
        assert_eq!(all, want.map(|(driver, allocations)| (driver.to_owned(), allocations)));
    }

    #[test]
    fn drivers_beyond_the_bound_count_together() {
        let all = DeviceWaits::of_everything();
        let drivers: Vec<&str> = all.by_driver.keys().map(|driver| &**driver).collect();
        assert_eq!(drivers, ["<other>", "driver-0", "driver-1"]);
        assert_eq!(all.all().count(), drivers.len() * STATUSES.len());
        assert!(all.all().all(|(.., waited)| waited.allocations == 1));
    }
}
