use super::feasible::Feasible;
use crate::ledger::{NodeId, NodeTable};
use crate::plugins::{PluginContext, ResolvedPod, Verdict, Work, cost_on, filter, node_affinity, taint_toleration};
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

#[cfg(test)]
thread_local! {
    /// How many rows were judged in this thread.
    pub(crate) static JUDGED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The raw scores of a row that are normalised over the feasible nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Relative {
    /// Untolerated PreferNoSchedule taints.
    pub(super) soft_taints: i64,
    /// Weight of matching preferred terms.
    pub(super) preferred: i64,
}

/// What is known of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The pod fits; the weighted sum of the scores that are not normalised, and those that are.
    Fits {
        fixed: i64,
        relative: Relative,
    },
    Refused(Verdict),
}

impl Answer {
    #[inline]
    pub(super) const fn verdict(self) -> Verdict {
        match self {
            Self::Fits { .. } => Verdict::FITS,
            Self::Refused(refusal) => refusal,
        }
    }

    /// The weighted sum of the scores that are not normalised; [`UNFIT`] where the pod does not fit.
    #[inline]
    pub(super) const fn fixed(self) -> i64 {
        match self {
            Self::Fits { fixed, .. } => fixed,
            Self::Refused(_) => UNFIT,
        }
    }

    /// Where the number of the answer is in a list by sums; none where it is to be looked for.
    #[inline]
    fn place(self) -> Option<usize> {
        match self {
            Self::Fits { fixed, relative: Relative { soft_taints: 0, preferred: 0 } } => {
                usize::try_from(fixed).ok().filter(|sum| *sum < LISTED_SUMS)
            }
            _ => None,
        }
    }

    /// One multiplication: rows are judged by the million, and their scores are small numbers.
    #[inline]
    fn hash(self) -> u64 {
        match self {
            Self::Fits { fixed, relative: Relative { soft_taints, preferred } } => {
                let mixed = fixed ^ soft_taints.rotate_left(20) ^ preferred.rotate_left(40);
                // The high bits of the product depend on all of the factor, and the table looks at the low ones first.
                (mixed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26)
            }
            Self::Refused(refusal) => FxBuildHasher.hash_one(refusal),
        }
    }
}

/// Stands in the column of sums for rows that do not fit. One that fits and has this sum costs a second look.
const UNFIT: i64 = i64::MIN;

/// Distinct answers of one class that have a number. Rows have a few hundred: sums of scores from 0 to 100, and ways to be refused.
const NUMBERED: usize = if cfg!(test) { 6 } else { u16::MAX as usize };

/// Sums below this have their numbers in a list: the default profile's are at most 300.
const LISTED_SUMS: usize = 1_024;

/// A class with more answers does not keep the room of them when it forgets them: it may hand it on.
const LARGE: usize = 1_024;

/// The answers for one class, row by row. Each is good as long as its row does not change: before they are read,
/// [`Self::follow`] forgets those that are no more.
///
/// Rows hold the number of an answer, so that a thousand classes of 5,000 rows, or sixty of 100,000, fit into some ten megabytes, and
/// a scan reads two bytes a row.
#[derive(Debug, Default)]
pub(super) struct CachedRows {
    /// By row: which of `answers` it has, counted from one; 0 where it has changed or was never judged.
    numbers: Vec<u16>,
    answers: Vec<Answer>,
    /// [`Answer::fixed`] of each answer.
    fixed: Vec<i64>,
    /// Numbers of answers that are a small sum and nothing else, by the sum; 0 where it has none. Nearly all answers are.
    of_sum: Vec<u16>,
    /// By answer: those of all others.
    number_of: HashTable<u16>,
    /// Of rows judged when all numbers were given away: all is forgotten before the next attempt.
    unnumbered: FxHashMap<NodeId, Answer>,
    /// How many changes of rows were followed: see [`NodeTable::touched_since`].
    followed: u64,
    /// The rows that have a number, unless `many` have.
    judged: Vec<NodeId>,
    many: bool,
}

impl CachedRows {
    /// Of one row, without its share of the answers.
    pub(super) const BYTES_PER_ROW: usize = size_of::<u16>();

    /// What the answers of a class commonly take.
    pub(super) const BYTES_OF_ANSWERS: usize = 256 * (size_of::<Answer>() + size_of::<i64>() + 2 * size_of::<u16>());

