//! The sweep for forgotten pods. By default it comes after five minutes, and a world is over before: in some, profiles ask for it after half
//! a minute. L3: it places no pod, since whatever lets a pod fit has it tried at once.

use super::plan::Plan;
use super::random::Random;
use super::world::Inner;
use berth::operator::Inside;
use serde_json::Value;

/// The least that the API takes.
const SOON: &str = "30s";

impl Plan {
    /// In some worlds most profiles sweep soon. Not where extenders are asked, which change their minds without a word, nor where watches leave
    /// changes out: there the end of a world alone is to show what was not found.
    pub(crate) fn draw_sweeps(&mut self, random: &mut Random) {
        if self.has_resource || self.leaves_out || !random.in_thousand(350) {
            return;
        }
        self.sweep_soon = (0..self.profiles).filter(|_| random.in_thousand(700)).collect();
    }

    /// Adds it to the spec of a profile that sweeps soon.
    pub(crate) fn add_sweep_to(&self, profile: usize, spec: &mut Value) {
        if self.sweep_soon.contains(&profile) {
            spec["queue"]["maxUnschedulableDuration"] = SOON.into();
        }
    }
}

impl Inner {
    /// L3. A worker forgets what it has counted when its operator ends: this is looked at often.
    pub(crate) fn needs_no_sweep(&mut self, process: usize, inside: &Inside) {
        for (profile, view) in inside.engine().workers() {
            let rescued = view.snapshot.as_ref().map_or(0, |snapshot| snapshot.rescued_by_sweep);
            if rescued > 0 {
                let what = format!("operator {process}: {profile}: {rescued} pods were placed by the sweep alone");
                self.rules.breaks("L3", &what);
            }
        }
    }
}
