use crate::ledger::{NodeId, PlacedPod};
use crate::model::Str;
use crate::plugins::Code;
use std::sync::Arc;

/// Where among the potential nodes the dry run begins, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// At a random one, until there are as many candidates as the profile wants: for live cycles.
    Sampled,
    /// At the one with this number, modulo how many there are, and otherwise the same: for comparisons.
    From(usize),
    /// At the first; all are looked at: for explanations.
    Everywhere,
}

/// What bounds a preemption beside the profile, and what it cannot know from the ledger.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Now, in microseconds of Unix time: the start of pods that have not started.
    pub now_unix_us: i64,
    /// Scheduler names that some profile of this process serves: for the victim scope `OwnProfiles`.
    pub own_schedulers: &'a [Str],
    /// Victims that are left of the profile's minute; `None` is no limit.
    pub budget_left: Option<u32>,
    /// Victims of plans in force that are not gone yet: they go anyway.
    pub evicting: &'a [Arc<PlacedPod>],
    /// The code with which an extender refused a node in this attempt.
    pub refused: &'a dyn Fn(NodeId) -> Option<Code>,
    /// Which of the potential nodes are looked at.
    pub search: Search,
}

impl Limits<'_> {
    /// No limit and nothing under way at the given moment.
    pub fn at(now_unix_us: i64) -> Self {
        const fn nobody(_: NodeId) -> Option<Code> {
            None
        }
        Self {
            now_unix_us,
            own_schedulers: &[],
            budget_left: None,
            evicting: &[],
            refused: &nobody,
            search: Search::Sampled,
        }
    }
}
