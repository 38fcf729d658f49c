//! NodePreferAvoidPodsPriority: prefers nodes that do not ask to be spared the pods of the pod's controller.
//! After `pkg/scheduler/algorithm/priorities/node_prefer_avoid_pods.go` of 1.12.

use crate::model::{AvoidedController, Controller};
use crate::plugins::MAX_NODE_SCORE;

/// Pods of other controllers than ReplicationControllers and ReplicaSets, and those of none, are not spared anywhere.
pub(super) fn score(controller: Option<&Controller>, avoided: &[AvoidedController]) -> i64 {
    let counts = |c: &&Controller| matches!(&*c.kind, "ReplicationController" | "ReplicaSet");
    let is_avoided = |c: &Controller| avoided.iter().any(|a| a.kind == c.kind && a.uid == c.uid);
    if controller.filter(counts).is_some_and(is_avoided) { 0 } else { MAX_NODE_SCORE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let controller = |kind: &str, uid: &str| Controller {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            name: "web".into(),
            uid: uid.into(),
        };
        let avoided = |kind: &str, uid: &str| AvoidedController { kind: kind.into(), uid: uid.into() };
        let node = [avoided("ReplicaSet", "1"), avoided("StatefulSet", "2"), avoided("ReplicationController", "3")];
        for (controller, want) in [
            (None, 100),
            (Some(controller("ReplicaSet", "1")), 0),
            (Some(controller("ReplicaSet", "2")), 100),
            (Some(controller("ReplicationController", "3")), 0),
            (Some(controller("ReplicationController", "1")), 100),
            (Some(controller("StatefulSet", "2")), 100),
        ] {
            assert_eq!(score(controller.as_ref(), &node), want, "{controller:?}");
        }
        assert_eq!(score(Some(&controller("ReplicaSet", "1")), &[]), 100);
    }
}
