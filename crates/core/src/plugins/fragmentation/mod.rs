//! Fragmentation: prefers the node on which the pod strands least of what is free of extended resources. After the fragmentation gradient
//! descent of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).
//!
//! What is free on a node is stranded for a pod that does not fit there, or does not ask for it. A node's fragmentation is what is stranded
//! there for the profile's recent [`mix`] of pods, each kind by its share; the score is lowest where the pod adds most to it.
//!
//! Resources are counted in whole units: a node's devices behind claims are not told apart, nor what is left of shared ones.

mod mix;
#[cfg(test)]
mod tests;

use super::context::{MAX_NODE_SCORE, PluginContext, ResolvedPod, Stop, Work};
use crate::ledger::{NodeId, NodeTable, ScalarId};
use crate::limits::{FRAGMENTATION_ASKS_KEPT, FRAGMENTATION_KINDS, FRAGMENTATION_RESOURCES};
use crate::model::{Pod, Str};
use mix::{Ask, Mix};
use smallvec::SmallVec;

/// What is kept between attempts: which pods came lately, and what was found on rows.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    mix: Mix,
    /// The uid of the pod that was counted last: a look may be given up and made again.
    counted: Str,
    /// What the mix was, and what nodes offered, when the rest was made.
    made_of: (u64, u64),
    resources: Vec<Resource>,
    kinds: Vec<Kind>,
    /// What was asked last comes first.
    kept: Vec<Kept>,
}

/// An extended resource that counts.
#[derive(Debug, PartialEq)]
struct Resource {
    name: Str,
    column: ScalarId,
    /// What a unit counts: the largest amount that any node offers counts 1.
    unit: f64,
}

/// A kind of pods that asks for extended resources which there are.
#[derive(Debug)]
struct Kind {
    cpu: i64,
    memory: i64,
    /// Of resources, by their place.
    amounts: SmallVec<[(usize, i64); 2]>,
    /// Of all pods that count, 0 to 1.
    share: f64,
}

/// By how much pods that ask for this make each row more fragmented; not a number where that is not known.
#[derive(Debug)]
struct Kept {
    ask: Ask,
    rows: Vec<f64>,
    /// How many changes of rows were followed: see [`NodeTable::touched_since`].
    followed: u64,
}

/// What is left on a row.
struct Left {
    cpu: i64,
    memory: i64,
    pods: i64,
    amounts: SmallVec<[i64; 4]>,
}

impl Tables {
    /// Forgets all but which pods came.
    pub(crate) fn clear(&mut self) {
        let Self { mix, counted, .. } = std::mem::take(self);
        *self = Self { mix, counted, ..Self::default() };
    }

    /// The pod is looked at, maybe once more.
    pub(crate) fn count(&mut self, pod: &Pod) {
        if self.counted != pod.uid {
            self.counted = pod.uid.clone();
            self.mix.count(&pod.shape.row.requests);
        }
    }

    /// Writes the scores of the `feasible` nodes into `out`. False where the pod makes none of them more fragmented than another. O(nodes),
    /// and O(kinds) for each row that has changed.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        let nodes = cx.ledger.nodes();
        self.follow(nodes, work)?;
        if self.resources.is_empty() || self.kinds.is_empty() {
            return Ok(false);
        }
        self.ask(Ask::of(&pod.shape.row.requests));
        let Self { resources, kinds, kept, .. } = self;
        let Some(kept) = kept.first_mut() else { return Ok(false) };
        kept.follow(nodes);
        let added = kept.ask.amounts_of(resources);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for node in feasible {
            let known = &mut kept.rows[node.index()];
            if known.is_nan() {
                work.take(1 + kinds.len() / KINDS_PER_WORK)?;
                *known = growth(nodes, *node, resources, kinds, &kept.ask, &added);
            }
            least = least.min(*known);
            most = most.max(*known);
        }
        if most - least < SAME {
            return Ok(false);
        }
        let scale = MAX_NODE_SCORE as f64 / (most - least);
        out.extend(feasible.iter().map(|node| ((most - kept.rows[node.index()]) * scale).round() as i64));
        Ok(true)
    }

    /// Makes everything anew where the mix is another, or the resources are. O(rows).
    fn follow(&mut self, nodes: &NodeTable, work: &mut Work) -> Result<(), Stop> {
        let now = (self.mix.version(), nodes.scalar_offers_version());
        if self.made_of == now {
            return Ok(());
        }
        work.take(1)?;
        let resources = resources(nodes);
        work.spend(nodes.rows() * resources.len() / ROWS_PER_WORK);
        let is_same = self.made_of.0 == now.0 && self.resources == resources;
        self.made_of = now;
        if is_same {
            return Ok(());
        }
        self.kept.clear();
        self.resources = resources;
        let place = |name: &Str| self.resources.iter().position(|resource| resource.name == *name);
        let kind = |(ask, share): &(Ask, f64)| {
            // What a pod cannot get anywhere strands all that is free, on every node alike, and so does a pod that asks for nothing: such
            // pods take no place among the kinds.
            let amounts = ask.scalars.iter().map(|(name, amount)| Some((place(name)?, *amount))).collect::<Option<_>>();
            let amounts: SmallVec<[(usize, i64); 2]> = amounts.filter(|amounts: &SmallVec<_>| !amounts.is_empty())?;
            Some(Kind { cpu: ask.cpu, memory: ask.memory, amounts, share: *share })
        };
        self.kinds = self.mix.kinds().iter().filter_map(kind).take(FRAGMENTATION_KINDS).collect();
        Ok(())
    }

    /// Has what is kept for the ask come first.
    fn ask(&mut self, ask: Ask) {
        if let Some(at) = self.kept.iter().position(|kept| kept.ask == ask) {
            self.kept[..=at].rotate_right(1);
        } else {
            self.kept.truncate(FRAGMENTATION_ASKS_KEPT - 1);
            self.kept.insert(0, Kept { ask, rows: Vec::new(), followed: 0 });
        }
    }
}

