//! Queueing hints: whether a change may help a pod that a plugin refused, after upstream's QueueingHintFn of each plugin.
//!
//! Mostly the kind of change decides (`helped`). Pods are placed, deleted and relabelled all the time, so
//! for the plugins that match other pods' labels or terms each such [`Movement`] is compared with the pod that waits. So are the drivers of
//! devices that come or are given back with the classes that a pod wants devices of; upstream wakes whoever waits for any. A wake-up too
//! many costs one attempt, a missed one strands a pod until the sweep: in doubt, wake.

mod events;
mod labels;
#[cfg(test)]
mod tests;

pub use events::{WakeEvent, wake_events};

use super::context::{Stop, Work, work_of};
use super::dynamic_resources;
use super::helped::{ROW_FILTERS, helped_by};
use super::inter_pod_affinity::cost_of_terms;
use crate::ledger::{Change, DeviceChange, Ledger, MatchClass, NodeId};
use crate::limits::{HINT_DRIVERS, HINT_MATCH_CLASSES, HINT_ROWS, HINT_WORK, WORK_PER_HOLD};
use crate::model::{AffinityTerm, Plugin, PluginSet, Pod, PodShape, QueueEvent, Str};
use labels::label;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The newest change that may help, by plugin, and the pods that were placed or deleted in the changes noted last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    /// For each plugin, the version of the newest change that may help a pod it refused.
    newest: [u64; Plugin::ALL.len()],
    /// As `newest`, without the changes in `movements`.
    newest_other: [u64; Plugin::ALL.len()],
    /// What the newest change was, as metrics name it.
    by: [QueueEvent; Plugin::ALL.len()],
    /// The plugins of which some pod may be helped by a change since [`Self::begin`].
    fresh: PluginSet,
    /// As `fresh`, without what happened on the nodes of `rows`.
    fresh_elsewhere: PluginSet,
    /// Nodes whose own facts changed since [`Self::begin`] so that more may fit them.
    rows: FxHashSet<NodeId>,
    /// Pods that were placed, deleted or relabelled since [`Self::begin`], once for each pair of match classes, with the newest version.
    movements: Vec<(u64, Movement)>,
    /// The drivers of devices that came or were given back since [`Self::begin`], each once, with the newest version.
    drivers: Vec<(u64, Str)>,
    /// What was noted and is not in the fields by plugin yet, with the version of the newest change.
    noted: Vec<(Alike, u64)>,
}

/// What changes have in common that help the same plugins in the same way: pods come and go by the thousand, and only the newest of such
/// changes counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alike {
    helped: PluginSet,
    by: QueueEvent,
    /// Whether they are on nodes of `rows`.
    on_row: bool,
    /// Whether they are in `movements` or `drivers`.
    kept: bool,
}

/// The plugins for which a movement is compared with the pod that waits.
const COMPARING: [Plugin; 2] = [Plugin::PodTopologySpread, Plugin::InterPodAffinity];

/// Whether the kinds of changes may not tell whether they help a pod that the plugin refused.
fn is_compared(plugin: Plugin) -> bool {
    plugin == Plugin::DynamicResources || COMPARING.contains(&plugin)
}

impl Hints {
    /// Begins another run of changes, after which [`Self::judge`] decides about every waiting pod.
    pub(crate) fn begin(&mut self) {
        self.movements.clear();
        self.drivers.clear();
        (self.fresh, self.fresh_elsewhere) = (PluginSet::NONE, PluginSet::NONE);
        self.rows.clear();
    }

    /// Notes the change of `version`; returns whether it may help any pod. `inside`: it is on a node that the profile places on, or
    /// on none in particular. Nobody sees it before [`Self::settle`].
    pub(crate) fn note(&mut self, version: u64, change: &Change, inside: bool) -> bool {
        let helped = helped_by(change, inside);
        if helped.is_empty() {
            return false;
        }
        let kept = match change {
            Change::Device(DeviceChange::Slice { driver }) => self.note_drivers(version, std::slice::from_ref(driver)),
            Change::Device(DeviceChange::Claim { freed, .. }) => self.note_drivers(version, freed),
            _ => MovementRef::of(change).is_some_and(|movement| self.note_movement(version, movement)),
        };
        let on_row = self.note_row(change, helped);
        let one = Alike { helped, by: label(change), on_row, kept };
        match self.noted.iter_mut().find(|(alike, _)| *alike == one) {
            Some((_, newest)) => *newest = version,
            None => self.noted.push((one, version)),
        }
        true
    }

