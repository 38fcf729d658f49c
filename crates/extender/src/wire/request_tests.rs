use super::*;
use berth_core::io::NodeVictims;
use berth_core::model::Str;
use bytes::Bytes;
use hyper::body::Body;
use serde_json::{Value, json};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

fn bytes(mut payload: Payload) -> Vec<u8> {
    let length = payload.bytes();
    assert_eq!(payload.size_hint().exact(), Some(length));
    let mut all = Vec::new();
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut payload).poll_frame(&mut Context::from_waker(Waker::noop()))
    {
        all.extend_from_slice(&frame.into_data().unwrap());
        assert_eq!(payload.size_hint().exact(), Some(length - all.len() as u64));
    }
    assert!(payload.is_end_stream());
    assert_eq!(all.len() as u64, length);
    all
}

fn value(payload: Payload) -> Value {
    serde_json::from_slice(&bytes(payload)).unwrap()
}

fn object(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

#[test]
fn a_request_by_names_has_null_nodes() {
    let names: Vec<Str> = vec!["n1".into(), "we\"ird".into()];
    let pod = json!({"metadata": {"name": "p"}, "spec": {"invented": 1}});
    let body = bytes(nodes_request(&object(&pod), &Nodes::Names(&names)));
    let want = r#"{"Pod":{"metadata":{"name":"p"},"spec":{"invented":1}},"Nodes":null,"NodeNames":["n1","we\"ird"]}"#;
    assert_eq!(String::from_utf8(body).unwrap(), want);
}

#[test]
fn a_request_with_whole_nodes_has_null_names() {
    let big = json!({"metadata": {"name": "n1", "annotations": {"a": "x".repeat(5_000)}}});
    let small = json!({"metadata": {"name": "n2"}});
    let nodes = [object(&big), object(&small), object(&big)];
    let payload = nodes_request(&object(&json!({})), &Nodes::Full(&nodes));
    assert!(payload.own_bytes() < 200, "what is large is shared: {}", payload.own_bytes());
    let want = json!({"Pod": {}, "Nodes": {"metadata": {}, "items": [big, small, big]}, "NodeNames": null});
    assert_eq!(value(payload.clone()), want);
    assert_eq!(value(payload), want, "a clone is the same body");
    let none = nodes_request(&object(&json!({})), &Nodes::Names(&[]));
    assert_eq!(value(none), json!({"Pod": {}, "Nodes": null, "NodeNames": []}));
}

#[test]
fn victims_are_sent_by_uid_or_whole() {
    let candidates = [
        NodeVictims { node: "n1".into(), victims: vec!["u1".into(), "u2".into()], budget_violations: 1 },
        NodeVictims { node: "n2".into(), victims: vec![], budget_violations: 0 },
    ];
    let pod = object(&json!({"metadata": {}}));
    let by_uid = json!({"Pod": {"metadata": {}}, "NodeNameToVictims": null, "NodeNameToMetaVictims": {
        "n1": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1},
        "n2": {"Pods": [], "NumPDBViolations": 0}}});
    assert_eq!(value(preempt_request(&pod, &candidates, None)), by_uid);
    let (one, two) = (json!({"metadata": {"uid": "u1"}}), json!({"metadata": {"uid": "u2"}}));
    let whole = [vec![object(&one), object(&two)], vec![]];
    let want = json!({"Pod": {"metadata": {}}, "NodeNameToMetaVictims": null, "NodeNameToVictims": {
        "n1": {"Pods": [one, two], "NumPDBViolations": 1}, "n2": {"Pods": [], "NumPDBViolations": 0}}});
    assert_eq!(value(preempt_request(&pod, &candidates, Some(&whole))), want);
    let empty = json!({"Pod": {"metadata": {}}, "NodeNameToVictims": null, "NodeNameToMetaVictims": {}});
    assert_eq!(value(preempt_request(&pod, &[], None)), empty);
}

#[test]
fn a_bind_request_names_pod_namespace_uid_and_node() {
    let body = bytes(bind_request("ns", "p", "u", "n"));
    assert_eq!(body, br#"{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}"#);
}
