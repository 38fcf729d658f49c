//! Requests as Go writes upstream's v1 types: keys in Go's spelling, and nil as `null`, never left out. A body is pieces of its
//! own, and large objects that are shared and not copied.

use berth_core::io::NodeVictims;
use berth_core::model::Str;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Objects of at most this many bytes are copied: sharing one costs as much.
const COPY_BYTES: usize = 1_024;

/// A request's body. A clone shares all bytes.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    pieces: VecDeque<Bytes>,
    length: u64,
    own: usize,
}

impl Payload {
    /// The body's length.
    pub const fn bytes(&self) -> u64 {
        self.length
    }

    /// Bytes that are not shared with the store of objects.
    pub const fn own_bytes(&self) -> usize {
        self.own
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.pop_front();
        if let Some(piece) = &piece {
            this.length -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

#[derive(Debug, Default)]
struct PayloadWriter {
    done: Payload,
    open: Vec<u8>,
}

impl PayloadWriter {
    fn raw(&mut self, json: &str) {
        self.open.extend_from_slice(json.as_bytes());
    }

    /// Appends a text as a JSON string.
    fn text(&mut self, text: &str) {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut self.open, text);
    }

    fn object(&mut self, object: &Bytes) {
        if object.len() <= COPY_BYTES {
            self.open.extend_from_slice(object);
            return;
        }
        self.flush();
        self.done.length += object.len() as u64;
        self.done.pieces.push_back(object.clone());
    }

    fn flush(&mut self) {
        if !self.open.is_empty() {
            let piece = Bytes::from(std::mem::take(&mut self.open));
            self.done.length += piece.len() as u64;
            self.done.own += piece.len();
            self.done.pieces.push_back(piece);
        }
    }

    fn finish(mut self) -> Payload {
        self.flush();
        self.done
    }
}

/// The nodes of a question in one of two forms.
#[derive(Debug)]
pub enum Nodes<'a> {
    Names(&'a [Str]),
    /// In the form that [`sent_form`](super::sent_form) makes.
    Full(&'a [Bytes]),
}

/// The body of `filter` and `prioritize`.
pub fn nodes_request(pod: &Bytes, nodes: &Nodes<'_>) -> Payload {
    let mut out = PayloadWriter::default();
    out.raw(r#"{"Pod":"#);
    out.object(pod);
    match nodes {
        Nodes::Names(names) => {
            out.raw(r#","Nodes":null,"NodeNames":"#);
            list(&mut out, names, |out, name| out.text(name));
        }
        Nodes::Full(objects) => {
            out.raw(r#","Nodes":{"metadata":{},"items":"#);
            list(&mut out, objects, PayloadWriter::object);
            out.raw(r#"},"NodeNames":null"#);
        }
    }
    out.raw("}");
    out.finish()
}

/// The body of `preempt`. `whole` has the victims of each candidate as objects; without it their uids are sent.
pub fn preempt_request(pod: &Bytes, candidates: &[NodeVictims], whole: Option<&[Vec<Bytes>]>) -> Payload {
    let mut out = PayloadWriter::default();
    out.raw(r#"{"Pod":"#);
    out.object(pod);
    out.raw(if whole.is_some() {
        r#","NodeNameToVictims":{"#
    } else {
        r#","NodeNameToVictims":null,"NodeNameToMetaVictims":{"#
    });
    for (at, candidate) in candidates.iter().enumerate() {
        if at > 0 {
            out.raw(",");
        }
        out.text(&candidate.node);
        out.raw(r#":{"Pods":"#);
        match whole.and_then(|whole| whole.get(at)) {
            Some(objects) => list(&mut out, objects, PayloadWriter::object),
            None => list(&mut out, &candidate.victims, |out, uid| {
                out.raw(r#"{"UID":"#);
                out.text(uid);
                out.raw("}");
            }),
        }
        out.raw(r#","NumPDBViolations":"#);
        out.raw(&candidate.budget_violations.to_string());
        out.raw("}");
    }
    out.raw(if whole.is_some() { r#"},"NodeNameToMetaVictims":null}"# } else { "}}" });
    out.finish()
}

/// The body of `bind`.
pub fn bind_request(namespace: &str, name: &str, uid: &str, node: &str) -> Payload {
    let mut out = PayloadWriter::default();
    for (key, text) in
        [(r#"{"PodName":"#, name), (r#","PodNamespace":"#, namespace), (r#","PodUID":"#, uid), (r#","Node":"#, node)]
    {
        out.raw(key);
        out.text(text);
    }
    out.raw("}");
    out.finish()
}

fn list<T>(out: &mut PayloadWriter, members: &[T], mut each: impl FnMut(&mut PayloadWriter, &T)) {
    out.raw("[");
    for (at, member) in members.iter().enumerate() {
        if at > 0 {
            out.raw(",");
        }
        each(out, member);
    }
    out.raw("]");
}
