//! SchedulingGates: a pod with gates is not looked at. After `pkg/scheduler/framework/plugins/schedulinggates`.

use crate::model::Str;

/// Upstream's text for a gated pod.
pub(crate) fn text(gates: &[Str]) -> String {
    format!("waiting for scheduling gates: [{}]", gates.join(" "))
}
