//! Requests as Go writes upstream's v1 types: keys in Go's spelling, and nil as `null`, never left out.

use super::payload::{Payload, PayloadWriter};
use berth_core::io::NodeVictims;
use berth_core::model::Str;
use bytes::Bytes;

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
