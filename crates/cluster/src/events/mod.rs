//! Events, which yield to binds: a bounded queue, a few writers with connections of their own, repeats as counts.
//!
//! Events that are not written are counted. While binds wait, an event waits too, but no longer than a second, so that the
//! last events follow the last bind closely.

mod body;
mod pace;
mod series;
mod sink;

pub use sink::{EventResult, EventSink};

use berth_core::io::RefusalText;
use berth_core::ledger::PlacedPod;
use berth_core::model::{Pod, PodKey, Str};
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

/// An object other than a pod that we schedule. Without its resourceVersion, so that repeats are counted: a profile's
/// changes with every status write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    api_version: &'static str,
    kind: &'static str,
    /// `None` if the object is cluster-scoped: its events are in `default`.
    namespace: Option<Str>,
    name: Str,
    /// May be empty.
    uid: Str,
}

impl ObjectRef {
    pub fn profile(name: &str, uid: &str) -> Self {
        let (name, uid) = (name.into(), uid.into());
        Self { api_version: "scheduling.berth.dev/v1alpha1", kind: "SchedulerProfile", namespace: None, name, uid }
    }

    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        let (name, uid) = (name.into(), uid.into());
        Self { api_version: "coordination.k8s.io/v1", kind: "Lease", namespace: Some(namespace.into()), name, uid }
    }

    pub fn pod(namespace: &str, name: &str, uid: &str) -> Self {
        let (name, uid) = (name.into(), uid.into());
        Self { api_version: "v1", kind: "Pod", namespace: Some(namespace.into()), name, uid }
    }
}

/// What an event is about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A pod that a profile serves.
    Pod(Arc<Pod>),
    Object(Arc<ObjectRef>),
}

/// The fields of a subject; `uid` and `resource_version` may be empty.
#[derive(Hash)]
struct Reference<'a> {
    api_version: &'static str,
    kind: &'static str,
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}

impl Subject {
    fn reference(&self) -> Reference<'_> {
        match self {
            Self::Pod(pod) => Reference {
                api_version: "v1",
                kind: "Pod",
                namespace: Some(&pod.key.namespace),
                name: &pod.key.name,
                uid: &pod.uid,
                resource_version: &pod.resource_version,
            },
            Self::Object(object) => Reference {
                api_version: object.api_version,
                kind: object.kind,
                namespace: object.namespace.as_deref(),
                name: &object.name,
                uid: &object.uid,
                resource_version: "",
            },
        }
    }
}

/// The message of an event; its text is made when it is written.
#[derive(Debug, Clone)]
pub enum Note {
    /// The pod was bound to the node.
    Assigned(Arc<Pod>, Str),
    Refusal(RefusalText),
    Plain(Arc<str>),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assigned(pod, node) => write!(f, "Successfully assigned {} to {node}", pod.key),
            Self::Refusal(text) => text.fmt(f),
            Self::Plain(text) => f.write_str(text),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    pub subject: Subject,
    pub kind: EventType,
    /// One CamelCase word of at most 128 bytes.
    pub reason: &'static str,
    /// What was done or tried: one CamelCase word of at most 128 bytes.
    pub action: &'static str,
    /// Cut to 1,024 bytes when it is written.
    pub note: Note,
    pub related: Option<Subject>,
    /// The reporting controller: the schedulerName, or `berth` for the operator itself.
    pub controller: Str,
}

impl Event {
    pub fn scheduled(pod: Arc<Pod>, node: Str) -> Self {
        let note = Note::Assigned(pod.clone(), node);
        Self::on_pod(pod, EventType::Normal, "Scheduled", "Binding", note)
    }

    pub fn failed(pod: Arc<Pod>, text: RefusalText) -> Self {
        Self::on_pod(pod, EventType::Warning, "FailedScheduling", "Scheduling", Note::Refusal(text))
    }

    /// The pod is bound to the node once drivers say that its devices are ready.
    pub fn awaits_devices(pod: Arc<Pod>, node: &str) -> Self {
        let note = format!("waiting for binding conditions for device on node {node}");
        Self::on_pod(pod, EventType::Normal, "BindingConditionsPending", "Scheduling", Note::Plain(note.into()))
    }

    fn on_pod(pod: Arc<Pod>, kind: EventType, reason: &'static str, action: &'static str, note: Note) -> Self {
        let controller = pod.scheduler_name.clone();
        Self { subject: Subject::Pod(pod), kind, reason, action, note, related: None, controller }
    }

    /// The victim is deleted for `preemptor`; `in_memory`: it was assumed only, and is not deleted.
    pub fn preempted(victim: &PlacedPod, preemptor: &Arc<Pod>, node: &str, in_memory: bool) -> Self {
        let PodKey { namespace, name } = &victim.key;
        let suffix = if in_memory { " (in kube-scheduler memory)." } else { "" };
        let note = format!("Preempted by pod {} on node {node}{suffix}", preemptor.uid);
        let object = ObjectRef::pod(namespace, name, &victim.uid);
        Self {
            related: Some(Subject::Pod(preemptor.clone())),
            controller: preemptor.scheduler_name.clone(),
            ..Self::of_operator(object, EventType::Normal, "Preempted", "Preempting", note)
        }
    }

    /// An event that the operator itself reports.
    pub fn of_operator(
        object: ObjectRef,
        kind: EventType,
        reason: &'static str,
        action: &'static str,
        note: impl Into<Arc<str>>,
    ) -> Self {
        let subject = Subject::Object(Arc::new(object));
        Self {
            subject,
            kind,
            reason,
            action,
            note: Note::Plain(note.into()),
            related: None,
            controller: "berth".into(),
        }
    }

    /// Whether the same event can occur again for the same object: a pod is bound only once.
    fn repeats(&self) -> bool {
        !matches!(self.note, Note::Assigned(..))
    }
}
