//! TaintToleration: taints keep pods away, or make nodes less wanted.
//! After `pkg/scheduler/framework/plugins/tainttoleration`.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};
use crate::model::{Taint, TaintEffect, Toleration, steps};
use smallvec::SmallVec;

pub(super) fn fits(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    admits(&pod.shape.tolerations, nodes, node)
}

/// Whether `tolerations` tolerate every NoSchedule and NoExecute taint of the node.
pub(super) fn admits(tolerations: &[Toleration], nodes: &NodeTable, node: NodeId) -> bool {
    if !nodes.tainted[node.index()] {
        return true;
    }
    let taints = &nodes.taints[node.index()];
    let tolerated = Tolerated::new(tolerations, taints.len());
    let keeps_away = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    taints.iter().filter(|taint| keeps_away(taint.effect)).all(|taint| tolerated.has(taint))
}

/// How many PreferNoSchedule taints the pod does not tolerate; normalised in reverse.
pub(crate) fn score(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> i64 {
    if !nodes.tainted[node.index()] {
        return 0;
    }
    let taints = &nodes.taints[node.index()];
    let tolerated = Tolerated::new(&pod.shape.tolerations, taints.len());
    let soft = TaintEffect::PreferNoSchedule;
    taints.iter().filter(|taint| taint.effect == soft && !tolerated.has(taint)).count() as i64
}

/// How many comparisons [`admits`] and [`score`] may take together.
#[inline]
pub(super) fn comparisons(tolerations: &[Toleration], nodes: &NodeTable, node: NodeId) -> usize {
    if tolerations.is_empty() || !nodes.tainted[node.index()] {
        return 0;
    }
    let taints = nodes.taints[node.index()].len();
    match tolerations.len() * taints {
        few if few <= FEW => few,
        _ => steps(tolerations.len()) * (2 * tolerations.len() + taints),
    }
}

/// So many pairs are compared one by one; above it tolerations are sorted first.
const FEW: usize = 1_024;

/// Tolerations, ready for a number of taints.
struct Tolerated<'a> {
    all: &'a [Toleration],
    /// Places in `all`, each toleration once, sorted; none where there is little to compare. As many as a pod that is not held may
    /// have are no allocation.
    sorted: SmallVec<[u16; 256]>,
}

impl<'a> Tolerated<'a> {
    fn new(all: &'a [Toleration], taints: usize) -> Self {
        let mut sorted = SmallVec::new();
        if all.len() * taints > FEW
            && let Ok(places) = u16::try_from(all.len())
        {
            sorted.extend(0..places);
            let key = |place: &u16| {
                let Toleration { key, operator, value, effect } = &all[usize::from(*place)];
                (key, *operator as u8, value, effect.map(|effect| effect as u8))
            };
            sorted.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
            sorted.dedup_by(|a, b| key(a) == key(b));
        }
        Self { all, sorted }
    }

    fn has(&self, taint: &Taint) -> bool {
        if self.sorted.is_empty() {
            return self.all.iter().any(|toleration| toleration.tolerates(taint));
        }
        // An empty key is every key.
        self.of_key("").any(|one| one.tolerates(taint)) || self.of_key(&taint.key).any(|one| one.tolerates(taint))
    }

    fn of_key<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s Toleration> {
        let toleration = |place: &u16| &self.all[usize::from(*place)];
        let from = self.sorted.partition_point(|place| *toleration(place).key < *key);
        self.sorted[from..].iter().map(toleration).take_while(move |one| *one.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::limits::{TOLERATIONS_PER_POD, WORK_PER_HOLD};
    use crate::model::{Node, PodShape, TolerationOperator};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, shape};
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
        for (first, count) in (0..400).map(|i| (i * 13, 1 + i % 9)) {
            let all: Vec<Toleration> = (first..first + count).map(drawn).collect();
            let sorted = Tolerated::new(&all, FEW + 1);
            assert!(!sorted.sorted.is_empty());
            for i in 0..60 {
                let (key, value) = (format!("k{}", i % 12).into(), format!("{}", i % 4).into());
                let taint = Taint { key, value, effect: effects[i % 3] };
                let slow = all.iter().any(|one| one.tolerates(&taint));
                assert_eq!(sorted.has(&taint), slow, "{taint:?} of {all:?}");
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
        let pod = Arc::new(PodShape { tolerations, ..shape() });
        let pod = ResolvedPod::new(&CompiledProfile::default_preset("test"), &ledger, &pod);
        let cost = |name| crate::plugins::cost_on(&pod, ledger.nodes(), ledger.nodes().find(name).expect("applied"));
        let [none, few, many] = ["none", "few", "many"].map(cost);
        assert!(none < few && few < many && many < WORK_PER_HOLD, "{none}, {few} and {many}");
        assert!(many > 8_000 / 4, "{many}");
    }
}