    /// Tells the plugins what was noted.
    pub(crate) fn settle(&mut self) {
        for (Alike { helped, by, on_row, kept }, version) in self.noted.drain(..) {
            self.fresh = self.fresh.union(helped);
            if !on_row {
                self.fresh_elsewhere = self.fresh_elsewhere.union(helped);
            }
            for plugin in helped.iter() {
                let at = plugin as usize;
                if version > self.newest[at] {
                    (self.newest[at], self.by[at]) = (version, by);
                }
                if !(kept && is_compared(plugin)) {
                    self.newest_other[at] = version.max(self.newest_other[at]);
                }
            }
        }
    }

    /// Keeps the node on which a change may help plugins that read nothing but its row, to be asked for each group of pods; false where
    /// the change is on no node, or there are too many: then each pod that a filter of rows refused is looked at.
    fn note_row(&mut self, change: &Change, helped: PluginSet) -> bool {
        let (Change::Freed { node, .. } | Change::Resized { node, .. } | Change::Node { node, .. }) = change else {
            return false;
        };
        if !helped.intersects(ROW_FILTERS) || self.rows.contains(node) {
            return true;
        }
        if self.rows.len() < HINT_ROWS {
            return self.rows.insert(*node);
        }
        self.fresh_elsewhere = self.fresh_elsewhere.union(ROW_FILTERS);
        false
    }

    /// Keeps a movement to be compared pod by pod; false where there are too many.
    fn note_movement(&mut self, version: u64, movement: MovementRef<'_>) -> bool {
        if let Some((newest, _)) = self.movements.iter_mut().rev().find(|(_, known)| movement.is(known)) {
            *newest = version;
            return true;
        }
        let fits = self.movements.len() < HINT_MATCH_CLASSES;
        if fits {
            self.movements.push((version, movement.to_owned()));
        }
        fits
    }

    /// Keeps drivers to be compared pod by pod; false where there are too many.
    fn note_drivers(&mut self, version: u64, drivers: &[Str]) -> bool {
        for driver in drivers {
            match self.drivers.iter().position(|(_, known)| known == driver) {
                Some(at) => self.drivers[at].0 = version,
                None if self.drivers.len() < HINT_DRIVERS => self.drivers.push((version, driver.clone())),
                None => return false,
            }
        }
        true
    }

    /// Notes that anything may have changed up to `version`.
    pub(crate) fn note_gap(&mut self, version: u64) {
        self.noted.clear();
        self.newest.fill(version);
        self.newest_other.fill(version);
        self.by.fill(QueueEvent::ForceActivate);
        (self.fresh, self.fresh_elsewhere) = (PluginSet::ALL, PluginSet::ALL);
    }

    /// What the changes since [`Self::begin`] may mean for pods that `rejectors` refused and that waited before.
    pub(crate) fn reach(&self, rejectors: PluginSet) -> Reach {
        // What one filter of a row said no to, another may say no to since: any change of a row counts for all of them.
        let by_rows = rejectors.is_within(ROW_FILTERS) && !rejectors.is_empty();
        if rejectors.intersects(if by_rows { self.fresh_elsewhere } else { self.fresh }) {
            Reach::Each
        } else if by_rows && self.fresh.intersects(ROW_FILTERS) {
            Reach::OnRows
        } else {
            Reach::Nobody
        }
    }

    /// The nodes to ask where [`Self::reach`] is [`Reach::OnRows`], in an order that means nothing.
    pub(crate) fn rows(&self) -> impl Iterator<Item = NodeId> {
        self.rows.iter().copied()
    }

    /// Whether something after version `since` may help some pod that `rejectors` refused.
    ///
    /// No change in the cluster tells when an extender would answer differently, so that extenders are asked again after backoff.
    pub(crate) fn may_help(&self, rejectors: PluginSet, since: u64) -> bool {
        rejectors.has(Plugin::Extender) || rejectors.iter().any(|plugin| self.newest[plugin as usize] > since)
    }

    pub(crate) fn judge(&self) -> Judge<'_> {
        Judge { hints: self, known: FxHashMap::default(), begun: None, work: Work::of(HINT_WORK) }
    }
}

/// Which of the pods that waited before the changes since [`Hints::begin`] these may help, as far as plugins tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Nobody,
    /// Those that fit one of [`Hints::rows`] now, unless they may evict others.
    OnRows,
    /// They are to be looked at one by one.
    Each,
}

/// Whether something may help a waiting pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helped {
    No,
    /// By what kind of change.
    By(QueueEvent),
    /// The kinds of changes do not tell: [`Judge::compare`] does.
    Perhaps,
}

/// Decides which waiting pods the changes noted last may help; each shape is compared once.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    hints: &'a Hints,
    /// By the address of a shape that the queue keeps alive: the newest movement that may help it, for each of [`COMPARING`].
    known: FxHashMap<*const PodShape, [u64; COMPARING.len()]>,
    /// A shape whose comparing was given up, how many movements it was compared with, and what came of it.
    begun: Option<(*const PodShape, usize, [u64; COMPARING.len()])>,
    /// For comparing terms and selectors, in all.
    work: Work,
}

