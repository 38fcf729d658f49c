//! Topology spread constraints: a larger maxSkew, fewer domains, a preference.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial};
use berth_core::model::{Pod, SpreadConstraint};
use berth_core::plugins::Plugin;
use serde_json::json;

/// The largest maxSkew that is tried: beyond it a constraint constrains nothing.
const WIDEST: i32 = 1 << 16;

/// For each hard constraint of the pod: the smallest maxSkew that fits, the most domains that fit, or only a preference.
pub(super) fn relax(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    if scene.only(&[Plugin::PodTopologySpread]).next().is_none() {
        return Vec::new();
    }
    let hard = scene.pod.shape.spread.iter().enumerate().filter(|(_, constraint)| constraint.hard);
    hard.take(GUESSES).flat_map(|(at, constraint)| relaxed(scene, trial, at, constraint)).collect()
}

fn relaxed(scene: &Scene<'_>, trial: &mut Trial<'_>, at: usize, constraint: &SpreadConstraint) -> Vec<Draft> {
    let mut fits =
        |change: &dyn Fn(&mut SpreadConstraint)| !trial.fitting(None, |shape| change(&mut shape.spread[at])).is_empty();
    if !fits(&|constraint| constraint.hard = false) {
        return Vec::new();
    }
    let change_to =
        |kind, name: &str, from: i32, to: i32, text: String, change: &dyn Fn(&mut SpreadConstraint)| Draft {
            kind,
            edit: Edit::of_pod(scene.pod, |shape| change(&mut shape.spread[at])),
            field: format!("spec.topologySpreadConstraints[{at}].{name}"),
            from: json!(from),
            to: json!(to),
            text,
            weight: from.abs_diff(to).into(),
        };
    let over = &constraint.topology_key;
    let mut drafts = Vec::new();
    let now = constraint.max_skew;
    if let Some(skew) = smallest(now, WIDEST, |skew| fits(&|constraint| constraint.max_skew = skew)) {
        let text = format!("let the spread over {over} be uneven by {skew} (maxSkew) instead of {now}");
        drafts.push(change_to(ChangeKind::RaiseMaxSkew, "maxSkew", now, skew, text, &|one| one.max_skew = skew));
    }
    let domains = constraint.min_domains;
    // Fewer domains fit more easily: search the smallest step down.
    if let Some(step) = smallest(0, domains - 1, |step| fits(&|constraint| constraint.min_domains = domains - step)) {
        let to = domains - step;
        let text = format!("be content with {to} domains of {over} (minDomains) instead of {domains}");
        let kind = ChangeKind::LowerMinDomains;
        drafts.push(change_to(kind, "minDomains", domains, to, text, &|one| one.min_domains = to));
    }
    if drafts.is_empty() {
        drafts.push(anyway(scene.pod, at));
    }
    drafts
}

/// One constraint turned into a preference.
pub(super) fn anyway(pod: &Pod, at: usize) -> Draft {
    let over = &pod.shape.spread[at].topology_key;
    Draft {
        kind: ChangeKind::ScheduleAnyway,
        edit: Edit::of_pod(pod, |shape| shape.spread[at].hard = false),
        field: format!("spec.topologySpreadConstraints[{at}].whenUnsatisfiable"),
        from: json!("DoNotSchedule"),
        to: json!("ScheduleAnyway"),
        text: format!("make the spread over {over} a preference (whenUnsatisfiable: ScheduleAnyway)"),
        weight: 0,
    }
}

/// The smallest number above `low`, up to `high`, that `fits`; if a number fits, all larger ones must.
fn smallest(low: i32, high: i32, mut fits: impl FnMut(i32) -> bool) -> Option<i32> {
    if high <= low || !fits(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    // Most steps are small ones: look near the start first.
    let mut step = 1;
    while low + step < high {
        if fits(low + step) {
            high = low + step;
        } else {
            low += step;
            step = step.saturating_mul(2);
            continue;
        }
        break;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::smallest;

    #[test]
    fn the_smallest_is_found_wherever_it_is() {
        for wanted in [1, 2, 3, 7, 8, 9, 1000, 65_535, 65_536] {
            let mut asked = 0;
            let found = smallest(0, 65_536, |n| {
                asked += 1;
                n >= wanted
            });
            assert_eq!(found, Some(wanted));
            assert!(asked < 40, "{asked} questions for {wanted}");
        }
        assert_eq!(smallest(3, 3, |_| true), None);
        assert_eq!(smallest(0, 10, |_| false), None);
    }
}
