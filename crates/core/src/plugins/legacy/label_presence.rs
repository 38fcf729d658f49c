//! CheckNodeLabelPresence: refuses nodes that lack a label that must be there, or have one that must not.
//! After `pkg/scheduler/framework/plugins/nodelabel/node_label.go` of 1.19.

use crate::model::Labels;
use crate::profile::LegacyArgs;

pub(crate) const REASON: &str = "node(s) didn't have the requested labels";

pub(super) fn fits(args: &LegacyArgs, labels: &Labels) -> bool {
    args.present_labels.iter().all(|key| labels.get(key).is_some())
        && args.absent_labels.iter().all(|key| labels.get(key).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let labels: Labels = [("rack", "r1"), ("retiring", "")].into_iter().collect();
        for (present, absent, want) in [
            (&[][..], &[][..], true),
            (&["rack"], &[], true),
            (&["rack", "gpu"], &[], false),
            (&["rack"], &["gpu"], true),
            // Any value counts, the empty one too.
            (&[], &["retiring"], false),
        ] {
            let keys = |of: &[&str]| of.iter().map(|key| (*key).into()).collect();
            let args =
                LegacyArgs { present_labels: keys(present), absent_labels: keys(absent), ..LegacyArgs::default() };
            assert_eq!(fits(&args, &labels), want, "{present:?} {absent:?}");
        }
    }
}
