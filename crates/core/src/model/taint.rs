use super::Str;

/// What an untolerated taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods rather go elsewhere: counts in the score only.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: Str,
    /// Its value, possibly empty.
    pub value: Str,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// How a toleration compares its value with a taint's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// The values are equal.
    Equal,
    /// Any value.
    Exists,
    /// `Lt` and `Gt` of an alpha feature gate that is off: matches no taint, as upstream without the gate.
    Never,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The key; empty (with `Exists`) means any key.
    pub key: Str,
    /// How values compare.
    pub operator: TolerationOperator,
    /// The value for `Equal`.
    pub value: Str,
    /// The effect; none means any effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether this toleration matches `taint`. After `ToleratesTaint` in `staging/src/k8s.io/api/core/v1/toleration.go`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_none_or(|e| e == taint.effect);
        let key = self.key.is_empty() || self.key == taint.key;
        effect
            && key
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Never => false,
            }
    }
}
