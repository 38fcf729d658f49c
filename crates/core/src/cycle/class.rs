use crate::ledger::{Ledger, NodeId};
use crate::limits::{CLASS_CACHE_BYTES, SHAPES_REMEMBERED};
use crate::model::PodShape;
use crate::plugins::{
    Overlay, PluginContext, ResolvedPod, Verdict, Work, filter, fixed_score, node_affinity, taint_toleration,
};
use crate::profile::Score;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// The raw scores of a row that are normalised over the feasible nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Relative {
    /// Untolerated PreferNoSchedule taints.
    pub(super) soft_taints: i64,
    /// Weight of matching preferred terms.
    pub(super) preferred: i64,
}

#[cfg(test)]
thread_local! {
    /// How many rows were judged in this thread.
    pub(crate) static JUDGED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What a profile's own filters and scores find for one pod shape.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) resolved: ResolvedPod,
    pub(super) rows: CachedRows,
}

/// The answers for one pod shape, row by row, each good as long as the row's version is the one it was made at.
#[derive(Debug, Default)]
pub(super) struct CachedRows {
    made_at: Vec<u64>,
    verdicts: Vec<Verdict>,
    /// The weighted sum of the scores that are not normalised.
    fixed: Vec<i64>,
    relative: Vec<Relative>,
}

impl CachedRows {
    const BYTES_PER_ROW: usize = size_of::<u64>() + size_of::<Verdict>() + size_of::<i64>() + size_of::<Relative>();

    fn clear(&mut self) {
        self.made_at.fill(0);
    }

    fn fit_to(&mut self, rows: usize) {
        if self.made_at.len() < rows {
            self.made_at.resize(rows, 0);
            self.verdicts.resize(rows, Verdict::FITS);
            self.fixed.resize(rows, 0);
            self.relative.resize(rows, Relative::default());
        }
    }

    /// The verdict of the row as it is, without what [`NonRowChecks`](super::non_row_checks::NonRowChecks) may add.
    #[inline]
    pub(super) fn verdict(&mut self, cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) -> Verdict {
        if self.is_stale(cx, node) {
            self.judge(cx, resolved, node);
        }
        self.verdicts[node.index()]
    }

    /// As [`Self::verdict`]; none where the row has changed and no `work` is left to judge it.
    #[inline]
    pub(super) fn verdict_within(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Verdict> {
        if self.is_stale(cx, node) {
            work.take(resolved.cost).ok()?;
            self.judge(cx, resolved, node);
        }
        Some(self.verdicts[node.index()])
    }

    #[inline]
    fn is_stale(&self, cx: PluginContext<'_>, node: NodeId) -> bool {
        self.made_at[node.index()] != cx.ledger.nodes().version[node.index()]
    }

    /// The weighted sum of the scores that are not normalised, of a row whose verdict was just found to fit.
    #[inline]
    pub(super) fn fixed(&self, node: NodeId) -> i64 {
        self.fixed[node.index()]
    }

    /// The raw scores that are normalised, of a row whose verdict was just found to fit.
    pub(super) fn relative(&self, node: NodeId) -> Relative {
        self.relative[node.index()]
    }

    /// Filters and scores a row from nothing and keeps the answer. Apart from the loops that find most rows judged.
    #[inline(never)]
    fn judge(&mut self, cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) {
        #[cfg(test)]
        JUDGED.set(JUDGED.get() + 1);
        let PluginContext { profile, ledger } = cx;
        let i = node.index();
        let verdict = filter(profile, resolved, ledger.nodes(), node, Overlay::none());
        self.verdicts[i] = verdict;
        self.made_at[i] = ledger.nodes().version[i];
        if !verdict.fits() {
            return;
        }
        let relative = resolved.has_preferences(profile) || ledger.nodes().has_soft_taints();
        let mut fixed = 0;
        for (score, weight) in &profile.scores {
            match score {
                Score::TaintToleration | Score::NodeAffinity if !relative => {}
                Score::TaintToleration => {
                    self.relative[i].soft_taints = taint_toleration::score(resolved, ledger.nodes(), node);
                }
                Score::NodeAffinity => {
                    self.relative[i].preferred = node_affinity::score(profile, resolved, ledger.nodes(), node);
                }
                Score::ImageLocality if resolved.images.is_empty() => {}
                other => fixed += weight * fixed_score(*other, cx, resolved, node),
            }
        }
        self.fixed[i] = fixed;
    }
}

/// Classes by shape, bounded. The least recently used class is evicted and hands its columns to the next.
///
/// A shape gets a class of its own when it comes back soon. Until then it is judged in one scratch class, whose columns
/// stay warm in the processor's cache: a thousand different pods would otherwise write a thousand cold tables for nothing.
///
/// The ledger interns shapes, so equal shapes have one address. A class keeps its shape alive, so its address stays unique.
/// Addresses are compared, never followed.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    slots: FxHashMap<*const PodShape, usize>,
    classes: Vec<Class>,
    /// By slot: the value of `uses` when the class was last used.
    last_used: Vec<u64>,
    uses: u64,
    scratch: Option<Class>,
    /// Shapes that were judged in the scratch class, newest last.
    recent: VecDeque<Arc<PodShape>>,
}

