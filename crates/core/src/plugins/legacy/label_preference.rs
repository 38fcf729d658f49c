//! LabelPreference: prefers nodes that have, or have not, the labels listed; the mean where several are.
//! After `pkg/scheduler/framework/plugins/nodelabel/node_label.go` of 1.19, into which the entries of a Policy were merged.

use crate::model::Labels;
use crate::plugins::MAX_NODE_SCORE;
use crate::profile::LabelPreference;

/// Without preferences the score skips the pod; it is then not asked.
pub(super) fn score(preferences: &[LabelPreference], labels: &Labels) -> i64 {
    let met = preferences.iter().filter(|p| labels.get(&p.label).is_some() == p.present).count();
    MAX_NODE_SCORE * met as i64 / preferences.len().max(1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let preference = |label: &str, present| LabelPreference { label: label.into(), present };
        let labels: Labels = [("ssd", ""), ("zone", "a")].into_iter().collect();
        for (preferences, want) in [
            (vec![preference("ssd", true)], 100),
            (vec![preference("ssd", false)], 0),
            (vec![preference("gpu", false)], 100),
            (vec![preference("ssd", true), preference("gpu", true)], 50),
            (vec![preference("ssd", true), preference("zone", true), preference("zone", false)], 66),
            (vec![], 0),
        ] {
            assert_eq!(score(&preferences, &labels), want, "{preferences:?}");
        }
    }
}
