//! Cordoned nodes.

use super::{GUESSES, taints};
use crate::changes::change::{ChangeKind, Draft};
use crate::changes::edit::Edit;
use crate::changes::scene::{Scene, View};
use crate::changes::trial::Trial;
use berth_core::plugins::Plugin;
use serde_json::json;

/// The taint that the cluster puts on a node that is cordoned, and takes away with the cordon.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Uncordoning a node on which nothing else is in the way.
pub(super) fn uncordon(scene: &Scene<'_>, _: &mut Trial<'_>) -> Vec<Draft> {
    let cordoned = scene.only(&[Plugin::NodeUnschedulable, Plugin::TaintToleration]);
    cordoned.filter(|view| view.node.unschedulable && is_all(scene, view)).take(GUESSES).map(draft).collect()
}

/// Whether the taint that comes with the cordon is the only one in the way.
fn is_all(scene: &Scene<'_>, view: &View<'_>) -> bool {
    taints::in_the_way(scene.pod, view.node).all(|taint| &*taint.key == CORDON)
}

fn draft(view: &View<'_>) -> Draft {
    let name = &view.node.name;
    Draft {
        kind: ChangeKind::Uncordon,
        edit: Edit::of_node(view.node, |node| {
            node.unschedulable = false;
            node.taints = node.taints.iter().filter(|taint| &*taint.key != CORDON).cloned().collect();
        }),
        field: "spec.unschedulable".to_owned(),
        from: json!(true),
        to: json!(false),
        text: format!("uncordon {name} (kubectl uncordon {name})"),
        weight: 0,
    }
}
