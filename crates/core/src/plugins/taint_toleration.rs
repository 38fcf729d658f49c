//! TaintToleration: taints keep pods away, or make nodes less wanted.
//! After `pkg/scheduler/framework/plugins/tainttoleration`.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};
use crate::model::{Taint, TaintEffect, Toleration, steps};

pub(super) fn fits(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    admits(&pod.shape.row.tolerations, &pod.tolerated, nodes, node)
}

/// Whether the tolerations tolerate every NoSchedule and NoExecute taint of the node.
pub(super) fn admits(tolerations: &[Toleration], tolerated: &Tolerated, nodes: &NodeTable, node: NodeId) -> bool {
    if !nodes.tainted[node.index()] {
        return true;
    }
    let taints = &nodes.taints[node.index()];
    let keeps_away = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    taints.iter().filter(|taint| keeps_away(taint.effect)).all(|taint| tolerated.has(tolerations, taint))
}

/// How many PreferNoSchedule taints the pod does not tolerate; normalised in reverse.
pub(crate) fn score(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> i64 {
    if !nodes.tainted[node.index()] {
        return 0;
    }
    let taints = &nodes.taints[node.index()];
    let soft = TaintEffect::PreferNoSchedule;
    let tolerates = |taint: &&Taint| pod.tolerated.has(&pod.shape.row.tolerations, taint);
    taints.iter().filter(|taint| taint.effect == soft && !tolerates(taint)).count() as i64
}

/// How many comparisons [`admits`] and [`score`] may take together.
#[inline]
pub(super) fn comparisons(tolerations: &[Toleration], nodes: &NodeTable, node: NodeId) -> usize {
    if tolerations.is_empty() || !nodes.tainted[node.index()] {
        return 0;
    }
    // Each taint is looked for once, by one of the two: among those with an empty key, and by halves.
    let of_each = if tolerations.len() <= FEW { tolerations.len() } else { steps(tolerations.len()) + 2 };
    of_each * nodes.taints[node.index()].len()
}

/// So many tolerations are compared one by one; more are sorted first, once for all nodes.
const FEW: usize = 12;

/// Tolerations, ready for the taints of any node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tolerated {
    /// Places in the list of tolerations, each toleration once, sorted; none where there are few.
    sorted: Box<[u16]>,
}

impl Tolerated {
    pub(crate) fn new(all: &[Toleration]) -> Self {
        let Some(count) = u16::try_from(all.len()).ok().filter(|_| all.len() > FEW) else { return Self::default() };
        let key = |place: &u16| {
            let Toleration { key, operator, value, effect } = &all[usize::from(*place)];
            (key, *operator as u8, value, effect.map(|effect| effect as u8))
        };
        let mut sorted: Vec<u16> = (0..count).collect();
        sorted.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        sorted.dedup_by(|a, b| key(a) == key(b));
        Self { sorted: sorted.into() }
    }

    /// `all`: those that it was made of.
    fn has(&self, all: &[Toleration], taint: &Taint) -> bool {
        if self.sorted.is_empty() {
            return all.iter().any(|toleration| toleration.tolerates(taint));
        }
        // An empty key is every key; it stands first.
        self.of_key(all, 0, "").any(|one| one.tolerates(taint)) || {
            let from = self.sorted.partition_point(|place| *all[usize::from(*place)].key < *taint.key);
            self.of_key(all, from, &taint.key).any(|one| one.tolerates(taint))
        }
    }

    fn of_key<'s>(&'s self, all: &'s [Toleration], from: usize, key: &'s str) -> impl Iterator<Item = &'s Toleration> {
        self.sorted[from..].iter().map(|place| &all[usize::from(*place)]).take_while(move |one| *one.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::limits::{TOLERATIONS_PER_POD, WORK_PER_HOLD};
    use crate::model::{Node, TolerationOperator};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, shape, with_row};
    use std::sync::Arc;

    /// Of few keys and values, so that many are alike.
    fn drawn(i: usize) -> Toleration {
        let operator = [TolerationOperator::Equal, TolerationOperator::Exists, TolerationOperator::Never][i % 3];
        let effects = [None, Some(TaintEffect::NoSchedule), Some(TaintEffect::NoExecute)];
        let key = format!("k{}", i * 7 % 11).replace("k0", "");
        Toleration { key: key.into(), operator, value: format!("{}", i % 5).into(), effect: effects[i / 3 % 3] }
    }

    #[test]
    fn sorted_tolerations_tolerate_what_they_do_one_by_one() {
        let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        let (mut tolerated, mut not) = (0, 0);
        for (first, count) in (0..400).map(|i| (i * 13, 1 + i % 40)) {
            let all: Vec<Toleration> = (first..first + count).map(drawn).collect();
            let sorted = Tolerated::new(&all);
            assert_eq!(sorted.sorted.is_empty(), count <= FEW);
            for i in 0..60 {
                let (key, value) = (format!("k{}", i % 12).into(), format!("{}", i % 4).into());
                let taint = Taint { key, value, effect: effects[i % 3] };
                let slow = all.iter().any(|one| one.tolerates(&taint));
                assert_eq!(sorted.has(&all, &taint), slow, "{taint:?} of {all:?}");
                (tolerated, not) = (tolerated + usize::from(slow), not + usize::from(!slow));
            }
        }
        assert!(tolerated > 1_000 && not > 1_000, "{tolerated} and {not}");
    }

    /// More taints than fit into a node's object.
    #[test]
    fn taints_are_counted_as_work_and_cost_no_more_than_a_hold() {
        let taint = |i| Taint { key: format!("k{i}").into(), value: "".into(), effect: TaintEffect::PreferNoSchedule };
        let mut ledger = Ledger::new();
        for (name, taints) in [("none", 0), ("few", 2), ("many", 8_000)] {
            ledger.apply_node(&Node { taints: (0..taints).map(taint).collect(), ..node(name, 1000, 0, 10) });
        }
        let tolerations = (0..TOLERATIONS_PER_POD).map(drawn).collect();
        let pod = Arc::new(with_row(shape(), |row| row.tolerations = tolerations));
        let pod = ResolvedPod::new(&CompiledProfile::default_preset("test"), &ledger, &pod);
        let cost = |name| crate::plugins::cost_on(&pod, ledger.nodes(), ledger.nodes().find(name).expect("applied"));
        let [none, few, many] = ["none", "few", "many"].map(cost);
        assert!(none < few && few < many && many < WORK_PER_HOLD, "{none}, {few} and {many}");
        assert!(many > 8_000 / 4, "{many}");
    }
}
