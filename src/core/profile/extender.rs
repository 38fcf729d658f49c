use crate::core::model::{LabelSelector, Pod, Str};

/// An extender as far as decisions depend on it. How it is reached is not the core's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extender {
    /// Its name in the profile.
    pub name: Str,
    /// How messages name it, as upstream: the URL before the verbs' paths.
    pub url: Str,
    /// Whether it filters, and what a failure means.
    pub filter: Option<OnFailure>,
    /// Whether it scores, and what a failure means.
    pub prioritize: Option<OnFailure>,
    /// Whether it changes victims, and what a failure means.
    pub preempt: Option<OnFailure>,
    /// Whether it binds.
    pub binds: bool,
    /// What a point of its score counts; 1 to 1,000,000. It enters a node's total times 10.
    pub weight: i64,
    /// Whether it is sent whole nodes and pods instead of names.
    pub full_nodes: bool,
    /// Where there are any, only pods that request one of these resources concern it. Sorted.
    pub managed: Vec<Str>,
    /// Where there is one, only pods that it matches concern it.
    pub pod_selector: Option<LabelSelector>,
}

/// What a failed call means for the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It fails.
    Fail,
    /// It goes on as if the extender were not there.
    Ignore,
}

impl Extender {
    /// Whether `pod` concerns it. After `IsInterested` in `pkg/scheduler/extender.go`; limits are not looked at, since the
    /// API server makes requests of them.
    pub fn concerns(&self, pod: &Pod) -> bool {
        let asks = |name: &Str| pod.shape.requests.scalar(name).is_some();
        (self.managed.is_empty() || self.managed.iter().any(asks))
            && self.pod_selector.as_ref().is_none_or(|selector| selector.matches(&pod.shape.labels))
    }
}
