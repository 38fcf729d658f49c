//! Arguments of the plugins that score by what is free on nodes.

use crate::names::{is_dns1123_subdomain, is_qualified_name};
use crate::{CompileError, each, number};
use berth_api as api;
use berth_core::model::{Str, is_scalar_resource};
use berth_core::profile::{FitArgs, FitStrategy, ResourceWeight, ShapePoint};

const FIT: &str = "spec.pluginArgs.nodeResourcesFit";
const BALANCED: &str = "spec.pluginArgs.nodeResourcesBalancedAllocation";

/// Scores of a shape end at 10 in the API, at 100 in the engine.
const SHAPE_SCALE: i64 = 10;

/// Lays the arguments of NodeResourcesFit over those of the preset.
pub(super) fn resources_fit(args: &api::NodeResourcesFitArgs, fit: &mut FitArgs) -> Result<(), CompileError> {
    fit.ignored_resources = ignored_resources(&args.ignored_resources)?;
    fit.ignored_resource_groups = ignored_groups(&args.ignored_resource_groups)?;
    if let Some(strategy) = &args.strategy {
        fit.strategy = match strategy.kind {
            api::ScoringStrategyType::LeastAllocated => FitStrategy::LeastAllocated,
            api::ScoringStrategyType::MostAllocated => FitStrategy::MostAllocated,
            api::ScoringStrategyType::RequestedToCapacityRatio => {
                FitStrategy::RequestedToCapacityRatio(shape(&strategy.shape)?)
            }
        };
        if !matches!(fit.strategy, FitStrategy::RequestedToCapacityRatio(_)) && !strategy.shape.is_empty() {
            let message = "is read by type RequestedToCapacityRatio only";
            return Err(CompileError::args(format!("{FIT}.strategy.shape"), message, "remove shape, or change type"));
        }
        let field = || format!("{FIT}.strategy.scalarWeight");
        let weight = strategy.scalar_weight.map(|weight| number(weight, 1..=100, field(), "use 1 to 100"));
        fit.scalar_weight = weight.transpose()?.map(i64::from);
        if !strategy.resources.is_empty() {
            fit.resources = weights(&strategy.resources, &format!("{FIT}.strategy.resources"))?;
        }
    }
    Ok(())
}

/// The resources that NodeResourcesBalancedAllocation evens out; `present` where none are given.
pub(super) fn balanced(args: &api::BalancedAllocationArgs, present: Vec<Str>) -> Result<Vec<Str>, CompileError> {
    let field = format!("{BALANCED}.resources");
    if args.resources.is_empty() {
        return Ok(present);
    }
    if let Some((i, resource)) = args.resources.iter().enumerate().find(|(_, r)| r.weight != 1) {
        let api::ResourceWeight { name, weight, .. } = resource;
        let message = format!("{weight} for {name}: NodeResourcesBalancedAllocation treats its resources alike");
        return Err(CompileError::args(format!("{field}[{i}].weight"), message, "remove the weight, or set it to 1"));
    }
    Ok(weights(&args.resources, &field)?.into_iter().map(|r| r.name).collect())
}

fn weights(resources: &[api::ResourceWeight], field: &str) -> Result<Vec<ResourceWeight>, CompileError> {
    let mut out: Vec<ResourceWeight> = Vec::with_capacity(resources.len());
    for (i, resource) in resources.iter().enumerate() {
        let refuse = |part, message, fix| Err(CompileError::args(format!("{field}[{i}].{part}"), message, fix));
        let name = resource.name.as_str();
        let native = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        let scalar = is_qualified_name(name) && is_scalar_resource(name);
        if !(native || scalar) {
            let fix = "use cpu, memory, ephemeral-storage, hugepages-… or an extended resource such as nvidia.com/gpu";
            return refuse("name", format!("{name:?} is not a resource that nodes have"), fix);
        }
        if !(1..=100).contains(&resource.weight) {
            return refuse("weight", format!("{} for {name} is out of range", resource.weight), "use 1 to 100");
        }
        if out.iter().any(|r| &*r.name == name) {
            return refuse("name", format!("{name:?} is there twice"), "keep one entry for each resource");
        }
        out.push(ResourceWeight { name: name.into(), weight: i64::from(resource.weight) });
    }
    Ok(out)
}

fn shape(points: &[api::ShapePoint]) -> Result<Vec<ShapePoint>, CompileError> {
    let field = format!("{FIT}.strategy.shape");
    if points.is_empty() {
        let fix = "give points, such as [{utilization: 0, score: 0}, {utilization: 100, score: 10}]";
        return Err(CompileError::args(field, "is empty, and type RequestedToCapacityRatio needs one", fix));
    }
    for (i, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let message = format!("{} is not a percentage", point.utilization);
            return Err(CompileError::args(format!("{field}[{i}].utilization"), message, "use 0 to 100"));
        }
        number(point.score, 0..=10, format!("{field}[{i}].score"), "use 0 to 10")?;
    }
    if let Some(i) = points.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization) {
        return Err(CompileError::args(
            format!("{field}[{}].utilization", i + 1),
            format!("{} does not lie above {} of the point before", points[i + 1].utilization, points[i].utilization),
            "sort the points by utilization, and keep one for each",
        ));
    }
    let point = |p: &api::ShapePoint| ShapePoint {
        utilization: i64::from(p.utilization),
        score: i64::from(p.score) * SHAPE_SCALE,
    };
    Ok(points.iter().map(point).collect())
}

fn ignored_resources(names: &[String]) -> Result<Vec<Str>, CompileError> {
    each(names, &format!("{FIT}.ignoredResources"), |name, field| {
        if is_qualified_name(name) && is_extended_resource(name) {
            return Ok(name.as_str().into());
        }
        let fix = "use a name such as example.com/license; native resources cannot be ignored";
        Err(CompileError::args(field, format!("{name:?} is not an extended resource"), fix))
    })
}

fn ignored_groups(names: &[String]) -> Result<Vec<Str>, CompileError> {
    each(names, &format!("{FIT}.ignoredResourceGroups"), |name, field| {
        if is_dns1123_subdomain(name) {
            return Ok(name.as_str().into());
        }
        let fix = "use what stands before the /, such as example.com";
        Err(CompileError::args(field, format!("{name:?} is not a group of extended resources"), fix))
    })
}

/// Whether `name` is an extended resource: prefixed, and not by Kubernetes itself.
fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
