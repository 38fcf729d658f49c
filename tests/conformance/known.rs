//! Differences that are meant: each has a section of its own name in `docs/differences.md`.

use super::cluster::Drawn;
use super::compare::Difference;
use super::preemption::WANTS_NONE;
use serde_json::Value;

/// A class of differences that is left out, and counted.
pub struct Known {
    /// The heading of its section.
    pub name: &'static str,
    /// Whether it explains a difference.
    explains: fn(&Drawn, &Difference) -> bool,
}

/// Every class.
pub const KNOWN: &[Known] = &[
    Known { name: "Texts about selectors that do not parse", explains: unparsable },
    Known { name: "Unknown values hold the pod", explains: unknown_value },
    Known { name: "Namespace selectors that no label satisfies", explains: namespace_selector },
    Known { name: "Nominations that upstream forgets", explains: forgotten_nomination },
    Known { name: "Filters run in the default order", explains: another_order },
    Known { name: "Broken volumes of placed pods", explains: neighbour },
    Known { name: "At least one candidate is looked for", explains: no_candidate_wanted },
    Known { name: "ReadWriteOncePod claims that several pods name", explains: shared_claim },
    Known { name: "Host ports that several pods of a node hold", explains: shared_port },
];

/// The class that explains `difference`, if one does.
pub fn known(drawn: &Drawn, difference: &Difference) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.explains)(drawn, difference)).map(|known| known.name)
}

fn unknown_value(_: &Drawn, difference: &Difference) -> bool {
    difference.text.contains("an unknown value (")
}

/// Both sides leave the pod pending; why, each says in its own words.
fn unparsable(_: &Drawn, difference: &Difference) -> bool {
    let upstream = difference.text.lines().next().unwrap_or_default();
    let parse = ["Invalid value: ", "is not a valid label selector operator"];
    let held = difference.class.starts_with("text of a failure")
        || difference.class.contains("Berth held")
        || difference.class.starts_with("preemption: another text: ");
    held && parse.iter().any(|text| upstream.contains(text))
}

/// Upstream looks the namespaces up and then matches the term again without labels of namespaces: a selector that
/// matches no label at all then matches everywhere.
fn namespace_selector(drawn: &Drawn, difference: &Difference) -> bool {
    let pod = drawn.objects.iter().find(|o| o["kind"] == "Pod" && key(o) == difference.pod);
    let mut found = false;
    if let Some(pod) = pod {
        visit(&pod["spec"]["affinity"], &mut |key, value| {
            found |= key == "namespaceSelector" && matches_without_labels(value);
        });
    }
    found
}

/// A node to which a gated pod is nominated, or one of another scheduler.
fn forgotten_nomination(drawn: &Drawn, difference: &Difference) -> bool {
    let profiles = drawn.config.as_ref().and_then(|config| config["profiles"].as_array());
    let served = |pod: &Value| match (profiles, pod["spec"]["schedulerName"].as_str()) {
        (_, None) => true,
        (Some(profiles), Some(name)) => profiles.iter().any(|profile| profile["schedulerName"] == name),
        (None, Some(name)) => name == "default-scheduler",
    };
    let gated = |pod: &Value| pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let pending = drawn.objects.iter().filter(|o| o["kind"] == "Pod" && o["spec"]["nodeName"].is_null());
    let forgotten = pending.filter(|pod| gated(pod) || !served(pod));
    let nominated: Vec<&str> = forgotten.map(|pod| text(&pod["status"]["nominatedNodeName"])).collect();
    let somewhere = nominated.iter().any(|name| !name.is_empty());
    if is_preemption(difference) && somewhere {
        return true;
    }
    let mut nodes = nodes_of(difference).peekable();
    nodes.peek().is_some() && nodes.all(|node| nominated.contains(&node))
}

/// A plugin that is disabled and enabled at once moves to the end of upstream's list.
fn another_order(drawn: &Drawn, difference: &Difference) -> bool {
    let Some(profiles) = drawn.config.as_ref().and_then(|config| config["profiles"].as_array()) else { return false };
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().map(|plugin| text(&plugin["name"]).to_owned()).collect()
    };
    let moved = profiles.iter().any(|profile| {
        let set = &profile["plugins"]["multiPoint"];
        let disabled = names(&set["disabled"]);
        names(&set["enabled"]).iter().any(|name| disabled.contains(name))
    });
    let refused = difference.text.lines().all(|line| line.contains("Unschedulable"));
    moved && refused
}

/// Upstream's NodeVolumeLimits fails on what a pod on the node has, where the pending pod's own volumes are in order.
fn neighbour(drawn: &Drawn, difference: &Difference) -> bool {
    let upstream = difference.text.lines().next().unwrap_or_default();
    let failed = difference.class.contains("running \"NodeVolumeLimits\" filter plugin: ");
    let own = drawn.objects.iter().find(|o| o["kind"] == "Pod" && key(o) == difference.pod);
    let own_disks = own.and_then(|pod| pod["spec"]["volumes"].as_array());
    let shared = own_disks.into_iter().flatten().any(is_unmanaged);
    let about_itself = if upstream.contains("converting volume") {
        shared
    } else {
        upstream.contains(&format!("for pod {} ", difference.pod))
    };
    failed && !about_itself || is_preemption(difference) && beside_broken_volumes(drawn, difference)
}

