//! Resolves the arguments of plugins, and lays them over those of the preset.

mod fit;
mod legacy;
mod pods;

use super::CompileError;
use super::selectors;
use berth_api as api;
use berth_core::profile::{CompiledProfile, VolumeBindingArgs};
use std::time::Duration;

/// Lays the arguments that `spec` gives over those of the preset.
pub(super) fn overlay(spec: &api::SchedulerProfileSpec, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    let args = &spec.plugin_args;
    if let Some(fit) = &args.node_resources_fit {
        fit::resources_fit(fit, &mut profile.fit)?;
        let ignores = !(fit.ignored_resources.is_empty() && fit.ignored_resource_groups.is_empty());
        if ignores && spec.allow_unsafe == api::AllowUnsafe::None {
            return Err(CompileError::args(
                "spec.pluginArgs.nodeResourcesFit",
                "ignored resources can be overbooked",
                "empty ignoredResources and ignoredResourceGroups, or set spec.allowUnsafe: Acknowledged",
            ));
        }
    }
    if let Some(balanced) = &args.node_resources_balanced_allocation {
        profile.balanced = fit::balanced(balanced, std::mem::take(&mut profile.balanced))?;
    }
    let affinity = args.node_affinity.as_ref().and_then(|a| a.added_affinity.as_ref());
    if let Some(affinity) = affinity {
        profile.added_affinity = selectors::added_affinity(affinity, "spec.pluginArgs.nodeAffinity.addedAffinity")?;
    }
    if let Some(affinity) = &args.inter_pod_affinity {
        profile.inter_pod_affinity = pods::inter_pod_affinity(affinity)?;
    }
    if let Some(spread) = &args.pod_topology_spread {
        pods::spread(spread, &mut profile.spread_defaults)?;
    }
    if let Some(binding) = &args.volume_binding {
        profile.volume_binding = volume_binding(binding)?;
    }
    if let Some(resources) = &args.dynamic_resources {
        check_dynamic_resources(resources)?;
    }
    legacy::overlay(args, &mut profile.legacy)
}

fn volume_binding(args: &api::VolumeBindingArgs) -> Result<VolumeBindingArgs, CompileError> {
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
fn check_dynamic_resources(args: &api::DynamicResourcesArgs) -> Result<(), CompileError> {
    if args.binding_timeout.get() < Duration::from_secs(1) {
        return Err(CompileError::args(
            "spec.pluginArgs.dynamicResources.bindingTimeout",
            format!("{} is too short", args.binding_timeout),
            "use at least 1s, such as 10m",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod args_tests;
