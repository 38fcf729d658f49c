//! What people ask next: how much is free, which taint, which label.

use super::devices::{self, Clause};
use super::quantity::{PODS, free};
use berth_core::ledger::Ledger;
use berth_core::model::{Node, NodeSelectorTerm, NodeTest, NodeTestOperator, Pod, Taint, TaintEffect};
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use std::collections::BTreeMap;

/// The facts behind one reason, over the nodes that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// A resource is short. Amounts are in the resource's unit: thousandths of a core, bytes, pieces.
    Resource {
        name: String,
        requested: i64,
        /// The node with most of it free, the first by name of several, and how much that is.
        most_free: Option<(String, i64)>,
    },
    /// Taints that the pod does not tolerate, as `key=value:Effect`, with the number of nodes.
    Taints(BTreeMap<String, usize>),
    /// What the pod selects nodes by: the labels of its nodeSelector, and the terms of its node affinity, of which one must match.
    Selector { labels: Vec<String>, terms: Vec<String> },
    /// Host ports that are taken.
    Ports(Vec<u16>),
    /// What is the matter with the pod's ResourceClaims, a clause for each request that finds too few devices.
    Claims(Vec<Clause>),
    /// The nodes' names.
    Nodes(Vec<String>),
}

/// A pod and who judges it, to be asked for the facts behind a reason.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub cluster: &'a Cluster,
    pub ledger: &'a Ledger,
    pub profile: &'a CompiledProfile,
    pub pod: &'a Pod,
}

impl Asked<'_> {
    /// The facts behind one reason of `plugin`, on the nodes named `nodes`, which must be sorted. `lacking` is the resource that the reason
    /// is about, if it is about one.
    pub fn detail(self, plugin: &str, lacking: Option<&str>, nodes: &[&str]) -> Detail {
        let Self { cluster, ledger, profile, pod } = self;
        let row = &pod.shape.row;
        match (plugin, lacking) {
            (_, Some(resource)) if resource != PODS => short(ledger, pod, resource, nodes),
            ("TaintToleration", _) => taints(cluster, pod, nodes),
            ("NodeAffinity", _) if !row.node_selector.is_empty() || row.required_affinity.is_some() => {
                let labels = row.node_selector.iter().map(|(key, value)| format!("{key}={value}"));
                let terms = row.required_affinity.iter().flat_map(|affinity| affinity.terms.iter().map(term));
                Detail::Selector { labels: labels.collect(), terms: terms.collect() }
            }
            ("NodePorts", _) => Detail::Ports(row.host_ports.iter().map(|p| p.port).collect()),
            ("DynamicResources", _) => Detail::Claims(devices::clauses(profile, ledger, pod, nodes)),
            _ => Detail::Nodes(nodes.iter().map(|name| (*name).to_owned()).collect()),
        }
    }
}

/// Values of one expression that are written out.
const VALUES: usize = 5;

/// A term as one would say it: `zone in (a, b) and disk exists`.
fn term(term: &NodeSelectorTerm) -> String {
    let names =
        term.names.iter().map(|(wanted, name)| format!("name {} {name}", if *wanted { "is" } else { "is not" }));
    let tests: Vec<String> = term.expressions.iter().map(test).chain(names).collect();
    if tests.is_empty() || term.broken { "a term that matches no node".to_owned() } else { tests.join(" and ") }
}

fn test(test: &NodeTest) -> String {
    let NodeTest { key, operator, values } = test;
    let shown = values.iter().take(VALUES).map(|value| &**value).collect::<Vec<&str>>().join(", ");
    let more = if values.len() > VALUES { ", …" } else { "" };
    match operator {
        NodeTestOperator::In => format!("{key} in ({shown}{more})"),
        NodeTestOperator::NotIn => format!("{key} not in ({shown}{more})"),
        NodeTestOperator::Exists => format!("{key} exists"),
        NodeTestOperator::DoesNotExist => format!("{key} does not exist"),
        NodeTestOperator::Gt => format!("{key} > {shown}"),
        NodeTestOperator::Lt => format!("{key} < {shown}"),
    }
}

fn short(ledger: &Ledger, pod: &Pod, resource: &str, nodes: &[&str]) -> Detail {
    let free = nodes.iter().filter_map(|name| {
        let node = ledger.nodes().find(name)?;
        Some(((*name).to_owned(), free(ledger, node, resource).max(0)))
    });
    let most_free = free.reduce(|best, other| if other.1 > best.1 { other } else { best });
    let requested = pod.shape.row.requests.amount(resource);
    Detail::Resource { name: resource.to_owned(), requested, most_free }
}

fn taints(cluster: &Cluster, pod: &Pod, nodes: &[&str]) -> Detail {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|n| nodes.binary_search(&&*n.name).is_ok()) {
        if let Some(taint) = untolerated(pod, node).next() {
            *found.entry(spelled(taint)).or_default() += 1;
        }
    }
    Detail::Taints(found)
}

/// The taints of `node` that keep `pod` away, as `key=value:Effect`, in the node's order.
pub fn hard_taints(node: &Node, pod: &Pod) -> Vec<String> {
    untolerated(pod, node).map(spelled).collect()
}

/// The hard taints of `node` that `pod` does not tolerate.
pub(crate) fn untolerated<'a>(pod: &'a Pod, node: &'a Node) -> impl Iterator<Item = &'a Taint> {
    let hard = node.taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
    hard.filter(|taint| !pod.shape.row.tolerations.iter().any(|own| own.tolerates(taint)))
}

/// A taint as kubectl writes it: `key=value:Effect`.
pub fn spelled(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{:?}", taint.key, taint.effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_of_node_affinity_is_said_as_it_is_meant() {
        let test = |key: &str, operator, values: &[&str]| NodeTest {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let wanted = NodeSelectorTerm {
            expressions: vec![
                test("zone", NodeTestOperator::In, &["a", "b"]),
                test("gpu", NodeTestOperator::DoesNotExist, &[]),
                test("cores", NodeTestOperator::Gt, &["8"]),
                test("rack", NodeTestOperator::NotIn, &["1", "2", "3", "4", "5", "6"]),
            ],
            names: vec![(false, "n1".into())],
            broken: false,
        };
        let said =
            "zone in (a, b) and gpu does not exist and cores > 8 and rack not in (1, 2, 3, 4, 5, …) and name is not n1";
        assert_eq!(term(&wanted), said);
        assert_eq!(term(&NodeSelectorTerm::default()), "a term that matches no node");
    }
}
