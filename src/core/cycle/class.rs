use crate::core::ledger::{Ledger, NodeId, NodeTable};
use crate::core::limits::CLASS_CACHE_BYTES;
use crate::core::model::PodShape;
use crate::core::plugins::{
    Overlay, Subject, Verdict, balanced_allocation, filter, image_locality, node_affinity, node_resources_fit,
    taint_toleration,
};
use crate::core::profile::{CompiledProfile, Score};
use rustc_hash::FxHashMap;
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
    pub(super) subject: Subject,
    columns: Columns,
    last_used: u64,
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
        let verdict = filter(profile, subject, ledger.nodes(), node, &Overlay::NONE);
        self.columns.verdicts[i] = verdict;
        self.columns.made_at[i] = ledger.nodes().version[i];
        if !verdict.fits() {
            return;
        }
        let mut fixed = 0;
        for (score, weight) in &profile.scores {
            match score {
                Score::TaintToleration => {
                    self.columns.relative[i].soft_taints = taint_toleration::score(subject, ledger.nodes(), node);
                }
                Score::NodeAffinity => {
                    self.columns.relative[i].preferred = node_affinity::score(profile, subject, ledger.nodes(), node);
                }
                other => fixed += weight * fixed_score(*other, profile, subject, ledger, node),
            }
        }
        self.columns.fixed[i] = fixed;
    }
}

/// A score that is not normalised, 0 to 100; 0 where the plugin skips the pod.
pub(super) fn fixed_score(
    score: Score,
    profile: &CompiledProfile,
    subject: &Subject,
    ledger: &Ledger,
    node: NodeId,
) -> i64 {
    let nodes: &NodeTable = ledger.nodes();
    match score {
        Score::NodeResourcesFit => node_resources_fit::score(&profile.fit, subject, nodes, node),
        Score::NodeResourcesBalancedAllocation if subject.is_scored_by(profile, score) => {
            balanced_allocation::score(subject, nodes, node)
        }
        Score::ImageLocality => image_locality::score(subject, ledger, node),
        Score::NodeResourcesBalancedAllocation | Score::TaintToleration | Score::NodeAffinity => 0,
    }
}

/// Class results by shape, bounded; the least recently used goes and leaves its columns to the next.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    by_shape: FxHashMap<*const PodShape, Class>,
    uses: u64,
}

// The keys are addresses of shapes that the classes themselves keep alive; they are compared, never followed.
impl ClassCache {
    /// The class of `shape`, resolved against the ledger as it is now.
    ///
    /// Shapes are interned by the ledger: equal ones have one address.
    pub(super) fn get(&mut self, profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> &mut Class {
        self.uses += 1;
        let rows = ledger.nodes().rows();
        let key = Arc::as_ptr(shape);
        if !self.by_shape.contains_key(&key) {
            let columns = self.recycle(rows);
            let class = Class { subject: Subject::new(profile, ledger, shape), columns, last_used: 0 };
            self.by_shape.insert(key, class);
        }
        let uses = self.uses;
        let class = self.by_shape.entry(key).or_insert_with(|| Class {
            subject: Subject::new(profile, ledger, shape),
            columns: Columns::default(),
            last_used: 0,
        });
        class.last_used = uses;
        if class.subject.refresh(profile, ledger) {
            class.columns.clear();
        }
        class.columns.fit_to(rows);
        class
    }

    /// Forgets everything: the profile changed.
    pub(super) fn clear(&mut self) {
        self.by_shape.clear();
    }

    /// Columns for one more class: those of the least recently used where the bound is reached.
    fn recycle(&mut self, rows: usize) -> Columns {
        let bound = (CLASS_CACHE_BYTES / (Columns::BYTES_PER_ROW * rows.max(1))).max(1);
        let mut columns = Columns::default();
        while self.by_shape.len() >= bound {
            #[allow(
                clippy::iter_over_hash_type,
                reason = "the least value of unique counters does not depend on order"
            )]
            let oldest = self.by_shape.iter().min_by_key(|(_, class)| class.last_used).map(|(key, _)| *key);
            let Some(class) = oldest.and_then(|key| self.by_shape.remove(&key)) else {
                break;
            };
            columns = class.columns;
            columns.clear();
        }
        columns
    }
}