/// What rounding may make of differences that are none.
const SAME: f64 = 1e-9;

/// Kinds that are compared with what is left of a row in the time of one unit of work.
const KINDS_PER_WORK: usize = 8;

/// Rows of a column that are looked at in that time.
const ROWS_PER_WORK: usize = 64;

impl Kept {
    fn follow(&mut self, nodes: &NodeTable) {
        let before = self.rows.len();
        self.rows.resize(nodes.rows(), f64::NAN);
        match nodes.touched_since(self.followed) {
            Some(touched) if before > 0 => touched.for_each(|node| self.rows[node.index()] = f64::NAN),
            _ => self.rows.fill(f64::NAN),
        }
        self.followed = nodes.touched();
    }
}

impl Ask {
    /// How much of each resource it asks for.
    fn amounts_of(&self, resources: &[Resource]) -> SmallVec<[i64; 4]> {
        let amount = |name: &Str| self.scalars.iter().find(|(own, _)| own == name).map_or(0, |(_, amount)| *amount);
        resources.iter().map(|resource| amount(&resource.name)).collect()
    }
}

/// The extended resources that most nodes offer, sorted by name.
fn resources(nodes: &NodeTable) -> Vec<Resource> {
    let mut all: Vec<(usize, Str, ScalarId)> = Vec::new();
    nodes.each_extended(|name, column, offered_by| all.push((offered_by, name.clone(), column)));
    all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.truncate(FRAGMENTATION_RESOURCES);
    all.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    let largest = |column| nodes.present_nodes().map(|node| nodes.scalar_allocatable(column, node)).max().unwrap_or(0);
    let resource = |(_, name, column)| Resource { name, column, unit: 1.0 / (largest(column).max(1) as f64) };
    all.into_iter().map(resource).collect()
}

/// By how much a pod that asks for this makes the row more fragmented; less than 0 where it takes what was stranded.
fn growth(nodes: &NodeTable, node: NodeId, resources: &[Resource], kinds: &[Kind], ask: &Ask, added: &[i64]) -> f64 {
    let i = node.index();
    let mut left = Left {
        cpu: nodes.allocatable_cpu[i] - nodes.used_cpu[i],
        memory: nodes.allocatable_memory[i] - nodes.used_memory[i],
        pods: nodes.allocatable_pods[i] - nodes.used_pods[i],
        amounts: resources
            .iter()
            .map(|r| nodes.scalar_allocatable(r.column, node) - nodes.scalar_used(r.column, node))
            .collect(),
    };
    if left.amounts.iter().all(|amount| *amount <= 0) {
        return 0.0;
    }
    let before = left.stranded(resources, kinds);
    // Where a filter is off, a pod may ask for more than there is anywhere.
    left.cpu = left.cpu.saturating_sub(ask.cpu);
    left.memory = left.memory.saturating_sub(ask.memory);
    left.pods -= 1;
    for (amount, added) in left.amounts.iter_mut().zip(added) {
        *amount = amount.saturating_sub(*added);
    }
    left.stranded(resources, kinds) - before
}

impl Left {
    /// What is stranded for all kinds together, each by its share.
    fn stranded(&self, resources: &[Resource], kinds: &[Kind]) -> f64 {
        let counts = |place: usize| self.amounts[place].max(0) as f64 * resources[place].unit;
        let all: f64 = (0..resources.len()).map(counts).sum();
        let of_kind = |kind: &Kind| {
            let usable =
                if self.has_room_for(kind) { kind.amounts.iter().map(|(place, _)| counts(*place)).sum() } else { 0.0 };
            kind.share * (all - usable)
        };
        kinds.iter().map(of_kind).sum()
    }

    fn has_room_for(&self, kind: &Kind) -> bool {
        self.pods > 0
            && self.cpu >= kind.cpu
            && self.memory >= kind.memory
            && kind.amounts.iter().all(|(place, amount)| self.amounts[*place] >= *amount)
    }
}
