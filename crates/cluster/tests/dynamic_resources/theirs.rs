//! What upstream's plugin says, in the form of [`Answer`].

use crate::ours::{Answer, Written, claim_in, numbered};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn answer(question: &Value, answer: &Value) -> Answer {
    let code = |point: &str| answer[point]["code"].as_str().unwrap_or_default().to_owned();
    let reason = |status: &Value| status["reasons"][0].as_str().unwrap_or_default().to_owned();
    if code("preEnqueue") != "Success" {
        return Answer::Gated(reason(&answer["preEnqueue"]));
    }
    match code("preFilter").as_str() {
        "Success" | "Skip" => {}
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
        nodes.insert(name.to_owned(), reason(status));
    }
    if let Some(text) = answer["score"]["reasons"][0].as_str() {
        return Answer::Failed(text.to_owned());
    }
    let Some(node) = answer["chosen"].as_str() else {
        let frees = reason(&answer["postFilter"]) == "deallocation of ResourceClaim completed";
        return Answer::FitsNowhere { nodes, frees };
    };
    let scores = answer["normalized"].as_object().unwrap().iter();
    let scores = scores.map(|(node, score)| (node.clone(), score.as_i64().unwrap())).collect();
    let writes = answer["writes"].as_array().unwrap().iter();
    let of_status = writes.filter(|write| write["point"] == "preBind" && write["subresource"] == "status");
    let mut written: Vec<Written> = of_status
        .map(|write| {
            let claim = claim_in(&write["body"]);
            Written {
                claim: claim.key.name.to_string(),
                allocation: claim.allocation.as_ref().map(|allocation| allocation.result.clone()),
                reserved_for: claim.reserved_for.iter().map(ToString::to_string).collect(),
            }
        })
        .collect();
    numbered(&mut written);
    Answer::Placed { node: node.to_owned(), nodes, scores, written }
}
