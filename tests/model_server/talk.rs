//! One conversation with one server: requests that use what earlier answers showed, and answers as far as both servers must agree.

use super::model::api::{Answer, Asked, Place, answer};
use super::model::kinds::Of;
use super::model::store::Store;
use super::model::watch::{Cursor, last_bookmark};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_lab::{Api, ControlPlane};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// What both servers can be asked.
pub(crate) trait Server {
    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value);

    /// The events of a watch that ends by itself, and of which at least `least` come.
    fn watch(&mut self, path: &str, least: usize) -> Vec<Value>;

    /// Forgets all that was before now.
    fn forget(&mut self);

    /// A token of a page, as if the first page had been read before anything that is kept.
    fn outdated(&self, token: &str) -> String;

    /// What is answered to a GET of the path when the server has no room for it.
    fn turn_away(&mut self, namespace: &str, path: &str) -> Turned;
}

/// An answer before anything has looked at the request.
#[derive(Debug)]
pub(crate) struct Turned {
    code: u16,
    content_type: String,
    retry_after: String,
    body: String,
}

/// Longest wait for what takes a moment on an idle machine.
const SOON: Duration = Duration::from_mins(1);

pub(crate) struct Real<'a>(Api, &'a ControlPlane);

impl<'a> Real<'a> {
    pub(crate) fn new(plane: &'a ControlPlane) -> Self {
        Self(plane.api.clone(), plane)
    }

    /// Until the path is served.
    pub(crate) fn wait_for(&self, path: &str) {
        let end = std::time::Instant::now() + SOON;
        while self.0.get(path).is_err() {
            assert!(std::time::Instant::now() < end, "{path} is not served");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The client of an account whose requests have a priority level of their own, which lets one in at a time and refuses all others.
    fn narrow(&self, namespace: &str) -> Api {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.0.post(&accounts, &json!({"metadata": {"name": "many"}})).unwrap();
        let limited =
            json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
        let level = json!({"metadata": {"name": namespace}, "spec": {"type": "Limited", "limited": limited}});
        self.0.post(&format!("{FLOW_CONTROL}/prioritylevelconfigurations"), &level).unwrap();
        let account = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "many"}});
        let all =
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
        let schema = json!({
            "metadata": {"name": namespace},
            "spec": {
                "matchingPrecedence": 100,
                "priorityLevelConfiguration": {"name": namespace},
                "rules": [{"subjects": [account], "resourceRules": [all]}],
            },
        });
        self.0.post(&format!("{FLOW_CONTROL}/flowschemas"), &schema).unwrap();
        let token = self.0.post(&format!("{accounts}/many/token"), &json!({"spec": {}})).unwrap();
        self.0.with_token(token["status"]["token"].as_str().unwrap())
    }
}

/// How long the only place of a priority level is held at a time: the first request may come before the level is in force.
const HELD: Duration = Duration::from_secs(2);

/// What a request gets while another one takes the only place; `None` if that one did not take it.
fn turned_away_once(api: &Api, path: &str) -> Option<berth_lab::Answer> {
    let (end, held) = mpsc::channel();
    let holder = api.clone();
    // Everybody may ask it, and its handler waits for the body.
    let hold = thread::spawn(move || holder.hold("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", held));
    let until = std::time::Instant::now() + HELD;
    let mut turned = None;
    while turned.is_none() && std::time::Instant::now() < until {
        turned = Some(api.request("GET", path, None).unwrap()).filter(|answer| answer.status == 429);
        thread::sleep(Duration::from_millis(50));
    }
    drop(end);
    let _answered = hold.join().unwrap();
    turned
}

const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

impl Server for Real<'_> {
    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let body = (!body.is_null()).then_some((content_type, body));
        let answer = self.0.request_as(method, path, body).unwrap();
        (answer.status, answer.body)
    }

    fn watch(&mut self, path: &str, least: usize) -> Vec<Value> {
        // Whatever comes within the call's own time.
        let _ = least;
        let lines = BufReader::new(self.0.stream(path, "application/json").unwrap()).lines();
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Its cache keeps what it has seen: what is older than itself is gone there, too.
    fn forget(&mut self) {
        self.1.reclaim_etcd().unwrap();
    }

    /// After `continueToken` of `staging/src/k8s.io/apiserver/pkg/storage/continue.go`.
    fn outdated(&self, token: &str) -> String {
        let mut said: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
        said["rv"] = json!(1);
        URL_SAFE_NO_PAD.encode(said.to_string())
    }

    fn turn_away(&mut self, namespace: &str, path: &str) -> Turned {
        let api = self.narrow(namespace);
        let limit = std::time::Instant::now() + SOON;
        let turned = loop {
            if let Some(turned) = turned_away_once(&api, path) {
                break turned;
            }
            assert!(std::time::Instant::now() < limit, "nothing is turned away");
        };
        let body = turned.body.as_str().map_or_else(|| turned.body.to_string(), str::to_owned);
        Turned { code: turned.status, content_type: turned.content_type, retry_after: turned.retry_after, body }
    }
}

