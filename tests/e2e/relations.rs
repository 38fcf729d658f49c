//! Pods placed by other pods: spread over zones, by constraint or because they are of one Service, and kept apart.

use std::collections::BTreeMap;

use berth_lab::NodeSpec;
use serde_json::{Value, json};

use crate::objects::pod_path;
use crate::world::World;

/// Zones of one world only: what counts for hard spreading is in the whole cluster, and it is shared.
const ROOM: &str = "room";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A corner with `each` nodes in each of three zones: `z0-0`, `z0-1`, …, `z2-1`.
fn world(name: &str, spec: &Value, each: usize) -> World {
    let world = World::new(name);
    let nodes: Vec<String> = (0..3).flat_map(|zone| (0..each).map(move |index| format!("z{zone}-{index}"))).collect();
    for node in &nodes {
        let zone = &node[..2];
        world.node(node, "8", |spec: NodeSpec| {
            let zoned = NodeSpec { zone: format!("{name}-{zone}"), ..spec };
            zoned.label(&room(name), zone)
        });
    }
    world.profile(name, spec);
    world.settle(nodes.last().unwrap());
    world
}

/// The label by which a world's nodes say in which of its own zones they are.
fn room(world: &str) -> String {
    format!("{world}.lab.berth.dev/{ROOM}")
}

/// How many pods are in each zone.
fn by_zone(world: &World, pods: &[String]) -> BTreeMap<String, usize> {
    let mut zones = BTreeMap::new();
    for pod in pods {
        *zones.entry(world.bound(pod)[..2].to_owned()).or_default() += 1;
    }
    zones
}

fn even(each: usize) -> BTreeMap<String, usize> {
    ["z0", "z1", "z2"].map(|zone| (zone.to_owned(), each)).into()
}

#[test]
fn pods_that_must_spread_over_zones_do_and_wait_where_they_cannot() {
    let world = world("hard-spread", &json!({"preset": "BinPack"}), 2);
    let spread = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": room("hard-spread"), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]);
    };
    // All at once: BinPack alone would put them on one node.
    let names: Vec<String> = (0..12).map(|index| format!("p{index}")).collect();
    let pods = |index: usize| {
        let mut pod = crate::objects::pod(&world.name, &names[index], &world.name, "100m");
        spread(&mut pod);
        pod
    };
    world.plane.create_objects(&pod_path(&world.name, ""), names.len(), 12, pods).unwrap();
    assert_eq!(by_zone(&world, &names), even(4));
    // One more goes anywhere; after it there is one zone too many.
    world.pod("thirteenth", "100m", spread);
    let zone = world.bound("thirteenth")[..2].to_owned();
    world.pod("held", "100m", |pod| {
        spread(pod);
        pod["spec"]["nodeSelector"] = json!({room("hard-spread"): zone});
    });
    // The selector narrows the zones that count to this one (nodeAffinityPolicy Honor): it may go there.
    assert_eq!(world.bound("held")[..2], zone);
    world.pod("refused", "100m", |pod| {
        spread(pod);
        pod["spec"]["nodeSelector"] = json!({room("hard-spread"): zone});
        pod["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    });
    world.says(
        "refused",
        "0/6 nodes are available: 2 node(s) didn't match pod topology spread constraints, 4 node(s) didn't match Pod's node affinity/selector.",
    );
}

#[test]
fn pods_of_one_service_are_spread_over_zones_without_being_told() {
    let world = world("service-spread", &json!({}), 2);
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": world.name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    world.plane.api.post(&format!("/api/v1/namespaces/{}/services", world.name), &service).unwrap();
    // One after the other: each sees where the last went.
    let names: Vec<String> = (0..9).map(|index| format!("p{index}")).collect();
    for name in &names {
        world.pod(name, "0", |pod| pod["metadata"]["labels"] = json!({"app": "web"}));
        world.bound(name);
    }
    assert_eq!(by_zone(&world, &names), even(3));
}

#[test]
fn pods_that_must_be_apart_are_and_pods_that_must_be_together_follow_the_first() {
    let world = world("apart", &json!({}), 1);
    let terms = |app: &str, key: &str| {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]})
    };
    let apart = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"app": "db"});
        pod["spec"]["affinity"]["podAntiAffinity"] = terms("db", HOSTNAME);
    };
    let names = ["a", "b", "c"].map(str::to_owned);
    for name in &names {
        world.pod(name, "100m", apart);
    }
    assert_eq!(by_zone(&world, &names), even(1), "one on each node");
    world.pod("d", "100m", apart);
    world.says("d", "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.");
    // Who says nothing of it is kept away from those who do, too.
    world.pod("plain", "100m", |pod| pod["metadata"]["labels"] = json!({"app": "db"}));
    world.says("plain", "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.");
    world.delete("plain");
    let node = world.bound("b");
    world.delete("b");
    assert_eq!(world.bound("d"), node);

    let together = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["affinity"]["podAffinity"] = terms("web", &room("apart"));
    };
    let names: Vec<String> = (0..4).map(|index| format!("web-{index}")).collect();
    for name in &names {
        world.pod(name, "100m", together);
    }
    assert_eq!(by_zone(&world, &names).len(), 1, "all where the first one went");
}
