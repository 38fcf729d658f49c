use super::{Labels, Str};

/// The operator of a label selector requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequirementOperator {
    /// The key is present with one of the values.
    In,
    /// The key is absent or has none of the values.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: Str,
    /// The operator.
    pub operator: RequirementOperator,
    /// The values, sorted; empty for `Exists` and `DoesNotExist`.
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

/// A label selector: every requirement must hold; without any it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    /// `matchLabels` (as `In` of one value) and `matchExpressions`.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether `labels` meet every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }
}

/// The operator of a node selector requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeTestOperator {
    /// Present with one of the values.
    In,
    /// Absent or with none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, and its integer value is greater than the given one.
    Gt,
    /// Present, and its integer value is less than the given one.
    Lt,
}

/// One expression of a node selector term over a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeTest {
    /// The label's key.
    pub key: Str,
    /// The operator.
    pub operator: NodeTestOperator,
    /// The values; one integer for `Gt` and `Lt`.
    pub values: Vec<Str>,
}

impl NodeTest {
    /// Whether `labels` pass.
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

    fn compares(&self, value: Option<&Str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let own = value.and_then(|v| v.parse::<i64>().ok());
        let given = self.values.first().and_then(|v| v.parse::<i64>().ok());
        matches!((own, given), (Some(own), Some(given)) if holds(own, given))
    }
}

/// One term of a node selector: all its expressions and fields must hold; an empty term matches nothing.
///
/// A term that upstream could not parse is decoded as one that matches nothing (`broken`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    /// Expressions over labels.
    pub expressions: Vec<NodeTest>,
    /// `matchFields` on `metadata.name`: (wanted, name); `In` is true, `NotIn` false.
    pub names: Vec<(bool, Str)>,
    /// Set where the term does not parse: it matches nothing.
    pub broken: bool,
}

impl NodeSelectorTerm {
    /// Whether the node `name` with `labels` matches.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let says_nothing = self.expressions.is_empty() && self.names.is_empty();
        !(self.broken || says_nothing)
            && self.expressions.iter().all(|t| t.matches(labels))
            && self.names.iter().all(|(wanted, n)| (&**n == name) == *wanted)
    }
}

/// Terms of which one must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelector {
    /// The terms.
    pub terms: Vec<NodeSelectorTerm>,
}

impl NodeSelector {
    /// Whether some term matches the node `name` with `labels`.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.terms.iter().any(|t| t.matches(name, labels))
    }
}

/// A preferred node affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// Its weight, 1 to 100 (0 counts for nothing).
    pub weight: i32,
    /// The term.
    pub term: NodeSelectorTerm,
}
