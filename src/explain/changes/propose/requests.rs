//! Less of one resource: the largest amount that fits.

use super::GUESSES;
use crate::core::ledger::NodeId;
use crate::core::model::PodShape;
use crate::core::plugins::Plugin;
use crate::explain::changes::change::{ChangeKind, Draft};
use crate::explain::changes::edit::Edit;
use crate::explain::changes::quantity::{amount, set_amount, spelled, told};
use crate::explain::changes::scene::Scene;
use crate::explain::changes::trial::Trial;
use serde_json::json;
use std::collections::BTreeMap;

/// For each resource that is all that some node lacks: the largest request that fits one of those nodes.
pub(super) fn lower(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let mut lacking: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for view in scene.only(&[Plugin::NodeResourcesFit]) {
        if let [obstacle] = &*view.obstacles
            && let [reason] = &*obstacle.reasons
            && let Some(resource) = reason.strip_prefix("Insufficient ")
        {
            lacking.entry(resource).or_default().push(view.id);
        }
    }
    let drafts = lacking.into_iter().take(GUESSES).filter_map(|(resource, nodes)| {
        let most = largest(scene, trial, resource, &nodes)?;
        Some(draft(scene, resource, most))
    });
    drafts.collect()
}

/// The largest amount of `resource`, less than is asked for, with which the pod fits one of `nodes`.
fn largest(scene: &Scene<'_>, trial: &mut Trial<'_>, resource: &str, nodes: &[NodeId]) -> Option<i64> {
    let table = trial.ledger().nodes();
    let free = nodes.iter().map(|node| {
        let (allocatable, used) = table.amounts(*node);
        amount(&allocatable, resource).saturating_sub(amount(&used, resource))
    });
    let asked = amount(&scene.pod.shape.requests, resource);
    let bound = free.max()?.clamp(0, asked.checked_sub(1)?);
    let mut fits = |amount| !trial.fitting(Some(nodes), |shape| request(shape, resource, amount)).is_empty();
    // What is free is what fits, but where pods promised a node take some of it.
    if fits(bound) {
        return Some(bound);
    }
    if bound == 0 || !fits(0) {
        return None;
    }
    let (mut fitting, mut too_much) = (0, bound);
    while too_much - fitting > 1 {
        let middle = fitting + (too_much - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_much = middle }
    }
    Some(fitting)
}

/// Lets `shape` request `amount` of `resource`; what scores count goes down by as much.
fn request(shape: &mut PodShape, resource: &str, to: i64) {
    let less = amount(&shape.requests, resource) - to;
    set_amount(&mut shape.requests, resource, to);
    let scored = amount(&shape.score_requests, resource);
    set_amount(&mut shape.score_requests, resource, (scored - less).max(0));
}

fn draft(scene: &Scene<'_>, resource: &str, to: i64) -> Draft {
    let shape = &scene.pod.shape;
    let from = amount(&shape.requests, resource);
    let (container, all) = match shape.container_count {
        1 => ("0", ""),
        _ => ("*", ", all containers together"),
    };
    let text = match to {
        0 => format!("request no {resource} instead of {}{all}", told(resource, from)),
        to => format!("request at most {} {resource} instead of {}{all}", told(resource, to), told(resource, from)),
    };
    Draft {
        kind: ChangeKind::LowerRequest,
        edit: Edit::of_pod(scene.pod, |shape| request(shape, resource, to)),
        field: format!("spec.containers[{container}].resources.requests[{resource}]"),
        from: json!(spelled(resource, from)),
        to: json!(spelled(resource, to)),
        text,
        // Thousandths of what is asked for that must go.
        weight: (i128::from(from - to) * 1000 / i128::from(from.max(1))) as u64,
    }
}
