use super::Str;
use std::sync::Arc;

/// Sorted by key, shared between the objects that carry them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Labels(Arc<[(Str, Str)]>);

impl Labels {
    pub fn none() -> Self {
        Self::default()
    }

    /// Pairs in any order; of a repeated key the last one counts.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (Str, Str)>) -> Self {
        let mut all: Vec<(Str, Str)> = pairs.into_iter().collect();
        all.reverse();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|later, first| later.0 == first.0);
        Self(all.into())
    }

    /// The value of `key`. O(log n).
    pub fn get(&self, key: &str) -> Option<&Str> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &self.0[i].1)
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &Str)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that `other` lacks. O(both).
    pub fn keys_not_in<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Str> {
        let mut others = other.iter().map(|(key, _)| key).peekable();
        self.iter().map(|(key, _)| key).filter(move |key| {
            while others.next_if(|other| other < key).is_some() {}
            others.next_if(|other| other == key).is_none()
        })
    }

    /// O(own × log other's), O(1) where there are more of them than the other has.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.len() <= other.len() && self.iter().all(|(k, v)| other.get(k) == Some(v))
    }
}

/// Looks labels up for one test after the other: tests of one key, such as a hundred terms with a host name each, look once.
#[derive(Debug)]
pub struct LookUp<'a> {
    labels: &'a Labels,
    last: Option<(&'a Str, Option<&'a Str>)>,
}

impl<'a> LookUp<'a> {
    pub const fn new(labels: &'a Labels) -> Self {
        Self { labels, last: None }
    }

    fn get(&mut self, key: &'a Str) -> Option<&'a Str> {
        if let Some((last, value)) = self.last
            && (Arc::ptr_eq(last, key) || last == key)
        {
            return value;
        }
        let value = self.labels.get(key);
        self.last = Some((key, value));
        value
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(pairs: T) -> Self {
        Self::from_pairs(pairs.into_iter().map(|(k, v)| (k.into(), v.into())))
    }
}

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
    /// That `key` has this very value.
    pub fn equals(key: Str, value: Str) -> Self {
        Self { key, operator: RequirementOperator::In, values: vec![value] }
    }

    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            RequirementOperator::In => value.is_some_and(|v| self.values.binary_search(v).is_ok()),
            RequirementOperator::NotIn => value.is_none_or(|v| self.values.binary_search(v).is_err()),
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

    /// How many comparisons [`Self::matches`] may take.
    pub fn comparisons(&self) -> usize {
        self.requirements.iter().map(|r| LOOK_UP + steps(r.values.len())).sum()
    }
}

/// Selects what has all of the labels.
impl From<&Labels> for LabelSelector {
    fn from(labels: &Labels) -> Self {
        let equals = |(key, value): (&Str, &Str)| Requirement::equals(key.clone(), value.clone());
        Self { requirements: labels.iter().map(equals).collect() }
    }
}

/// A key is looked up by halves, too, among some ten labels.
const LOOK_UP: usize = 4;

/// The same among the labels of a node, which are many, begin alike, and are another node's for each row: 50 to 100 ns.
pub(crate) const NODE_LOOK_UP: usize = 16;

/// How many of so many sorted values a binary search looks at, at most.
pub(crate) fn steps(sorted: usize) -> usize {
    sorted.checked_ilog2().map_or(0, |halvings| halvings as usize + 1)
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
    /// Sorted; one integer for `Gt` and `Lt`.
    pub values: Vec<Str>,
}

impl NodeTest {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_in(&mut LookUp::new(labels))
    }

    fn matches_in<'a>(&'a self, labels: &mut LookUp<'a>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            NodeTestOperator::In => value.is_some_and(|v| self.values.binary_search(v).is_ok()),
            NodeTestOperator::NotIn => value.is_none_or(|v| self.values.binary_search(v).is_err()),
            NodeTestOperator::Exists => value.is_some(),
            NodeTestOperator::DoesNotExist => value.is_none(),
            NodeTestOperator::Gt => self.compares(value, |own, given| own > given),
            NodeTestOperator::Lt => self.compares(value, |own, given| own < given),
        }
    }

    /// How many comparisons [`Self::matches`] may take.
    pub fn comparisons(&self) -> usize {
        NODE_LOOK_UP + steps(self.values.len())
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
    pub fn matches_in<'a>(&'a self, name: &str, labels: &mut LookUp<'a>) -> bool {
        let is_empty = self.expressions.is_empty() && self.names.is_empty();
        !(self.broken || is_empty)
            && self.expressions.iter().all(|t| t.matches_in(labels))
            && self.names.iter().all(|(wanted, n)| (&**n == name) == *wanted)
    }

    /// How many comparisons [`Self::matches_in`] may take.
    pub fn comparisons(&self) -> usize {
        self.names.len() + self.expressions.iter().map(NodeTest::comparisons).sum::<usize>()
    }
}

/// One of the terms must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelector {
    pub terms: Vec<NodeSelectorTerm>,
}

impl NodeSelector {
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let labels = &mut LookUp::new(labels);
        self.terms.iter().any(|t| t.matches_in(name, labels))
    }

    /// How many comparisons [`Self::matches`] may take.
    pub fn comparisons(&self) -> usize {
        self.terms.iter().map(NodeSelectorTerm::comparisons).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// 1 to 100; 0 has no effect.
    pub weight: i32,
    pub term: NodeSelectorTerm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_others_lack_are_found_in_one_pass() {
        let labels = |keys: &str| -> Labels { keys.split(' ').map(|key| (key, "x")).collect() };
        for (own, other, beside) in
            [("a b d", "b c", "a d"), ("b", "a b c", ""), ("c", "a b", "c"), ("a z", "m", "a z")]
        {
            let (own, other) = (labels(own), labels(other));
            assert_eq!(own.keys_not_in(&other).map(|key| &**key).collect::<Vec<_>>().join(" "), beside);
        }
    }

    #[test]
    fn tests_after_each_other_see_what_each_sees_alone() {
        let labels: Labels = [("a", "1"), ("b", "2")].into_iter().collect();
        let keys: Vec<Str> = ["a", "a", "c", "c", "b", "a", "bb", "b"].map(Str::from).into();
        let test = |key: &Str| NodeTest { key: key.clone(), operator: NodeTestOperator::In, values: vec!["1".into()] };
        let tests: Vec<NodeTest> = keys.iter().map(test).collect();
        let together = &mut LookUp::new(&labels);
        let seen: Vec<bool> = tests.iter().map(|test| test.matches_in(together)).collect();
        assert_eq!(seen, [true, true, false, false, false, true, false, false]);
        assert_eq!(seen, tests.iter().map(|test| test.matches(&labels)).collect::<Vec<_>>());
    }

    #[test]
    fn values_count_as_many_comparisons_as_a_search_by_halves_makes() {
        let term = |values: usize| {
            let values = (0..values).map(|i| format!("{i:04}").into()).collect();
            let test = NodeTest { key: "k".into(), operator: NodeTestOperator::In, values };
            NodeSelectorTerm { expressions: vec![test], names: vec![(true, "n".into())], broken: false }
        };
        let comparisons: Vec<usize> = [0, 1, 2, 3, 4, 4_096].map(|n| term(n).comparisons()).into();
        assert_eq!(comparisons, [17, 18, 19, 19, 20, 30], "the name, the key, and the steps");
        let selector = LabelSelector::from(&[("a", "1"), ("b", "2")].into_iter().collect::<Labels>());
        assert_eq!(selector.comparisons(), 10);
        assert_eq!(selector.requirements[1], Requirement::equals("b".into(), "2".into()));
    }
}
