//! Arguments of plugins, resolved.

mod fit;
mod legacy;
mod pods;
mod volumes;

use super::error::CompileError;
use super::selectors;
use berth_api as api;
use berth_core::profile::CompiledProfile;

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
        profile.volume_binding = volumes::binding(binding)?;
    }
    if let Some(resources) = &args.dynamic_resources {
        volumes::dynamic_resources(resources)?;
    }
    legacy::overlay(args, &mut profile.legacy)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