impl<'a> Judge<'a> {
    pub(crate) const fn hints(&self) -> &'a Hints {
        self.hints
    }

    /// Whether something after version `since` may help a pod that `rejectors` refused, as far as the kinds of changes tell.
    pub(crate) fn by_kind(&self, rejectors: PluginSet, since: u64) -> Helped {
        let hints = self.hints;
        let mut newer = rejectors.iter().filter(|plugin| hints.newest[*plugin as usize] > since);
        let Some(plugin) = newer.next() else { return Helped::No };
        let is_told = !is_compared(plugin) || hints.newest_other[plugin as usize] > since;
        if is_told { Helped::By(hints.by[plugin as usize]) } else { Helped::Perhaps }
    }

    /// Whether something after version `since` may help `pod`, which `rejectors` refused, and of what kind the newest such
    /// change for one of them was. `Err` when `hold` is out of work: asked again, it goes on where it ended.
    pub(crate) fn compare(
        &mut self,
        ledger: &Ledger,
        hold: &mut Work,
        (rejectors, since): (PluginSet, u64),
        pod: &Pod,
    ) -> Result<Option<QueueEvent>, Stop> {
        let hints = self.hints;
        for plugin in rejectors.iter().filter(|plugin| hints.newest[*plugin as usize] > since) {
            let is_told = !is_compared(plugin) || hints.newest_other[plugin as usize] > since;
            let is_helped = is_told
                || if let Some(at) = COMPARING.iter().position(|compared| *compared == plugin) {
                    self.newest_movements(ledger, hold, &pod.shape)?[at] > since
                } else {
                    self.may_want_devices(ledger, hold, pod, since)?
                };
            if is_helped {
                return Ok(Some(hints.by[plugin as usize]));
            }
        }
        Ok(None)
    }

    /// Whether devices that came or were given back after version `since` may be of a class that the pod waits for.
    fn may_want_devices(&mut self, ledger: &Ledger, hold: &mut Work, pod: &Pod, since: u64) -> Result<bool, Stop> {
        let Some(classes) = dynamic_resources::classes_waited_for(ledger, pod) else { return Ok(true) };
        let drivers = self.hints.drivers.iter().filter(|(version, _)| *version > since);
        let cost = 1 + classes.len() * self.hints.drivers.len();
        hold.take(cost.min(WORK_PER_HOLD))?;
        // As where movements are compared: so many wait that a few useless attempts cost less.
        if self.work.take(cost).is_err() {
            return Ok(true);
        }
        let devices = ledger.devices();
        let mut drivers = drivers.map(|(_, driver)| driver);
        Ok(drivers.any(|driver| classes.iter().any(|class| devices.may_be_of(class, driver))))
    }

    fn newest_movements(
        &mut self,
        ledger: &Ledger,
        hold: &mut Work,
        shape: &Arc<PodShape>,
    ) -> Result<[u64; COMPARING.len()], Stop> {
        let of = Arc::as_ptr(shape);
        if let Some(known) = self.known.get(&of) {
            return Ok(*known);
        }
        let begun = self.begun.take().filter(|(begun, ..)| *begun == of);
        let (mut compared, mut newest) =
            begun.map_or((0, [0; COMPARING.len()]), |(_, compared, newest)| (compared, newest));
        let own = OwnCost::of(shape);
        for (version, movement) in self.hints.movements.iter().skip(compared) {
            let cost = movement.cost(&own);
            if let Err(stop) = hold.take(cost.min(WORK_PER_HOLD)) {
                self.begun = Some((of, compared, newest));
                return Err(stop);
            }
            // So many pods wait and moved that a few useless attempts cost less than comparing.
            if self.work.take(cost).is_err() {
                return Ok([u64::MAX; COMPARING.len()]);
            }
            // So does one comparison that would take longer than a hold may.
            let is_costly = cost > WORK_PER_HOLD;
            let helps = [is_costly || movement.may_even_out(shape), is_costly || movement.may_open(ledger, shape)];
            for (newest, helps) in newest.iter_mut().zip(helps) {
                *newest = if helps { (*newest).max(*version) } else { *newest };
            }
            compared += 1;
        }
        self.known.insert(of, newest);
        Ok(newest)
    }
}

/// What comparing a waiting pod's own terms and selectors with one pod takes, in units of [`Work`].
struct OwnCost {
    /// Terms with the pod itself, too.
    with_itself: usize,
    with_another: usize,
}

impl OwnCost {
    fn of(shape: &PodShape) -> Self {
        let selectors = shape.spread.iter().filter_map(|constraint| constraint.selector.as_ref());
        let spread: usize = selectors.map(|selector| work_of(selector.comparisons())).sum();
        let affinity = cost_of_terms(&shape.affinity);
        Self { with_itself: affinity, with_another: affinity + cost_of_terms(&shape.anti_affinity) + spread }
    }
}

