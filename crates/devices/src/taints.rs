//! Taints of devices, after `taintPreventsAllocation` of `allocator_incubating.go` and `ToleratesTaint` of `resourceclaim`.

use crate::model::{Device, DeviceTaint, DeviceToleration, TaintEffect, TolerationOperator};

/// Whether a taint keeps the device from a request with these tolerations.
pub(crate) fn prevent_allocation(device: &Device, tolerations: &[DeviceToleration]) -> bool {
    preventing(device, tolerations).next().is_some()
}

/// Each taint that does.
pub(crate) fn preventing<'a>(
    device: &'a Device,
    tolerations: &'a [DeviceToleration],
) -> impl Iterator<Item = &'a DeviceTaint> {
    let is_tolerated = |taint: &DeviceTaint| tolerations.iter().any(|given| tolerates(given, taint));
    device.taints.iter().filter(move |taint| blocks(taint) && !is_tolerated(taint))
}

const fn blocks(taint: &DeviceTaint) -> bool {
    matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let effect = match &taint.effect {
        TaintEffect::None => "None",
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::NoExecute => "NoExecute",
        TaintEffect::Other(effect) => effect,
    };
    if !toleration.effect.is_empty() && *toleration.effect != *effect {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    match toleration.operator {
        // Also without a key, where one would expect every taint to be meant.
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Exists => true,
        TolerationOperator::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(effect: TaintEffect) -> DeviceTaint {
        DeviceTaint { key: "broken".into(), value: "yes".into(), effect }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: &str) -> DeviceToleration {
        let (key, value, effect) = (key.into(), value.into(), effect.into());
        DeviceToleration { key, operator, value, effect, toleration_seconds: None }
    }

    #[test]
    fn only_known_effects_prevent_allocation() {
        use TaintEffect::{NoExecute, NoSchedule, None, Other};
        for (effect, expected) in [(None, false), (NoSchedule, true), (NoExecute, true), (Other("Later".into()), false)]
        {
            let device = Device { taints: vec![taint(effect.clone())], ..Device::default() };
            assert_eq!(prevent_allocation(&device, &[]), expected, "{effect:?}");
        }
    }

    #[test]
    fn a_toleration_must_name_the_taint() {
        use TolerationOperator::{Equal, Exists, Other};
        for (given, expected) in [
            (toleration("broken", Exists, "", ""), true),
            (toleration("broken", Equal, "yes", "NoSchedule"), true),
            (toleration("broken", Equal, "no", ""), false),
            (toleration("", Exists, "", ""), true),
            (toleration("", Equal, "yes", ""), true),
            (toleration("", Equal, "", ""), false),
            (toleration("other", Exists, "", ""), false),
            (toleration("broken", Exists, "", "NoExecute"), false),
            (toleration("broken", Other("Like".into()), "yes", ""), false),
        ] {
            assert_eq!(tolerates(&given, &taint(TaintEffect::NoSchedule)), expected, "{given:?}");
        }
    }

    #[test]
    fn each_taint_needs_a_toleration() {
        let other = DeviceTaint { key: "hot".into(), ..taint(TaintEffect::NoExecute) };
        let device = Device { taints: vec![taint(TaintEffect::NoSchedule), other], ..Device::default() };
        let given = |key| toleration(key, TolerationOperator::Exists, "", "");
        assert!(prevent_allocation(&device, &[given("broken")]));
        assert!(!prevent_allocation(&device, &[given("broken"), given("hot")]));
    }
}
