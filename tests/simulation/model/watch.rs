//! What a watch of the model API server shows: the changes of a kind since a version, as lines.

use super::api::{Asked, Place};
use super::kinds::Of;
use super::store::{Change, Store, Verb};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// So long before the end that a call asked for, the API server sends a bookmark beside those of each minute. A call of no more than that
/// gets none: `nextBookmarkTime`, `storage/cacher/cache_watcher.go`.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// When the last bookmark of a call is due that begins now.
pub(crate) fn last_bookmark(asked: &Asked, now: Instant, ends: Instant) -> Option<Instant> {
    ends.checked_sub(LAST_BOOKMARK).filter(|at| asked.wants_bookmarks() && *at > now)
}

/// How far a watch has come.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) place: Place,
    /// Only pods that have not ended.
    only_alive: bool,
    /// Of the one object that is watched; empty for all.
    name: String,
    pub(crate) version: u64,
    /// Nothing was sent yet: only now is it told that its version is too old.
    begins: bool,
}

/// What there is to send.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) lines: Vec<u8>,
    /// Nothing follows.
    pub(crate) over: bool,
    /// The first change that is still on its way.
    pub(crate) waits: Option<Instant>,
}

impl Cursor {
    pub(crate) fn new(place: Place, asked: &Asked) -> Self {
        let fields = asked.query("fieldSelector").unwrap_or_default();
        Self {
            only_alive: place.of == Of::Pods && fields.contains("status.phase!="),
            name: fields.strip_prefix("metadata.name=").unwrap_or_default().to_owned(),
            version: asked.query("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default(),
            place,
            begins: true,
        }
    }

    /// Takes the changes that have arrived, `arrives` being when each does, but for those that are `left_out`.
    pub(crate) fn take(
        &mut self,
        store: &Store,
        now: Instant,
        arrives: impl Fn(&Change) -> Instant,
        mut is_left_out: impl FnMut(&Change) -> bool,
    ) -> Taken {
        let (table, mut taken) = (store.of(self.place.of), Taken::default());
        if std::mem::take(&mut self.begins) && self.version < table.compacted.max(table.forgotten) {
            taken.lines = too_old();
            taken.over = true;
            return taken;
        }
        if self.version < table.forgotten && table.log.front().is_some_and(|first| first.version > self.version + 1) {
            // Too slow for the server's buffer.
            taken.over = true;
            return taken;
        }
        let begin = table.log.partition_point(|change| change.version <= self.version);
        for change in table.log.range(begin..) {
            if arrives(change) > now {
                taken.waits = Some(arrives(change));
                break;
            }
            if !is_left_out(change) {
                self.line(change, &mut taken.lines);
            }
            self.version = change.version;
        }
        taken
    }

    /// A bookmark: everything up to the store's version was sent.
    pub(crate) fn bookmark(&mut self, store: &Store, lines: &mut Vec<u8>) {
        self.version = store.version();
        let kind = self.place.of.kind();
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": kind.name, "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": self.version.to_string(), "creationTimestamp": null}}});
        lines.extend_from_slice(bookmark.to_string().as_bytes());
        lines.push(b'\n');
    }

    fn line(&self, change: &Change, out: &mut Vec<u8>) {
        let object = &change.object;
        if !self.name.is_empty() && object.text("/metadata/name") != self.name {
            return;
        }
        if !self.place.namespace.is_empty() && object.text("/metadata/namespace") != self.place.namespace {
            return;
        }
        let verb = match (self.only_alive, change.was_alive, object.is_alive()) {
            (true, false, true) if change.verb != Verb::Deleted => Verb::Added,
            (true, true, false) => Verb::Deleted,
            (true, false, _) => return,
            _ => change.verb,
        };
        let head: &[u8] = match verb {
            Verb::Added => br#"{"type":"ADDED","object":"#,
            Verb::Modified => br#"{"type":"MODIFIED","object":"#,
            Verb::Deleted => br#"{"type":"DELETED","object":"#,
        };
        out.extend_from_slice(head);
        let last = change.last_alive.as_ref().filter(|_| self.only_alive);
        out.extend_from_slice(last.unwrap_or(&object.json));
        out.extend_from_slice(b"}\n");
    }
}

fn too_old() -> Vec<u8> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410});
    format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes()
}
