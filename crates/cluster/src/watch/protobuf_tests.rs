use super::frame::Frame;
use super::kinds::{DeviceClasses, Nodes, Pods, ResourceClaims, Watched};
use super::tests::{Answer, Bench, quick, start};
use super::*;
use crate::decode::Decoder;
use crate::proto::testing::{body, event, list, message, put_bytes};
use crate::proto::{Encoded, Type};
use serde_json::{Value, json};

const BOTH: &str = "application/vnd.kubernetes.protobuf, application/json";

fn kind(name: &str) -> Type {
    Type::named(name).unwrap()
}

fn pod(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "c"}]}})
}

fn pod_message(name: &str, version: u32) -> Vec<u8> {
    message(&pod(name, version), kind("Pod"))
}

/// A pod with a field that has no name yet.
fn newer_pod(name: &str, version: u32) -> Vec<u8> {
    let mut spec = message(&pod(name, version)["spec"], kind("PodSpec"));
    put_bytes(&mut spec, 99, b"news");
    let (mut pod, metadata) = (Vec::new(), message(&pod(name, version)["metadata"], kind("ObjectMeta")));
    put_bytes(&mut pod, 1, &metadata);
    put_bytes(&mut pod, 2, &spec);
    pod
}

fn bookmark(version: u32) -> Vec<u8> {
    event("BOOKMARK", &message(&json!({"metadata": {"resourceVersion": version.to_string()}}), kind("Pod")))
}

fn whole(items: Vec<Vec<u8>>) -> Answer {
    Answer::Protobuf { code: 200, body: body(&list(&json!({"resourceVersion": "5"}), items)), ends: true }
}

fn events(events: &[Vec<u8>], ends: bool) -> Answer {
    Answer::Protobuf { code: 200, body: events.concat(), ends }
}

fn accepted<T>(bench: &Bench<T>) -> Vec<String> {
    bench.script.accepted.lock().unwrap().clone()
}

#[tokio::test]
async fn a_kind_is_read_and_followed_in_protobuf() {
    let status = json!({"code": 410, "reason": "Expired", "message": "too old"});
    let followed = [
        event("ADDED", &pod_message("b", 6)),
        bookmark(7),
        event(
            "MODIFIED",
            &message(
                &json!({"metadata": {"name": "bad", "namespace": "ns", "uid": "u"},
            "spec": {"overhead": {"cpu": "much"}}}),
                kind("Pod"),
            ),
        ),
        event("DELETED", &pod_message("a", 8)),
        event("ERROR", &message(&status, kind("Status"))),
    ];
    let answers = vec![whole(vec![pod_message("a", 4)]), events(&followed, false), whole(vec![pod_message("b", 6)])];
    let mut bench = start::<Pods>(quick(), answers).await;
    let first = ["begin", "item a", "synced", "apply b"];
    assert_eq!(bench.next(4).await, first);
    let bad = bench.next(1).await;
    assert!(bad[0].starts_with("bad ns/bad spec.overhead[cpu]"), "{bad:?}");
    assert_eq!(bench.next(4).await, ["delete ns/a uid-a", "begin", "item b", "synced"]);
    assert_eq!((bench.stats.errors().gone, accepted(&bench)), (1, vec![BOTH.to_owned(); accepted(&bench).len()]));
}

/// A pod that waits is held for a field that we do not know, with the field's name: JSON has it.
#[tokio::test]
async fn what_protobuf_does_not_name_is_read_in_json() {
    let json_pod = |name, version| {
        let mut pod = pod(name, version);
        pod["spec"]["news"] = json!("!");
        pod
    };
    let followed = [
        event("ADDED", &pod_message("b", 6)),
        event("ADDED", &newer_pod("c", 7)),
        event("ADDED", &pod_message("d", 8)),
    ];
    let again = format!("{}\n", json!({"type": "ADDED", "object": json_pod("c", 7)}));
    let answers = vec![whole(vec![pod_message("a", 4)]), events(&followed, false), Answer::Hang(vec![again])];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(4).await, ["begin", "item a", "synced", "apply b"]);
    let Some(WatchEvent::Apply(held)) = bench.events.recv().await else { panic!("no pod") };
    assert_eq!(held.unknown_fields, ["spec.news".into()]);
    assert_eq!(accepted(&bench), [BOTH, BOTH, "application/json"]);
    assert!(bench.asked()[2].contains("resourceVersion=6"), "it goes on from there: {:?}", bench.asked());

    let items = json!({"metadata": {"resourceVersion": "5"}, "items": [json_pod("a", 4)]});
    let answers = vec![whole(vec![pod_message("z", 3), newer_pod("a", 4)]), Answer::Send(vec![items.to_string()])];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(5).await, ["begin", "item z", "begin", "item a", "synced"]);
    assert_eq!(accepted(&bench)[..2], [BOTH, "application/json"]);
}