/// Whether the pod has volumes, and a node of the difference has a pod with a broken volume, placed there or nominated: upstream's
/// dry run fails there, with that pod and without.
fn beside_broken_volumes(drawn: &Drawn, difference: &Difference) -> bool {
    let volumes = |pod: &Value| pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let pods = || drawn.objects.iter().filter(|o| o["kind"] == "Pod");
    let stolen = |pod: &Value, volume: &Value| {
        let claim = format!("{}-{}", key(pod), text(&volume["name"]));
        let claim = drawn.objects.iter().find(|o| o["kind"] == "PersistentVolumeClaim" && key(o) == claim);
        let owners = claim.map(|claim| claim["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default());
        owners.is_some_and(|owners| !owners.iter().any(|owner| owner["uid"] == pod["metadata"]["uid"]))
    };
    let broken = |pod: &Value| {
        volumes(pod).iter().any(|volume| is_unmanaged(volume) || volume["ephemeral"].is_object() && stolen(pod, volume))
    };
    let has_own = pods().any(|pod| key(pod) == difference.pod && !volumes(pod).is_empty());
    let nodes: Vec<&str> = nodes_of(difference).collect();
    let is_there = |pod: &Value| {
        [&pod["spec"]["nodeName"], &pod["status"]["nominatedNodeName"]].iter().any(|node| nodes.contains(&text(node)))
    };
    has_own && pods().any(|pod| is_there(pod) && broken(pod))
}

/// An Azure disk of a kind that CSI does not have.
fn is_unmanaged(volume: &Value) -> bool {
    volume["azureDisk"].is_object() && volume["azureDisk"]["kind"] != "Managed"
}

/// The nodes that a difference is about.
fn nodes_of(difference: &Difference) -> impl Iterator<Item = &str> {
    difference.text.lines().filter_map(|line| line.strip_prefix("node ")?.split(':').next())
}

/// Upstream keeps a node's host ports as a set: where two pods hold one, it is free once either is taken away.
fn shared_port(drawn: &Drawn, difference: &Difference) -> bool {
    let ports = |pod: &Value| -> Vec<(String, i64)> {
        let containers = ["initContainers", "containers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
        let all = containers.flatten().filter_map(|one| one["ports"].as_array()).flatten();
        let held = all.filter_map(|port| Some((text(&port["protocol"]).to_owned(), port["hostPort"].as_i64()?)));
        let mut held: Vec<_> = held.map(|(p, n)| (if p.is_empty() { "TCP".to_owned() } else { p }, n)).collect();
        held.sort();
        held.dedup();
        held
    };
    let pods = || drawn.objects.iter().filter(|o| o["kind"] == "Pod");
    let Some(own) = pods().find(|pod| key(pod) == difference.pod) else { return false };
    let wanted = ports(own);
    let holders = |node: &Value, port: &(String, i64)| {
        pods().filter(|pod| pod["spec"]["nodeName"] == *node && ports(pod).contains(port)).count()
    };
    let nodes: Vec<&Value> = pods().map(|pod| &pod["spec"]["nodeName"]).filter(|node| node.is_string()).collect();
    is_preemption(difference) && nodes.iter().any(|node| wanted.iter().any(|port| holders(node, port) > 1))
}

fn is_preemption(difference: &Difference) -> bool {
    difference.class.starts_with("preemption: ") || difference.class.starts_with("live preemption: ")
}

/// Upstream takes it that one pod at most has such a claim, and while it takes pods away and puts them back, that claims of
/// one name are one claim, whatever their namespace.
fn shared_claim(drawn: &Drawn, difference: &Difference) -> bool {
    let pods = || drawn.objects.iter().filter(|o| o["kind"] == "Pod");
    let Some(own) = pods().find(|pod| key(pod) == difference.pod) else { return false };
    let names = |pod: &Value| -> Vec<String> {
        let volumes = pod["spec"]["volumes"].as_array();
        let claims = volumes.into_iter().flatten().map(|v| text(&v["persistentVolumeClaim"]["claimName"]).to_owned());
        claims.filter(|name| !name.is_empty()).collect()
    };
    let namespace = text(&own["metadata"]["namespace"]);
    let single = |name: &str| {
        drawn.objects.iter().any(|o| {
            let modes = o["spec"]["accessModes"].as_array();
            o["kind"] == "PersistentVolumeClaim"
                && key(o) == format!("{namespace}/{name}")
                && modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"))
        })
    };
    let named = |name: &String| {
        let others: Vec<&Value> =
            pods().filter(|pod| key(pod) != difference.pod && names(pod).contains(name)).collect();
        others.len() > 1 || others.iter().any(|pod| text(&pod["metadata"]["namespace"]) != namespace)
    };
    is_preemption(difference) && names(own).iter().any(|name| single(name) && named(name))
}

/// The percentage of few nodes comes to none, and no absolute number stands against it: upstream then never preempts.
fn no_candidate_wanted(_: &Drawn, difference: &Difference) -> bool {
    difference.class == WANTS_NONE
}

fn key(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

fn matches_without_labels(selector: &Value) -> bool {
    let expressions = selector["matchExpressions"].as_array();
    selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && expressions.is_some_and(|list| {
            !list.is_empty() && list.iter().all(|e| matches!(text(&e["operator"]), "NotIn" | "DoesNotExist"))
        })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn visit(value: &Value, each: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                each(key, value);
                visit(value, each);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| visit(value, each)),
        _ => {}
    }
}
