//! What becomes of a profile's rate beside another whose extender never answers in time.

use crate::Prepared;
use crate::extenders::extender;
use crate::held::Longest;
use crate::profiles::{Run, medians, waiting};
use crate::workloads::{PLAIN, Workload};
use berth_core::limits::EXTENDER_QUESTIONS;
use berth_core::profile::{CompiledProfile, Extender, OnFailure};

pub(crate) const BESIDE: Workload =
    Workload { name: "beside an extender that times out", nodes: 1_000, pods: Vec::new, ..PLAIN };

/// The profile under test, and the one beside it.
const OWN: &str = "bench";
const OTHER: &str = "beside";

/// Runs of each kind, in turn, of which the median counts, and the binds that each counts.
const RUNS: usize = 7;
const COUNTED: usize = 200_000;

/// The rate of a profile without extenders, alone and beside one whose only extender never answers in time and is ignored:
/// what the second is of the first, by the medians, and the longest holds of the ledger's lock beside it.
pub(crate) fn isolation(prepared: &Prepared) -> String {
    // The other's pods wait in the runs without it, too.
    let mut cluster = prepared.cluster.clone();
    cluster.pods.extend(waiting(OTHER));
    let own = CompiledProfile { name: OWN.into(), ..CompiledProfile::clone(&prepared.profile) };
    let extenders = vec![Extender { prioritize: None, ..extender(OnFailure::Ignore) }];
    let other = CompiledProfile { extenders, ..CompiledProfile::default_preset(OTHER) };
    let mut longest = Longest::default();
    let [alone, beside] = medians(RUNS, |is_beside| {
        let (beside, asked) = if is_beside { (vec![other.clone()], EXTENDER_QUESTIONS) } else { (Vec::new(), 0) };
        let run = Run { cluster: &cluster, beside, asked, busy: vec![own.clone()], counted: COUNTED };
        let measured = run.measure();
        assert!(!is_beside || measured.asked > EXTENDER_QUESTIONS, "its extender was asked again");
        if is_beside {
            longest.note(measured.longest_holds);
        }
        measured.rate
    });
    format!("{alone:.0} pods/s alone, {:.3} of that beside it; {}", beside / alone, longest.text())
}