pub(crate) struct Model(Store);

impl Model {
    pub(crate) fn new() -> Self {
        Self(Store::new())
    }

    fn asked(method: &str, path: &str, content_type: &str, body: &Value) -> Asked {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter_map(|part| part.split_once('='));
        Asked {
            method: method.to_owned(),
            path: path.to_owned(),
            query: pairs
                .map(|(name, value)| (name.to_owned(), value.replace("%3D", "=").replace("%21", "!")))
                .collect(),
            content_type: content_type.to_owned(),
            accept: String::new(),
            body: if body.is_null() { String::new() } else { body.to_string() }.into(),
        }
    }
}

impl Server for Model {
    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let asked = Self::asked(method, path, content_type, body);
        let answer = answer(&mut self.0, &asked, now());
        (answer.code, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    fn watch(&mut self, path: &str, _: usize) -> Vec<Value> {
        let asked = Self::asked("GET", path, "", &Value::Null);
        let mut cursor = Cursor::new(Place::of(&asked.path).unwrap(), &asked);
        let now = now();
        let mut lines = cursor.take(&self.0, now, |change| change.at, |_| false).lines;
        let seconds = asked.query("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        // As late as it may be.
        if last_bookmark(&asked, now, now + Duration::from_secs(seconds)).is_some() {
            cursor.bookmark(&self.0, &mut lines);
        }
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn forget(&mut self) {
        for of in [Of::Pods, Of::Profiles] {
            self.0.compact(of);
        }
    }

    fn outdated(&self, token: &str) -> String {
        format!("1~{}", token.split_once('~').unwrap().1)
    }

    fn turn_away(&mut self, _: &str, _: &str) -> Turned {
        let answer = Answer::turned_away(1);
        Turned {
            code: answer.code,
            content_type: answer.content_type.to_owned(),
            retry_after: answer.retry_after.map(|seconds| seconds.to_string()).unwrap_or_default(),
            body: String::from_utf8_lossy(&answer.body).into_owned(),
        }
    }
}

fn now() -> Instant {
    Instant::now()
}

/// What is said, and what was answered, with names instead of uids and versions.
pub(crate) struct Talk<'a> {
    server: &'a mut dyn Server,
    pub(crate) namespace: String,
    told: Vec<String>,
    names: BTreeMap<String, String>,
    /// The last answer about each object, by its name.
    last: BTreeMap<String, Value>,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(server: &'a mut dyn Server, namespace: &str) -> Self {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.ask("POST", "/api/v1/namespaces", "application/json", &body);
        let (told, names, last) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { server, namespace: namespace.to_owned(), told, names, last }
    }

    pub(crate) fn told(self) -> Vec<String> {
        self.told
    }

    /// The uid of an object as it was shown last.
    pub(crate) fn uid(&self, name: &str) -> String {
        self.text(name, "uid")
    }

    /// Its version.
    pub(crate) fn version(&self, name: &str) -> String {
        self.text(name, "resourceVersion")
    }

    /// The object itself.
    pub(crate) fn object(&self, name: &str) -> Value {
        self.last.get(name).cloned().unwrap_or_default()
    }

    fn text(&self, name: &str, field: &str) -> String {
        self.object(name)["metadata"][field].as_str().unwrap_or_default().to_owned()
    }

    /// A path in the conversation's namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.ask("GET", path, "", Value::Null)
    }

    pub(crate) fn post(&mut self, path: &str, body: Value) -> Value {
        self.ask("POST", path, "application/json", body)
    }

    pub(crate) fn put(&mut self, path: &str, body: Value) -> Value {
        self.ask("PUT", path, "application/json", body)
    }

    /// `kind` is the part of the content type before `-patch`.
    pub(crate) fn patch(&mut self, path: &str, kind: &str, body: Value) -> Value {
        let ending = if kind == "apply" { "yaml" } else { "json" };
        self.ask("PATCH", path, &format!("application/{kind}-patch+{ending}"), body)
    }

    pub(crate) fn delete(&mut self, path: &str, options: Value) -> Value {
        self.ask("DELETE", path, "application/json", options)
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, content_type: &str, body: Value) -> Value {
        let (code, answer) = self.server.ask(method, path, content_type, &body);
        if let Some(name) = answer["metadata"]["name"].as_str() {
            self.last.insert(name.to_owned(), answer.clone());
        }
        let shown = self.shown(&answer);
        self.told.push(format!("{method} {}: {code} {shown}", path.split('?').next().unwrap_or_default()));
        answer
    }

    /// Whatever was before now is forgotten.
    pub(crate) fn forget(&mut self) {
        self.server.forget();
    }

    /// The token with which a list goes on, as if its first page had been read before all that is kept.
    pub(crate) fn outdated(&self, list: &Value) -> String {
        self.server.outdated(list["metadata"]["continue"].as_str().unwrap())
    }

    /// Asks when the server has no room. How long it is to wait differs: it is a number of seconds.
    pub(crate) fn turn_away(&mut self, path: &str) {
        let Turned { code, content_type, retry_after, body } = self.server.turn_away(&self.namespace, path);
        let waits = retry_after.parse::<u64>().is_ok_and(|seconds| seconds > 0);
        self.told.push(format!("GET {path}: {code} {content_type}, says when to ask again: {waits}, {body:?}"));
    }

    /// Watches from a version on for so many seconds. Whether a bookmark comes, and whether the last one is as new as `list`, the version of
    /// a list from before.
    pub(crate) fn bookmark(&mut self, path: &str, version: &str, seconds: u32, list: &str) {
        let query = format!("watch=true&resourceVersion={version}&timeoutSeconds={seconds}");
        let events = self.server.watch(&format!("{path}&{query}"), 0);
        let number = |version: &str| version.parse::<u64>().unwrap();
        let (bookmarks, others): (Vec<Value>, Vec<Value>) =
            events.into_iter().partition(|event| event["type"] == "BOOKMARK");
        for event in others {
            let shown = self.shown(&event["object"]);
            self.told.push(format!("{} {shown}", event["type"]));
        }
        let object = bookmarks.last().map(|event| &event["object"]);
        let reached = object.map(|object| object["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        let is_new = reached.map(|reached| number(reached) >= number(list));
        let kind = object.map(|object| [&object["apiVersion"], &object["kind"]]);
        // Not how many: the real server goes by buckets of a second, and sends one more when a bucket is due before the bookmark in it.
        self.told.push(format!("a bookmark of {kind:?}, as new as the list: {is_new:?}"));
    }

    /// Watches from a version on for as long as the call lasts, which is a second.
    pub(crate) fn watch(&mut self, path: &str, version: &str, least: usize) {
        let sign = if path.contains('?') { '&' } else { '?' };
        let events =
            self.server.watch(&format!("{path}{sign}watch=true&resourceVersion={version}&timeoutSeconds=1"), least);
        for event in events {
            let shown = match event["type"].as_str() {
                Some("ERROR") => json!([event["object"]["code"], event["object"]["reason"]]),
                _ => self.shown(&event["object"]),
            };
            self.told.push(format!("{} {shown}", event["type"]));
        }
    }

    /// A name for something that differs between servers: the same thing gets the same name.
    fn name(&mut self, what: &str, text: &str) -> String {
        let count = self.names.keys().filter(|key| key.starts_with(what)).count();
        self.names.entry(format!("{what}{text}")).or_insert_with(|| format!("{what}#{count}")).clone()
    }

    /// What the operator reads of an answer.
    fn shown(&mut self, answer: &Value) -> Value {
        if answer["kind"] == "Status" {
            return json!({"status": answer["status"], "reason": answer["reason"]});
        }
        if let Some(items) = answer["items"].as_array() {
            let items: Vec<Value> = items.iter().map(|item| self.shown(item)).collect();
            let meta = &answer["metadata"];
            let more = !meta["continue"].as_str().unwrap_or_default().is_empty();
            return json!({"items": items, "more": more, "remaining": meta["remainingItemCount"]});
        }
        let meta = &answer["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        let conditions = answer["status"]["conditions"].as_array().into_iter().flatten();
        let conditions: BTreeMap<&str, Value> = conditions
            .filter_map(|one| Some((one["type"].as_str()?, json!([one["status"], one["reason"], one["message"]]))))
            .collect();
        // An admission plugin protects volumes, and a controller that no conversation needs takes that away.
        let finalizers = meta["finalizers"].as_array().into_iter().flatten();
        let finalizers: Vec<&Value> =
            finalizers.filter(|one| one.as_str().is_none_or(|one| !one.starts_with("kubernetes.io/pv"))).collect();
        let claim_uid = answer["spec"]["claimRef"]["uid"].as_str().unwrap_or_default().to_owned();
        json!({
            "name": meta["name"],
            "uid": self.name("uid", &text("uid")),
            "version": self.name("version", &text("resourceVersion")),
            "terminating": meta["deletionTimestamp"].is_string(),
            "grace": meta["deletionGracePeriodSeconds"],
            "generation": if answer["kind"] == "SchedulerProfile" { meta["generation"].clone() } else { Value::Null },
            "node": answer["spec"]["nodeName"],
            "gates": answer["spec"]["schedulingGates"],
            "nominated": answer["status"]["nominatedNodeName"],
            "phase": answer["status"]["phase"],
            "observed": answer["status"]["observedGeneration"],
            "holder": answer["spec"]["holderIdentity"],
            "conditions": conditions,
            "finalizers": finalizers,
            "annotations": meta["annotations"],
            "claimRef": [&answer["spec"]["claimRef"]["name"], &Value::from(self.name("uid", &claim_uid))],
            "unschedulable": answer["spec"]["unschedulable"],
            "devices": answer["status"]["allocation"]["devices"],
            "reservedFor": answer["status"]["reservedFor"],
            "extended": answer["status"]["extendedResourceClaimStatus"],
        })
    }
}
