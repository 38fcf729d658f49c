//! Berth's answer, through the code behind `berth explain -f … -o json`.

use super::answer::Answer;
use super::cluster::Drawn;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What Berth says of a cluster; a panic is an answer without pods that says so.
pub fn ask(drawn: &Drawn) -> Answer {
    let asked = catch_unwind(AssertUnwindSafe(|| explain(drawn)));
    asked.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Answer { pods: Vec::new(), error: format!("panic: {}", text.unwrap_or_default()) }
    })
}

fn explain(drawn: &Drawn) -> Answer {
    let objects: Vec<_> = drawn.objects.iter().chain(&drawn.config).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let inputs = match berth::cli::inputs_from("cluster.json", &list.to_string()) {
        Ok(inputs) => inputs,
        Err(error) => return Answer { pods: Vec::new(), error: error.to_string() },
    };
    let report = berth::explain::explain(&inputs.cluster, &inputs.profiles, None);
    serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap()
}
