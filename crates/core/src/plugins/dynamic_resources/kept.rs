//! What looks at claims have found on rows, for all pods that ask the same.

use super::selectors::Selectors;
use crate::ledger::{Ledger, NodeId};
use crate::limits::{DEVICE_QUESTIONS_KEPT, DEVICE_ROWS_KEPT, DEVICE_SOLUTIONS_KEPT};
use crate::model::{ClaimAllocation, DeviceStatus, ExtendedRequests, Pod, ResourceClaim, Str};
use crate::plugins::context::{Cause, Verdict};
use berth_devices::Progress;
use berth_devices::model::ResourceClaim as ClaimSpec;
use std::sync::Arc;

/// Only to be faster: made from nothing it gives the same answers.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// That of the pod that is looked at comes first.
    questions: Vec<Known>,
    /// Whether a pod is looked at that has claims.
    is_asked: bool,
    labels_version: u64,
    pub(crate) selectors: Selectors,
}

#[derive(Debug)]
struct Known {
    question: Question,
    /// The uid of the pod that asked last.
    pod: Str,
    /// By node.
    rows: Vec<Option<Row>>,
    /// Whether some row has a failure: its text is about the claims of one pod.
    has_failed: bool,
    /// Whether some row's score is not 0.
    has_scores: bool,
    /// The search on the row that is looked at.
    unfinished: Option<Unfinished>,
    /// How many rows have got a solution.
    solutions: usize,
}

/// A search that goes on at the next look.
#[derive(Debug)]
struct Unfinished {
    of: Asked,
    search: Search,
}

/// A search on one row, and the steps that it took so far.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) progress: Progress,
    pub(super) steps: u64,
}

#[derive(Debug)]
struct Row {
    of: Asked,
    found: Found,
    /// Where it took long, the devices that were found.
    solution: Option<Box<Progress>>,
}

/// What is asked of a row as it is now, and what an answer of it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) node: NodeId,
    /// Of the devices of the node.
    version: u64,
    /// Which of the pod's extended resources devices are to provide: see [`Wants`](super::extended::Wants).
    pub(super) extended: u64,
}

impl Asked {
    pub(super) fn now(ledger: &Ledger, node: NodeId, extended: u64) -> Self {
        Self { node, version: ledger.devices().version_on(node), extended }
    }
}

/// What of a pod's claims answers depend on. The names of claims that are to be allocated are not in it: those that are made from one
/// template ask the same.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    claims: Vec<AskedClaim>,
    extended: Option<Arc<[ExtendedRequests]>>,
}

#[derive(Debug)]
struct AskedClaim {
    spec: Arc<ClaimSpec>,
    got: Option<Got>,
}

/// What an allocated claim has got.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    allocation: Arc<ClaimAllocation>,
    devices: Vec<DeviceStatus>,
    is_late: bool,
}

impl PartialEq for AskedClaim {
    fn eq(&self, other: &Self) -> bool {
        let (own, their) = (&self.spec, &other.spec);
        let same = own.requests == their.requests && own.constraints == their.constraints && own.config == their.config;
        self.got == other.got && (Arc::ptr_eq(own, their) || same)
    }
}

impl Eq for AskedClaim {}

impl AskedClaim {
    fn of(ledger: &Ledger, claim: &ResourceClaim) -> Self {
        let got = claim.allocation.as_ref().map(|allocation| Got {
            allocation: allocation.clone(),
            devices: claim.devices.clone(),
            is_late: ledger.devices().is_late(&claim.key),
        });
        Self { spec: claim.spec.clone(), got }
    }
}

/// What was found on one row.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(super) verdict: Verdict,
    /// Bit by bit, the claims of the pod that are allocated for other nodes.
    pub(super) unavailable: u128,
    /// The score before it is normalised.
    pub(super) raw_score: i64,
    /// What ends the attempt, in upstream's words.
    pub(super) failure: Option<Str>,
}

impl Found {
    pub(super) const fn fits(raw_score: i64) -> Self {
        Self { verdict: Verdict::FITS, unavailable: 0, raw_score, failure: None }
    }

    pub(super) const fn refused(cause: Cause) -> Self {
        Self { verdict: Verdict::unresolvable(cause), unavailable: 0, raw_score: 0, failure: None }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { failure: Some(text.into()), ..Self::refused(Cause::Devices) }
    }
}

impl Kept {
    /// The pod is looked at next.
    pub(super) fn begin(
        &mut self,
        ledger: &Ledger,
        pod: &Pod,
        claims: &[&Arc<ResourceClaim>],
        extended: Option<&Arc<[ExtendedRequests]>>,
    ) {
        if self.labels_version != ledger.node_labels_version() {
            self.labels_version = ledger.node_labels_version();
            self.questions.clear();
        }
        self.is_asked = true;
        let claims = claims.iter().map(|claim| AskedClaim::of(ledger, claim)).collect();
        let question = Question { claims, extended: extended.cloned() };
        if let Some(at) = self.questions.iter().position(|known| known.question == question) {
            self.questions[..=at].rotate_right(1);
        } else {
            self.make_room();
            let (pod, rows) = (pod.uid.clone(), Vec::new());
            self.questions.insert(
                0,
                Known { question, pod, rows, has_failed: false, has_scores: false, unfinished: None, solutions: 0 },
            );
        }
        self.questions[0].is_asked_by(pod);
        for other in &mut self.questions[1..] {
            other.unfinished = None;
        }
    }

