//! One conversation with one server: requests that use what earlier answers showed, and answers as far as both servers must agree.

use super::model::api::{Asked, Place, answer};
use super::model::store::Store;
use super::model::watch::Cursor;
use berth_lab::Api;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::time::Duration;
use tokio::time::Instant;

/// What both servers can be asked.
pub(crate) trait Server {
    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value);

    /// The events of a watch that ends by itself, and of which at least `least` come.
    fn watch(&mut self, path: &str, least: usize) -> Vec<Value>;
}

pub(crate) struct Real(Api);

impl Real {
    pub(crate) fn new(api: Api) -> Self {
        Self(api)
    }

    /// Until the path is served.
    pub(crate) fn wait_for(&self, path: &str) {
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while self.0.get(path).is_err() {
            assert!(std::time::Instant::now() < end, "{path} is not served");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Server for Real {
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
        let lines = cursor.take(&self.0, now, |change| change.at, |_| false).lines;
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
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
        })
    }
}
