//! A watch on its way to an operator: when its lines arrive, when its bookmarks and its end come, and what an unlucky one meets.

use super::model::api::{Asked, Place};
use super::model::store::{Change, Verb};
use super::model::watch::{Cursor, last_bookmark};
use super::protobuf;
use super::world::World;
use berth_cluster::proto::Type;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two bookmarks.
const BOOKMARKS: Duration = Duration::from_mins(1);

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
    cursor: Cursor,
    /// The type of its objects, if they are sent in protobuf.
    message: Option<Type>,
    luck: Luck,
    opened: Instant,
    ends: Instant,
    bookmark: Option<Instant>,
    last_bookmark: Option<Instant>,
    over: bool,
}

/// What no rule of the worlds takes for known: that something is new, and that a pod has left its node.
fn may_be_left_out(change: &Change) -> bool {
    match change.verb {
        Verb::Added => true,
        Verb::Deleted => !change.object.text("/spec/nodeName").is_empty(),
        Verb::Modified => false,
    }
}

enum Looked {
    Bytes(Bytes),
    Cut,
    End,
    /// Until then, or until something changes.
    Nothing(Instant),
}

impl Watch {
    pub(crate) fn new(
        world: Arc<World>,
        operator: usize,
        (place, message): (Place, Option<Type>),
        asked: &Asked,
        luck: Luck,
    ) -> Self {
        let now = Instant::now();
        let seconds = asked.query("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        let ends = now + seconds.map_or(LONGEST, Duration::from_secs);
        Self {
            bookmark: asked.wants_bookmarks().then(|| now + BOOKMARKS),
            last_bookmark: last_bookmark(asked, now, ends),
            cursor: Cursor::new(place, asked),
            message,
            world,
            operator,
            luck,
            opened: now,
            ends,
            over: false,
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let world = self.world.clone();
        while !self.over {
            let mut changed = std::pin::pin!(world.changed[self.cursor.place.of as usize].notified());
            changed.as_mut().enable();
            match self.look(Instant::now()) {
                Looked::Bytes(bytes) => return Some(Ok(bytes)),
                Looked::Cut => {
                    self.over = true;
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Looked::End => return None,
                Looked::Nothing(until) => {
                    let _due_or_changed = tokio::time::timeout_at(until, changed).await;
                }
            }
        }
        None
    }

    fn look(&mut self, now: Instant) -> Looked {
        let world = self.world.clone();
        let mut inner = world.lock();
        if let Some(until) = inner.network.silent(self.operator, now) {
            return Looked::Nothing(until);
        }
        if self.luck.cut.is_some_and(|cut| cut <= now) {
            // The last bytes before the connection breaks.
            let half: &[u8] = match self.message {
                None => b"{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"",
                Some(_) => &[0, 0, 1, 0, 0x0a],
            };
            let half = Bytes::from_static(half);
            return if std::mem::take(&mut self.luck.torn) { Looked::Bytes(half) } else { Looked::Cut };
        }
        if self.ends <= now || inner.network.started.is_some_and(|started| started > self.opened) {
            return Looked::End;
        }
        let (before, lag) = (self.cursor.version, self.luck.lag);
        let of = self.cursor.place.of;
        let arrives = |change: &Change| change.at + lag + inner.network.lag(of, change.at);
        let (mut few, mut left_out) = (inner.network.left_out(self.operator, of), Vec::new());
        let mut taken = self.cursor.take(&inner.store, now, arrives, |change| {
            let is_left_out = few > 0 && may_be_left_out(change);
            if is_left_out {
                few -= 1;
                left_out.push(change.version);
            }
            is_left_out
        });
        inner.leave_out(self.operator, of, &left_out);
        if taken.waits.is_none() && !taken.over && self.is_bookmark_due(now) {
            self.cursor.bookmark(&inner.store, &mut taken.lines);
        }
        if self.cursor.version > before {
            inner.saw(self.operator, self.cursor.place.of, self.cursor.version, now);
        }
        self.over = taken.over;
        if !taken.lines.is_empty() {
            return Looked::Bytes(match self.message {
                Some(of) => protobuf::events(&taken.lines, of),
                None => taken.lines.into(),
            });
        }
        if taken.over {
            return Looked::End;
        }
        // A bookmark waits for what is on its way.
        let bookmarks = [self.bookmark, self.last_bookmark].into_iter().flatten().min();
        let bookmarks = bookmarks.filter(|_| taken.waits.is_none());
        let next = [taken.waits, self.luck.cut, bookmarks].into_iter().flatten().min();
        Looked::Nothing(next.map_or(self.ends, |next| next.min(self.ends)))
    }

    fn is_bookmark_due(&mut self, now: Instant) -> bool {
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
}
