//! A watch of the model API server: what changed since a version, bookmarks, its end, and what an unlucky one meets.

use super::super::world::World;
use super::api::{Asked, Place};
use super::kinds::Of;
use super::store::{Change, Verb};
use bytes::Bytes;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two bookmarks.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// Before the end that a call asked for, the API server sends one more.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Without a timeout in the request.
const LONGEST: Duration = Duration::from_mins(30);

/// What is drawn for one watch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Luck {
    /// How long each change takes to arrive.
    pub(crate) lag: Duration,
    /// When the connection is cut.
    pub(crate) cut: Option<Instant>,
    /// Whether it is cut within a line.
    pub(crate) torn: bool,
}

pub(crate) struct Watch {
    world: Arc<World>,
    operator: usize,
    place: Place,
    only_alive: bool,
    /// Of the one object that is watched; empty for all.
    name: String,
    version: u64,
    luck: Luck,
    ends: Instant,
    bookmark: Option<Instant>,
    last_bookmark: Option<Instant>,
    /// Nothing was sent yet: only now is it told that its version is too old.
    begins: bool,
    over: bool,
}

impl Watch {
    pub(crate) fn new(world: Arc<World>, operator: usize, place: Place, asked: &Asked, luck: Luck) -> Self {
        let now = Instant::now();
        let fields = asked.query("fieldSelector").unwrap_or_default();
        let seconds = asked.query("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        let ends = now + seconds.map_or(LONGEST, Duration::from_secs);
        let bookmarks = asked.query("allowWatchBookmarks") == Some("true");
        let version = asked.query("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default();
        Self {
            only_alive: fields.contains("status.phase!="),
            name: fields.strip_prefix("metadata.name=").unwrap_or_default().to_owned(),
            bookmark: bookmarks.then(|| now + BOOKMARKS),
            last_bookmark: bookmarks.then(|| ends.checked_sub(LAST_BOOKMARK).unwrap_or(now).max(now)),
            world,
            operator,
            place,
            version,
            luck,
            ends,
            begins: true,
            over: false,
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.over {
                return None;
            }
            let world = self.world.clone();
            let changed = world.changed[self.place.of as usize].notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.look(Instant::now()) {
                Looked::Bytes(bytes) => return Some(Ok(bytes)),
                Looked::Cut => {
                    self.over = true;
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Looked::Torn(bytes) => {
                    self.luck.torn = false;
                    self.luck.cut = Some(Instant::now());
                    return Some(Ok(bytes));
                }
                Looked::End => return None,
                Looked::Nothing(until) => {
                    let _due_or_changed = tokio::time::timeout_at(until, changed).await;
                }
            }
        }
    }

    fn look(&mut self, now: Instant) -> Looked {
        let world = self.world.clone();
        let mut inner = world.lock();
        if let Some(until) = inner.network.silent(self.operator, now) {
            return Looked::Nothing(until);
        }
        if self.luck.cut.is_some_and(|cut| cut <= now) {
            let half = Bytes::from_static(b"{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"");
            return if self.luck.torn { Looked::Torn(half) } else { Looked::Cut };
        }
        if self.ends <= now {
            return Looked::End;
        }
        let table = inner.store.of(self.place.of);
        if std::mem::take(&mut self.begins) && self.version < table.compacted.max(table.forgotten) {
            self.over = true;
            return Looked::Bytes(too_old());
        }
        if self.version < table.forgotten && table.log.front().is_some_and(|first| first.version > self.version + 1) {
            // Too slow for the server's buffer.
            return Looked::End;
        }
        let begin = table.log.partition_point(|change| change.version <= self.version);
        let (mut out, mut waits, mut reached) = (Vec::new(), None, self.version);
        for change in table.log.range(begin..) {
            if change.at + self.luck.lag > now {
                waits = Some(change.at + self.luck.lag);
                break;
            }
            self.frame(change, &mut out);
            reached = change.version;
        }
        if waits.is_none() {
            let bookmark = self.due_bookmark(now);
            if bookmark {
                reached = inner.store.version();
                self.push_bookmark(reached, &mut out);
            }
        }
        let moved = reached > self.version;
        self.version = reached;
        if moved {
            inner.saw(self.operator, self.place.of, reached, now);
        }
        if !out.is_empty() {
            return Looked::Bytes(out.into());
        }
        // A bookmark waits for what is on its way.
        let bookmarks = [self.bookmark, self.last_bookmark].into_iter().flatten().min().filter(|_| waits.is_none());
        let next = [waits, self.luck.cut, bookmarks].into_iter().flatten().min();
        Looked::Nothing(next.map_or(self.ends, |next| next.min(self.ends)))
    }

    fn due_bookmark(&mut self, now: Instant) -> bool {
        let due = self.bookmark.is_some_and(|at| at <= now);
        if due {
            self.bookmark = Some(now + BOOKMARKS);
        }
        let last = self.last_bookmark.is_some_and(|at| at <= now);
        if last {
            self.last_bookmark = None;
        }
        due || last
    }

    fn push_bookmark(&self, version: u64, out: &mut Vec<u8>) {
        let kind = self.place.of.kind();
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": kind.name, "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null}}});
        out.extend_from_slice(bookmark.to_string().as_bytes());
        out.push(b'\n');
    }

    fn frame(&self, change: &Change, out: &mut Vec<u8>) {
        let object = &change.object;
        if !self.name.is_empty() && object.text("/metadata/name") != self.name {
            return;
        }
        if !self.place.namespace.is_empty() && object.text("/metadata/namespace") != self.place.namespace {
            return;
        }
        let verb = match (self.only_alive && self.place.of == Of::Pods, change.was_alive, object.is_alive()) {
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
        out.extend_from_slice(&object.json);
        out.extend_from_slice(b"}\n");
    }
}

enum Looked {
    Bytes(Bytes),
    /// The last bytes before the connection is cut.
    Torn(Bytes),
    Cut,
    End,
    /// Until then, or until something changes.
    Nothing(Instant),
}

fn too_old() -> Bytes {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410});
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}
