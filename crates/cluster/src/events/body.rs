//! Events as JSON, written by hand: each bound pod has one, so they must cost next to nothing.

use super::{Event, EventType, Reference, Subject};
use crate::send::{Call, plain};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

/// Longest note that the API server takes, in bytes.
const NOTE_BYTES: usize = 1_024;

/// Longest `reportingInstance` that the API server takes, in bytes.
const INSTANCE_BYTES: usize = 128;

/// Longest object name, in bytes.
const NAME_BYTES: usize = 253;

/// What ends a note that was cut. After client-go `tools/events`.
const CUT_MARK: &str = " ...";

/// The namespace of an event: its subject's, or `default` for a cluster-scoped one.
pub(super) fn namespace_of(subject: &Subject) -> &str {
    subject.reference().namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The event's name: the subject's, cut where it would be too long, and `unique` in hex.
pub(super) fn name_of(subject: &Subject, unique: u64) -> String {
    let name = subject.reference().name;
    let suffix = format!(".{unique:x}");
    let kept = &name[..name.floor_char_boundary(NAME_BYTES - suffix.len())];
    format!("{}{suffix}", kept.trim_end_matches(['.', '-']))
}

pub(super) fn create_call(event: &Event, name: &str, at_unix_us: i64, host: &str) -> Call {
    let namespace = namespace_of(&event.subject);
    let mut out = Vec::with_capacity(768);
    let mut field = |head: &str, value: &str| {
        out.extend_from_slice(head.as_bytes());
        push_json(&mut out, value);
    };
    field(r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"#, name);
    field(r#","namespace":"#, namespace);
    field(r#"},"eventTime":"#, &micro_time(at_unix_us));
    field(r#","reportingController":"#, &event.controller);
    field(r#","reportingInstance":"#, &instance(&event.controller, host));
    field(r#","action":"#, event.action);
    field(r#","reason":"#, event.reason);
    field(
        r#","type":"#,
        match event.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        },
    );
    field(r#","note":"#, &note(&event.note.to_string()));
    push_reference(&mut out, "regarding", &event.subject);
    if let Some(related) = &event.related {
        push_reference(&mut out, "related", related);
    }
    out.push(b'}');
    Call::post(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldManager=berth"), out)
}

fn push_reference(out: &mut Vec<u8>, field_name: &str, subject: &Subject) {
    let Reference { api_version, kind, namespace, name, uid, resource_version } = subject.reference();
    let mut field = |head: &str, value: &str| {
        out.extend_from_slice(head.as_bytes());
        push_json(out, value);
    };
    field(&format!(r#","{field_name}":{{"apiVersion":"#), api_version);
    field(r#","kind":"#, kind);
    if let Some(namespace) = namespace {
        field(r#","namespace":"#, namespace);
    }
    field(r#","name":"#, name);
    if !uid.is_empty() {
        field(r#","uid":"#, uid);
    }
    if !resource_version.is_empty() {
        field(r#","resourceVersion":"#, resource_version);
    }
    out.push(b'}');
}

/// The PATCH with the number of repeats of an event.
pub(super) fn series_call(namespace: &str, name: &str, count: u32, at_unix_us: i64) -> Call {
    let patch = json!({"series": {"count": count, "lastObservedTime": micro_time(at_unix_us)}});
    let uri = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}?fieldManager=berth");
    Call::patch(uri, "application/merge-patch+json", &patch)
}

fn push_json(out: &mut Vec<u8>, text: &str) {
    // Writing a string to a Vec cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn micro_time(unix_us: i64) -> String {
    format!("{:.6}", Timestamp::from_microsecond(unix_us).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn instance(controller: &str, host: &str) -> String {
    let mut instance = format!("{controller}-{host}");
    instance.truncate(instance.floor_char_boundary(INSTANCE_BYTES));
    instance
}

fn note(text: &str) -> String {
    // So much more that a text that was cut is too long, although no character is cut in two.
    let mut note = plain(text, NOTE_BYTES + 16);
    if note.len() > NOTE_BYTES {
        note.truncate(note.floor_char_boundary(NOTE_BYTES - CUT_MARK.len()));
        note.push_str(CUT_MARK);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Note, ObjectRef};
    use crate::scripted::pod;
    use berth_core::model::Pod;
    use serde_json::Value;
    use std::sync::Arc;

    #[test]
    fn an_event_on_a_pod_is_what_upstream_writes() {
        let event = Event::scheduled(Arc::new(pod("ns", "p")), "n1".into());
        let call = create_call(&event, "p.1f", 1_700_000_000_000_001, "host-0");
        assert!(call.uri.starts_with("/apis/events.k8s.io/v1/namespaces/ns/events?"));
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(
            body,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "p.1f", "namespace": "ns"},
                "eventTime": "2023-11-14T22:13:20.000001Z", "reportingController": "bin", "reportingInstance": "bin-host-0",
                "action": "Binding", "reason": "Scheduled", "type": "Normal", "note": "Successfully assigned ns/p to n1",
                "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "uid-p", "resourceVersion": "7"}})
        );
    }

    #[test]
    fn an_event_on_a_cluster_scoped_object_goes_to_default() {
        let object = ObjectRef::profile("batch", "u1");
        let event = Event {
            subject: Subject::Object(Arc::new(object)),
            related: None,
            kind: EventType::Warning,
            reason: "Drained",
            action: "Draining",
            note: Note::Plain("3 pods \"still\" name it".into()),
            controller: "berth".into(),
        };
        let body: Value = serde_json::from_slice(&create_call(&event, "batch.1", 0, "h").body).unwrap();
        assert_eq!(body["metadata"]["namespace"], "default");
        assert_eq!(body["note"], "3 pods \"still\" name it");
        assert_eq!(
            body["regarding"],
            json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "name": "batch", "uid": "u1"})
        );
    }

    #[test]
    fn an_event_on_a_victim_names_its_preemptor() {
        let mut ledger = berth_core::ledger::Ledger::new();
        ledger.apply_pod(Pod { node_name: Some("n1".into()), ..pod("ns", "victim") });
        let Some(berth_core::ledger::PodState::Bound(victim)) = ledger.pod("uid-victim") else { panic!("not bound") };
        let event = Event::preempted(victim, &Arc::new(pod("ns", "high")), "n1", false);
        let body: Value = serde_json::from_slice(&create_call(&event, "victim.1", 0, "h").body).unwrap();
        assert_eq!(
            (&body["reason"], &body["action"], &body["type"]),
            (&json!("Preempted"), &json!("Preempting"), &json!("Normal"))
        );
        assert_eq!(body["note"], "Preempted by pod uid-high on node n1");
        assert_eq!(
            body["regarding"],
            json!({"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "victim", "uid": "uid-victim"})
        );
        assert_eq!((&body["related"]["uid"], &body["related"]["name"]), (&json!("uid-high"), &json!("high")));
        assert_eq!(body["reportingController"], "bin");
        let taken_back = Event::preempted(victim, &Arc::new(pod("ns", "high")), "n1", true);
        assert!(taken_back.note.to_string().ends_with("on node n1 (in kube-scheduler memory)."));
    }

    #[test]
    fn a_percent_sign_survives() {
        let text = "0/1 nodes are available: 1 node(s) at 100%d of %s.";
        assert_eq!(note(text), text);
    }

    #[test]
    fn notes_and_names_are_cut_to_what_the_api_server_takes() {
        let long = note(&"x".repeat(2_000));
        assert_eq!((long.len(), &long[1_018..]), (1_024, "xx ..."));
        assert!(note(&"é".repeat(1_000)).len() <= 1_024);
        assert_eq!(note("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J", "one line, and nothing that a terminal obeys");
        let escapes = note(&"\u{1b}".repeat(500));
        assert!(escapes.len() == 1_024 && escapes.ends_with(" ..."), "{escapes}");
        let name = name_of(&Subject::Pod(Arc::new(pod("ns", &"a".repeat(253)))), u64::MAX);
        assert_eq!(name.len(), 253);
        assert_eq!(instance(&"c".repeat(300), "h").len(), 128);
    }
}
