use super::constraints::{Constraint, Plan};
use super::ln::ln;
use crate::ledger::{Ledger, NodeId};
use crate::plugins::context::MAX_NODE_SCORE;
use crate::plugins::counts::{Counters, Layout, Layouts};
use smallvec::SmallVec;
use std::sync::Arc;

/// Which domains were met in a round. Kept, so that counting domains does not allocate.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    met: Vec<u64>,
    round: u64,
}

impl Stamps {
    fn begin(&mut self, width: usize) {
        self.round += 1;
        if self.met.len() < width {
            self.met.resize(width, 0);
        }
    }

    /// Whether `domain` is met for the first time in this round.
    fn is_first(&mut self, domain: usize) -> bool {
        std::mem::replace(&mut self.met[domain], self.round) != self.round
    }
}

/// One constraint with the pods alike counted.
#[derive(Debug)]
struct Counted<'t> {
    layout: Arc<Layout>,
    /// Pods alike, by node if the topology key is the host name, else by domain; empty where no placed pod counts.
    counts: &'t [u32],
    by_host: bool,
    /// The weight of each pod alike: higher where there are more domains.
    weight: f64,
    /// `maxSkew` less 1, which is added for each node.
    skew: f64,
    /// The domain of nodes whose label is empty, if nodes without the label count with it.
    blank: Option<usize>,
}

/// A node that lacks a label it needs: neither scored nor looked at to normalise.
const IGNORED: i64 = i64::MIN;

/// The normalised scores of the `feasible` nodes, into `out`.
pub(super) fn score(
    ledger: &Ledger,
    plan: &Plan,
    (layouts, counters, stamps): (&mut Layouts, &mut Counters, &mut Stamps),
    feasible: &[NodeId],
    out: &mut Vec<i64>,
) {
    type Asked = (Arc<Layout>, Option<(usize, usize)>);
    let mut ask = |constraint: &Constraint| {
        let layout = layouts.get(ledger, &constraint.layout);
        let sum = constraint.alike.as_ref().map(|alike| {
            let counter = counters.get(ledger, alike);
            // By host name the nodes' own counts are read.
            (counter, if constraint.by_host { 0 } else { counters.sum(counter, &layout) })
        });
        (layout, sum)
    };
    let asked: SmallVec<[Asked; 2]> = plan.soft.iter().map(&mut ask).collect();
    let counters = &*counters;
    let mut counted: SmallVec<[Counted<'_>; 2]> = asked
        .into_iter()
        .zip(&plan.soft)
        .map(|((layout, sum), constraint)| Counted {
            counts: match sum {
                None => &[],
                Some((counter, _)) if constraint.by_host => counters.by_node(counter),
                Some((counter, sum)) => counters.by_domain(counter, sum),
            },
            by_host: constraint.by_host,
            weight: 0.0,
            skew: (constraint.max_skew - 1) as f64,
            blank: layout.blank().filter(|_| !plan.requires_all),
            layout,
        })
        .collect();
    out.clear();
    let ignored = |node: &NodeId| plan.requires_all && counted.iter().any(|c| !c.layout.place(*node).has_label());
    out.extend(feasible.iter().map(|node| if ignored(node) { IGNORED } else { 0 }));
    for counted in &mut counted {
        let size = counted.size(stamps, feasible, out);
        counted.weight = ln((size + 2) as f64);
    }
    for (node, score) in feasible.iter().zip(out.iter_mut()).filter(|(_, score)| **score != IGNORED) {
        *score = counted.iter().map(|c| c.score(*node)).sum::<f64>().round() as i64;
    }
    normalize(out);
}

impl Counted<'_> {
    /// In how many domains the scored nodes are. Scored nodes without the label are one more domain.
    fn size(&self, stamps: &mut Stamps, feasible: &[NodeId], scores: &[i64]) -> usize {
        let scored = feasible.iter().zip(scores).filter(|(_, score)| **score != IGNORED);
        if self.by_host {
            return scored.count();
        }
        stamps.begin(self.layout.width());
        let domain = |node: NodeId| {
            let domain = self.layout.place(node).domain();
            if Some(domain) == self.blank { 0 } else { domain }
        };
        scored.filter(|(node, _)| stamps.is_first(domain(**node))).count()
    }

    /// What the constraint adds for `node`; nothing where it lacks the label.
    fn score(&self, node: NodeId) -> f64 {
        let place = self.layout.place(node);
        if !place.has_label() {
            return 0.0;
        }
        let count = match place.domain() {
            _ if self.by_host => self.count(node.index()),
            domain if Some(domain) == self.blank => self.count(domain) + self.count(0),
            domain => self.count(domain),
        };
        count as f64 * self.weight + self.skew
    }

    fn count(&self, at: usize) -> i64 {
        self.counts.get(at).copied().unwrap_or(0).into()
    }
}

/// Turns raw scores, of which fewer are better, into 0 to 100. Ignored nodes get 0.
fn normalize(scores: &mut [i64]) {
    /// Upstream's mark of an ignored node; a raw score may hit it too where maxSkew is 0.
    const INVALID: i64 = -1;
    let looked_at = || scores.iter().copied().filter(|score| *score != IGNORED);
    let least = looked_at().min().unwrap_or(0);
    let most = looked_at().max().unwrap_or(0).max(0);
    for score in scores {
        *score = match *score {
            IGNORED | INVALID => 0,
            _ if most == 0 => MAX_NODE_SCORE,
            raw => MAX_NODE_SCORE * (most + least - raw) / most,
        };
    }
}
