//! Terms of selectors in words.

use berth_core::model::{
    AffinityTerm, LabelSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, Requirement, RequirementOperator, Str,
};

/// A term of a node affinity.
pub(super) fn node_term(term: &NodeSelectorTerm) -> String {
    let tests: Vec<String> = term.expressions.iter().map(node_test).chain(term.names.iter().map(name_test)).collect();
    if tests.is_empty() { "nothing".to_owned() } else { tests.join(" and ") }
}

/// An expression about a node's labels.
pub(super) fn node_test(test: &NodeTest) -> String {
    let NodeTest { key, operator, values } = test;
    let values = values.join(", ");
    match operator {
        NodeTestOperator::In => format!("{key} in ({values})"),
        NodeTestOperator::NotIn => format!("{key} not in ({values})"),
        NodeTestOperator::Exists => format!("{key} exists"),
        NodeTestOperator::DoesNotExist => format!("{key} does not exist"),
        NodeTestOperator::Gt => format!("{key} > {values}"),
        NodeTestOperator::Lt => format!("{key} < {values}"),
    }
}

/// An expression about a node's name: whether it must be this one, or another.
pub(super) fn name_test((wanted, name): &(bool, Str)) -> String {
    format!("metadata.name {} {name}", if *wanted { "in" } else { "not in" })
}

/// A term of an affinity or anti-affinity between pods.
pub(super) fn pod_term(term: &AffinityTerm) -> String {
    let selector = term.selector.as_ref().map_or_else(|| "no label".to_owned(), selector);
    format!("{selector} per {}", term.topology_key)
}

fn selector(selector: &LabelSelector) -> String {
    let tests: Vec<String> = selector.requirements.iter().map(requirement).collect();
    if tests.is_empty() { "any label".to_owned() } else { tests.join(" and ") }
}

fn requirement(requirement: &Requirement) -> String {
    let Requirement { key, operator, values } = requirement;
    let is_one = values.len() == 1;
    let values = values.join(", ");
    match operator {
        RequirementOperator::In if is_one => format!("{key}={values}"),
        RequirementOperator::In => format!("{key} in ({values})"),
        RequirementOperator::NotIn => format!("{key} not in ({values})"),
        RequirementOperator::Exists => format!("{key} exists"),
        RequirementOperator::DoesNotExist => format!("{key} does not exist"),
    }
}
