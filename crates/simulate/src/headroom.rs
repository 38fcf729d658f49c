//! How many more pods of a sort fit: copies are placed one after the other by the engine, until one is refused.

use super::run::{Options, Run};
use super::{Cluster, Template, serving};
use berth_core::cycle::{self, Explanation, NodeAnswer};
use berth_core::ledger::Ledger;
use berth_core::model::{Node, Pod, Str, ZONE};
use berth_core::profile::CompiledProfile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The resource name of pod slots.
const PODS: &str = "pods";

/// How many copies a node took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfNode {
    pub node: Str,
    pub zone: Option<Str>,
    pub count: usize,
}

/// How many copies the nodes of a zone took; `None` are those without a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfZone {
    pub zone: Option<Str>,
    pub count: usize,
}

/// Why the next copy is not placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// As the `PodScheduled` condition says it in one word.
    pub reason: String,
    /// As kube-scheduler says it.
    pub message: String,
}

/// The resource that keeps the next copy from most nodes. Amounts are in its unit: thousandths of a core, bytes, pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scarcest {
    /// `pods` for pod slots.
    pub resource: Str,
    /// Nodes that lack it, of those that nothing else keeps the copy from.
    pub nodes_lacking: usize,
    /// Nodes of the profile.
    pub nodes: usize,
    /// By one copy.
    pub requested: i64,
    /// The most that a node that lacks it has free, and the first such node by name.
    pub most_free: i64,
    pub most_free_on: Str,
    /// Of all nodes of the profile, copies included.
    pub used: i64,
    pub allocatable: i64,
}

/// How many more fit: the same bytes for the same inputs and seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Headroom {
    /// The profile that places the copies; none where no profile serves them.
    pub profile: Option<Str>,
    pub count: usize,
    /// Whether the limit ended the count: more may fit.
    pub limit_reached: bool,
    /// The nodes that took copies: the most first, then by name.
    pub nodes: Vec<OfNode>,
    /// As [`Self::nodes`].
    pub zones: Vec<OfZone>,
    /// None where the limit was reached.
    pub stop: Option<Stop>,
    /// None where no node lacks a resource for the next copy.
    pub scarcest: Option<Scarcest>,
    /// Pods that were pending before and are placed first.
    pub placed_before: usize,
    /// Pods that were pending before and fit nowhere: they take nothing.
    pub waiting: usize,
}

/// How many copies of `template` fit in `cluster` beside what is there, at most `limit`. Copies preempt nobody. `seed` fixes how
/// ties between equally good nodes are broken. Each copy costs an attempt. No extender is asked.
pub fn headroom(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    seed: u64,
    template: &Template,
    limit: usize,
) -> Headroom {
    let mut run = Run::new(cluster, profiles, Options { seed, ..Options::default() });
    run.until_quiet();
    let (placed, waiting): (Vec<&Pod>, Vec<&Pod>) =
        cluster.pending().into_iter().partition(|pod| run.node_of(&pod.uid).is_some());
    // They would be tried again after every copy.
    for pod in &waiting {
        run.remove_pod(&pod.uid);
    }
    let mut by_node: BTreeMap<Str, usize> = BTreeMap::new();
    let (mut count, mut refused) = (0, None);
    while count < limit && refused.is_none() {
        let copy = next_copy(&mut run, template, count + 1);
        run.until_quiet();
        match run.node_of(&copy.uid) {
            Some(node) => {
                *by_node.entry(node.clone()).or_default() += 1;
                count += 1;
            }
            None => refused = Some(copy),
        }
    }
    let zones: BTreeMap<&str, &Str> =
        cluster.nodes.iter().filter_map(|node| Some((&*node.name, node.labels.get(ZONE)?))).collect();
    let scarcest = refused.as_ref().and_then(|copy| {
        let profile = serving(profiles, copy)?;
        scarcest(profile, &run.ledger(), cluster, copy)
    });
    let stop = refused.map(|copy| {
        let report = run.report_on(&copy);
        Stop { reason: report.reason.unwrap_or_default(), message: report.message.unwrap_or_default() }
    });
    let nodes = by_node.into_iter().map(|(node, count)| {
        let zone = zones.get(&*node).copied().cloned();
        OfNode { node, zone, count }
    });
    let nodes = most_first(nodes.collect(), |of| of.count);
    Headroom {
        profile: serving(profiles, &template.pod).map(|profile| profile.name.clone()),
        count,
        limit_reached: stop.is_none(),
        zones: by_zone(&nodes),
        nodes,
        stop,
        scarcest,
        placed_before: placed.len(),
        waiting: waiting.len(),
    }
}

/// Adds the copy with this number to the cluster.
fn next_copy(run: &mut Run<'_>, template: &Template, number: usize) -> Pod {
    let name = format!("{}-more-{number}", template.pod.key.name);
    let (claims, copy) = template.copy(&name, &format!("{}/{name}", template.pod.key.namespace).into());
    for claim in claims {
        run.apply(claim);
    }
    let copy = Pod { preempts: false, ..copy };
    run.apply(copy.clone().into());
    copy
}

fn by_zone(nodes: &[OfNode]) -> Vec<OfZone> {
    let mut zones: BTreeMap<Option<Str>, usize> = BTreeMap::new();
    for of in nodes {
        *zones.entry(of.zone.clone()).or_default() += of.count;
    }
    most_first(zones.into_iter().map(|(zone, count)| OfZone { zone, count }).collect(), |of| of.count)
}

