//! Differences that are meant: each has a section of its own name in `docs/differences.md`.

use super::cluster::Drawn;
use super::compare::Difference;
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
    Known { name: "Unknown values hold the pod", explains: unknown_value },
    Known { name: "Namespace selectors that no label satisfies", explains: namespace_selector },
    Known { name: "Gated pods with a nomination", explains: gated_nomination },
];

/// The class that explains `difference`, if one does.
pub fn known(drawn: &Drawn, difference: &Difference) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.explains)(drawn, difference)).map(|known| known.name)
}

fn unknown_value(_: &Drawn, difference: &Difference) -> bool {
    difference.class.contains("Berth held") && difference.text.contains("an unknown value (")
}

/// Upstream looks the namespaces up and then matches the term again without labels of namespaces: a selector that
/// matches no label at all then matches everywhere.
fn namespace_selector(drawn: &Drawn, difference: &Difference) -> bool {
    let pod = drawn.objects.iter().find(|o| {
        o["kind"] == "Pod"
            && difference.pod == format!("{}/{}", text(&o["metadata"]["namespace"]), text(&o["metadata"]["name"]))
    });
    let mut found = false;
    if let Some(pod) = pod {
        visit(&pod["spec"]["affinity"], &mut |key, value| {
            found |= key == "namespaceSelector" && matches_without_labels(value);
        });
    }
    found
}

/// A node promised to a gated pod.
fn gated_nomination(drawn: &Drawn, difference: &Difference) -> bool {
    let gated = drawn.objects.iter().filter(|o| {
        o["kind"] == "Pod"
            && o["spec"]["nodeName"].is_null()
            && o["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty())
    });
    let promised: Vec<&str> =
        gated.map(|pod| text(&pod["status"]["nominatedNodeName"])).filter(|n| !n.is_empty()).collect();
    let mut nodes = difference.text.lines().filter_map(|line| line.strip_prefix("node ")?.split(':').next()).peekable();
    nodes.peek().is_some() && nodes.all(|node| promised.contains(&node))
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
