//! What Enter opens: of a profile what its status says, and of pods what `berth explain` says.

use super::facts::{Facts, Profile};
use super::pane::Target;
use crate::cli::explain;
use crate::cli::live::SourceArgs;
use crate::cli::output::plain;
use berth_core::model::PodKey;

/// Pods of a profile that are explained: each costs a search.
const PODS: usize = 3;

/// The title of what `target` opens.
pub(super) fn title(target: &Target) -> String {
    let title = match target {
        Target::Profile(name) => format!("SchedulerProfile {name}"),
        Target::Pod(key) => format!("Pod {key}"),
        Target::Reason(_, text) => text.clone(),
        Target::Node(name) => format!("Node {name}"),
    };
    plain(&title).into_owned()
}

/// What is known at once, and the pods that are to be explained.
pub(super) fn opened(facts: &Facts, target: &Target) -> (Vec<String>, Vec<PodKey>) {
    match target {
        Target::Pod(key) => (Vec::new(), vec![key.clone()]),
        Target::Profile(name) => match facts.profiles.iter().find(|profile| profile.name == *name) {
            Some(profile) => (of_profile(profile), refused(facts, profile)),
            None => (vec!["It is gone.".to_owned()], Vec::new()),
        },
        Target::Reason(..) | Target::Node(_) => (Vec::new(), Vec::new()),
    }
}

/// What `berth explain` says of `pods`, or why it says nothing.
pub(super) fn explained(source: SourceArgs, pods: &[PodKey]) -> Vec<String> {
    match explain::explained(source, pods) {
        Ok(lines) => lines,
        Err(error) => vec![plain(&format!("not explained: {error:#}")).into_owned()],
    }
}

fn of_profile(profile: &Profile) -> Vec<String> {
    let status = &profile.status;
    let mut lines = vec![format!("serves  {}", profile.names.join(", ")), String::new()];
    if status.conditions.is_empty() {
        lines.push("no operator has written its status".to_owned());
    }
    for one in &status.conditions {
        lines.push(format!("{}={}/{}  {}", one.type_, one.status, one.reason, one.message));
    }
    if !status.top_reasons.is_empty() {
        lines.extend([String::new(), "most frequent reasons".to_owned()]);
    }
    for top in &status.top_reasons {
        lines.push(format!("  {:>6}  {}: {}", top.pods, top.plugin, top.reason));
    }
    for extender in &status.extenders {
        let Some(failure) = &extender.last_error else { continue };
        let what = format!("{}: {}: {}", failure.verb, failure.reason, failure.message);
        lines.extend([String::new(), format!("extender {} failed last: {what}", extender.name)]);
    }
    lines.iter().map(|line| plain(line).into_owned()).collect()
}

/// The oldest pods of the profile that were refused.
fn refused(facts: &Facts, profile: &Profile) -> Vec<PodKey> {
    let of_profile = facts.pods.waiting().filter(|pod| profile.names.contains(&pod.scheduler_name));
    let mut refused: Vec<_> = of_profile.filter(|pod| !pod.reason.is_empty() && pod.gates == 0).collect();
    refused.sort_unstable_by_key(|pod| (pod.created_unix_us, &pod.key));
    refused.into_iter().take(PODS).map(|pod| pod.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::facts;
    use super::*;

    #[test]
    fn a_profile_is_what_its_status_says_and_its_refused_pods() {
        let facts = facts();
        let target = Target::Profile("batch".to_owned());
        let (lines, pods) = opened(&facts, &target);
        let text = lines.join("\n");
        assert_eq!(title(&target), "SchedulerProfile batch");
        for line in ["serves  batch", "Ready=True/Serving  all is well", "NodeResourcesFit: Insufficient cpu"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("extender gpu failed last: filter: Timeout"), "{text}");
        assert_eq!(pods.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ci/train"]);
        let gone = opened(&facts, &Target::Profile("gone".to_owned()));
        assert_eq!(gone, (vec!["It is gone.".to_owned()], Vec::new()));
    }
}
