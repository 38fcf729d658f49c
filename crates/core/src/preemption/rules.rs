use super::Limits;
use crate::ledger::{Ledger, PlacedPod};
use crate::model::Str;
use crate::profile::{CompiledProfile, Preemption, VictimScope};
use rustc_hash::FxHashSet;
use std::time::Duration;

/// Whether evicting `placed` frees something (deleting a static pod's object does not), and its priority allows it.
pub(super) fn is_lower(placed: &PlacedPod, priority: i32) -> bool {
    placed.priority < priority && !placed.is_static
}

/// Microseconds until `placed` has run for `min_runtime` (`minVictimRuntime`) and may be a victim; not positive where it has.
/// A pod that has not started counts as having run for zero time.
fn missing_us(placed: &PlacedPod, min_runtime: Duration, now_unix_us: i64) -> i64 {
    let ran = placed.started_unix_us.map_or(0, |started| now_unix_us.saturating_sub(started));
    i64::try_from(min_runtime.as_micros()).unwrap_or(i64::MAX).saturating_sub(ran)
}

/// After how long the next pod of a priority below `priority` will have run for `min_runtime`; `None` where all have.
/// O(pods).
pub fn next_past_min_runtime(
    ledger: &Ledger,
    priority: i32,
    min_runtime: Duration,
    now_unix_us: i64,
) -> Option<Duration> {
    let placed = ledger.nodes().present_nodes().flat_map(|node| ledger.pods_on(node));
    let lower = placed.filter(|placed| is_lower(placed, priority));
    let missing = lower.map(|placed| missing_us(placed, min_runtime, now_unix_us)).filter(|us| *us > 0);
    missing.min().map(|us| Duration::from_micros(us.unsigned_abs()))
}

/// Which pods may be victims of one attempt, and how many.
pub(super) struct Rules<'a> {
    profile: &'a CompiledProfile,
    limits: &'a Limits<'a>,
    priority: i32,
    /// Whether nothing but priority counts: then the profile's rules are skipped.
    plain: bool,
    evicting: FxHashSet<&'a Str>,
}

/// Why a node takes too many victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMany {
    /// More than `maxVictimsPerPod`.
    ForPod,
    /// More than is left of `maxVictimsPerMinute`.
    ForMinute,
}

impl<'a> Rules<'a> {
    pub(super) fn new(profile: &'a CompiledProfile, limits: &'a Limits<'a>, priority: i32) -> Self {
        let Preemption { scope, max_per_pod, min_runtime, protected_namespaces, strict_budgets, .. } =
            &profile.preemption;
        let plain = *scope == VictimScope::Any
            && min_runtime.is_zero()
            && protected_namespaces.is_empty()
            && !strict_budgets
            && max_per_pod.is_none()
            && limits.budget_left.is_none();
        let evicting = if plain { FxHashSet::default() } else { limits.evicting.iter().map(|p| &p.uid).collect() };
        Self { profile, limits, priority, plain, evicting }
    }

    /// Whether the pod may be a victim, budgets aside.
    #[inline]
    pub(super) fn admit(&self, placed: &PlacedPod) -> bool {
        is_lower(placed, self.priority) && (self.plain || self.is_leaving(placed) || self.allows(placed))
    }

    /// Whether the pod is terminating already, or a victim of a plan in force.
    pub(super) fn is_leaving(&self, placed: &PlacedPod) -> bool {
        placed.is_terminating() || self.evicting.contains(&placed.uid)
    }

    /// Whether the profile lets its pods evict this one.
    fn allows(&self, placed: &PlacedPod) -> bool {
        let Preemption { scope, protected_namespaces, min_runtime, .. } = &self.profile.preemption;
        let in_scope = match scope {
            VictimScope::Any => true,
            VictimScope::OwnProfiles => self.limits.own_schedulers.contains(&placed.scheduler_name),
            VictimScope::SameProfile => self.profile.serves(&placed.scheduler_name),
        };
        in_scope
            && protected_namespaces.binary_search(&placed.key.namespace).is_err()
            && missing_us(placed, *min_runtime, self.limits.now_unix_us) <= 0
    }

    /// Whether these are more victims than there may be.
    pub(super) fn too_many<'p>(&self, victims: impl Iterator<Item = &'p PlacedPod>) -> Option<TooMany> {
        if self.plain {
            return None;
        }
        let evictions = victims.filter(|placed| !self.is_leaving(placed)).count();
        let exceeds = |limit: Option<u32>| limit.is_some_and(|most| evictions > most as usize);
        if exceeds(self.profile.preemption.max_per_pod) {
            return Some(TooMany::ForPod);
        }
        exceeds(self.limits.budget_left).then_some(TooMany::ForMinute)
    }
}
