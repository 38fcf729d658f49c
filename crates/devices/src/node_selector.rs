//! Node selectors of slices, devices and allocations, after `component-helpers/scheduling/corev1/nodeaffinity`.

use crate::model::Str;
use std::collections::BTreeMap;

/// The node for which devices are wanted.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub name: &'a str,
    pub labels: &'a dyn NodeLabels,
}

/// Where the labels of a node are looked up.
pub trait NodeLabels {
    fn label(&self, key: &str) -> Option<&str>;
}

impl NodeLabels for BTreeMap<Str, Str> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(AsRef::as_ref)
    }
}

/// Matches a node if one of its terms does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelector {
    terms: Vec<NodeSelectorTerm>,
    /// Why upstream cannot read it, found once and not for each node.
    error: Option<Box<str>>,
}

/// All requirements must be met. A term without any matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<NodeSelectorRequirement>,
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSelectorRequirement {
    pub key: Str,
    pub operator: NodeSelectorOperator,
    pub values: Vec<Str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeSelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    /// One that we do not know: a selector with it cannot be read.
    Other(Str),
}

impl NodeSelector {
    pub fn new(terms: Vec<NodeSelectorTerm>) -> Self {
        let error = terms.iter().enumerate().find_map(|(index, term)| {
            let problem = term.problem()?;
            Some(format!("nodeSelectorTerms[{index}].{problem}").into())
        });
        Self { terms, error }
    }

    /// The selector of the node of that name alone.
    pub fn of_node(name: &str) -> Self {
        let requirement = NodeSelectorRequirement {
            key: "metadata.name".into(),
            operator: NodeSelectorOperator::In,
            values: vec![name.into()],
        };
        Self::new(vec![NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement] }])
    }

    pub fn terms(&self) -> &[NodeSelectorTerm] {
        &self.terms
    }

    /// An error if any term cannot be read, even if another matches.
    pub fn matches(&self, node: &Node<'_>) -> Result<bool, &str> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(self.terms.iter().any(|term| term.matches(node))),
        }
    }
}

