use crate::ledger::{NodeId, PlacedPod};
use crate::model::Str;
use crate::plugins::Code;
use std::collections::BTreeMap;
use std::sync::Arc;

static NONE_REFUSED: BTreeMap<NodeId, Code> = BTreeMap::new();

/// Where among the potential nodes the dry run begins, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// At a random node, until there are as many candidates as the profile wants: for live cycles.
    Sampled,
    /// As [`Self::Sampled`], but from the node with this index, modulo the number of nodes: for comparisons.
    From(usize),
    /// At the first node; all are tried: for explanations.
    Everywhere,
}

/// What a preemption depends on beside the profile and the ledger.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// In microseconds of Unix time; also the start of pods that have not started.
    pub now_unix_us: i64,
    /// Scheduler names that some profile of this process serves: for the victim scope `OwnProfiles`.
    pub own_schedulers: &'a [Str],
    /// What is left of the profile's `maxVictimsPerMinute`; `None` is no limit.
    pub budget_left: Option<u32>,
    /// Victims of plans in force that are not deleted yet.
    pub evicting: &'a [Arc<PlacedPod>],
    /// The nodes that extenders refused in this attempt.
    pub refused: &'a BTreeMap<NodeId, Code>,
    pub search: Search,
    /// Whether nothing is wanted of a candidate that is worse than another: nobody is asked about candidates.
    pub only_best: bool,
}

impl Limits<'_> {
    /// No limit and nothing under way at the given moment.
    pub fn at(now_unix_us: i64) -> Self {
        Self {
            now_unix_us,
            own_schedulers: &[],
            budget_left: None,
            evicting: &[],
            refused: &NONE_REFUSED,
            search: Search::Sampled,
            only_best: false,
        }
    }
}
