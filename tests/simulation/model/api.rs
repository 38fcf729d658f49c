//! What the model API server answers: one request, one answer, with the checks and the status codes of the real one.

use super::kinds::Of;
use super::patch;
use super::store::{Object, Store, key, stamp, text};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::Instant;

/// A request as far as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// After how long the server gives up, where the request says so.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.query("timeout")?.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
    }

    pub(crate) fn wants_bookmarks(&self) -> bool {
        self.query("allowWatchBookmarks") == Some("true")
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.method == "GET" && matches!(self.query("watch"), Some("true" | "1"))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<u64>,
    pub(crate) content_type: &'static str,
    /// Of a list that is complete: the version that it shows.
    pub(crate) shows: Option<u64>,
}

impl Answer {
    pub(crate) fn ok(code: u16, body: impl Into<Bytes>) -> Self {
        Self { code, body: body.into(), retry_after: None, content_type: "application/json", shows: None }
    }

    pub(crate) fn json(code: u16, body: &Value) -> Self {
        Self::ok(code, body.to_string())
    }

    pub(crate) fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code});
        Self::json(code, &status)
    }

    /// What the API server's flow control says to a request for which it has no room, before anything has looked at it.
    pub(crate) fn turned_away(retry_after: u64) -> Self {
        let text = "Too many requests, please try again later.\n";
        let content_type = "text/plain; charset=utf-8";
        Self { content_type, retry_after: Some(retry_after), ..Self::ok(429, text) }
    }

    /// Whether it says what became of the request.
    pub(crate) fn is_definite(&self) -> bool {
        self.code < 500
    }

    pub(crate) fn is_success(&self) -> bool {
        self.code < 300
    }
}

/// Where a path points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) of: Of,
    /// Empty for a cluster-scoped object, and for a collection over all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Place {
    pub(crate) fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = if parts.next()? == "api" { "" } else { parts.next()? };
        let _version = parts.next()?;
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            namespace = rest[1];
            rest.drain(..2);
        }
        let of = Of::find(group, rest.first()?)?;
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        Some(Self { of, namespace: namespace.to_owned(), name: part(1), subresource: part(2) })
    }

    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

fn object(code: u16, object: &Object) -> Answer {
    Answer::ok(code, object.json.clone())
}

pub(crate) fn not_found(place: &Place) -> Answer {
    Answer::status(404, "NotFound", &format!("{} \"{}\" not found", place.of.kind().resource(), place.name))
}

fn conflict(place: &Place, why: &str) -> Answer {
    let message = format!("Operation cannot be fulfilled on {} \"{}\": {why}", place.of.kind().resource(), place.name);
    Answer::status(409, "Conflict", &message)
}

const CHANGED: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// Answers everything but watches.
pub(crate) fn answer(store: &mut Store, asked: &Asked, now: Instant) -> Answer {
    if let Some(answer) = fixed(asked) {
        return answer;
    }
    let is_served = |place: &Place| store.has_devices || place.of.kind().group != "resource.k8s.io";
    let Some(place) = Place::of(&asked.path).filter(is_served) else {
        if asked.path.starts_with("/api/v1/") {
            return Answer::status(404, "NotFound", "the server could not find the requested resource");
        }
        return Answer { content_type: "text/plain", ..Answer::ok(404, "404 page not found\n") };
    };
    match (asked.method.as_str(), place.name.is_empty(), place.subresource.as_str()) {
        ("GET", true, _) => list(store, &place, asked),
        ("GET", false, _) => {
            store.get(place.of, &place.key()).map_or_else(|| not_found(&place), |one| object(200, one))
        }
        ("POST", true, _) => create(store, &place, made_by(place.of, asked), now),
        ("POST", false, "binding") => bind(store, &place, &asked.json(), now),
        ("PUT", false, _) => replace(store, &place, asked.json(), now),
        ("PATCH", false, _) => change(store, &place, asked, now),
        ("DELETE", false, "") => delete(store, &place, &asked.json(), now),
        _ => Answer::status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    }
}

