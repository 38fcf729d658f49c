//! What upstream's plugin says, in the form of [`Answer`].

use crate::extended::ANNOTATION;
use crate::ours::{Answer, Written, claim_in, numbered};
use berth_core::model::RequestMapping;
use berth_devices::model::DeviceRequest;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn answer(question: &Value, answer: &Value) -> Answer {
    let code = |point: &str| answer[point]["code"].as_str().unwrap_or_default().to_owned();
    let reason = |status: &Value| status["reasons"][0].as_str().unwrap_or_default().to_owned();
    if code("preEnqueue") != "Success" {
        return Answer::Gated(reason(&answer["preEnqueue"]));
    }
    match code("preFilter").as_str() {
        "Success" => {}
        "Skip" => return skipped(question),
        "Error" => {
            let text = format!("running PreFilter plugin \"DynamicResources\": {}", reason(&answer["preFilter"]));
            return Answer::Failed(text);
        }
        _ => return Answer::Refused(reason(&answer["preFilter"])),
    }
    let nodes = question["nodes"].as_array().unwrap().iter();
    let mut names: Vec<&str> = nodes.map(|node| node["metadata"]["name"].as_str().unwrap()).collect();
    // Which of several errors upstream meets first is chance; here it is that of the first by name.
    names.sort_unstable();
    let mut nodes = BTreeMap::new();
    for name in names {
        let status = &answer["nodes"][name];
        if status["code"] == "Error" {
            return Answer::Failed(format!("running \"DynamicResources\" filter plugin: {}", reason(status)));
        }
        let code = status["code"].as_str().unwrap();
        let text = if code == "Success" { String::new() } else { format!("{code}: {}", reason(status)) };
        nodes.insert(name.to_owned(), text);
    }
    if let Some(text) = answer["score"]["reasons"][0].as_str() {
        return Answer::Failed(text.to_owned());
    }
    let Some(node) = answer["chosen"].as_str() else {
        let said = reason(&answer["postFilter"]);
        // Upstream says of every other pod that it freed nothing, and no more from 1.37 on.
        let is_none = ["no new claims to deallocate", "still not schedulable"].contains(&&*said);
        return Answer::FitsNowhere { nodes, frees: Some(said).filter(|_| !is_none) };
    };
    let scores = answer["normalized"].as_object().unwrap().iter();
    let scores = scores.map(|(node, score)| (node.clone(), score.as_i64().unwrap())).collect();
    let writes = answer["writes"].as_array().unwrap().iter();
    let of_status = writes.filter(|write| {
        write["point"] == "preBind" && write["resource"] == "resourceclaims" && write["subresource"] == "status"
    });
    let mut written: Vec<Written> = of_status
        .map(|write| {
            let claim = claim_in(&write["body"]);
            let made = is_extended(&write["body"]).then(|| (requests_in(&write["body"]), mappings_in(answer)));
            Written {
                claim: if made.is_some() { String::new() } else { claim.key.name.to_string() },
                made,
                allocation: claim.allocation.as_ref().map(|allocation| allocation.result.clone()),
                reserved_for: claim.reserved_for.iter().map(ToString::to_string).collect(),
            }
        })
        .collect();
    numbered(&mut written);
    Answer::Placed { node: node.to_owned(), nodes, scores, written }
}

fn is_extended(claim: &Value) -> bool {
    claim["metadata"]["annotations"][ANNOTATION] == "true"
}

fn requests_in(claim: &Value) -> Vec<DeviceRequest> {
    claim_in(claim).spec.requests.clone()
}

/// What the pod is told of the claim that is made for it.
fn mappings_in(answer: &Value) -> Vec<RequestMapping> {
    let writes = answer["writes"].as_array().unwrap().iter();
    let mut of_pod = writes.filter(|write| write["resource"] == "pods");
    let status = &of_pod.next().unwrap()["body"]["status"]["extendedResourceClaimStatus"];
    let text = |mapping: &Value, field: &str| mapping[field].as_str().unwrap().into();
    let mapping = |mapping: &Value| RequestMapping {
        container: text(mapping, "containerName"),
        resource: text(mapping, "resourceName"),
        request: text(mapping, "requestName"),
    };
    status["requestMappings"].as_array().unwrap().iter().map(mapping).collect()
}

/// The plugin is not asked any further, and lets the pod go anywhere.
fn skipped(question: &Value) -> Answer {
    let names = question["nodes"].as_array().unwrap().iter().map(|node| node["metadata"]["name"].as_str().unwrap());
    let (nodes, scores) = names.map(|name| ((name.to_owned(), String::new()), (name.to_owned(), 0))).unzip();
    let node = question["choose"].as_str().unwrap().to_owned();
    Answer::Placed { node, nodes, scores, written: Vec::new() }
}