    pub(super) fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<u16>()
            + self.answers.capacity() * (size_of::<Answer>() + size_of::<i64>())
            + (self.of_sum.capacity() + self.number_of.capacity() * 2) * size_of::<u16>()
            + self.unnumbered.capacity() * 2 * size_of::<(NodeId, Answer)>()
            + self.judged.capacity() * size_of::<NodeId>()
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.many) {
            self.numbers.fill(0);
            self.judged.clear();
        }
        for node in self.judged.drain(..) {
            self.numbers[node.index()] = 0;
        }
        self.unnumbered = FxHashMap::default();
        if self.answers.capacity() > LARGE {
            (self.answers, self.fixed, self.number_of) = Default::default();
        }
        self.answers.clear();
        self.fixed.clear();
        self.of_sum.clear();
        self.number_of.clear();
    }

    /// Grows to the table's rows, and forgets what has changed since the last call. O(changed rows), or O(rows) after many changes.
    ///
    /// `goes_on`: the attempt looked before, and is to find what it found.
    pub(super) fn follow(&mut self, nodes: &NodeTable, goes_on: bool) {
        if self.numbers.len() < nodes.rows() {
            self.numbers.resize(nodes.rows(), 0);
        }
        let since = std::mem::replace(&mut self.followed, nodes.touched());
        let has_room = self.unnumbered.is_empty();
        if self.judged.is_empty() && !self.many && has_room {
            return;
        }
        match nodes.touched_since(since).filter(|_| has_room || goes_on) {
            Some(touched) => {
                for node in touched {
                    self.numbers[node.index()] = 0;
                    if !has_room {
                        self.unnumbered.remove(&node);
                    }
                }
            }
            None => self.clear(),
        }
    }

    /// The answer of the row as it is, without what [`NonRowChecks`](super::non_row_checks::NonRowChecks) may add; none where it is
    /// to be judged and no `work` is left for that.
    #[inline]
    pub(super) fn answer_within(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Answer> {
        match self.numbered(node) {
            Some(answer) => Some(*answer),
            None => self.judge(cx, resolved, node, work),
        }
    }

    /// Takes from the beginning of `nodes` those that are known to fit, `most` of them, up to the first of which more is to be asked.
    /// Returns how many were taken. Apart from other loops for the sake of its registers: most searches do little else.
    #[inline(never)]
    pub(super) fn take_fitting(&self, nodes: &[NodeId], most: usize, feasible: &mut Feasible) -> usize {
        for (taken, node) in nodes.iter().take(most).enumerate() {
            let number = usize::from(self.numbers[node.index()]);
            match self.fixed.get(number.wrapping_sub(1)) {
                Some(fixed) if *fixed != UNFIT => feasible.push(*node, *fixed),
                _ => return taken,
            }
        }
        nodes.len().min(most)
    }

    #[inline]
    fn numbered(&self, node: NodeId) -> Option<&Answer> {
        self.answers.get(usize::from(self.numbers[node.index()]).wrapping_sub(1))
    }

    /// As [`Self::answer_within`], with all the work that it takes.
    #[inline]
    pub(super) fn verdict(&mut self, cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) -> Verdict {
        let answer = self.answer_within(cx, resolved, node, &mut Work::unbounded());
        answer.map_or(Verdict::FITS, Answer::verdict)
    }

    /// The answer of a row that was judged since the last [`Self::follow`]; none of one that was not.
    #[inline]
    fn known(&self, node: NodeId) -> Option<&Answer> {
        self.numbered(node).or_else(|| self.unnumbered.get(&node))
    }

    /// The raw scores that are normalised, of a row whose verdict was just found to fit.
    pub(super) fn relative(&self, node: NodeId) -> Relative {
        match self.known(node) {
            Some(Answer::Fits { relative, .. }) => *relative,
            _ => Relative::default(),
        }
    }

    /// Filters and scores a row from nothing and keeps the answer, if `work` is left for it. Apart from the loops that find most
    /// rows judged.
    #[inline(never)]
    fn judge(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Answer> {
        if let Some(answer) = self.unnumbered.get(&node) {
            return Some(*answer);
        }
        work.take(cost_on(resolved, cx.ledger.nodes(), node)).ok()?;
        #[cfg(test)]
        JUDGED.set(JUDGED.get() + 1);
        let verdict = filter(cx.profile, resolved, cx.ledger.nodes(), node);
        let answer = if verdict.fits() { score(cx, resolved, node) } else { Answer::Refused(verdict) };
        self.keep(node, answer);
        Some(answer)
    }

    fn keep(&mut self, node: NodeId, answer: Answer) {
        let Some(number) = self.number(answer) else {
            self.unnumbered.insert(node, answer);
            return;
        };
        self.many |= self.judged.len() >= self.numbers.len() / 16;
        if !self.many {
            self.judged.push(node);
        }
        self.numbers[node.index()] = number;
    }

    /// The number of `answer`, counted from one; none where it has none and all are given away.
    fn number(&mut self, answer: Answer) -> Option<u16> {
        let Some(place) = answer.place() else { return self.unlisted_number(answer) };
        match self.of_sum.get(place) {
            Some(number) if *number > 0 => return Some(*number),
            _ => {}
        }
        let number = self.next_number(answer)?;
        if self.of_sum.len() <= place {
            self.of_sum.resize(place + 1, 0);
        }
        self.of_sum[place] = number;
        Some(number)
    }

    fn unlisted_number(&mut self, answer: Answer) -> Option<u16> {
        let hash = answer.hash();
        let answers = &self.answers;
        if let Some(known) = self.number_of.find(hash, |number| answers[usize::from(*number) - 1] == answer) {
            return Some(*known);
        }
        let number = self.next_number(answer)?;
        let answers = &self.answers;
        self.number_of.insert_unique(hash, number, |other| answers[usize::from(*other) - 1].hash());
        Some(number)
    }

    /// The number of an answer that has none; none where all are given away.
    fn next_number(&mut self, answer: Answer) -> Option<u16> {
        if self.answers.len() == NUMBERED {
            return None;
        }
        self.answers.push(answer);
        self.fixed.push(answer.fixed());
        Some(self.answers.len() as u16)
    }
}

/// The scores of a row that fits.
fn score(cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) -> Answer {
    let PluginContext { profile, ledger } = cx;
    let scores = &resolved.row_scores;
    let mut relative = Relative::default();
    if scores.soft_taints {
        relative.soft_taints = taint_toleration::score(resolved, ledger.nodes(), node);
    }
    if scores.preferred {
        relative.preferred = node_affinity::score(profile, resolved, ledger.nodes(), node);
    }
    Answer::Fits { fixed: scores.fixed(cx, resolved, node), relative }
}