impl NodeSelectorTerm {
    fn matches(&self, node: &Node<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        self.match_expressions.iter().all(|test| test.matches_label(node.labels))
            && (node.name.is_empty() || self.match_fields.iter().all(|test| test.matches_field(node.name)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    /// Adds the requirements of another term that this one lacks.
    pub(crate) fn merge(&mut self, other: &Self) {
        add_missing(&mut self.match_fields, &other.match_fields);
        add_missing(&mut self.match_expressions, &other.match_expressions);
    }

    fn problem(&self) -> Option<String> {
        let of = |list: &str, tests: &[NodeSelectorRequirement], problem: fn(&NodeSelectorRequirement) -> Option<_>| {
            let mut found = tests.iter().enumerate().filter_map(|(index, test)| Some((index, problem(test)?)));
            found.next().map(|(index, problem): (usize, String)| format!("{list}[{index}].{problem}"))
        };
        of("matchExpressions", &self.match_expressions, NodeSelectorRequirement::label_problem)
            .or_else(|| of("matchFields", &self.match_fields, NodeSelectorRequirement::field_problem))
    }
}

fn add_missing(to: &mut Vec<NodeSelectorRequirement>, from: &[NodeSelectorRequirement]) {
    for test in from {
        if !to.iter().any(|own| own.says_the_same(test)) {
            to.push(test.clone());
        }
    }
}

impl NodeSelectorRequirement {
    /// Values count as a set.
    fn says_the_same(&self, other: &Self) -> bool {
        let all_in = |values: &[Str], others: &[Str]| values.iter().all(|value| others.contains(value));
        self.key == other.key
            && self.operator == other.operator
            && all_in(&self.values, &other.values)
            && all_in(&other.values, &self.values)
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|own| **own == *value)
    }

    fn matches_label(&self, labels: &dyn NodeLabels) -> bool {
        let value = labels.label(&self.key);
        match self.operator {
            NodeSelectorOperator::In => value.is_some_and(|value| self.has(value)),
            NodeSelectorOperator::NotIn => value.is_none_or(|value| !self.has(value)),
            NodeSelectorOperator::Exists => value.is_some(),
            NodeSelectorOperator::DoesNotExist => value.is_none(),
            NodeSelectorOperator::Gt => self.compares(value, |own, given| own > given),
            NodeSelectorOperator::Lt => self.compares(value, |own, given| own < given),
            NodeSelectorOperator::Other(_) => false,
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let given = self.values.first().and_then(|given| integer(given));
        matches!((value.and_then(integer), given), (Some(own), Some(given)) if holds(own, given))
    }

    /// A node has one field, its name; all others are empty.
    fn matches_field(&self, node: &str) -> bool {
        let value = if *self.key == *"metadata.name" { node } else { "" };
        self.has(value) != (self.operator == NodeSelectorOperator::NotIn)
    }

    fn label_problem(&self) -> Option<String> {
        let wrong = match &self.operator {
            NodeSelectorOperator::In | NodeSelectorOperator::NotIn if self.values.is_empty() => {
                "values: for In and NotIn there must be some"
            }
            NodeSelectorOperator::Exists | NodeSelectorOperator::DoesNotExist if !self.values.is_empty() => {
                "values: for Exists and DoesNotExist there must be none"
            }
            NodeSelectorOperator::Gt | NodeSelectorOperator::Lt
                if self.values.len() != 1 || self.values.iter().any(|value| integer(value).is_none()) =>
            {
                "values: for Gt and Lt there must be one integer"
            }
            NodeSelectorOperator::Other(operator) => return Some(format!("operator: {operator:?} is not known")),
            _ if !is_qualified_name(&self.key) => return Some(format!("key: {:?} is not a label key", self.key)),
            _ => {
                let wrong = self.values.iter().position(|value| !is_label_value(value))?;
                return Some(format!("values[{wrong}]: {:?} is not a label value", self.values[wrong]));
            }
        };
        Some(wrong.to_owned())
    }

    fn field_problem(&self) -> Option<String> {
        match &self.operator {
            NodeSelectorOperator::In | NodeSelectorOperator::NotIn => {
                (self.values.len() != 1).then(|| "values: there must be one".to_owned())
            }
            other => Some(format!("operator: {other:?} is not known for fields")),
        }
    }
}

/// As Go's `strconv.ParseInt` reads it.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Letters and digits, between them also `-`, `_` and `.`; at most 63 characters.
fn is_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|c| inner(*c))
        && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// `NAME` or `DNS-SUBDOMAIN/NAME`.
fn is_qualified_name(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else { return is_name(text) };
    let is_part = |part: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    is_name(name) && domain.len() <= 253 && domain.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(key: &str, operator: NodeSelectorOperator, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement { key: key.into(), operator, values: values.iter().map(|v| Str::from(*v)).collect() }
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Str, Str> {
        pairs.iter().map(|(k, v)| (Str::from(*k), Str::from(*v))).collect()
    }

    fn matches(
        expressions: Vec<NodeSelectorRequirement>,
        fields: Vec<NodeSelectorRequirement>,
    ) -> Result<bool, String> {
        let selector =
            NodeSelector::new(vec![NodeSelectorTerm { match_expressions: expressions, match_fields: fields }]);
        let labels = labels(&[("zone", "a"), ("slots", "8")]);
        selector.matches(&Node { name: "n1", labels: &labels }).map_err(str::to_owned)
    }

    #[test]
    fn labels_are_tested_as_upstream_tests_them() {
        use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        for (key, operator, values, expected) in [
            ("zone", In, &["a", "b"][..], true),
            ("zone", In, &["b"], false),
            ("none", In, &["a"], false),
            ("zone", NotIn, &["a"], false),
            ("none", NotIn, &["a"], true),
            ("zone", Exists, &[], true),
            ("none", Exists, &[], false),
            ("none", DoesNotExist, &[], true),
            ("slots", Gt, &["7"], true),
            ("slots", Gt, &["8"], false),
            ("slots", Lt, &["9"], true),
            ("zone", Lt, &["9"], false),
            ("none", Gt, &["0"], false),
        ] {
            let given = test(key, operator, values);
            assert_eq!(matches(vec![given.clone()], Vec::new()), Ok(expected), "{given:?}");
        }
    }

    #[test]
    fn fields_are_those_of_the_node() {
        use NodeSelectorOperator::{In, NotIn};
        assert_eq!(matches(Vec::new(), vec![test("metadata.name", In, &["n1"])]), Ok(true));
        assert_eq!(matches(Vec::new(), vec![test("metadata.name", NotIn, &["n1"])]), Ok(false));
        assert_eq!(matches(Vec::new(), vec![test("spec.other", In, &["n1"])]), Ok(false));
        assert_eq!(matches(vec![test("zone", In, &["b"])], vec![test("metadata.name", In, &["n1"])]), Ok(false));
        assert_eq!(matches(Vec::new(), Vec::new()), Ok(false));
    }

    #[test]
    fn what_upstream_cannot_read_is_an_error() {
        use NodeSelectorOperator::{Exists, Gt, In, Other};
        let unknown = Other("Like".into());
        for (expressions, fields, error) in [
            (
                vec![test("zone", unknown.clone(), &["a"])],
                vec![],
                "matchExpressions[0].operator: \"Like\" is not known",
            ),
            (vec![test("zone", In, &[])], vec![], "matchExpressions[0].values: for In and NotIn there must be some"),
            (vec![test("zone", Exists, &["a"])], vec![], "matchExpressions[0].values: for Exists"),
            (vec![test("zone", Gt, &["a"])], vec![], "matchExpressions[0].values: for Gt and Lt"),
            (vec![test("-", In, &["a"])], vec![], "matchExpressions[0].key: \"-\""),
            (vec![test("zone", In, &["a", "a b"])], vec![], "matchExpressions[0].values[1]: \"a b\""),
            (vec![], vec![test("metadata.name", In, &["a", "b"])], "matchFields[0].values"),
            (vec![], vec![test("metadata.name", Gt, &["1"])], "matchFields[0].operator"),
        ] {
            let given = matches(expressions, fields).unwrap_err();
            assert!(given.starts_with(&format!("nodeSelectorTerms[0].{error}")), "{given}");
        }
    }

    #[test]
    fn a_requirement_is_merged_once_whatever_the_order_of_its_values() {
        use NodeSelectorOperator::In;
        let mut merged = NodeSelectorTerm::default();
        let term = |key, values: &[&str]| NodeSelectorTerm {
            match_expressions: vec![test(key, In, values)],
            match_fields: Vec::new(),
        };
        for other in [term("zone", &["a", "b"]), term("zone", &["b", "a"]), term("arch", &["x"]), term("zone", &["a"])]
        {
            merged.merge(&other);
        }
        let expected = [test("zone", In, &["a", "b"]), test("arch", In, &["x"]), test("zone", In, &["a"])];
        assert_eq!(merged.match_expressions, expected);
    }
}
