//! Which namespaces' new pods get a profile that they do not name.

use super::{CompileError, selectors};
use berth_api::{DEFAULT_SCHEDULER_NAME, SchedulerProfileSpec};
use berth_core::model::LabelSelector;

/// The namespaces that `spec.namespaces.route` selects, or why it cannot be used; `None` without a route. A namespace that has no
/// access to the profile is not routed, whether it is selected or not.
pub fn routed_namespaces(spec: &SchedulerProfileSpec) -> Result<Option<LabelSelector>, CompileError> {
    let Some(route) = &spec.namespaces.route else { return Ok(None) };
    let names = &spec.scheduler_names;
    if !names.is_empty() && names.iter().all(|name| name == DEFAULT_SCHEDULER_NAME) {
        let message = "a pod that names no scheduler has the name default-scheduler, and this profile serves no other";
        let fix = "remove route, or add a name to spec.schedulerNames";
        return Err(CompileError::args("spec.namespaces.route", message, fix));
    }
    selectors::label_selector(&route.selector, "spec.namespaces.route.selector").map(Some)
}