/// What has no objects behind it.
fn fixed(asked: &Asked) -> Option<Answer> {
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/version") => Some(Answer::json(
            200,
            &json!({"major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        )),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") => {
            let mut review = asked.json();
            review["status"] = json!({"allowed": true});
            Some(Answer::json(201, &review))
        }
        ("GET", path) if path.starts_with("/apis/apiextensions.k8s.io/") => Some(Answer::ok(200, definition())),
        _ => None,
    }
}

/// The installed definition: the present one, in force.
pub(crate) fn definition() -> Bytes {
    static TEXT: std::sync::OnceLock<Bytes> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| {
        let mut crd = berth_api::own_crd().clone();
        without_descriptions(&mut crd);
        crd["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        crd.to_string().into()
    })
    .clone()
}

/// Nobody reads them here, and they are most of the definition.
fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| name != "description" || !value.is_string());
            members.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

/// Nodes that one request reads for extenders; a watch that reads in pages asks for more.
const PAGE_FOR_EXTENDERS: usize = 500;

fn list(store: &Store, place: &Place, asked: &Asked) -> Answer {
    let (table, kind) = (store.of(place.of), place.of.kind());
    let only_alive = asked.query("fieldSelector").is_some_and(|fields| fields.contains("status.phase!="));
    let limit = asked.query("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
    let (mut version, mut after) = (store.version(), None);
    if let Some((at, last)) = asked.query("continue").and_then(|token| token.split_once('~')) {
        version = at.parse().unwrap_or_default();
        after = Some(last.to_owned());
        if version < table.newest {
            // The snapshot of the first page is gone.
            let message = "The provided continue parameter is too old to display a consistent list result.";
            return Answer::status(410, "Expired", message);
        }
    }
    let prefix = if place.namespace.is_empty() { String::new() } else { format!("{}/", place.namespace) };
    let wanted = |at: &str, one: &Object| {
        at.starts_with(&prefix)
            && after.as_deref().is_none_or(|after| at > after)
            && (!only_alive || one.is_alive())
            && has_label(one, asked.query("labelSelector"))
    };
    let all: Vec<(&String, &Arc<Object>)> =
        table.objects.iter().filter(|(at, one)| wanted(at.as_str(), one.as_ref())).collect();
    let page = limit.unwrap_or(usize::MAX).min(all.len());
    let mut out = format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{version}""#,
        kind.name,
        kind.api_version()
    );
    if page < all.len() {
        let _ = write!(out, r#","continue":"{version}~{}""#, all[page - 1].0);
        if asked.query("fieldSelector").is_none() && asked.query("labelSelector").is_none() {
            let _ = write!(out, r#","remainingItemCount":{}"#, all.len() - page);
        }
    }
    out.push_str(r#"},"items":["#);
    let mut out = out.into_bytes();
    for (index, (_, one)) in all[..page].iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&one.json);
    }
    out.extend_from_slice(b"]}");
    // A list at any version is no news to who asks, nor is what extenders are to be told of nodes: neither goes into a table.
    let is_for_extenders = place.of == Of::Nodes && limit == Some(PAGE_FOR_EXTENDERS);
    let is_whole = page == all.len() && asked.query("resourceVersionMatch").is_none() && !is_for_extenders;
    Answer { shows: is_whole.then_some(version), ..Answer::ok(200, out) }
}

/// Selectors of one key, with a value or without.
fn has_label(one: &Object, selector: Option<&str>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return true };
    let (name, value) = selector.split_once('=').map_or((selector, None), |(name, value)| (name, Some(value)));
    let label = one.value["metadata"]["labels"].get(name).and_then(Value::as_str);
    label.is_some_and(|label| value.is_none_or(|value| value == label))
}

