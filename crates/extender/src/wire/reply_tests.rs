use super::*;
use crate::budget::Budget;
use crate::error::Fault;
use berth_api::NodePayload;
use berth_core::io::NodeVictims;
use berth_core::model::Str;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn names(names: &[&str]) -> Arc<[Str]> {
    names.iter().map(|n| Str::from(*n)).collect()
}

fn budget() -> Budget {
    Budget::new(1 << 20)
}

/// Reads a reply in pieces of `step` bytes.
fn read<V: Visit>(reply: &[u8], mut visit: V, step: usize) -> Result<V, Fault> {
    let mut scanner = Scanner::default();
    for piece in reply.chunks(step.max(1)) {
        scanner.feed(piece, &mut visit)?;
    }
    scanner.finish(&mut visit)?;
    Ok(visit)
}

fn filter(form: NodePayload, reply: &str) -> Result<FilterReply, Fault> {
    let asked = names(&["a", "b", "c", "d"]);
    let visit = || FilterVisitor::new(form, asked.clone(), budget().reserve());
    let whole = read(reply.as_bytes(), visit(), usize::MAX).map(FilterVisitor::into_reply);
    for step in [1, 2, 3, 7] {
        let pieces = read(reply.as_bytes(), visit(), step).map(FilterVisitor::into_reply);
        assert_eq!(pieces, whole, "in pieces of {step}: {reply}");
    }
    whole
}

fn survivors(form: NodePayload, reply: &Value) -> Option<Vec<String>> {
    let reply = filter(form, &reply.to_string()).unwrap();
    reply.survivors.map(|s| s.iter().map(ToString::to_string).collect())
}

fn scores(reply: &str) -> Result<Vec<(String, i64)>, Fault> {
    let visit = || PrioritizeVisitor::new(names(&["a", "b", "c"]));
    let whole = read(reply.as_bytes(), visit(), usize::MAX)?.into_reply();
    assert_eq!(read(reply.as_bytes(), visit(), 1)?.into_reply(), whole);
    Ok(whole.iter().map(|(n, s)| (n.to_string(), *s)).collect())
}

fn victims(reply: &str) -> Result<Vec<NodeVictims>, Fault> {
    let whole = read(reply.as_bytes(), PreemptVisitor::new(budget().reserve()), usize::MAX)?.into_reply();
    assert_eq!(read(reply.as_bytes(), PreemptVisitor::new(budget().reserve()), 1)?.into_reply(), whole);
    Ok(whole)
}

fn error(reply: &str) -> Result<String, Fault> {
    Ok(read(reply.as_bytes(), BindVisitor::default(), 1)?.into_reply())
}

#[test]
fn names_are_used_where_there_are_any_else_nodes() {
    let node = |name: &str| json!({"metadata": {"labels": {"name": "x"}, "name": name, "annotations": {}}, "spec": {"name": "y"}});
    let both = json!({"NodeNames": ["b", "a"], "Nodes": {"items": [node("c")]}});
    assert_eq!(survivors(NodePayload::Names, &both).unwrap(), ["b", "a"]);
    assert_eq!(survivors(NodePayload::Full, &both).unwrap(), ["c"]);
    let nodes =
        json!({"Nodes": {"metadata": {}, "items": [node("c"), node("a"), node("c"), node("z")]}, "NodeNames": null});
    assert_eq!(survivors(NodePayload::Names, &nodes).unwrap(), ["c", "a"]);
    assert_eq!(survivors(NodePayload::Full, &nodes).unwrap(), ["c", "a"]);
    assert_eq!(survivors(NodePayload::Full, &json!({"NodeNames": ["a"]})), None);
    assert_eq!(survivors(NodePayload::Names, &json!({})), None);
    assert_eq!(survivors(NodePayload::Names, &json!(null)), None);
    assert_eq!(survivors(NodePayload::Names, &json!({"NodeNames": []})).unwrap(), [""; 0]);
    assert_eq!(survivors(NodePayload::Full, &json!({"Nodes": {"items": null}})).unwrap(), [""; 0]);
    assert_eq!(survivors(NodePayload::Full, &json!({"Nodes": {}})).unwrap(), [""; 0]);
}