impl ClassCache {
    /// The class of `shape`, resolved against the ledger as it is now.
    pub(super) fn get(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> &mut Class {
        self.uses += 1;
        let class = match self.slots.get(&Arc::as_ptr(shape)).copied() {
            Some(slot) => self.known(slot, cx),
            None if self.came_back(shape) => {
                let slot = self.insert(ResolvedPod::new(cx.profile, cx.ledger, shape), cx.ledger);
                self.known(slot, cx)
            }
            None => {
                let rows = self.scratch.take().map(|class| class.rows).unwrap_or_default();
                let resolved = ResolvedPod::new(cx.profile, cx.ledger, shape);
                let class = self.scratch.insert(Class { resolved, rows });
                class.rows.clear();
                class
            }
        };
        class.rows.fit_to(cx.ledger.nodes().rows());
        class
    }

    /// The class of a shape that was judged just now. If it is still the scratch class, that does not count as coming back.
    pub(super) fn again(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> &mut Class {
        let has_own = self.slots.contains_key(&Arc::as_ptr(shape));
        let Some(mut class) = self.scratch.take_if(|class| !has_own && Arc::ptr_eq(&class.resolved.shape, shape))
        else {
            return self.get(cx, shape);
        };
        if class.resolved.refresh(cx.profile, cx.ledger) {
            class.rows.clear();
        }
        class.rows.fit_to(cx.ledger.nodes().rows());
        self.scratch.insert(class)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn known(&mut self, slot: usize, cx: PluginContext<'_>) -> &mut Class {
        self.last_used[slot] = self.uses;
        let class = &mut self.classes[slot];
        if class.resolved.refresh(cx.profile, cx.ledger) {
            class.rows.clear();
        }
        class
    }

    /// Whether the shape is among the recent ones; adds it if not.
    fn came_back(&mut self, shape: &Arc<PodShape>) -> bool {
        if let Some(at) = self.recent.iter().position(|known| Arc::ptr_eq(known, shape)) {
            self.recent.remove(at);
            return true;
        }
        if self.recent.len() == SHAPES_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(shape.clone());
        false
    }

    fn insert(&mut self, resolved: ResolvedPod, ledger: &Ledger) -> usize {
        let shape = Arc::as_ptr(&resolved.shape);
        let bound = (CLASS_CACHE_BYTES / (CachedRows::BYTES_PER_ROW * ledger.nodes().rows().max(1))).max(1);
        let slot = if self.classes.len() < bound {
            self.classes.push(Class { resolved, rows: CachedRows::default() });
            self.last_used.push(0);
            self.classes.len() - 1
        } else {
            let oldest = (0..self.last_used.len()).min_by_key(|slot| self.last_used[*slot]).unwrap_or(0);
            let class = &mut self.classes[oldest];
            self.slots.remove(&Arc::as_ptr(&class.resolved.shape));
            class.resolved = resolved;
            class.rows.clear();
            oldest
        };
        self.slots.insert(shape, slot);
        slot
    }
}
