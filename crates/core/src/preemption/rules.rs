use super::Limits;
use super::age::missing_us;
use crate::ledger::PlacedPod;
use crate::model::Str;
use crate::profile::{CompiledProfile, Preemption, VictimScope};
use rustc_hash::FxHashSet;

/// Whether evicting `placed` frees something, and its priority allows it.
pub(super) fn is_lower(placed: &PlacedPod, priority: i32) -> bool {
    placed.priority < priority && !placed.is_static
}

/// Which pods may be victims of one attempt, and how many.
pub(super) struct Rules<'a> {
    profile: &'a CompiledProfile,
    limits: &'a Limits<'a>,
    priority: i32,
    /// Whether nothing but priority counts: then all that follows is not looked at.
    plain: bool,
    evicting: FxHashSet<&'a Str>,
}

/// Why a node takes too many victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMany {
    /// For one pod.
    ForPod,
    /// For what is left of the minute.
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

    /// Whether it may be a victim, whatever budgets say.
    pub(super) fn admit(&self, placed: &PlacedPod) -> bool {
        is_lower(placed, self.priority) && (self.plain || self.goes_anyway(placed) || self.concern(placed))
    }

    /// Whether it is on its way out already.
    pub(super) fn goes_anyway(&self, placed: &PlacedPod) -> bool {
        placed.is_terminating() || self.evicting.contains(&placed.uid)
    }

    /// Whether the profile lets its pods evict this one.
    fn concern(&self, placed: &PlacedPod) -> bool {
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
        let evictions = victims.filter(|placed| !self.goes_anyway(placed)).count();
        let exceeds = |limit: Option<u32>| limit.is_some_and(|most| evictions > most as usize);
        if exceeds(self.profile.preemption.max_per_pod) {
            return Some(TooMany::ForPod);
        }
        exceeds(self.limits.budget_left).then_some(TooMany::ForMinute)
    }
}
