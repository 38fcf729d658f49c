/// A Kubernetes resource quantity, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantityError {}
