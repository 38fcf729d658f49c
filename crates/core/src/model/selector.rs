use super::{Labels, Str};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequirementOperator {
    /// The key is present with one of the values.
    In,
    /// The key is absent or has none of the values.
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub key: Str,
    pub operator: RequirementOperator,
    /// Sorted; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<Str>,
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            RequirementOperator::In => value.is_some_and(|v| self.values.contains(v)),
            RequirementOperator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            RequirementOperator::Exists => value.is_some(),
            RequirementOperator::DoesNotExist => value.is_none(),
        }
    }
}

/// Every requirement must be met; a selector without any matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    /// `matchLabels` (as `In` of one value) and `matchExpressions`.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeTestOperator {
    /// Present with one of the values.
    In,
    /// Absent or with none of the values.
    NotIn,
    Exists,
    DoesNotExist,
    /// Present, and its integer value is greater than the given one.
    Gt,
    /// Present, and its integer value is less than the given one.
    Lt,
}

/// One expression of a node selector term over a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeTest {
    pub key: Str,
    pub operator: NodeTestOperator,
    /// One integer for `Gt` and `Lt`.
    pub values: Vec<Str>,
}

impl NodeTest {
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            NodeTestOperator::In => value.is_some_and(|v| self.values.contains(v)),
            NodeTestOperator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            NodeTestOperator::Exists => value.is_some(),
            NodeTestOperator::DoesNotExist => value.is_none(),
            NodeTestOperator::Gt => self.compares(value, |own, given| own > given),
            NodeTestOperator::Lt => self.compares(value, |own, given| own < given),
        }
    }

    fn compares(&self, value: Option<&Str>, passes: impl Fn(i64, i64) -> bool) -> bool {
        let own = value.and_then(|v| v.parse::<i64>().ok());
        let given = self.values.first().and_then(|v| v.parse::<i64>().ok());
        matches!((own, given), (Some(own), Some(given)) if passes(own, given))
    }
}

/// All expressions and names of a term must match; an empty term matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    pub expressions: Vec<NodeTest>,
    /// `matchFields` on `metadata.name`: (wanted, name); `In` is true, `NotIn` false.
    pub names: Vec<(bool, Str)>,
    /// Upstream could not parse the term: it matches nothing.
    pub broken: bool,
}

impl NodeSelectorTerm {
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let is_empty = self.expressions.is_empty() && self.names.is_empty();
        !(self.broken || is_empty)
            && self.expressions.iter().all(|t| t.matches(labels))
            && self.names.iter().all(|(wanted, n)| (&**n == name) == *wanted)
    }
}

/// One of the terms must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelector {
    pub terms: Vec<NodeSelectorTerm>,
}

impl NodeSelector {
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.terms.iter().any(|t| t.matches(name, labels))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// 1 to 100; 0 has no effect.
    pub weight: i32,
    pub term: NodeSelectorTerm,
}