/// Of claims and classes as well, in either encoding: a field that is newer may say which devices are wanted.
#[test]
fn unknown_fields_of_claims_and_classes_are_found() {
    let newer = json!({"deviceClassName": "gpu", "derivedAttributes": [{"name": "x"}]});
    let claim = json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": newer}, {"name": "s", "firstAvailable": [newer]}]}},
    });
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}});
    let in_protobuf = message(&claim, kind("ResourceClaim"));
    let text = claim.to_string();
    let event = json!({"type": "ADDED", "object": claim}).to_string();
    let decoder = &mut Decoder::plain();
    let items = [Encoded::Json(text.as_bytes()), Encoded::Protobuf(&in_protobuf)];
    let mut claims: Vec<_> = items.map(|item| ResourceClaims::item(decoder, item).object.unwrap()).into();
    let Frame::Present(read) = ResourceClaims::frame(decoder, Encoded::Json(event.as_bytes())) else {
        panic!("{event}")
    };
    claims.push(read.object.unwrap());
    for claim in claims {
        let fields =
            ["exactly", "firstAvailable"].map(|of| format!("spec.devices.requests.{of}.derivedAttributes").into());
        assert_eq!(claim.spec.unknown_fields, fields);
    }
    let mut newer = class.clone();
    newer["spec"]["news"] = json!(1);
    for (class, fields) in [(class, &[][..]), (newer, &["spec.news".into()])] {
        let class = DeviceClasses::item(decoder, Encoded::Json(class.to_string().as_bytes())).object.unwrap();
        assert_eq!(class.spec.unknown_fields, fields);
    }
}

/// Of what nobody has to place no field is looked for.
#[tokio::test]
async fn a_node_with_news_is_read_as_it_is() {
    let mut node = message(&json!({"metadata": {"name": "n", "uid": "u"}}), kind("Node"));
    put_bytes(&mut node, 99, b"news");
    let mut bench = start::<Nodes>(quick(), vec![whole(vec![node])]).await;
    assert_eq!(bench.next(3).await, ["begin", "item n", "synced"]);
}

#[tokio::test]
async fn a_server_without_protobuf_is_read_in_json() {
    let items = json!({"metadata": {"resourceVersion": "5"}, "items": [pod("a", 4)]});
    let mut bench = start::<Pods>(quick(), vec![Answer::Send(vec![items.to_string()])]).await;
    assert_eq!(bench.next(3).await, ["begin", "item a", "synced"]);
    assert_eq!(accepted(&bench)[0], BOTH);
}

/// Something before the server may be strict about what is accepted.
#[tokio::test]
async fn a_server_that_does_not_take_protobuf_is_asked_for_json() {
    for code in [406, 415] {
        let items = json!({"metadata": {"resourceVersion": "5"}, "items": [pod("a", 4)]});
        let mut bench = start::<Pods>(quick(), vec![Answer::Refuse(code), Answer::Send(vec![items.to_string()])]).await;
        assert_eq!(bench.next(4).await, ["begin", "begin", "item a", "synced"]);
        assert_eq!(accepted(&bench)[..2], [BOTH, "application/json"]);
    }
}

/// A time that has no text is one of its field alone: the object is there, and goes when it is deleted.
#[tokio::test]
async fn a_time_beyond_all_calendars_hides_no_object() {
    let odd = |name: &str, version| {
        let mut pod = pod_message(name, version);
        let mut status = Vec::new();
        // 2⁶² seconds after 1970 in `startTime`.
        put_bytes(&mut status, 7, &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40]);
        put_bytes(&mut pod, 3, &status);
        pod
    };
    let followed = [event("ADDED", &odd("b", 6)), event("DELETED", &odd("b", 7))];
    let mut bench = start::<Pods>(quick(), vec![whole(vec![odd("a", 4)]), events(&followed, false)]).await;
    assert_eq!(bench.next(5).await, ["begin", "item a", "synced", "apply b", "delete ns/b uid-b"]);
}