    /// Forgets the questions that were asked longest ago.
    fn make_room(&mut self) {
        self.questions.truncate(DEVICE_QUESTIONS_KEPT - 1);
        while self.questions.iter().map(|known| known.rows.len()).sum::<usize>() > DEVICE_ROWS_KEPT {
            self.questions.pop();
        }
    }

    /// A pod without claims is scored next: what was found for others says nothing of it.
    pub(crate) const fn end(&mut self) {
        self.is_asked = false;
    }

    /// Whether the pod that is looked at asks for devices.
    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The claims of the pod that is looked at that have no devices yet.
    pub(crate) fn open(&self) -> Vec<Arc<ClaimSpec>> {
        let asked = self.questions.first().filter(|_| self.is_asked);
        let claims = asked.map_or(&[][..], |known| &known.question.claims);
        claims.iter().filter(|claim| claim.got.is_none()).map(|claim| claim.spec.clone()).collect()
    }

    /// What was found on the row, unless its devices have changed since.
    pub(super) fn found(&self, asked: Asked) -> Option<&Found> {
        Some(&self.row(asked)?.found)
    }

    /// The devices that were found on the row, if it took long to find them.
    pub(super) fn take_solution(&mut self, asked: Asked) -> Option<Box<Progress>> {
        self.row(asked)?;
        self.questions.first_mut()?.rows[asked.node.index()].as_mut()?.solution.take()
    }

    /// Gives back what [`Self::take_solution`] took.
    pub(super) fn keep_solution(&mut self, asked: Asked, solution: Box<Progress>) {
        if let Some(Some(row)) = self.questions.first_mut().and_then(|known| known.rows.get_mut(asked.node.index())) {
            row.solution = Some(solution);
        }
    }

    fn row(&self, asked: Asked) -> Option<&Row> {
        self.questions.first()?.row(asked.node).filter(|row| row.of == asked)
    }

    pub(super) fn keep(&mut self, asked: Asked, found: Found, solution: Option<Box<Progress>>) {
        if let Some(known) = self.questions.first_mut() {
            known.has_failed |= found.failure.is_some();
            known.has_scores |= found.raw_score != 0;
            let index = asked.node.index();
            if known.rows.len() <= index {
                known.rows.resize_with(index + 1, || None);
            }
            known.count_solution(solution.is_some());
            known.rows[index] = Some(Row { of: asked, found, solution });
        }
    }

    /// The search on the row, as far as it has come; only the steps that it took, where the row's devices are others by now.
    pub(super) fn take_unfinished(&mut self, asked: Asked) -> Search {
        let of_node = |unfinished: &mut Unfinished| unfinished.of.node == asked.node;
        let unfinished = self.questions.first_mut().and_then(|known| known.unfinished.take_if(of_node));
        let Some(Unfinished { of, search }) = unfinished else { return Search::default() };
        // Where devices change all the time, it begins anew and ends all the same.
        if of == asked { search } else { Search { steps: search.steps, ..Search::default() } }
    }

    pub(super) fn keep_unfinished(&mut self, asked: Asked, search: Search) {
        if let Some(known) = self.questions.first_mut() {
            known.unfinished = Some(Unfinished { of: asked, search });
        }
    }

    /// The raw scores of the nodes, which were judged for the pod that is scored. False if all are 0, so that the score tells none apart.
    pub(crate) fn raw_scores(&self, nodes: &[NodeId], out: &mut Vec<i64>) -> bool {
        let Some(known) = self.questions.first().filter(|known| self.is_asked && known.has_scores) else {
            return false;
        };
        out.extend(nodes.iter().map(|node| known.row(*node).map_or(0, |row| row.found.raw_score)));
        out.iter().any(|raw| *raw != 0)
    }
}

impl Known {
    fn row(&self, node: NodeId) -> Option<&Row> {
        self.rows.get(node.index())?.as_ref()
    }

    /// Forgets all solutions where one more would be too many.
    fn count_solution(&mut self, there_is_one: bool) {
        if there_is_one && self.solutions >= DEVICE_SOLUTIONS_KEPT {
            self.solutions = 0;
            self.rows.iter_mut().flatten().for_each(|row| row.solution = None);
        }
        self.solutions += usize::from(there_is_one);
    }

    fn is_asked_by(&mut self, pod: &Pod) {
        if self.pod == pod.uid {
            return;
        }
        self.pod = pod.uid.clone();
        if std::mem::take(&mut self.has_failed) {
            for row in &mut self.rows {
                *row = row.take().filter(|row| row.found.failure.is_none());
            }
        }
    }
}
