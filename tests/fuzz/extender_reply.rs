//! Replies of extenders: in whatever pieces they come they are read as one, what is accepted is JSON, and it means what a
//! naive reading of it says.

use crate::choices::Choices;
use crate::mutate::mutate;
use berth_api::NodePayload;
use berth_core::io::NodeVictims;
use berth_core::model::Str;
use berth_extender::Budget;
use berth_extender::wire::{
    BindVisitor, FilterReply, FilterVisitor, MESSAGE_BYTES, PreemptVisitor, PrioritizeVisitor, Scanner, Visit,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes that the replies of one run may hold.
const BUDGET: usize = 64 << 10;

pub(crate) fn target(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (verb, form) = (choices.below(4), choices.pick(&[NodePayload::Names, NodePayload::Full]));
    let step = 1 + choices.below(40);
    let reply = match choices.below(8) {
        0 => choices.rest().to_vec(),
        drawn => {
            let mut document = document(verb);
            if drawn > 1 {
                mutate(&mut choices, &mut document);
            }
            let mut text = document.to_string().into_bytes();
            if choices.one_in(3) && !text.is_empty() {
                let at = choices.below(text.len());
                text[at] = choices.byte();
            }
            if choices.one_in(4) {
                text.truncate(choices.below(text.len() + 1));
            }
            text
        }
    };
    match verb {
        0 => filter(&reply, form, step),
        1 => prioritize(&reply, step),
        2 => preempt(&reply, step),
        _ => bind(&reply, step),
    }
}

fn document(verb: usize) -> Value {
    match verb {
        0 => json!({
            "NodeNames": ["a", "b"],
            "Nodes": {"metadata": {}, "items": [{"metadata": {"name": "a", "labels": {"name": "x"}}, "spec": {}}]},
            "FailedNodes": {"c": "no\nroom"}, "FailedAndUnresolvableNodes": {"d": "never"}, "Error": "",
        }),
        1 => json!([{"Host": "a", "Score": 5}, {"host": "b", "score": 10}, {"Host": "a", "Score": -1}]),
        2 => {
            json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}, "b": {"Pods": []}}})
        }
        _ => json!({"Error": "it is \"full\""}),
    }
}

fn asked() -> Arc<[Str]> {
    ["a", "b", "c", "d"].into_iter().map(Str::from).collect()
}

/// Reads a reply in pieces; `None`: it is refused.
fn read<V: Visit>(reply: &[u8], step: usize, mut visit: V) -> Option<V> {
    let mut scanner = Scanner::default();
    for piece in reply.chunks(step) {
        scanner.feed(piece, &mut visit).ok()?;
    }
    scanner.finish(&mut visit).ok()?;
    Some(visit)
}

/// The same at once and in pieces; and, where it is accepted and has nothing to be mended, as a value.
fn both<V: Visit, R: PartialEq + std::fmt::Debug>(
    reply: &[u8],
    step: usize,
    visit: impl Fn(&Budget) -> V,
    end: impl Fn(V) -> R,
) -> Option<(R, Option<Value>)> {
    let budget = Budget::new(BUDGET);
    let whole = read(reply, reply.len().max(1), visit(&budget)).map(&end);
    let pieces = read(reply, step, visit(&budget)).map(&end);
    assert_eq!(whole, pieces, "in pieces of {step}: {}", String::from_utf8_lossy(reply));
    assert_eq!(budget.reserved(), 0);
    let is_plain = std::str::from_utf8(reply).is_ok() && !reply.windows(2).any(|w| w == b"\\u");
    let first = serde_json::Deserializer::from_slice(reply).into_iter::<Value>().next();
    // Numbers that no float holds are read over where they are not wanted.
    let value = first.and_then(Result::ok);
    whole.map(|read| (read, value.filter(|_| is_plain)))
}

/// The member of an object under a key of any letter case; none where there are two.
fn member<'v>(object: &'v Value, key: &str) -> Option<&'v Value> {
    let mut found = object.as_object()?.iter().filter(|(k, _)| k.eq_ignore_ascii_case(key));
    let (_, value) = found.next()?;
    if found.next().is_some() { None } else { Some(value) }
}

