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

/// An object other than a pod that we schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// `None` if the object is cluster-scoped: its events are in `default`.
    pub namespace: Option<Str>,
    pub name: Str,
    /// May be empty.
    pub uid: Str,
    /// May be empty.
    pub resource_version: Str,
}

impl ObjectRef {
    /// A profile's resourceVersion changes with every status write: give `""` to have repeats counted.
    pub fn profile(name: &str, uid: &str, resource_version: &str) -> Self {
        Self {
            api_version: "scheduling.berth.dev/v1alpha1",
            kind: "SchedulerProfile",
            namespace: None,
            name: name.into(),
            uid: uid.into(),
            resource_version: resource_version.into(),
        }
    }

    pub fn pod(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            namespace: Some(namespace.into()),
            name: name.into(),
            uid: uid.into(),
            resource_version: "".into(),
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A pod that a profile serves.
    Pod(Arc<Pod>),
    Object(Arc<ObjectRef>),
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
        Self {
            controller: pod.scheduler_name.clone(),
            note: Note::Assigned(pod.clone(), node),
            subject: Subject::Pod(pod),
            related: None,
            kind: EventType::Normal,
            reason: "Scheduled",
            action: "Binding",
        }
    }

    pub fn failed(pod: Arc<Pod>, text: RefusalText) -> Self {
        Self {
            controller: pod.scheduler_name.clone(),
            note: Note::Refusal(text),
            subject: Subject::Pod(pod),
            related: None,
            kind: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
        }
    }

    /// The victim is deleted for `preemptor`; `in_memory`: it was assumed only, and is not deleted.
    pub fn preempted(victim: &PlacedPod, preemptor: &Arc<Pod>, node: &str, in_memory: bool) -> Self {
        let PodKey { namespace, name } = &victim.key;
        let suffix = if in_memory { " (in kube-scheduler memory)." } else { "" };
        let note = format!("Preempted by pod {} on node {node}{suffix}", preemptor.uid);
        Self {
            controller: preemptor.scheduler_name.clone(),
            note: Note::Plain(note.into()),
            subject: Subject::Object(Arc::new(ObjectRef::pod(namespace, name, &victim.uid))),
            related: Some(Subject::Pod(preemptor.clone())),
            kind: EventType::Normal,
            reason: "Preempted",
            action: "Preempting",
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
        Self {
            subject: Subject::Object(Arc::new(object)),
            related: None,
            kind,
            reason,
            action,
            note: Note::Plain(note.into()),
            controller: "berth".into(),
        }
    }

    /// Whether the same event can occur again for the same object: a pod is bound only once.
    fn repeats(&self) -> bool {
        !matches!(self.note, Note::Assigned(..))
    }
}
