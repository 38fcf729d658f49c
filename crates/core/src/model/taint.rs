use super::Str;

/// What an untolerated taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods prefer other nodes: it counts in the score only.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Str,
    /// May be empty.
    pub value: Str,
    pub effect: TaintEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Equal,
    Exists,
    /// `Lt` and `Gt`, which need an alpha feature gate: they match no taint, as upstream without the gate.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty (with `Exists`) means any key.
    pub key: Str,
    pub operator: TolerationOperator,
    /// For `Equal`.
    pub value: Str,
    /// `None` means any effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// After `ToleratesTaint` in `staging/src/k8s.io/api/core/v1/toleration.go`.
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
