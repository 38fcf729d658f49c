use super::Limits;
use crate::ledger::{LedgerAccess, PlacedFrom, PlacedPod};
use crate::model::Str;
use crate::profile::{CompiledProfile, Preemption, VictimScope};
use rustc_hash::FxHashSet;
use std::time::Duration;

#[cfg(test)]
thread_local! {
    /// Of how many pods in this thread it was asked how long they must run.
    pub(crate) static RUN_TIMES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether evicting `placed` frees something (deleting a static pod's object does not), and its priority allows it.
pub(super) fn is_lower(placed: &PlacedPod, priority: i32) -> bool {
    placed.priority < priority && !placed.is_static
}

/// Microseconds until `placed` has run for `min_runtime` (`minVictimRuntime`) and may be a victim; not positive where it has.
/// A pod that has not started counts as having run for zero time.
fn missing_us(placed: &PlacedPod, min_runtime: Duration, now_unix_us: i64) -> i64 {
    let ran = placed.started_unix_us().map_or(0, |started| now_unix_us.saturating_sub(started));
    i64::try_from(min_runtime.as_micros()).unwrap_or(i64::MAX).saturating_sub(ran)
}

/// After how long the next pod of a priority below `priority` will have run for `min_runtime`; `None` where all have. O(pods); the lock
/// is given back after every some thousand. What changes meanwhile may be missed, as what changes right after any look is: a pod that
/// leaves wakes the preemptor by itself, and one that comes, or starts, counts at the preemptor's next attempt.
pub fn next_past_min_runtime(
    ledger: &impl LedgerAccess,
    priority: i32,
    min_runtime: Duration,
    now_unix_us: i64,
) -> Option<Duration> {
    let (mut least, mut from) = (None, Some(PlacedFrom::default()));
    while let Some(at) = from {
        from = ledger.read(|ledger| {
            ledger.some_placed_pods(at, |placed| {
                #[cfg(test)]
                RUN_TIMES_READ.set(RUN_TIMES_READ.get() + 1);
                let missing = missing_us(placed, min_runtime, now_unix_us);
                if is_lower(placed, priority) && missing > 0 {
                    least = Some(least.map_or(missing, |least: i64| least.min(missing)));
                }
            })
        });
    }
    least.map(|us| Duration::from_micros(us.unsigned_abs()))
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

    /// Whether nothing but its priority says whether a pod may be a victim, and there may be any number of them.
    pub(super) const fn is_plain(&self) -> bool {
        self.plain
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
