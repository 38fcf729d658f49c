use super::constraints::{Constraint, Plan};
use crate::ledger::NodeId;
use crate::plugins::context::MAX_NODE_SCORE;
use crate::plugins::counts::Layout;
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
    /// Pods alike by domain, or by node; empty where no placed pod counts.
    counts: &'t [u32],
    by_node: bool,
    /// The weight of each pod alike: higher where there are more domains.
    weight: f64,
    /// `maxSkew` less 1, which is added for each node.
    skew: f64,
    /// The domain of nodes whose label is empty, if nodes without the label count with it.
    blank: Option<usize>,
}

/// A node that lacks a label it needs: neither scored nor looked at to normalise.
const IGNORED: i64 = i64::MIN;

/// The normalised scores of the `feasible` nodes, into `out`. `counted`: for each soft constraint of `plan` its layout, and the
/// pods alike.
pub(super) fn score<'t>(
    plan: &Plan,
    counted: impl Iterator<Item = (Arc<Layout>, &'t [u32])>,
    stamps: &mut Stamps,
    feasible: &[NodeId],
    out: &mut Vec<i64>,
) {
    let of = |((layout, counts), constraint): ((Arc<Layout>, &'t [u32]), &Constraint)| Counted {
        counts,
        by_node: constraint.by_node,
        weight: 0.0,
        skew: (constraint.max_skew - 1) as f64,
        blank: layout.blank.filter(|_| !plan.requires_all),
        layout,
    };
    let mut counted: SmallVec<[Counted<'_>; 2]> = counted.zip(&plan.soft).map(of).collect();
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
        if self.by_node {
            return scored.count();
        }
        stamps.begin(self.layout.carriers.len());
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
            _ if self.by_node => self.count(node.index()),
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

/// The natural logarithm of a number from 1 on, bit for bit as upstream's runtime computes it: the platform's own may differ in the
/// last bit. After FreeBSD's `e_log.c`, whose series Go's `math.Log` uses.
fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let (fraction, exponent) = halve(x);
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2
        * (6.666_666_666_666_735e-1
            + s4 * (2.857_142_874_366_239e-1 + s4 * (1.818_357_216_161_805e-1 + s4 * 1.479_819_860_511_658_6e-1)));
    let even = s4 * (3.999_999_999_940_942e-1 + s4 * (2.222_219_843_214_978_4e-1 + s4 * 1.531_383_769_920_937_3e-1));
    let half_square = 0.5 * f * f;
    let rest = (half_square - (s * (half_square + (odd + even)) + exponent * LN2_LOW)) - f;
    exponent * LN2_HIGH - rest
}

/// `x` as a fraction from √½ to √2 and a power of two.
fn halve(x: f64) -> (f64, f64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let fraction = f64::from_bits(bits & MANTISSA | 0.5_f64.to_bits());
    let exponent = ((bits >> 52) & 0x7ff) as f64 - 1022.0;
    if fraction < std::f64::consts::FRAC_1_SQRT_2 { (fraction * 2.0, exponent - 1.0) } else { (fraction, exponent) }
}

#[cfg(test)]
mod tests {
    use super::ln;

    /// What Go 1.26 gives on amd64.
    #[test]
    fn every_bit_of_the_logarithm_is_as_upstream() {
        for (x, bits) in [(2.0, 0x3fe6_2e42_fefa_39ef), (4.0, 0x3ff6_2e42_fefa_39ef), (5002.0, 0x4021_0901_f6dc_84b9)] {
            assert_eq!(ln(x).to_bits(), bits, "ln {x}");
        }
        let fold = |hash: u64, n: u32| hash.wrapping_mul(31).wrapping_add(ln(f64::from(n)).to_bits());
        assert_eq!((1..=10_002).fold(0, fold), 0x3537_5dcf_1d9d_de87);
    }
}