fn create(store: &mut Store, place: &Place, mut value: Value, now: Instant) -> Answer {
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let place = Place { name, ..place.clone() };
    if place.name.is_empty() {
        return Answer::status(422, "Invalid", "metadata.name: Required value: name or generateName is required");
    }
    if store.get(place.of, &place.key()).is_some() {
        let message = format!("{} \"{}\" already exists", place.of.kind().resource(), place.name);
        return Answer::status(409, "AlreadyExists", &message);
    }
    if place.of.kind().namespaced {
        value["metadata"]["namespace"] = place.namespace.clone().into();
    }
    if place.of == Of::Events {
        // Nothing reads them; they are counted by their requests.
        return Answer::json(201, &value);
    }
    match place.of {
        Of::Pods => value["status"] = pending(&value),
        Of::Profiles => value["status"] = UNSEEN.clone(),
        Of::Volumes | Of::Claims if value["status"].is_null() => value["status"] = json!({"phase": "Pending"}),
        _ => {}
    }
    object(201, &store.create(place.of, value, now))
}

/// The status that a profile begins with, as the definition says.
static UNSEEN: LazyLock<Value> = LazyLock::new(|| {
    let default = "/spec/versions/0/schema/openAPIV3Schema/properties/status/default";
    berth_api::own_crd().pointer(default).unwrap().clone()
});

/// The status that a pod begins with.
fn pending(pod: &Value) -> Value {
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_none_or(Vec::is_empty) {
        return json!({"phase": "Pending"});
    }
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates"});
    json!({"phase": "Pending", "conditions": [condition]})
}

