//! Amounts of resources by name: requested, free, lacking, and as manifests spell them.

use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::Requests;

/// The resource name of pod slots, which no request of a pod can change.
pub(crate) const PODS: &str = "pods";

/// What is free of the resource `name` on the node; negative where it is overbooked. Nominated pods take nothing.
pub(crate) fn free(ledger: &Ledger, node: NodeId, name: &str) -> i64 {
    let (allocatable, used) = ledger.nodes().amounts(node);
    allocatable.amount(name).saturating_sub(used.amount(name))
}

/// Sets what `of` has of the resource `name`.
pub(crate) fn set_amount(of: &mut Requests, name: &str, amount: i64) {
    match name {
        "cpu" => of.milli_cpu = amount,
        "memory" => of.memory = amount,
        "ephemeral-storage" => of.ephemeral_storage = amount,
        scalar => of.set_scalar(scalar.into(), amount),
    }
}

/// `amount` of the resource `name` as a manifest spells it, exactly: `1500m`, `3Gi`, `3220000000`.
pub(crate) fn spelled(name: &str, amount: i64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    match name {
        "cpu" if amount % 1000 != 0 => format!("{amount}m"),
        "cpu" => (amount / 1000).to_string(),
        _ if is_bytes(name) => {
            let exponent = (1..7).rev().find(|e| amount != 0 && amount % (1 << (10 * e)) == 0).unwrap_or(0);
            format!("{}{}", amount >> (10 * exponent), UNITS[exponent])
        }
        _ => amount.to_string(),
    }
}

/// `amount` of the resource `name` for people: exactly, and bytes that no unit divides with about how much they are.
pub(crate) fn in_words(name: &str, amount: i64) -> String {
    let exact = spelled(name, amount);
    let rough = |exponent: u32, unit: &str| {
        let tenths = (i128::from(amount) * 10) >> (10 * exponent);
        format!("{exact} (about {}.{}{unit})", tenths / 10, tenths % 10)
    };
    match amount {
        _ if !is_bytes(name) || amount % (1 << 20) == 0 => exact,
        _ if amount >= 1 << 30 => rough(3, "Gi"),
        _ if amount >= 1 << 20 => rough(2, "Mi"),
        _ => exact,
    }
}

fn is_bytes(name: &str) -> bool {
    matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::cycle::{self, Explanation, NodeAnswer};
    use berth_core::profile::CompiledProfile;
    use berth_core::testing::{node, pod, shape_of};
    use std::sync::Arc;

    #[test]
    fn each_reason_of_a_full_node_comes_with_its_resource() {
        let mut wanting = shape_of(2000, 0);
        wanting.row_mut().requests.set_scalar("example.com/gpu".into(), 1);
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 1 << 30, 0));
        let profile = CompiledProfile::default_preset("test");
        let explanation = cycle::explain(&profile, &ledger, &Arc::new(pod("p", wanting)));
        let Explanation::Judged(judgement) = explanation else { panic!("{explanation:?}") };
        let NodeAnswer::Refused { reasons, lacking, .. } = &judgement.nodes[0].1 else { panic!("{judgement:?}") };
        let lacking: Vec<&str> = lacking.iter().map(|name| &**name).collect();
        assert_eq!(lacking, [PODS, "cpu", "example.com/gpu"]);
        assert_eq!(reasons, &["Too many pods", "Insufficient cpu", "Insufficient example.com/gpu"]);
    }

    #[test]
    fn amounts_are_spelled_exactly() {
        let table = [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("cpu", 0, "0"),
            ("memory", 3 << 30, "3Gi"),
            ("memory", 1536 << 20, "1536Mi"),
            ("memory", 3_220_000_000, "3220000000"),
            ("memory", 0, "0"),
            ("hugepages-2Mi", 64 << 20, "64Mi"),
            ("example.com/gpu", 1024, "1024"),
        ];
        for (name, amount, want) in table {
            assert_eq!(spelled(name, amount), want, "{name}");
        }
    }

    #[test]
    fn odd_bytes_come_with_about_how_much_they_are() {
        let table = [
            ("memory", 3_220_000_000, "3220000000 (about 2.9Gi)"),
            ("memory", 5_000_000, "5000000 (about 4.7Mi)"),
            ("memory", 3 << 30, "3Gi"),
            ("memory", 1536 << 20, "1536Mi"),
            ("memory", 1000, "1000"),
            ("cpu", 250, "250m"),
        ];
        for (name, amount, want) in table {
            assert_eq!(in_words(name, amount), want);
        }
    }
}
