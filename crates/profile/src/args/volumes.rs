//! Arguments of the plugins that write to other objects before a pod is bound.

use crate::error::CompileError;
use berth_api as api;
use berth_core::profile::VolumeBindingArgs;
use std::time::Duration;

/// The arguments of VolumeBinding.
pub(super) fn binding(args: &api::VolumeBindingArgs) -> Result<VolumeBindingArgs, CompileError> {
    if !args.shape.is_empty() {
        return Err(CompileError::args(
            "spec.pluginArgs.volumeBinding.shape",
            "is read by the feature StorageCapacityScoring only, which is off as in kube-scheduler",
            "remove shape",
        ));
    }
    Ok(VolumeBindingArgs { bind_timeout: args.bind_timeout.get() })
}

/// Checks the arguments of DynamicResources, which nothing reads while pods with resource claims are held.
pub(super) fn dynamic_resources(args: &api::DynamicResourcesArgs) -> Result<(), CompileError> {
    if args.binding_timeout.get() < Duration::from_secs(1) {
        return Err(CompileError::args(
            "spec.pluginArgs.dynamicResources.bindingTimeout",
            format!("{} is too short", args.binding_timeout),
            "use at least 1s, such as 10m",
        ));
    }
    Ok(())
}
