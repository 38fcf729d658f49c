//! The only border between Kubernetes objects and the core's model.
//!
//! Everything that comes in, from a watch or from a file, passes here: it is validated, normalised as kube-scheduler
//! would see it, and its repeated texts are shared. Errors name the object, the field and the fix.
//!
//! ```text
//!  pod node     one kind each
//!  few_fields   kinds of which a field or two are read
//!  devices      objects of dynamic resource allocation
//!  volume       what pods mount, and the storage objects
//!  workload     what selects pods: Services, controllers, PodDisruptionBudgets
//!  resources    what a pod asks for, in its four variants
//!  selectors    node selectors and label selectors
//!  declared     features that a pod's node must declare
//!  pod_affinity terms of affinity and anti-affinity to pods
//!  spread       topology spread constraints
//!  findings     reasons to hold a pod: what this version does not implement or know, and lists that are too long
//!  pool         repeated values are stored once
//! ```

mod declared;
mod devices;
mod few_fields;
mod findings;
mod node;
mod pod;
mod pod_affinity;
mod pool;
mod resources;
mod selectors;
mod spread;
mod volume;
mod workload;

pub use berth_core::ledger::Object;
pub use few_fields::*;

use crate::slim::{FieldError, Pairs, Parts, Slim, SlimMeta, SlimNode, SlimPod, Text};
use berth_core::model::{Labels, Node, Pod, PodShape, RowShape, Str, Usage};
use pool::Pool;
use std::sync::Arc;

/// Why an object cannot be used; names it, the field and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {object}: {}{message}", prefix(field))]
pub struct DecodeError {
    /// The kind in lower case, such as `pod`.
    pub kind: &'static str,
    /// `namespace/name`, or the name of a cluster-scoped object; `?` where it could not be read.
    pub object: String,
    /// The field's path, such as `spec.containers[0].resources.requests[cpu]`; empty for the object itself.
    pub field: String,
    /// What is wrong with it and how to mend it.
    pub message: String,
}

fn prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

impl DecodeError {
    fn new(kind: &'static str, metadata: &SlimMeta<'_>, error: FieldError) -> Self {
        let object = match (&*metadata.namespace, &*metadata.name) {
            (_, "") => "?".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        Self { kind, object, field: error.field, message: error.message }
    }
}

/// Turns slim objects into the core's, and stores values once that many objects repeat.
///
/// Its memory is bounded whatever it is fed. One for each watch: it is not shared, so it needs no lock.
#[derive(Debug)]
pub struct Decoder {
    texts: Pool<Str>,
    labels: Pool<Labels>,
    shapes: Pool<Arc<PodShape>>,
    rows: Pool<Arc<RowShape>>,
    usages: Pool<Arc<Usage>>,
    reads_bound_pods_whole: bool,
}

impl Default for Decoder {
    /// A decoder for a stream of objects: it holds about 16,000 texts and 4,000 label sets and shapes at most, of 16 MiB each.
    fn default() -> Self {
        Self::sized(16_384, 4_096, 4_096)
    }
}

impl Decoder {
    /// A decoder for a stream of objects that are no pods: they repeat few texts, and have no shapes.
    pub fn plain() -> Self {
        Self::sized(4_096, 1_024, 0)
    }

    /// For tests: a decoder for a handful of objects, which shares nothing.
    pub fn small() -> Self {
        Self::sized(0, 0, 0)
    }

    fn sized(texts: usize, labels: usize, shapes: usize) -> Self {
        Self {
            texts: Pool::new(texts),
            labels: Pool::new(labels),
            shapes: Pool::new(shapes),
            rows: Pool::new(shapes),
            usages: Pool::new(shapes),
            reads_bound_pods_whole: false,
        }
    }

    /// Whether bound pods are read as those that wait are, for whoever wants to place them anew: all of the shape, and why the pod would be
    /// held. It takes as much memory as if they waited.
    #[must_use]
    pub fn reading_bound_pods_whole(self, reads_bound_pods_whole: bool) -> Self {
        Self { reads_bound_pods_whole, ..self }
    }

    /// Fills in only what other pods must know of a bound pod's shape: namespace, labels, and pod affinity terms; all of it if this
    /// decoder [reads bound pods whole](Self::reading_bound_pods_whole).
    pub fn pod(&mut self, slim: &SlimPod<'_>) -> Result<Pod, DecodeError> {
        decode("pod", slim, |parts| pod::decode(self, slim, parts))
    }

    pub fn node(&mut self, slim: &SlimNode<'_>) -> Result<Node, DecodeError> {
        decode("node", slim, |parts| node::decode(self, &slim.metadata, parts))
    }

    /// The shared form of `text`.
    fn text(&mut self, text: &str) -> Str {
        self.texts.text(text)
    }

    /// The paths of an object's unknown fields, sorted.
    fn unknown_fields(&mut self, unknown: &[String]) -> Vec<Str> {
        let mut fields: Vec<Str> = unknown.iter().map(|field| self.text(field)).collect();
        fields.sort();
        fields
    }

    fn texts(&mut self, list: &[Text<'_>]) -> Vec<Str> {
        list.iter().map(|text| self.text(text)).collect()
    }

    /// The shared form of `text`; `None` where it is empty.
    fn optional(&mut self, text: &str) -> Option<Str> {
        (!text.is_empty()).then(|| self.text(text))
    }

    fn namespace_of(&mut self, metadata: &SlimMeta<'_>) -> Str {
        self.text(or(&metadata.namespace, "default"))
    }

    /// The shared form of a label set.
    fn labels(&mut self, pairs: &Pairs<'_, Text<'_>>) -> Labels {
        let hash = pool::hash(pairs.iter().map(|(k, v)| (&**k, &**v)));
        // Equal sets come in equal order, sorted by the API server; one in another order is only not found here.
        let known = self.labels.find(hash, |known| {
            known.len() == pairs.len() && known.iter().zip(pairs.iter()).all(|(a, b)| **a.0 == *b.0 && **a.1 == *b.1)
        });
        known.unwrap_or_else(|| {
            let shared = pairs.iter().map(|(k, v)| (self.texts.text(k), self.texts.text(v)));
            self.labels.put(hash, Labels::from_pairs(shared))
        })
    }
}

/// Reads the spec and status of an object that has a name; an error names the object.
fn decode<S, T, O>(
    kind: &'static str,
    slim: &Slim<'_, S, T>,
    read: impl FnOnce(&Parts<'_, S, T>) -> Result<O, FieldError>,
) -> Result<O, DecodeError> {
    let decoded = match &slim.parts {
        Ok(_) if slim.metadata.name.is_empty() => Err(bad("metadata.name", "is missing: give the object a name")),
        Ok(parts) => read(parts),
        Err(error) => Err(error.clone()),
    };
    decoded.map_err(|error| DecodeError::new(kind, &slim.metadata, error))
}

/// `text`, or `default` where it is empty.
fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
}

fn bad(field: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { field: field.into(), message: message.into() }
}
