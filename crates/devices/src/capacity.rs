//! How much of a device's capacity a request consumes, after `consumable_capacity.go` of the incubating allocator.

use crate::model::{Device, RequestPolicy, ValidRange, named};
use berth_cel::QualifiedName;
use berth_quantity::Quantity;
use smallvec::SmallVec;

/// What a request gets of a capacity: what it asks for, rounded up to what the policy allows.
pub(crate) fn consumed(requested: Option<Quantity>, value: Quantity, policy: Option<&RequestPolicy>) -> Quantity {
    let Some(requested) = requested else { return policy.and_then(|policy| policy.default).unwrap_or(value) };
    let Some(policy) = policy else { return requested };
    match &policy.valid_range {
        Some(range) if range.min.is_some() => round_up(requested, range),
        _ => policy.valid_values.iter().copied().find(|valid| requested <= *valid).unwrap_or(requested),
    }
}

fn round_up(requested: Quantity, range: &ValidRange) -> Quantity {
    let min = range.min.unwrap_or_default();
    if requested < min {
        return min;
    }
    let Some((steps, rest, step)) = steps(requested, range) else { return requested };
    Quantity::from_units(min.value().wrapping_add(step.wrapping_mul(steps.wrapping_add(i64::from(rest != 0)))))
}

/// How many whole steps the amount lies above the minimum, what is left, and the step: all in whole units, into which fractions were rounded
/// up. `None` without a step, and with one of zero, which no API server takes and by which upstream would divide.
fn steps(amount: Quantity, range: &ValidRange) -> Option<(i64, i64, i64)> {
    let step = range.step?.value();
    let above = amount.value().wrapping_sub(range.min.unwrap_or_default().value());
    Some((above.checked_div(step)?, above.checked_rem(step)?, step))
}

fn violates(amount: Quantity, policy: &RequestPolicy) -> bool {
    if policy.default == Some(amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        let is_above = range.max.is_some_and(|max| amount > max);
        return is_above || steps(amount, range).is_some_and(|(_, rest, _)| rest != 0);
    }
    !policy.valid_values.is_empty() && !policy.valid_values.contains(&amount)
}

/// Whether the device has what the request asks for, besides what is `taken` of its capacities, by index. A device that is not shared is
/// asked the same: its whole value must be at least the request.
pub(crate) fn fits(
    device: &Device,
    requested: &[(QualifiedName, Quantity)],
    taken: impl Fn(usize, &QualifiedName) -> Quantity,
) -> bool {
    if requested.iter().any(|(name, _)| named(&device.capacity, name).is_none()) {
        return false;
    }
    device.capacity.iter().enumerate().all(|(index, (name, value))| {
        let policy = device.policy(index);
        let amount = consumed(named(requested, name).copied(), *value, policy);
        !policy.is_some_and(|policy| violates(amount, policy)) && taken(index, name) + amount <= *value
    })
}

/// What the request takes of each capacity, by index; `None` where the device has not that much even if nobody else has any of it.
pub(crate) fn needs(device: &Device, requested: &[(QualifiedName, Quantity)]) -> Option<SmallVec<[Quantity; 1]>> {
    fits(device, requested, |_, _| Quantity::ZERO).then(|| of_share(device, requested).collect())
}

/// What a share of the device consumes of each capacity, by index.
pub(crate) fn of_share<'a>(
    device: &'a Device,
    requested: &'a [(QualifiedName, Quantity)],
) -> impl Iterator<Item = Quantity> + 'a {
    let of = |(index, (name, value)): (usize, &'a (QualifiedName, Quantity))| {
        consumed(named(requested, name).copied(), *value, device.policy(index))
    };
    device.capacity.iter().enumerate().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::quantity;

    fn range(min: &str, max: &str, step: &str) -> RequestPolicy {
        let some = |text: &str| (!text.is_empty()).then(|| quantity(text));
        let valid_range = Some(ValidRange { min: some(min), max: some(max), step: some(step) });
        RequestPolicy { valid_range, ..RequestPolicy::default() }
    }

    fn values(valid: &[&str], default: &str) -> RequestPolicy {
        let valid_values = valid.iter().map(|text| quantity(text)).collect();
        RequestPolicy { default: (!default.is_empty()).then(|| quantity(default)), valid_values, valid_range: None }
    }

    #[test]
    fn requests_are_rounded_as_upstream_rounds_them() {
        let with_default = |policy: RequestPolicy| RequestPolicy { default: Some(quantity("3Gi")), ..policy };
        for (requested, policy, expected, is_refused) in [
            ("", None, "10Gi", false),
            ("4Gi", None, "4Gi", false),
            ("", Some(range("1Gi", "", "1Gi")), "10Gi", false),
            ("", Some(with_default(range("1Gi", "", "1Gi"))), "3Gi", false),
            ("500Mi", Some(range("1Gi", "", "1Gi")), "1Gi", false),
            ("1500Mi", Some(range("1Gi", "", "1Gi")), "2Gi", false),
            ("2Gi", Some(range("1Gi", "", "1Gi")), "2Gi", false),
            ("1500Mi", Some(range("1Gi", "", "")), "1500Mi", false),
            ("3Gi", Some(range("1Gi", "2Gi", "")), "3Gi", true),
            ("3Gi", Some(with_default(range("1Gi", "2Gi", ""))), "3Gi", false),
            ("2Gi", Some(range("1Gi", "2Gi", "3Gi")), "4Gi", true),
            ("1.5", Some(range("1", "", "1")), "2", false),
            ("1500m", Some(range("500m", "", "1")), "2", false),
            ("3", Some(range("1", "", "0")), "3", false),
            ("3", Some(values(&["1", "2", "4"], "")), "4", false),
            ("5", Some(values(&["1", "2", "4"], "")), "5", true),
            ("1", Some(values(&["1", "2", "4"], "2")), "1", false),
            ("", Some(values(&["1", "2", "4"], "2")), "2", false),
            ("", Some(values(&["1", "2", "4"], "")), "10Gi", true),
            ("5", Some(values(&[], "")), "5", false),
        ] {
            let given = (!requested.is_empty()).then(|| quantity(requested));
            let amount = consumed(given, quantity("10Gi"), policy.as_ref());
            assert_eq!(amount, quantity(expected), "{requested:?} of {policy:?}");
            assert_eq!(policy.is_some_and(|policy| violates(amount, &policy)), is_refused, "{requested:?}");
        }
    }

    #[test]
    fn what_is_taken_and_what_is_asked_for_must_fit() {
        let name = QualifiedName::parse("memory");
        let policies = vec![Some(range("1Gi", "", "1Gi"))];
        let capacity = vec![(name.clone(), quantity("10Gi"))];
        let device = Device { capacity, request_policies: policies, ..Device::default() };
        let fits = |asked: &[(QualifiedName, Quantity)], taken: &str| fits(&device, asked, |_, _| quantity(taken));
        let asked = [(name, quantity("1500Mi"))];
        assert!(fits(&asked, "8Gi"));
        assert!(!fits(&asked, "9Gi"));
        assert!(fits(&[], "0"));
        assert!(!fits(&[], "1"));
        assert!(!fits(&[(QualifiedName::parse("cores"), quantity("1"))], "0"), "the device has no such capacity");
    }
}
