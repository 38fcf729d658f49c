use crate::ledger::{Ledger, NodeId, NodeTable};
use crate::limits::{CLASS_CACHE_BYTES, SHAPES_REMEMBERED};
use crate::model::PodShape;
use crate::plugins::{
    Overlay, ResolvedPod, Verdict, balanced_allocation, filter, image_locality, legacy, node_affinity,
    node_resources_fit, taint_toleration,
};
use crate::profile::{CompiledProfile, Score};
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

/// The answers for one pod shape, row by row, each good as long as the row's version is the one it was made at.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) subject: ResolvedPod,
    columns: Columns,
}

#[derive(Debug, Default)]
struct Columns {
    made_at: Vec<u64>,
    verdicts: Vec<Verdict>,
    /// The weighted sum of the scores that are not normalised.
    fixed: Vec<i64>,
    relative: Vec<Relative>,
}

impl Columns {
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
}

impl Class {
    /// The verdict of the row as it is, without what nominations and placed anti-affinity may add.
    #[inline]
    pub(super) fn verdict(&mut self, profile: &CompiledProfile, ledger: &Ledger, node: NodeId) -> Verdict {
        if self.columns.made_at[node.index()] != ledger.nodes().version[node.index()] {
            self.judge(profile, ledger, node);
        }
        self.columns.verdicts[node.index()]
    }

    /// The weighted sum of the scores that are not normalised, of a row whose verdict was just found to fit.
    #[inline]
    pub(super) fn fixed(&self, node: NodeId) -> i64 {
        self.columns.fixed[node.index()]
    }

    /// The raw scores that are normalised, of a row whose verdict was just found to fit.
    pub(super) fn relative(&self, node: NodeId) -> Relative {
        self.columns.relative[node.index()]
    }

    /// Looks at a row from nothing and keeps the answer.
    fn judge(&mut self, profile: &CompiledProfile, ledger: &Ledger, node: NodeId) {
        let (i, subject) = (node.index(), &self.subject);
        let verdict = filter(profile, subject, ledger.nodes(), node, Overlay::none());
        self.columns.verdicts[i] = verdict;
        self.columns.made_at[i] = ledger.nodes().version[i];
        if !verdict.fits() {
            return;
        }
        let relative = subject.has_preferences(profile) || ledger.nodes().has_soft_taints();
        let mut fixed = 0;
        for (score, weight) in &profile.scores {
            match score {
                Score::TaintToleration | Score::NodeAffinity if !relative => {}
                Score::TaintToleration => {
                    self.columns.relative[i].soft_taints = taint_toleration::score(subject, ledger.nodes(), node);
                }
                Score::NodeAffinity => {
                    self.columns.relative[i].preferred = node_affinity::score(profile, subject, ledger.nodes(), node);
                }
                Score::ImageLocality if subject.images.is_empty() => {}
                other => fixed += weight * fixed_score(*other, profile, subject, ledger, node),
            }
        }
        self.columns.fixed[i] = fixed;
    }
}

/// A score that is not normalised, 0 to 100; 0 where the plugin skips the pod.
#[inline]
pub(super) fn fixed_score(
    score: Score,
    profile: &CompiledProfile,
    subject: &ResolvedPod,
    ledger: &Ledger,
    node: NodeId,
) -> i64 {
    let nodes: &NodeTable = ledger.nodes();
    match score {
        Score::NodeResourcesFit => node_resources_fit::score(&profile.fit, subject, nodes, node),
        Score::NodeResourcesBalancedAllocation if subject.balances => balanced_allocation::score(subject, nodes, node),
        Score::ImageLocality => image_locality::score(subject, ledger, node),
        old if old.is_legacy() => legacy::score(old, profile, subject, nodes, node),
        // Normalised over the feasible nodes, looking beyond the row, or skipping the pod.
        _ => 0,
    }
}

/// Class results by shape, bounded; the least recently used goes and leaves its columns to the next.
///
/// A shape gets a class of its own when it comes back soon. Until then it is looked at in one scratch class, whose columns
/// stay warm in the processor's cache: a thousand different pods would otherwise write a thousand cold tables for nothing.
///
/// Shapes are interned by the ledger: equal ones have one address, and whoever keeps an address here keeps its shape
/// alive, so that it stands for one shape. Addresses are compared, never followed.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    slots: FxHashMap<*const PodShape, usize>,
    classes: Vec<Class>,
    /// By slot: when the class was last used.
    last_used: Vec<u64>,
    uses: u64,
    scratch: Option<Class>,
    /// Shapes that were looked at in the scratch class, newest last.
    recent: VecDeque<Arc<PodShape>>,
}

impl ClassCache {
    /// The class of `shape`, resolved against the ledger as it is now.
    pub(super) fn get(&mut self, profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> &mut Class {
        self.uses += 1;
        let class = match self.slots.get(&Arc::as_ptr(shape)).copied() {
            Some(slot) => self.known(slot, profile, ledger),
            None if self.came_back(shape) => {
                let slot = self.insert(ResolvedPod::new(profile, ledger, shape), ledger);
                self.known(slot, profile, ledger)
            }
            None => {
                let columns = self.scratch.take().map(|class| class.columns).unwrap_or_default();
                let class = self.scratch.insert(Class { subject: ResolvedPod::new(profile, ledger, shape), columns });
                class.columns.clear();
                class
            }
        };
        class.columns.fit_to(ledger.nodes().rows());
        class
    }

    /// The class of a shape that was looked at just now: the scratch one where it still is in there, which is no coming back.
    pub(super) fn again(&mut self, profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> &mut Class {
        let Some(mut class) = self.scratch.take_if(|class| Arc::ptr_eq(&class.subject.shape, shape)) else {
            return self.get(profile, ledger, shape);
        };
        if class.subject.refresh(profile, ledger) {
            class.columns.clear();
        }
        class.columns.fit_to(ledger.nodes().rows());
        self.scratch.insert(class)
    }

    /// Forgets everything: the profile changed.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn known(&mut self, slot: usize, profile: &CompiledProfile, ledger: &Ledger) -> &mut Class {
        self.last_used[slot] = self.uses;
        let class = &mut self.classes[slot];
        if class.subject.refresh(profile, ledger) {
            class.columns.clear();
        }
        class
    }

    /// Whether the shape was looked at not long ago; notes that it is now.
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

    fn insert(&mut self, subject: ResolvedPod, ledger: &Ledger) -> usize {
        let shape = Arc::as_ptr(&subject.shape);
        let bound = (CLASS_CACHE_BYTES / (Columns::BYTES_PER_ROW * ledger.nodes().rows().max(1))).max(1);
        let slot = if self.classes.len() < bound {
            self.classes.push(Class { subject, columns: Columns::default() });
            self.last_used.push(0);
            self.classes.len() - 1
        } else {
            let oldest = (0..self.last_used.len()).min_by_key(|slot| self.last_used[*slot]).unwrap_or(0);
            let class = &mut self.classes[oldest];
            self.slots.remove(&Arc::as_ptr(&class.subject.shape));
            class.subject = subject;
            class.columns.clear();
            oldest
        };
        self.slots.insert(shape, slot);
        slot
    }
}
