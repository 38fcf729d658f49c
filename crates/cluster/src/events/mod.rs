//! Events, behind the binds: a bounded queue, a few writers with connections of their own, repeats as counts.
//!
//! What is not written is counted: an event is a courtesy, a bind is not. While binds wait, an event waits too, but no
//! longer than a second, so that the last events follow the last bind closely.

mod body;
mod pace;
mod series;
mod sink;

pub use sink::{EventCounters, EventSink};

use berth_core::io::RefusalText;
use berth_core::ledger::PlacedPod;
use berth_core::model::{Pod, PodKey, Str};
use std::fmt;
use std::sync::Arc;

/// Whether an event is good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// All as it should be.
    Normal,
    /// Something needs a look.
    Warning,
}

/// An object that is no pod of ours to schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its apiVersion.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, `None` if it is cluster-scoped: its events are in `default`.
    pub namespace: Option<Str>,
    /// Its name.
    pub name: Str,
    /// Its uid; may be empty.
    pub uid: Str,
    /// Its resourceVersion; may be empty.
    pub resource_version: Str,
}

impl ObjectRef {
    /// A SchedulerProfile. Its resourceVersion changes with every status write: give `""` to have repeats counted.
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

    /// A pod of which no more than that is known, such as the operator's own.
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
    /// Anything else.
    Object(Arc<ObjectRef>),
}

/// What an event says; text is made when it is written.
#[derive(Debug, Clone)]
pub enum Note {
    /// A pod was bound to that node.
    Assigned(Arc<Pod>, Str),
    /// A pod was refused.
    Refusal(RefusalText),
    /// Said as it is.
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

/// An event to be written.
#[derive(Debug, Clone)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// Good or bad news.
    pub kind: EventType,
    /// Why, in one CamelCase word, at most 128 bytes.
    pub reason: &'static str,
    /// What was done or tried, in one CamelCase word, at most 128 bytes.
    pub action: &'static str,
    /// What it says; cut to 1,024 bytes.
    pub note: Note,
    /// The other object that it is about.
    pub related: Option<Subject>,
    /// Who reports: the schedulerName, or `berth` for the operator itself.
    pub controller: Str,
}

impl Event {
    /// A pod was bound.
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

    /// An attempt to place a pod failed.
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

    /// A pod goes for another one; `in_memory`: it was not bound yet, and stays.
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

    /// The operator's word on an object.
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

    /// Whether it can come again for the same object: a pod is bound once.
    fn repeats(&self) -> bool {
        !matches!(self.note, Note::Assigned(..))
    }
}
