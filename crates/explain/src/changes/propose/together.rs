//! Several changes of the pod at once, for a node on which no single one is enough.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial, View, relations, requests, selection, spread, taints};
use crate::detail::untolerated;
use berth_core::cycle::Obstacle;
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, Taint};
use berth_core::plugins::{Cause, Plugin};
use berth_simulate::is_condition;
use serde_json::{Value, json};

/// The most changes in one proposal: with more it is another pod.
const PARTS: usize = 4;

/// For the nodes with the fewest obstacles: changes of the pod that get all of them out of the way.
pub(in crate::changes) fn make(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let mut all: Vec<(usize, u64, Draft)> = Vec::new();
    let mut views: Vec<&View<'_>> = scene.views.iter().filter(|view| view.obstacles.len() > 1).collect();
    views.sort_by(|a, b| (a.obstacles.len(), &a.node.name).cmp(&(b.obstacles.len(), &b.node.name)));
    // Nodes with equally many obstacles may differ in how much must change: draft more than are proposed.
    for view in views.into_iter().take(8 * GUESSES) {
        let Some(parts) = parts(scene, view, trial.ledger()) else { continue };
        let weight = parts.iter().map(|part| part.weight).max().unwrap_or(0);
        if let Some(draft) = joined(parts, weight) {
            all.push((view.obstacles.len(), weight, draft));
        }
    }
    all.sort_by(|a, b| (a.0, a.1, &a.2.text).cmp(&(b.0, b.1, &b.2.text)));
    all.dedup_by(|later, first| later.2.text == first.2.text);
    all.into_iter().map(|(_, _, draft)| draft).take(GUESSES).collect()
}

/// The changes in sequence, each made in the pod as the last one left it; none if the pod cannot get some obstacle out of the
/// way.
fn parts(scene: &Scene<'_>, view: &View<'_>, ledger: &Ledger) -> Option<Vec<Draft>> {
    let mut parts: Vec<Draft> = Vec::new();
    for obstacle in &view.obstacles {
        loop {
            let pod = match parts.last() {
                Some(Draft { edit: Edit::Pod(pod), .. }) => pod,
                _ => scene.pod,
            };
            match next(pod, view, obstacle, ledger).ok()? {
                Some(part) => parts.push(part),
                None => break,
            }
            if parts.len() > PARTS {
                return None;
            }
        }
    }
    (parts.len() > 1).then_some(parts)
}

/// No change of the pod gets this obstacle out of the way.
struct NotThePods;

/// The next change that `obstacle` asks for of `pod`; `None` once it is out of the way.
fn next(pod: &Pod, view: &View<'_>, obstacle: &Obstacle, ledger: &Ledger) -> Result<Option<Draft>, NotThePods> {
    let node = view.node;
    let draft = match obstacle.plugin {
        Plugin::TaintToleration => {
            let taints: Vec<&Taint> = untolerated(pod, node).collect();
            if taints.is_empty() {
                return Ok(None);
            }
            let toleration = taints::one_for(&taints).filter(|_| !taints.iter().any(|t| is_condition(t)));
            Some(taints::toleration_draft(pod, toleration.ok_or(NotThePods)?))
        }
        Plugin::NodeAffinity if obstacle.cause == Some(Cause::NodeAffinity) => {
            let unmet = pod.shape.row.node_selector.iter().find(|(key, value)| node.labels.get(key) != Some(*value));
            let affinity = pod.shape.row.required_affinity.as_ref();
            match unmet {
                Some((key, value)) => Some(selection::dropped(pod, key, value)),
                None if affinity.is_some_and(|required| !required.matches(&node.name, &node.labels)) => {
                    selection::preferred(pod)
                }
                None => None,
            }
        }
        Plugin::NodeResourcesFit => {
            let amounts = requests::free(ledger, view.id, view.lacking_requests().ok_or(NotThePods)?);
            requests::is_more(pod, &amounts).then(|| requests::draft(pod, &amounts))
        }
        Plugin::PodTopologySpread => {
            let hard = pod.shape.spread.iter().position(|constraint| constraint.hard);
            hard.map(|at| spread::anyway(pod, at))
        }
        Plugin::InterPodAffinity if obstacle.cause == Some(Cause::PodAffinity) => {
            (!pod.shape.affinity.is_empty()).then(|| relations::without_term(pod, ChangeKind::DropPodAffinity, 0))
        }
        Plugin::InterPodAffinity if obstacle.cause == Some(Cause::PodAntiAffinity) => {
            (!pod.shape.anti_affinity.is_empty())
                .then(|| relations::without_term(pod, ChangeKind::DropPodAntiAffinity, 0))
        }
        _ => return Err(NotThePods),
    };
    Ok(draft)
}

/// All parts as one change: the pod of the last part has all of them.
fn joined(parts: Vec<Draft>, weight: u64) -> Option<Draft> {
    let changes: Vec<Value> = parts
        .iter()
        .map(|part| json!({"kind": part.kind, "field": part.field, "from": part.from, "to": part.to}))
        .collect();
    let text = parts.iter().map(|part| &*part.text).collect::<Vec<_>>().join(", and ");
    let many = parts.len() as u64;
    let edit = parts.into_iter().next_back()?.edit;
    Some(Draft {
        kind: ChangeKind::Together,
        edit,
        field: String::new(),
        from: Value::Null,
        to: changes.into(),
        text,
        weight: many * 1001 + weight.min(1000),
    })
}