#[test]
fn keys_are_read_in_any_letter_case() {
    for reply in [
        r#"{"nodenames":["a"],"failednodes":{"b":"no"},"failedandunresolvablenodes":{"c":"never"},"error":""}"#,
        r#"{"NODENAMES":["a"],"FAILEDNODES":{"b":"no"},"FAILEDANDUNRESOLVABLENODES":{"c":"never"},"ERROR":""}"#,
        r#"{"nodeNames":["a"],"failedNodes":{"b":"no"},"failedAndUnresolvableNodes":{"c":"never"},"error":null}"#,
    ] {
        let reply = filter(NodePayload::Names, reply).unwrap();
        assert_eq!(reply.survivors.as_deref(), Some(&[Str::from("a")][..]));
        assert_eq!(reply.failed, [("b".into(), "no".into())]);
        assert_eq!(reply.unresolvable, [("c".into(), "never".into())]);
        assert_eq!(reply.error, "");
    }
    let full = r#"{"nodes":{"Items":[{"METADATA":{"Name":"d"}}]}}"#;
    assert_eq!(filter(NodePayload::Full, full).unwrap().survivors.unwrap(), ["d".into()]);
    assert_eq!(
        scores(r#"[{"host":"a","score":3},{"HOST":"b","SCORE":4}]"#).unwrap(),
        [("a".into(), 3), ("b".into(), 4)]
    );
    let one = victims(r#"{"nodenametometavictims":{"n":{"pods":[{"uid":"u"}],"numpdbviolations":2}}}"#).unwrap();
    assert_eq!((&*one[0].node, &*one[0].victims[0], one[0].budget_violations), ("n", "u", 2));
    assert_eq!(error(r#"{"ERROR":"x"}"#).unwrap(), "x");
}

#[test]
fn a_name_that_was_not_asked_about_is_reported_and_not_kept() {
    let reply =
        filter(NodePayload::Names, r#"{"NodeNames":["a","evil\u0000","b"],"FailedNodes":{"z":"x","c":"y"}}"#).unwrap();
    assert_eq!(reply.stranger.as_deref(), Some("evil "));
    assert_eq!(reply.failed, [("c".into(), "y".into())]);
    assert_eq!(scores(r#"[{"Host":"z","Score":1},{"Host":"a","Score":2},null,{}]"#).unwrap(), [("a".into(), 2)]);
}

#[test]
fn scores_come_as_they_are() {
    let table = [
        (r#"[{"Host":"a","Score":-5},{"Host":"b","Score":9223372036854775807}]"#, vec![("a", -5), ("b", i64::MAX)]),
        (r#"[{"Host":"a","Score":4},{"Host":"a","Score":5}]"#, vec![("a", 9)]),
        (r#"[{"Host":"c"},{"Score":7,"Host":"b"}]"#, vec![("b", 7), ("c", 0)]),
        ("[]", vec![]),
        ("null", vec![]),
    ];
    for (reply, want) in table {
        let want: Vec<_> = want.into_iter().map(|(n, s)| (n.to_string(), s)).collect();
        assert_eq!(scores(reply).unwrap(), want, "{reply}");
    }
}

#[test]
fn the_last_of_equal_keys_counts_and_what_follows_the_value_does_not() {
    let reply =
        filter(NodePayload::Names, r#"{"NodeNames":["a"],"NodeNames":["b"],"FailedNodes":{"c":"1","c":"2"}} {"#)
            .unwrap();
    assert_eq!(reply.survivors.unwrap(), ["b".into()]);
    assert_eq!(reply.failed, [("c".into(), "2".into())]);
    let two =
        victims(r#"{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}]},"n":{"Pods":null,"NumPDBViolations":1}}}"#);
    let two = two.unwrap();
    assert_eq!(two.len(), 1);
    assert_eq!((two[0].victims.len(), two[0].budget_violations), (0, 1));
}

const NOT_FILTER_REPLIES: &[(&str, &str)] = &[
    ("", "ends after 0 bytes"),
    ("{", "ends after 1 bytes"),
    (r#"{"NodeNames":["a""#, "in the middle"),
    (r#"{"NodeNames":["a"#, "in the middle"),
    ("nul", "in the middle"),
    ("<html>", "not JSON"),
    ("nope", "not JSON"),
    ("{a:1}", "not JSON"),
    ("{'a':1}", "not JSON"),
    (r#"{"a":01}"#, "not JSON"),
    (r#"{"a":1.}"#, "not JSON"),
    (r#"{"a":+1}"#, "not JSON"),
    (r#"{"a":.5}"#, "not JSON"),
    (r#"{"a":1e}"#, "not JSON"),
    (r#"{"a":NaN}"#, "not JSON"),
    (r#"{"a":1,}"#, "not JSON"),
    (r#"{"a" 1}"#, "not JSON"),
    (r#"{"a":[1 2]}"#, "not JSON"),
    (r#"{"a":[1}"#, "not JSON"),
    (r#"{"a":"\x"}"#, "not JSON"),
    (r#"{"a":"\u12g4"}"#, "not JSON"),
    ("{\"a\":\"\n\"}", "not JSON"),
    ("\u{feff}{}", "not JSON"),
    ("[]", "the reply is not an object"),
    ("5", "the reply is not an object"),
    ("\"a\"", "the reply is not an object"),
    (r#"{"NodeNames":"a"}"#, "NodeNames is not a list"),
    (r#"{"NodeNames":{"a":1}}"#, "NodeNames is not a list"),
    (r#"{"NodeNames":[1]}"#, "a member of NodeNames is not a text"),
    (r#"{"NodeNames":[["a"]]}"#, "a member of NodeNames is not a text"),
    (r#"{"Nodes":[]}"#, "Nodes is not a NodeList"),
    (r#"{"Nodes":{"items":{}}}"#, "Nodes.items is not a list"),
    (r#"{"Nodes":{"items":["a"]}}"#, "a member of Nodes.items is not a Node"),
    (r#"{"Nodes":{"items":[{"metadata":[]}]}}"#, "metadata of a Node is not an object"),
    (r#"{"Nodes":{"items":[{"metadata":{"name":5}}]}}"#, "metadata.name of a Node is not a text"),
    (r#"{"FailedNodes":["a"]}"#, "FailedNodes is not an object"),
    (r#"{"FailedNodes":{"a":5}}"#, "the message of a failed node is not a text"),
    (r#"{"FailedAndUnresolvableNodes":true}"#, "FailedAndUnresolvableNodes is not an object"),
    (r#"{"Error":{}}"#, "Error is not a text"),
    (r#"{"Error":false}"#, "Error is not a text"),
];

#[test]
fn hostile_replies_are_refused_each_for_its_reason() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(40), "]".repeat(40));
    let long = format!("[{{\"Host\":\"a\",\"Score\":{}}}]", "9".repeat(10_000));
    for (reply, why) in NOT_FILTER_REPLIES.iter().copied().chain([(deep.as_str(), "nested more than")]) {
        let fault = filter(NodePayload::Names, reply).unwrap_err().to_string();
        assert!(fault.contains(why), "{reply}: {fault}");
    }
    for (reply, why) in [
        ("{}", "the reply is not a list"),
        ("[[]]", "a member of the list is not an object"),
        (r#"[{"Host":5}]"#, "Host is not a text"),
        (r#"[{"Score":"5"}]"#, "Score is not a whole number"),
        (r#"[{"Score":5.0}]"#, "Score is not a whole number"),
        (r#"[{"Score":1e2}]"#, "Score is not a whole number"),
        (r#"[{"Score":9223372036854775808}]"#, "Score is not a whole number"),
        (&long, "Score is not a whole number"),
    ] {
        let fault = scores(reply).unwrap_err().to_string();
        assert!(fault.contains(why), "{reply}: {fault}");
    }
    for (reply, why) in [
        ("[]", "the reply is not an object"),
        (r#"{"NodeNameToMetaVictims":[]}"#, "NodeNameToMetaVictims is not an object"),
        (r#"{"NodeNameToMetaVictims":{"n":null}}"#, "the victims of a node is not an object"),
        (r#"{"NodeNameToMetaVictims":{"n":{"Pods":{}}}}"#, "Pods is not a list"),
        (r#"{"NodeNameToMetaVictims":{"n":{"Pods":[null]}}}"#, "a member of Pods"),
        (r#"{"NodeNameToMetaVictims":{"n":{"Pods":[{}]}}}"#, "a member of Pods"),
        (r#"{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":5}]}}}"#, "UID is not a text"),
        (r#"{"NodeNameToMetaVictims":{"n":{"NumPDBViolations":"1"}}}"#, "NumPDBViolations is not"),
    ] {
        let fault = victims(reply).unwrap_err().to_string();
        assert!(fault.contains(why), "{reply}: {fault}");
    }
    for (reply, why) in [("[]", "the reply is not an object"), (r#"{"Error":1}"#, "Error is not a text")] {
        let fault = error(reply).unwrap_err().to_string();
        assert!(fault.contains(why), "{reply}: {fault}");
    }
}

#[test]
fn strings_are_made_valid_utf8_and_cut() {
    let message = |reply: &str| error(reply).unwrap();
    assert_eq!(message(r#"{"Error":"a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00z"}"#), "a\"\\/     ä😀z");
    assert_eq!(message(r#"{"Error":"\ud83dx\ude00\ud83d\ud83d\ude00"}"#), "\u{fffd}x\u{fffd}\u{fffd}😀");
    let broken = [&br#"{"Error":"a"#[..], &[0xff, 0xfe], br#"b"}"#].concat();
    assert_eq!(read(&broken, BindVisitor::default(), 1).unwrap().into_reply(), "a\u{fffd}\u{fffd}b");
    let long = format!(r#"{{"Error":"{}"}}"#, "ä".repeat(100_000));
    assert!(message(&long).len() <= MESSAGE_BYTES);
}

#[test]
fn what_is_kept_is_bounded_however_much_comes() {
    let few = Budget::new(10_000);
    let mut visit = FilterVisitor::new(NodePayload::Names, names(&["a"]), few.reserve());
    let mut scanner = Scanner::default();
    scanner.feed(br#"{"FailedNodes":{"#, &mut visit).unwrap();
    let mut refused = None;
    for i in 0..1_000 {
        let one = format!(r#""a":"{i}{}","#, "x".repeat(400));
        if let Err(fault) = scanner.feed(one.as_bytes(), &mut visit) {
            refused = Some(fault);
            break;
        }
    }
    assert_eq!(refused, Some(Fault::Full { limit: 10_000 }));
    assert!(few.reserved() <= 10_000);
    drop(visit);
    assert_eq!(few.reserved(), 0);

    let mut visit = PreemptVisitor::new(few.reserve());
    let mut scanner = Scanner::default();
    scanner.feed(br#"{"NodeNameToMetaVictims":{"n":{"Pods":["#, &mut visit).unwrap();
    let full = (0..10_000).find_map(|_| scanner.feed(br#"{"UID":"u"},"#, &mut visit).err());
    assert_eq!(full, Some(Fault::Full { limit: 10_000 }));

    let mut visit = FilterVisitor::new(NodePayload::Names, names(&["a"]), few.reserve());
    let mut scanner = Scanner::default();
    scanner.feed(br#"{"NodeNames":["#, &mut visit).unwrap();
    for _ in 0..10_000 {
        scanner.feed(br#""a","a","strange","#, &mut visit).unwrap();
    }
    scanner.feed(br#""a"]}"#, &mut visit).unwrap();
    let reply = visit.into_reply();
    assert_eq!((reply.survivors.unwrap().len(), reply.stranger.as_deref()), (1, Some("strange")));
}

#[test]
fn a_reply_to_whole_nodes_may_echo_them() {
    assert_eq!(reply_limit(NodePayload::Names, u64::MAX), 16 << 20);
    assert_eq!(reply_limit(NodePayload::Full, 0), 1 << 20);
    assert_eq!(reply_limit(NodePayload::Full, 10 << 20), 21 << 20);
    assert_eq!(reply_limit(NodePayload::Full, u64::MAX), 256 << 20);
}

/// Builds the value again from what the scanner tells.
#[derive(Default)]
struct Rebuild {
    open: Vec<(Option<String>, Value)>,
    key: Vec<String>,
    done: Option<Value>,
}

impl Rebuild {
    fn end(&mut self, value: Value) {
        match self.open.last_mut() {
            None => self.done = Some(value),
            Some((_, Value::Array(list))) => list.push(value),
            Some((_, Value::Object(map))) => drop(map.insert(self.key.pop().unwrap(), value)),
            Some(_) => unreachable!(),
        }
    }
}

impl Visit for Rebuild {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match token {
            Token::BeginObject => self.open.push((None, json!({}))),
            Token::BeginArray => self.open.push((None, json!([]))),
            Token::EndObject | Token::EndArray => {
                let (_, value) = self.open.pop().unwrap();
                self.end(value);
            }
            Token::Key(key) => self.key.push(key.to_owned()),
            Token::Text(text) => self.end(Value::from(text)),
            // A number that no float holds is still one.
            Token::Number(number) => self.end(serde_json::from_str(number).unwrap_or_default()),
            Token::Bool(b) => self.end(Value::from(b)),
            Token::Null => self.end(Value::Null),
        }
        Ok(Step::Go)
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_scanner_passes_every_token(value in any_json(), pretty in any::<bool>(), step in 1_usize..20) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let rebuilt = read(text.as_bytes(), Rebuild::default(), step).unwrap();
        prop_assert_eq!(rebuilt.done.unwrap(), value);
    }

    #[test]
    fn broken_json_is_refused_as_serde_refuses_it(value in any_json(), at in any::<prop::sample::Index>(), with in 0_u8..0x80) {
        // In a list that stays one: serde wants to see how a bare number ends.
        let mut text = json!([value]).to_string();
        // A whole character goes: serde refuses text that is not UTF-8, which is mended here, as in Go.
        let (place, gone) = text.char_indices().nth(1 + at.index(text.chars().count() - 1)).unwrap();
        text.replace_range(place..place + gone.len_utf8(), char::from(with).encode_utf8(&mut [0]));
        let first = serde_json::Deserializer::from_str(&text).into_iter::<serde::de::IgnoredAny>().next();
        // Serde alone refuses a lone surrogate, and a number that no float holds.
        prop_assume!(!matches!(&first, Some(Err(e)) if e.to_string().contains("surrogate") || e.to_string().contains("out of range")));
        let ours = read(text.as_bytes(), Rebuild::default(), 3);
        prop_assert_eq!(ours.is_ok(), matches!(first, Some(Ok(_))), "{}", text);
    }
}