/// Whatever cannot be read of an object, its names can.
#[tokio::test]
async fn an_object_that_cannot_be_read_at_all_has_its_names() {
    let broken = |version| {
        let mut pod = pod_message("a", version);
        // A spec whose first field breaks off.
        put_bytes(&mut pod, 2, &[0x0a, 0x7f]);
        pod
    };
    let followed = [event("MODIFIED", &broken(6)), event("DELETED", &broken(7))];
    let mut bench = start::<Pods>(quick(), vec![whole(vec![broken(4)]), events(&followed, false)]).await;
    let told = bench.next(5).await;
    assert!(told[1].starts_with("bad ns/a") && told[3].starts_with("bad ns/a"), "{told:?}");
    assert_eq!(told[4], "delete ns/a uid-a");
}

/// What was found in one page counts, however the next ones fail.
#[tokio::test]
async fn a_field_without_a_name_in_a_page_before_one_that_fails() {
    let page = |pods, token| body(&list(&json!({"resourceVersion": "5", "continue": token}), pods));
    let first = Answer::Protobuf { code: 200, body: page(vec![newer_pod("a", 4)], "next"), ends: true };
    let items = json!({"metadata": {"resourceVersion": "5"}, "items": [pod("a", 4)]});
    let mut bench =
        start::<Pods>(quick(), vec![first, Answer::Refuse(503), Answer::Send(vec![items.to_string()])]).await;
    assert_eq!(bench.next(4).await, ["begin", "begin", "item a", "synced"]);
    assert_eq!(accepted(&bench)[..3], [BOTH, BOTH, "application/json"]);
}

/// As `the_next_page_is_asked_for_before_a_page_ends`, in the encoding that is asked for.
#[tokio::test]
async fn the_next_page_is_asked_for_before_a_page_in_protobuf_ends() {
    let pods = vec![pod_message("a", 4), pod_message("b", 4)];
    let mut begun = body(&list(&json!({"resourceVersion": "5", "continue": "next"}), pods));
    begun.truncate(begun.len() - 4);
    let mut bench = start::<Pods>(quick(), vec![Answer::Protobuf { code: 200, body: begun, ends: false }]).await;
    assert_eq!(bench.next(2).await, ["begin", "item a"]);
    berth_testing::until("the second page is asked for", || {
        bench.asked().get(1).is_some_and(|query| query.contains("continue=next"))
    })
    .await;
}

#[tokio::test]
async fn a_refusal_in_protobuf_is_read() {
    let refusal = |code, reason: &str| {
        let status = json!({"code": code, "reason": reason, "message": "the words of the server"});
        Answer::Protobuf { code, body: body(&message(&status, kind("Status"))), ends: true }
    };
    let answers = vec![
        refusal(503, "ServiceUnavailable"),
        whole(vec![pod_message("a", 4)]),
        refusal(410, "Expired"),
        whole(vec![]),
    ];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(6).await, ["begin", "begin", "item a", "synced", "begin", "synced"]);
    assert_eq!((bench.stats.errors().api, bench.stats.errors().gone), (1, 1));
}

/// Wherever an answer breaks off, what was whole counts, and the watch goes on behind it.
#[tokio::test]
async fn an_event_that_breaks_off_is_asked_for_again() {
    let (first, second) = (event("ADDED", &pod_message("a", 6)), event("ADDED", &pod_message("b", 7)));
    for cut in [1, 3, 4, 5, second.len() - 1] {
        let broken = [&first[..], &second[..cut]].concat();
        let answers = vec![
            whole(vec![]),
            Answer::Protobuf { code: 200, body: broken, ends: true },
            events(std::slice::from_ref(&second), false),
        ];
        let mut bench = start::<Pods>(quick(), answers).await;
        assert_eq!(bench.next(4).await, ["begin", "synced", "apply a", "apply b"], "cut at {cut}");
        assert!(bench.asked()[2].contains("resourceVersion=6"), "{:?}", bench.asked());
    }
    let endless = [&first[..], &[0xff, 0xff, 0xff, 0xff]].concat();
    let answers =
        vec![whole(vec![]), Answer::Protobuf { code: 200, body: endless, ends: false }, events(&[second], false)];
    let mut bench = start::<Pods>(quick(), answers).await;
    assert_eq!(bench.next(4).await, ["begin", "synced", "apply a", "apply b"], "nobody waits for four gigabytes");
}
