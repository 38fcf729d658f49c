use super::frame::{self, Frame, Seen};
use crate::cluster::decode::Decoder;
use crate::cluster::slim::{SlimNamespace, SlimNode, SlimPod, known, unknown};
use crate::core::model::{Namespace, Node, Pod};

/// A kind that can be watched.
pub trait Watched: Send + 'static {
    /// What its objects are decoded to.
    type Object: Send + 'static;
    /// Its plural, as in paths, logs and metrics.
    const PLURAL: &'static str;
    /// Where its collection is.
    const PATH: &'static str;
    /// Which of its objects are wanted.
    const FIELDS: Option<&'static str>;

    /// Decodes an item of a list.
    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Self::Object>;

    /// Decodes a line of a watch.
    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Self::Object>;
}

/// Pods that have not ended.
#[derive(Debug)]
pub struct Pods;

/// Nodes.
#[derive(Debug)]
pub struct Nodes;

/// Namespaces.
#[derive(Debug)]
pub struct Namespaces;

impl Watched for Pods {
    type Object = Pod;
    const PLURAL: &'static str = "pods";
    const PATH: &'static str = "/api/v1/pods";
    const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");

    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Pod> {
        let mut slim = SlimPod::read(bytes);
        note_unknown(&mut slim, bytes, &known::POD);
        frame::seen(&slim, |slim| decoder.pod(slim))
    }

    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Pod> {
        frame::read(line, |slim: &mut SlimPod<'_>| note_unknown(slim, line, &known::FRAME), |slim| decoder.pod(slim))
    }
}

fn note_unknown(slim: &mut SlimPod<'_>, bytes: &[u8], shape: &'static known::Shape) {
    if slim.is_pending() {
        slim.unknown = unknown::unknown_fields(bytes, shape);
    }
}

impl Watched for Nodes {
    type Object = Node;
    const PLURAL: &'static str = "nodes";
    const PATH: &'static str = "/api/v1/nodes";
    const FIELDS: Option<&'static str> = None;

    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Node> {
        frame::seen(&SlimNode::read(bytes), |slim| decoder.node(slim))
    }

    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Node> {
        frame::read(line, |_: &mut SlimNode<'_>| (), |slim| decoder.node(slim))
    }
}

impl Watched for Namespaces {
    type Object = Namespace;
    const PLURAL: &'static str = "namespaces";
    const PATH: &'static str = "/api/v1/namespaces";
    const FIELDS: Option<&'static str> = None;

    fn item(decoder: &mut Decoder, bytes: &[u8]) -> Seen<Namespace> {
        frame::seen(&SlimNamespace::read(bytes), |slim| decoder.namespace(slim))
    }

    fn frame(decoder: &mut Decoder, line: &[u8]) -> Frame<Namespace> {
        frame::read(line, |_: &mut SlimNamespace<'_>| (), |slim| decoder.namespace(slim))
    }
}
