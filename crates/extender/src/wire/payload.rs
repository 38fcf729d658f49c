//! A request's body: pieces of its own, and large objects that are shared and not copied.

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
    pub const fn len(&self) -> u64 {
        self.length
    }

    pub const fn is_empty(&self) -> bool {
        self.length == 0
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
pub(super) struct PayloadWriter {
    done: Payload,
    open: Vec<u8>,
}

impl PayloadWriter {
    pub(super) fn raw(&mut self, json: &str) {
        self.open.extend_from_slice(json.as_bytes());
    }

    /// Appends a text as a JSON string.
    pub(super) fn text(&mut self, text: &str) {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut self.open, text);
    }

    pub(super) fn object(&mut self, object: &Bytes) {
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

    pub(super) fn finish(mut self) -> Payload {
        self.flush();
        self.done
    }
}
