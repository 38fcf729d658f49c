use super::{Cluster, serving};
use berth_core::io::{ExtenderError, ExtenderQuestion, ExtenderReply};
use berth_core::model::{Pod, Str};
use berth_core::profile::CompiledProfile;
use std::sync::Arc;

/// Answers for the profiles' extenders during a run.
pub trait Extenders {
    /// The answer about `pod` of the extender of this name in `profile`; an error if it gave none.
    fn answer(
        &mut self,
        profile: &CompiledProfile,
        extender: &Str,
        pod: &Arc<Pod>,
        question: ExtenderQuestion,
    ) -> Result<ExtenderReply, ExtenderError>;
}

/// A line for each extender that concerns a pending pod of `cluster` and is not asked: its part is missing from the answers
/// about those pods. In the order of `profiles`.
pub fn unasked(cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> Vec<String> {
    let mut notes = Vec::new();
    for profile in profiles.iter().filter(|profile| !profile.extenders.is_empty()) {
        let of_profile = |pod: &&Pod| serving(profiles, pod).is_some_and(|p| Arc::ptr_eq(p, profile));
        let pods: Vec<_> = cluster.pending().into_iter().filter(of_profile).collect();
        for extender in &profile.extenders {
            let concerned = pods.iter().filter(|pod| extender.is_interested(pod)).count();
            if concerned > 0 {
                let pods =
                    if concerned == 1 { "1 pending pod".to_owned() } else { format!("{concerned} pending pods") };
                notes.push(format!(
                    "extender {} of SchedulerProfile {} concerns {pods} and is not asked: it may leave out nodes or prefer others",
                    extender.name, profile.name
                ));
            }
        }
    }
    notes
}