/// The reason why what is there is not what the writer had in mind.
fn stale(there: &Object, metadata: &Value) -> Option<String> {
    let named = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    if let Some(uid) = named("uid").filter(|uid| *uid != there.uid()) {
        return Some(format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", there.uid()));
    }
    named("resourceVersion").filter(|version| *version != there.version.to_string()).map(|_| CHANGED.to_owned())
}

/// Writes a new state of an object; a subresource takes nothing but the status, and all else nothing of it.
fn write(store: &mut Store, place: &Place, there: &Object, mut value: Value, now: Instant) -> Answer {
    let before = &there.value;
    if place.subresource == "status" {
        let (status, managed) = (value["status"].take(), value["metadata"].get("managedFields").cloned());
        value = before.clone();
        value["status"] = status;
        if let (Some(metadata), Of::Pods) = (value["metadata"].as_object_mut(), place.of) {
            metadata.remove("managedFields");
            metadata.extend(managed.map(|managed| ("managedFields".to_owned(), managed)));
        }
    } else if place.of == Of::Profiles {
        value["status"] = before["status"].clone();
        if value["spec"] != before["spec"] {
            value["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
    }
    for fixed in ["uid", "creationTimestamp", "name", "namespace"] {
        if let Some(kept) = before["metadata"].get(fixed) {
            value["metadata"][fixed] = kept.clone();
        }
    }
    value["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    leave_out_what_is_empty(&mut value);
    if place.of == Of::DeviceClaims
        && let Some(why) = invalid_claim(before, &value)
    {
        return Answer::status(422, "Invalid", why);
    }
    if value == *before {
        return object(200, there);
    }
    let is_held = |of: &Value| of["metadata"]["finalizers"].is_array();
    let is_over = before["metadata"]["deletionGracePeriodSeconds"].as_i64().is_none_or(|seconds| seconds == 0);
    if !before["metadata"]["deletionTimestamp"].is_null() && is_over && is_held(before) && !is_held(&value) {
        // The answer shows the object as it was changed, with the version that it had before.
        store.delete(place.of, &place.key(), now);
        return Answer::json(200, &value);
    }
    object(200, &store.update(place.of, value, now))
}

/// Lists and maps that the API server keeps only if something is in them.
fn leave_out_what_is_empty(value: &mut Value) {
    let optional =
        [("metadata", "annotations"), ("metadata", "finalizers"), ("status", "reservedFor"), ("status", "allocation")];
    for (part, name) in optional {
        let Some(part) = value.get_mut(part).and_then(Value::as_object_mut) else { continue };
        let is_empty = match part.get(name) {
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if is_empty {
            part.remove(name);
        }
    }
    let is_empty = |status: &Value| status.is_null() || status.as_object().is_some_and(Map::is_empty);
    if value.get("status").is_some_and(is_empty)
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
}

/// Why a ResourceClaim may not become this: `ValidateResourceClaimStatusUpdate` in `pkg/apis/resource/validation/validation.go`.
fn invalid_claim(before: &Value, after: &Value) -> Option<&'static str> {
    let allocation = |claim: &Value| claim["status"].get("allocation").cloned();
    let users = |claim: &Value| claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    let (was, is) = (allocation(before), allocation(after));
    let is_terminating = !before["metadata"]["deletionTimestamp"].is_null();
    if is.is_none() && !users(after).is_empty() {
        return Some("status.reservedFor: Forbidden: may not be specified when `allocated` is not set");
    }
    if was.is_some() && is.is_some() && was != is {
        return Some("status.allocation: Invalid value: field is immutable");
    }
    let is_new = |user: &Value| !users(before).contains(user);
    (is_terminating && users(after).iter().any(is_new))
        .then_some("status.reservedFor: Forbidden: no user may be added to a claim that is being deleted")
}

fn replace(store: &mut Store, place: &Place, value: Value, now: Instant) -> Answer {
    let Some(there) = store.get(place.of, &place.key()).cloned() else {
        let knows_one = value["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
        // A Lease could be created by this, but not one that is said to be there.
        return if place.of == Of::Leases && knows_one { conflict(place, CHANGED) } else { not_found(place) };
    };
    match stale(&there, &value["metadata"]) {
        Some(why) => conflict(place, &why),
        None => write(store, place, &there, value, now),
    }
}

fn change(store: &mut Store, place: &Place, asked: &Asked, now: Instant) -> Answer {
    if place.of == Of::Events {
        return Answer::ok(200, asked.body.clone());
    }
    let Some(there) = store.get(place.of, &place.key()).cloned() else { return not_found(place) };
    let (patch, mut value) = (asked.json(), there.value.clone());
    let kind = asked.content_type.as_str();
    if kind != "application/json-patch+json" {
        let metadata = &patch["metadata"];
        if metadata["uid"].as_str().is_some_and(|uid| !uid.is_empty() && uid != there.uid()) {
            // The patched object has another uid, which is a field that cannot change.
            return Answer::status(422, "Invalid", "metadata.uid: Invalid value: field is immutable");
        }
        if let Some(why) = stale(&there, metadata) {
            return conflict(place, &why);
        }
    }
    match kind {
        "application/strategic-merge-patch+json" => patch::strategic(&mut value, &patch),
        "application/merge-patch+json" => patch::merge(&mut value, &patch),
        "application/apply-patch+yaml" => value["status"] = applied(place.of, &patch["status"]),
        "application/json-patch+json" => {
            if let Err(why) = patch::json(&mut value, &patch) {
                let message = format!("the server rejected our request due to an error in our request: {why}");
                return Answer::status(422, "Invalid", &message);
            }
        }
        _ => return Answer::status(415, "UnsupportedMediaType", "the body of the request was in an unknown format"),
    }
    let nominated = |of: &Value| of.pointer("/status/nominatedNodeName").filter(|node| !node.is_null()).cloned();
    if place.of == Of::Pods
        && !there.text("/spec/nodeName").is_empty()
        && nominated(&value).is_some_and(|now| nominated(&there.value).as_ref() != Some(&now))
    {
        let message = "status.nominatedNodeName: Forbidden: may not be set for a pod that is bound";
        return Answer::status(422, "Invalid", message);
    }
    if place.of == Of::Pods && place.subresource == "status" {
        note_nominator(&mut value, &patch, asked.query("fieldManager").unwrap_or_default());
    }
    write(store, place, &there, value, now)
}

/// The object that is to be made. Of a claim it is noted who makes it, and of other objects nothing.
fn made_by(of: Of, asked: &Asked) -> Value {
    let mut value = asked.json();
    if let (Of::DeviceClaims, Some(metadata)) = (of, value["metadata"].as_object_mut()) {
        let manager = asked.query("fieldManager").unwrap_or_default();
        let written = json!([{"manager": manager, "fieldsV1": {"f:spec": {"f:devices": {"f:requests": {}}}}}]);
        metadata.insert("managedFields".to_owned(), written);
    }
    value
}

/// Of the writers of a pod, the one that nominated it last is noted, and nothing else.
fn note_nominator(pod: &mut Value, patch: &Value, manager: &str) {
    let Some(node) = patch.pointer("/status/nominatedNodeName") else { return };
    let Some(metadata) = pod["metadata"].as_object_mut() else { return };
    if node.is_null() {
        metadata.remove("managedFields");
    } else {
        let written = json!([{"manager": manager, "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}]);
        metadata.insert("managedFields".to_owned(), written);
    }
}

/// One manager owns the whole status, but for conditions that a profile begins with: they stay until they are written.
fn applied(of: Of, status: &Value) -> Value {
    let mut status = status.clone();
    if of == Of::Profiles {
        let written = status["conditions"].as_array().cloned().unwrap_or_default();
        let begun = UNSEEN["conditions"].as_array().into_iter().flatten();
        let left = begun.filter(|one| written.iter().all(|other| other["type"] != one["type"])).cloned();
        status["conditions"] = written.iter().cloned().chain(left).collect();
    }
    status
}

/// After `BindingREST` and `assignPod` in `pkg/registry/core/pod/storage/storage.go`.
fn bind(store: &mut Store, place: &Place, binding: &Value, now: Instant) -> Answer {
    let Some(there) = store.get(place.of, &place.key()).cloned() else { return not_found(place) };
    if let Some(why) = stale(&there, &binding["metadata"]) {
        return conflict(place, &why);
    }
    let refused = |why: &str| {
        let message = format!("Operation cannot be fulfilled on pods/binding \"{}\": {why}", place.name);
        Answer::status(409, "Conflict", &message)
    };
    let node = there.text("/spec/nodeName");
    if !there.text("/metadata/deletionTimestamp").is_empty() {
        return refused(&format!("pod {} is being deleted, cannot be assigned to a host", place.name));
    }
    if !node.is_empty() {
        return refused(&format!("pod {} is already assigned to node \"{node}\"", place.name));
    }
    if there.value["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refused(&format!("pod {} has non-empty .spec.schedulingGates", place.name));
    }
    let mut value = there.value.clone();
    value["spec"]["nodeName"] = text(binding, "/target/name").into();
    if let Some(status) = value["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp()});
    patch::strategic(&mut value, &json!({"status": {"conditions": [scheduled]}}));
    store.update(Of::Pods, value, now);
    Answer::json(201, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}

fn delete(store: &mut Store, place: &Place, options: &Value, now: Instant) -> Answer {
    let Some(there) = store.get(place.of, &place.key()).cloned() else { return not_found(place) };
    if let Some(why) = stale(&there, &options["preconditions"]) {
        return conflict(place, &why);
    }
    let grace = options["gracePeriodSeconds"].as_i64();
    if place.of != Of::Pods {
        if there.value["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()) {
            if !there.text("/metadata/deletionTimestamp").is_empty() {
                return object(200, &there);
            }
            let mut value = there.value.clone();
            value["metadata"]["deletionTimestamp"] = stamp().into();
            value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            return object(200, &store.update(place.of, value, now));
        }
        let last = store.delete(place.of, &place.key(), now);
        if let Some(last) = last.filter(|_| place.of == Of::DeviceClaims) {
            return object(200, &last);
        }
        return Answer::json(200, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}));
    }
    if grace == Some(0) || there.text("/spec/nodeName").is_empty() || !there.is_alive() {
        let mut value = there.value.clone();
        if value["metadata"]["deletionTimestamp"].is_null() {
            value["metadata"]["deletionTimestamp"] = stamp().into();
        }
        value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        // It is marked before it goes, and watches show both.
        store.update(place.of, value, now);
        let last = store.delete(place.of, &place.key(), now);
        return last.map_or_else(|| not_found(place), |last| object(200, &last));
    }
    if !there.text("/metadata/deletionTimestamp").is_empty() {
        return object(200, &there);
    }
    let mut value = there.value.clone();
    value["metadata"]["deletionTimestamp"] = stamp().into();
    let own = there.value["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    value["metadata"]["deletionGracePeriodSeconds"] = grace.unwrap_or(own).into();
    object(200, &store.update(Of::Pods, value, now))
}
