//! Taints that the pod does not tolerate, and cordons, which come with one.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial, View};
use crate::detail::{spelled, untolerated};
use berth_core::model::{Pod, Taint, Toleration, TolerationOperator};
use berth_core::plugins::Plugin;
use berth_simulate::is_condition;
use serde_json::{Value, json};

/// The taint that the cluster puts on a node that is cordoned, and takes away with the cordon.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// One more toleration, for taints that people put on nodes. Taints of a node's condition are not for pods to tolerate.
pub(super) fn tolerate(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    let mut wanted: Vec<(Toleration, u64)> = Vec::new();
    for view in scene.only(&[Plugin::TaintToleration]) {
        let taints: Vec<&Taint> = untolerated(scene.pod, view.node).collect();
        let Some(toleration) = one_for(&taints).filter(|_| !taints.iter().any(|taint| is_condition(taint))) else {
            continue;
        };
        match wanted.iter_mut().find(|(known, _)| *known == toleration) {
            Some((_, nodes)) => *nodes += 1,
            None => wanted.push((toleration, 1)),
        }
    }
    // What most nodes ask for comes first; of equals, the first by node.
    wanted.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
    wanted.into_iter().take(GUESSES).map(|(toleration, _)| toleration_draft(scene.pod, toleration)).collect()
}

/// The narrowest toleration of all `taints`, if they have one key.
pub(super) fn one_for(taints: &[&Taint]) -> Option<Toleration> {
    let first = taints.first()?;
    let same = |of: fn(&Taint, &Taint) -> bool| taints.iter().all(|taint| of(taint, first));
    if !same(|a, b| a.key == b.key) {
        return None;
    }
    let equal = same(|a, b| a.value == b.value);
    Some(Toleration {
        key: first.key.clone(),
        operator: if equal { TolerationOperator::Equal } else { TolerationOperator::Exists },
        value: if equal { first.value.clone() } else { "".into() },
        effect: same(|a, b| a.effect == b.effect).then_some(first.effect),
    })
}

pub(super) fn toleration_draft(pod: &Pod, toleration: Toleration) -> Draft {
    let equal = toleration.operator == TolerationOperator::Equal;
    let mut to = json!({"key": &*toleration.key, "operator": if equal { "Equal" } else { "Exists" }});
    let mut spelled = toleration.key.to_string();
    if equal {
        to["value"] = json!(&*toleration.value);
        if !toleration.value.is_empty() {
            spelled = format!("{spelled}={}", toleration.value);
        }
    }
    if let Some(effect) = toleration.effect {
        to["effect"] = json!(format!("{effect:?}"));
        spelled = format!("{spelled}:{effect:?}");
    }
    Draft {
        kind: ChangeKind::Tolerate,
        edit: Edit::of_pod(pod, |shape| shape.row_mut().tolerations.push(toleration)),
        field: format!("spec.tolerations[{}]", pod.shape.row.tolerations.len()),
        from: Value::Null,
        to,
        text: format!("tolerate the taint {spelled}"),
        weight: 0,
    }
}

/// A node without the taints in the way: someone removes them, or the node recovers.
pub(super) fn remove(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    scene.only(&[Plugin::TaintToleration]).take(GUESSES).filter_map(|view| removal(scene.pod, view)).collect()
}

fn removal(pod: &Pod, view: &View<'_>) -> Option<Draft> {
    let taints: Vec<Taint> = untolerated(pod, view.node).cloned().collect();
    let conditions = taints.iter().filter(|taint| is_condition(taint)).count();
    let kind = if conditions == 0 { ChangeKind::RemoveTaint } else { ChangeKind::RecoverNode };
    let name = &view.node.name;
    let list = |taints: &[Taint]| -> Vec<String> { taints.iter().map(spelled).collect() };
    let text = match kind {
        _ if conditions != 0 && conditions != taints.len() => return None,
        ChangeKind::RecoverNode => format!("{name} recovers and loses the taint {}", list(&taints).join(", ")),
        _ => format!("take the taint {} from {name}", list(&taints).join(", ")),
    };
    let left: Vec<Taint> = view.node.taints.iter().filter(|taint| !taints.contains(taint)).cloned().collect();
    Some(Draft {
        kind,
        field: "spec.taints".to_owned(),
        from: json!(list(&view.node.taints)),
        to: json!(list(&left)),
        edit: Edit::of_node(view.node, |node| node.taints = left.into()),
        text,
        weight: taints.len() as u64 - 1,
    })
}

/// Uncordoning a node on which nothing else is in the way.
pub(super) fn uncordon(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    let cordoned = scene.only(&[Plugin::NodeUnschedulable, Plugin::TaintToleration]);
    cordoned
        .filter(|view| view.node.unschedulable && has_no_other_taint(scene, view))
        .take(GUESSES)
        .map(uncordon_draft)
        .collect()
}

/// Whether the taint that comes with the cordon is the only one in the way.
fn has_no_other_taint(scene: &Scene<'_>, view: &View<'_>) -> bool {
    untolerated(scene.pod, view.node).all(|taint| &*taint.key == CORDON)
}

fn uncordon_draft(view: &View<'_>) -> Draft {
    let name = &view.node.name;
    // A name that no API server accepts may be anything to a shell.
    let is_safe = !name.starts_with('-') && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let command = if is_safe { format!(" (kubectl uncordon {name})") } else { String::new() };
    Draft {
        kind: ChangeKind::Uncordon,
        edit: Edit::of_node(view.node, |node| {
            node.unschedulable = false;
            node.taints = node.taints.iter().filter(|taint| &*taint.key != CORDON).cloned().collect();
        }),
        field: "spec.unschedulable".to_owned(),
        from: json!(true),
        to: json!(false),
        text: format!("uncordon {name}{command}"),
        weight: 0,
    }
}