fn is_single(object: &Value, keys: &[&str]) -> bool {
    let count = |key: &str| object.as_object().map_or(0, |o| o.keys().filter(|k| k.eq_ignore_ascii_case(key)).count());
    keys.iter().all(|key| count(key) <= 1)
}

fn filter(reply: &[u8], form: NodePayload, step: usize) {
    let visit = |budget: &Budget| FilterVisitor::new(form, asked(), budget.reserve());
    let Some((read, value)) = both(reply, step, visit, FilterVisitor::into_reply) else { return };
    let FilterReply { survivors, failed, unresolvable, error, .. } = &read;
    let known = |name: &Str| asked().contains(name);
    assert!(survivors.iter().flatten().all(known));
    assert!(failed.iter().chain(unresolvable).all(|(node, text)| known(node) && text.len() <= MESSAGE_BYTES));
    assert!(error.len() <= MESSAGE_BYTES);
    let Some(value) = value.filter(|v| is_single(v, &["NodeNames", "Nodes", "FailedNodes"])) else { return };
    let names = member(&value, "NodeNames").and_then(Value::as_array).filter(|_| form == NodePayload::Names);
    if let Some(names) = names {
        let mut wanted: Vec<&str> = Vec::new();
        for name in names.iter().filter_map(Value::as_str).filter(|n| known(&Str::from(*n))) {
            if !wanted.contains(&name) {
                wanted.push(name);
            }
        }
        let got: Vec<&str> = survivors.as_deref().unwrap_or_default().iter().map(|n| &**n).collect();
        assert_eq!(got, wanted);
    } else {
        assert_eq!(survivors.is_some(), member(&value, "Nodes").is_some_and(Value::is_object), "{value}");
    }
    let named = member(&value, "FailedNodes").and_then(Value::as_object);
    let named = named.map_or(0, |map| map.keys().filter(|n| known(&Str::from(n.as_str()))).count());
    assert_eq!(failed.len(), named, "{value}");
}

fn prioritize(reply: &[u8], step: usize) {
    let end = |visit: PrioritizeVisitor| visit.into_reply();
    let Some((scores, value)) = both(reply, step, |_| PrioritizeVisitor::new(asked()), end) else { return };
    let Some(value) = value else { return };
    let entries = value.as_array().map_or(&[][..], Vec::as_slice);
    if !entries.iter().all(|entry| is_single(entry, &["Host", "Score"])) {
        return;
    }
    for node in asked().iter() {
        let of_node = entries.iter().filter(|e| member(e, "Host").and_then(Value::as_str) == Some(node));
        let sum = of_node
            .map(|e| member(e, "Score").and_then(Value::as_i64).unwrap_or(0))
            .fold(None, |sum: Option<i64>, score| Some(sum.unwrap_or(0).saturating_add(score)));
        assert_eq!(scores.iter().find(|(name, _)| name == node).map(|(_, score)| *score), sum, "{value}");
    }
}

fn preempt(reply: &[u8], step: usize) {
    let visit = |budget: &Budget| PreemptVisitor::new(budget.reserve());
    let Some((nodes, value)) = both(reply, step, visit, PreemptVisitor::into_reply) else { return };
    let mut named: Vec<&Str> = nodes.iter().map(|one: &NodeVictims| &one.node).collect();
    named.sort();
    named.dedup();
    assert_eq!(named.len(), nodes.len(), "each node once");
    let Some(value) = value.filter(|v| is_single(v, &["NodeNameToMetaVictims"])) else { return };
    let wanted = member(&value, "NodeNameToMetaVictims").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    assert_eq!(nodes.len(), wanted, "{value}");
}

fn bind(reply: &[u8], step: usize) {
    let Some((error, value)) = both(reply, step, |_| BindVisitor::default(), BindVisitor::into_reply) else { return };
    assert!(error.len() <= MESSAGE_BYTES);
    let Some(value) = value.filter(|v| is_single(v, &["Error"])) else { return };
    let said = member(&value, "Error").and_then(Value::as_str).unwrap_or_default();
    assert_eq!(error.is_empty(), said.is_empty(), "{value}");
}
