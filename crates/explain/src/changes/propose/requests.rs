//! Less of one resource, or of several: the largest amounts that fit.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial};
use crate::quantity::{self, in_words, set_amount, spelled};
use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::{Pod, PodShape};
use berth_core::plugins::Plugin;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// For each resource that some nodes lack alone: the largest request that fits one of them. Of the nodes that lack several
/// resources: the one for which requests must go down least.
pub(super) fn lower(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let mut single: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    let mut several: Vec<(NodeId, Vec<&str>)> = Vec::new();
    for view in scene.only(&[Plugin::NodeResourcesFit]) {
        match view.lacking_requests().as_deref() {
            Some([resource]) => single.entry(*resource).or_default().push(view.id),
            Some(resources) => several.push((view.id, resources.to_vec())),
            None => {}
        }
    }
    let drafts = single.into_iter().take(GUESSES).filter_map(|(resource, nodes)| {
        let most = largest(scene, trial, resource, &nodes)?;
        Some(draft(scene.pod, &[(resource, most)]))
    });
    let mut drafts: Vec<Draft> = drafts.collect();
    drafts.extend(together(scene, trial, several));
    drafts
}

/// What is free on the node for which requests must go down least, if the pod fits with that.
fn together(scene: &Scene<'_>, trial: &mut Trial<'_>, nodes: Vec<(NodeId, Vec<&str>)>) -> Option<Draft> {
    /// The loss, the node, and the amounts that are free there.
    type Candidate<'r> = (u64, NodeId, Vec<(&'r str, i64)>);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (node, resources) in nodes {
        let amounts = free(trial.ledger(), node, resources);
        candidates.push((loss(scene.pod, &amounts), node, amounts));
    }
    candidates.sort();
    let (_, _, amounts) = candidates.into_iter().take(GUESSES).find(|(_, node, amounts)| {
        let change = |shape: &mut PodShape| amounts.iter().for_each(|(name, to)| request(shape, name, *to));
        !trial.fitting(Some(&[*node]), change).is_empty()
    })?;
    Some(draft(scene.pod, &amounts))
}

/// Whether the pod asks for more than these amounts.
pub(super) fn is_more(pod: &Pod, than: &[(&str, i64)]) -> bool {
    than.iter().any(|(name, most)| pod.shape.row.requests.amount(name) > *most)
}

/// What is free of `resources` on the node.
pub(super) fn free<'r>(ledger: &Ledger, node: NodeId, resources: Vec<&'r str>) -> Vec<(&'r str, i64)> {
    resources.into_iter().map(|name| (name, quantity::free(ledger, node, name).max(0))).collect()
}

/// The largest part of any request, in thousandths, that the pod gives up.
fn loss(pod: &Pod, amounts: &[(&str, i64)]) -> u64 {
    let part = |(name, to): &(&str, i64)| {
        let from = pod.shape.row.requests.amount(name);
        (i128::from(from - to) * 1000 / i128::from(from.max(1))) as u64
    };
    amounts.iter().map(part).max().unwrap_or(0)
}

/// The largest amount of `resource`, less than is asked for, with which the pod fits one of `nodes`.
fn largest(scene: &Scene<'_>, trial: &mut Trial<'_>, resource: &str, nodes: &[NodeId]) -> Option<i64> {
    let free = nodes.iter().map(|node| quantity::free(trial.ledger(), *node, resource));
    let asked = scene.pod.shape.row.requests.amount(resource);
    let bound = free.max()?.clamp(0, asked.checked_sub(1)?);
    let mut fits = |amount| !trial.fitting(Some(nodes), |shape| request(shape, resource, amount)).is_empty();
    // What is free is what fits, unless nominated pods take some of it.
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

/// Lets `shape` request `to` of `resource`; the amount that scores count is lowered as much.
fn request(shape: &mut PodShape, resource: &str, to: i64) {
    let less = shape.row.requests.amount(resource) - to;
    set_amount(&mut shape.row_mut().requests, resource, to);
    let scored = shape.row.score_requests.amount(resource);
    set_amount(&mut shape.row_mut().score_requests, resource, (scored - less).max(0));
}

pub(super) fn draft(pod: &Pod, amounts: &[(&str, i64)]) -> Draft {
    let shape = &pod.shape;
    let (container, all) = match shape.container_count {
        1 => ("0", ""),
        _ => ("*", ", all containers together"),
    };
    let of = |name: &str| shape.row.requests.amount(name);
    let phrase = |(name, to): &(&str, i64)| match to {
        0 => format!("no {name} instead of {}", in_words(name, of(name))),
        to => format!("at most {} {name} instead of {}", in_words(name, *to), in_words(name, of(name))),
    };
    let phrases: Vec<String> = amounts.iter().map(phrase).collect();
    let requests = format!("spec.containers[{container}].resources.requests");
    let map = |value: &dyn Fn(&(&str, i64)) -> String| -> Value {
        amounts.iter().map(|one| (one.0.to_owned(), json!(value(one)))).collect::<Map<_, _>>().into()
    };
    let (kind, field, from, to) = if let [(name, to)] = amounts {
        let field = format!("{requests}[{name}]");
        (ChangeKind::LowerRequest, field, json!(spelled(name, of(name))), json!(spelled(name, *to)))
    } else {
        let (from, to) = (map(&|(name, _)| spelled(name, of(name))), map(&|(name, to)| spelled(name, *to)));
        (ChangeKind::LowerRequests, requests, from, to)
    };
    Draft {
        kind,
        edit: Edit::of_pod(pod, |shape| amounts.iter().for_each(|(name, to)| request(shape, name, *to))),
        field,
        from,
        to,
        text: format!("request {}{all}", phrases.join(" and ")),
        weight: loss(pod, amounts),
    }
}