/// Sorted by falling count; those of equal count stay in their order.
fn most_first<T>(mut counts: Vec<T>, count: fn(&T) -> usize) -> Vec<T> {
    counts.sort_by_key(|one| std::cmp::Reverse(count(one)));
    counts
}

/// The resource that the most nodes lack for `copy`, the first by name of several.
fn scarcest(profile: &CompiledProfile, ledger: &Ledger, cluster: &Cluster, copy: &Pod) -> Option<Scarcest> {
    let Explanation::Judged(judged) = cycle::explain(profile, ledger, &Arc::new(copy.clone())) else { return None };
    let mut lacking: BTreeMap<&Str, Vec<&Str>> = BTreeMap::new();
    for (node, answer) in &judged.nodes {
        if let NodeAnswer::Refused { lacking: resources, .. } = answer {
            for resource in resources {
                lacking.entry(resource).or_default().push(node);
            }
        }
    }
    // Of equal ones the last is taken.
    let (resource, on) = lacking.into_iter().rev().max_by_key(|(_, nodes)| nodes.len())?;
    let own: BTreeSet<&Str> = judged.nodes.iter().map(|(name, _)| name).collect();
    let of_profile = cluster.nodes.iter().filter(|node| own.contains(&node.name));
    let amounts: BTreeMap<&Str, (i64, i64)> =
        of_profile.map(|node| (&node.name, allocatable_and_used(ledger, node, resource))).collect();
    let free = on.iter().filter_map(|name| {
        let (allocatable, used) = amounts.get(*name)?;
        Some((allocatable.saturating_sub(*used).max(0), *name))
    });
    let (most_free, most_free_on) = free.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    let sum = |of: fn(&(i64, i64)) -> i64| amounts.values().map(of).fold(0, i64::saturating_add);
    Some(Scarcest {
        resource: resource.clone(),
        nodes_lacking: on.len(),
        nodes: judged.nodes.len(),
        requested: if &**resource == PODS { 1 } else { copy.shape.row.requests.amount(resource) },
        most_free,
        most_free_on: most_free_on.clone(),
        used: sum(|amounts| amounts.1),
        allocatable: sum(|amounts| amounts.0),
    })
}

fn allocatable_and_used(ledger: &Ledger, node: &Node, resource: &str) -> (i64, i64) {
    let Some(id) = ledger.nodes().find(&node.name) else { return (0, 0) };
    if resource == PODS {
        return (node.allocatable_pods, ledger.nodes().pod_count(id));
    }
    let (allocatable, used) = ledger.nodes().amounts(id);
    (allocatable.amount(resource), used.amount(resource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing::{node, pod, shape_of};

    const GIB: i64 = 1 << 30;

    fn cluster(nodes: &[(&str, &str, i64, i64)]) -> Cluster {
        let nodes = nodes.iter().map(|(name, zone, cpu, pods)| {
            let mut node = node(name, cpu * 1000, 64 * GIB, *pods);
            if !zone.is_empty() {
                node.labels = [("kubernetes.io/hostname", *name), (ZONE, *zone)].into_iter().collect();
            }
            node
        });
        Cluster { nodes: nodes.collect(), ..Cluster::default() }
    }

    fn of(cluster: &Cluster, milli_cpu: i64, limit: usize) -> Headroom {
        let template =
            Template { pod: pod("web", shape_of(milli_cpu, GIB)), claims: Vec::new(), resource_claims: Vec::new() };
        let profiles = [Arc::new(CompiledProfile::default_preset("test"))];
        headroom(cluster, &profiles, 0, &template, limit)
    }

    #[test]
    fn copies_are_counted_by_node_and_zone_and_the_next_one_says_why_not() {
        let cluster = cluster(&[("a", "z1", 4, 110), ("b", "z2", 2, 110), ("c", "", 8, 3)]);
        let headroom = of(&cluster, 1000, 100);
        assert_eq!((headroom.count, headroom.limit_reached), (9, false));
        let nodes: Vec<(&str, usize)> = headroom.nodes.iter().map(|of| (&*of.node, of.count)).collect();
        assert_eq!(nodes, [("a", 4), ("c", 3), ("b", 2)]);
        let zones: Vec<(Option<&str>, usize)> =
            headroom.zones.iter().map(|of| (of.zone.as_deref(), of.count)).collect();
        assert_eq!(zones, [(Some("z1"), 4), (None, 3), (Some("z2"), 2)]);
        let stop = headroom.stop.unwrap();
        assert_eq!(stop.reason, "Unschedulable");
        assert_eq!(stop.message, "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.");
        let want = Scarcest {
            resource: "cpu".into(),
            nodes_lacking: 2,
            nodes: 3,
            requested: 1000,
            most_free: 0,
            most_free_on: "a".into(),
            used: 9000,
            allocatable: 14_000,
        };
        assert_eq!(headroom.scarcest, Some(want));
    }

    #[test]
    fn a_limit_ends_the_count_and_says_so() {
        let headroom = of(&cluster(&[("a", "z", 4, 110)]), 1, 7);
        assert_eq!((headroom.count, headroom.limit_reached, headroom.stop), (7, true, None));
    }

    #[test]
    fn pods_that_wait_go_first_and_nobody_is_preempted() {
        let mut cluster = cluster(&[("a", "z", 4, 110)]);
        let low = Pod { node_name: Some("a".into()), priority: -1, ..pod("low", shape_of(1000, 0)) };
        cluster.pods = vec![low, pod("first", shape_of(1000, 0)), pod("never", shape_of(64_000, 0))];
        let headroom = of(&cluster, 1000, 100);
        assert_eq!((headroom.count, headroom.placed_before, headroom.waiting), (2, 1, 1));
    }
}
