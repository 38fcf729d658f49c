//! What the model API server keeps: objects, resource versions, and the changes that watches can still see.

use super::kinds::{KINDS, Of};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;

/// Changes of a kind that a watch can go on from. Few, so that watches that were away are told 410.
const WINDOW: usize = 120;

/// As [`Value::pointer`] for names without `/` and `~`: that allocates for each part of the path, and rules ask all the time.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    debug_assert!(!path.contains('~'), "{path}: escapes are not read");
    path.split('/').skip(1).try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => value.get(part),
    })
}

/// The text there; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// An object at one version.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) value: Value,
    /// The same as text, made once.
    pub(crate) json: Bytes,
    pub(crate) version: u64,
}

impl Object {
    pub(crate) fn text(&self, path: &str) -> &str {
        text(&self.value, path)
    }

    pub(crate) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// Whether a pod has not ended, which is what the operators' field selector asks for.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.text("/status/phase"), "Succeeded" | "Failed")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Added,
    Modified,
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) at: Instant,
    pub(crate) verb: Verb,
    pub(crate) object: Arc<Object>,
    /// Whether the field selector of living pods took the object before.
    pub(crate) was_alive: bool,
    /// The object as that selector saw it last, if it takes it no more.
    pub(crate) last_alive: Option<Bytes>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By `namespace/name`.
    pub(crate) objects: BTreeMap<String, Arc<Object>>,
    pub(crate) log: VecDeque<Change>,
    /// Changes up to this version are not in the log any more.
    pub(crate) forgotten: u64,
    /// A watch that begins before this version is told 410.
    pub(crate) compacted: u64,
    pub(crate) newest: u64,
}

#[derive(Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    version: u64,
    uids: u64,
    /// Whether `resource.k8s.io` is served.
    pub(crate) has_devices: bool,
}

pub(crate) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The time as objects have it, in whole seconds.
pub(crate) fn stamp() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { tables: KINDS.iter().map(|_| Table::default()).collect(), version: 1_000, uids: 0, has_devices: true }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn of(&self, of: Of) -> &Table {
        &self.tables[of as usize]
    }

    pub(crate) fn get(&self, of: Of, key: &str) -> Option<&Arc<Object>> {
        self.of(of).objects.get(key)
    }

    /// Forgets all changes of a kind, as a compaction does: a watch that begins with an earlier version is told 410.
    pub(crate) fn compact(&mut self, of: Of) {
        self.tables[of as usize].compacted = self.version;
    }

    /// Makes an object; what every object has is filled in.
    pub(crate) fn create(&mut self, of: Of, mut value: Value, now: Instant) -> Arc<Object> {
        self.uids += 1;
        let kind = of.kind();
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.name.into();
        let metadata = &mut value["metadata"];
        metadata["uid"] = format!("{:08x}-0000-4000-8000-{:012x}", self.uids, self.uids).into();
        metadata["creationTimestamp"] = stamp().into();
        if of == Of::Profiles {
            metadata["generation"] = json!(1);
        }
        self.put(of, value, Verb::Added, now)
    }

    /// Replaces an object.
    pub(crate) fn update(&mut self, of: Of, value: Value, now: Instant) -> Arc<Object> {
        self.put(of, value, Verb::Modified, now)
    }

    fn put(&mut self, of: Of, mut value: Value, verb: Verb, now: Instant) -> Arc<Object> {
        self.version += 1;
        let version = self.version;
        value["metadata"]["resourceVersion"] = version.to_string().into();
        let at = key(
            value["metadata"]["namespace"].as_str().unwrap_or_default(),
            value["metadata"]["name"].as_str().unwrap_or_default(),
        );
        let json = serde_json::to_vec(&value).unwrap().into();
        let object = Arc::new(Object { value, json, version });
        let before = self.tables[of as usize].objects.insert(at, object.clone());
        self.log(of, verb, object.clone(), before.as_deref(), now);
        object
    }

    pub(crate) fn delete(&mut self, of: Of, at: &str, now: Instant) -> Option<Arc<Object>> {
        let before = self.tables[of as usize].objects.remove(at)?;
        self.version += 1;
        let version = self.version;
        let mut value = before.value.clone();
        value["metadata"]["resourceVersion"] = version.to_string().into();
        let json = serde_json::to_vec(&value).unwrap().into();
        let object = Arc::new(Object { value, json, version });
        self.log(of, Verb::Deleted, object.clone(), Some(&before), now);
        Some(object)
    }

    fn log(&mut self, of: Of, verb: Verb, object: Arc<Object>, before: Option<&Object>, now: Instant) {
        let was_alive = before.is_some_and(Object::is_alive);
        let last_alive = before.filter(|_| was_alive && !object.is_alive()).map(|before| {
            let mut last = before.value.clone();
            last["metadata"]["resourceVersion"] = object.version.to_string().into();
            serde_json::to_vec(&last).unwrap().into()
        });
        let table = &mut self.tables[of as usize];
        table.newest = object.version;
        table.log.push_back(Change { version: object.version, at: now, verb, object, was_alive, last_alive });
        if table.log.len() > WINDOW {
            table.forgotten = table.log.pop_front().map_or(0, |change| change.version);
        }
    }
}