/// A pod that was placed, deleted or relabelled: what others saw of it before, and what they see now.
#[derive(Debug, Clone)]
struct Movement {
    before: Option<Arc<MatchClass>>,
    after: Option<Arc<MatchClass>>,
}

/// The [`Movement`] of a change. It borrows: to clone the Arcs for each change would have all workers write to the same reference counts.
#[derive(Debug, Clone, Copy)]
struct MovementRef<'c> {
    before: Option<&'c Arc<MatchClass>>,
    after: Option<&'c Arc<MatchClass>>,
}

impl<'c> MovementRef<'c> {
    const fn of(change: &'c Change) -> Option<Self> {
        let (before, after) = match change {
            Change::PodPlaced { match_class, .. } => (None, Some(match_class)),
            Change::Freed { match_class, .. } => (Some(match_class), None),
            Change::Regrouped { before, after, .. } => (Some(before), Some(after)),
            _ => return None,
        };
        Some(Self { before, after })
    }

    /// Whether it means the same as `movement` to every pod.
    fn is(&self, movement: &Movement) -> bool {
        let address = |of: Option<&Arc<MatchClass>>| of.map(Arc::as_ptr);
        address(self.before) == address(movement.before.as_ref())
            && address(self.after) == address(movement.after.as_ref())
    }

    fn to_owned(self) -> Movement {
        Movement { before: self.before.cloned(), after: self.after.cloned() }
    }
}

impl Movement {
    /// What [`Self::may_open`] and [`Self::may_even_out`] take together for a pod.
    fn cost(&self, own: &OwnCost) -> usize {
        let sides = usize::from(self.before.is_some()) + usize::from(self.after.is_some());
        let terms = self.before.as_ref().map_or(&[][..], |before| &before.terms().anti_affinity);
        let kept = self.after.as_ref().map_or(0, |after| after.terms().anti_affinity.len());
        let theirs: usize = terms.iter().map(|term| work_of(term.comparisons() + kept)).sum();
        1 + own.with_itself + sides * own.with_another + theirs
    }

    /// Whether InterPodAffinity may find a node for a pod of `shape` now.
    ///
    /// One of these happened: a pod that all affinity terms match was placed; the last such pod was deleted, so that this pod may be
    /// the first; a pod was deleted that an anti-affinity term matches, or whose own anti-affinity matches this pod. Unlike
    /// here, upstream requires that a deleted pod matched all anti-affinity terms, and leaves out the second case.
    fn may_open(&self, ledger: &Ledger, shape: &PodShape) -> bool {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let matched = |term: &AffinityTerm, of: &MatchClass| ledger.speaks_of(term, &of.namespace, &of.labels);
        let matches_pod = |term: &AffinityTerm| ledger.speaks_of(term, &shape.namespace, &shape.labels);
        let is_kept = |term: &AffinityTerm| after.is_some_and(|of| of.terms().anti_affinity.contains(term));
        let company =
            |of: Option<&MatchClass>| of.is_some_and(|of| shape.affinity.iter().all(|term| matched(term, of)));
        let ended = |has: &dyn Fn(&MatchClass) -> bool| before.is_some_and(has) && !after.is_some_and(has);
        let own_company = || shape.affinity.iter().all(|t| ledger.speaks_of(t, &shape.namespace, &shape.labels));
        let (was, is) = (company(before), company(after));
        (!shape.affinity.is_empty() && ((is && !was) || (was && !is && own_company())))
            || shape.anti_affinity.iter().any(|term| ended(&|of| matched(term, of)))
            || before.is_some_and(|of| of.terms().anti_affinity.iter().any(|term| matches_pod(term) && !is_kept(term)))
    }

    /// Whether PodTopologySpread may find a node for a pod of `shape` now: a pod that counts was placed or deleted.
    ///
    /// Of the constraints that a pod gets from its profile, only the namespace is known here.
    fn may_even_out(&self, shape: &PodShape) -> bool {
        let alike = |of: &&Arc<MatchClass>| of.namespace == shape.namespace;
        let (before, after) = (self.before.as_ref().filter(alike), self.after.as_ref().filter(alike));
        if shape.spread.is_empty() {
            return before.is_some() || after.is_some();
        }
        shape.spread.iter().filter_map(|constraint| constraint.selector.as_ref()).any(|selector| {
            let counts = |of: &Arc<MatchClass>| selector.matches(&of.labels);
            match (before, after) {
                // A terminating pod does not count.
                (Some(before), Some(after)) => {
                    (!before.terminating && counts(before)) != (!after.terminating && counts(after))
                }
                (before, after) => before.or(after).is_some_and(counts),
            }
        })
    }
}
