//! Resolves the arguments of plugins, and lays them over those of the preset.

mod fit;
mod legacy;
mod pods;

use super::CompileError;
use super::selectors;
use berth_api as api;
use berth_core::profile::CompiledProfile;
use std::time::Duration;

/// Lays the arguments that `spec` gives over those of the preset.
pub(super) fn overlay(spec: &api::SchedulerProfileSpec, profile: &mut CompiledProfile) -> Result<(), CompileError> {
    let args = &spec.plugin_args;
    if let Some(fit) = &args.node_resources_fit {
        fit::resources_fit(fit, &mut profile.fit)?;
        let ignores = !(fit.ignored_resources.is_empty() && fit.ignored_resource_groups.is_empty());
        if ignores && spec.allow_unsafe == api::AllowUnsafe::None {
            let fix = "empty ignoredResources and ignoredResourceGroups, or set spec.allowUnsafe: Acknowledged";
            return Err(CompileError::args(
                "spec.pluginArgs.nodeResourcesFit",
                "ignored resources can be overbooked",
                fix,
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
        if !binding.shape.is_empty() {
            let message = "is read by the feature StorageCapacityScoring only, which is off as in kube-scheduler";
            return Err(CompileError::args("spec.pluginArgs.volumeBinding.shape", message, "remove shape"));
        }
        profile.bind_timeout = binding.bind_timeout.get();
    }
    if let Some(resources) = &args.dynamic_resources {
        profile.devices_timeout = resources.binding_timeout.get();
        if profile.devices_timeout < Duration::from_secs(1) {
            let field = "spec.pluginArgs.dynamicResources.bindingTimeout";
            let message = format!("{} is too short", resources.binding_timeout);
            return Err(CompileError::args(field, message, "use at least 1s, such as 10m"));
        }
    }
    legacy::overlay(args, &mut profile.legacy)
}

#[cfg(test)]
mod args_tests;
