//! Scores by allocation, where devices provide what a profile lists.

use crate::random::Random;
use crate::{extended, ours, pods, selectors};
use serde_json::{Value, json};

/// A situation with extended resources, and which score weighs which of them. `None` where `docs/differences.md` names a difference.
pub(crate) fn situation(seed: u64) -> Option<Value> {
    let mut question = pods::situation(seed);
    let random = Random::new(seed ^ 0xface);
    if question["pod"]["spec"]["initContainers"].is_null() {
        extended::add(&random, &mut question);
    }
    let implicit =
        |class: &Value| format!("deviceclass.resource.kubernetes.io/{}", class["metadata"]["name"].as_str().unwrap());
    let classes = question["classes"].as_array().unwrap();
    let mut names: Vec<String> = classes.iter().map(implicit).collect();
    names.extend(["cpu", "memory", "x.example/a", "x.example/b"].map(str::to_owned));
    names.retain(|_| random.percent(60));
    if names.is_empty() {
        names.push("x.example/a".to_owned());
    }
    let sees_shares = |class: &Value| class["spec"]["selectors"].to_string().contains(selectors::SHARED);
    let has_selectors = |class: &Value| class["spec"]["selectors"].as_array().is_some_and(|all| !all.is_empty());
    let some_have_selectors = classes.iter().any(has_selectors);
    if classes.iter().any(sees_shares) || has_a_device_twice(&question) {
        return None;
    }
    // Here another pod has them, whose requests would count.
    question["inFlight"] = json!([]);
    // Upstream crashes where NodeResourcesBalancedAllocation is to ask selectors.
    let balances = random.percent(30) && !some_have_selectors;
    let weight = |_| if balances { 1 } else { 1 + random.below(5) };
    let resources: Vec<Value> = names.iter().map(|name| json!({"name": name, "weight": weight(name)})).collect();
    question["weigh"] = json!({"resources": resources});
    if !balances {
        question["weigh"]["strategy"] = json!(random.pick(&["LeastAllocated", "MostAllocated"]));
    }
    Some(question)
}

/// Whether two slices of a pool have a device of one name: upstream remembers what a selector said of the first.
fn has_a_device_twice(question: &Value) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let slices = question["slices"].as_array().unwrap();
    slices.iter().any(|slice| {
        let spec = &slice["spec"];
        let devices = spec["devices"].as_array().into_iter().flatten();
        let mut ids = devices
            .map(|device| (spec["driver"].to_string(), spec["pool"]["name"].to_string(), device["name"].to_string()));
        !ids.all(|id| seen.insert(id))
    })
}

/// Says of how many nodes the scores are the same; those that fit are compared.
pub(crate) fn compare(seed: u64, question: &Value, answer: &Value) -> usize {
    let Some(ours) = ours::weighed(question) else { return 0 };
    let theirs = |node: &str| answer["weighed"][node].as_i64().unwrap_or_default();
    let differ: Vec<_> = ours.iter().filter(|(node, score)| **score != theirs(node)).collect();
    assert!(
        differ.is_empty(),
        "BERTH_CLAIMS_SEED={seed} BERTH_CLAIMS_CASES=1: ours {differ:?}\n{}\nupstream: {answer}",
        serde_json::to_string_pretty(question).unwrap()
    );
    ours.len()
}
