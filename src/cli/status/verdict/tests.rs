use super::*;
use berth_api::SchedulerProfileStatus;
use berth_api::conditions::{Accepted, ExtendersHealthy, NamespacesRouted, Reason, ResolvedRefs, set_condition};
use berth_core::model::Pod;
use berth_core::testing::{pod, shape};
use k8s_openapi::jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;

/// A cluster in which all is well, with one profile.
fn well() -> Facts {
    Facts {
        definition: Ok(Vec::new()),
        lease: "kube-system/berth.scheduling.berth.dev".to_owned(),
        leader: Ok(Leader::Leads { holder: "berth-0_1".to_owned(), seconds: 1 }),
        home: "berth-system".to_owned(),
        deployments: Ok(vec![deployment(2, 2)]),
        rights: Rights::Reviewed { account: "system:serviceaccount:berth-system:berth".to_owned(), lacks: Vec::new() },
        profiles: Ok(vec![served("batch")]),
        orphans: Some(Ok(Vec::new())),
    }
}

fn deployment(replicas: i32, ready: i32) -> Running {
    Running { name: "berth".to_owned(), replicas, ready, account: "berth".to_owned(), troubles: Vec::new() }
}

fn served(name: &str) -> Profile {
    let profile = Profile::for_test(name, 1, SchedulerProfileStatus::default());
    let profile = that_says(profile, Ready::Serving, "serving generation 1");
    that_says(profile, Accepted::Accepted, "the spec is valid")
}

fn that_says<R: Reason>(mut profile: Profile, reason: R, message: &str) -> Profile {
    let now = Timestamp::from_second(1).unwrap();
    set_condition(&mut profile.status.conditions, reason, message, profile.generation, now);
    profile
}

fn denied(verb: &'static str, resource: &'static str) -> Fault {
    Fault::from_status(verb, resource, 403, "no")
}

fn down() -> Fault {
    Fault::Other { verb: "get", resource: "leases.coordination.k8s.io", message: "connection refused".to_owned() }
}

fn of_profiles(profiles: Vec<Profile>) -> Facts {
    Facts { profiles: Ok(profiles), ..well() }
}

/// The findings about `part` that are not well, noted or not seen: state, text, what to do.
fn said(facts: &Facts, part: &str) -> Vec<(State, String, String)> {
    let findings = judge(facts).into_iter().filter(|finding| finding.part == part && finding.state != State::Well);
    findings.map(|finding| (finding.state, finding.text, finding.advice.unwrap_or_default())).collect()
}

#[test]
fn where_all_is_well_each_part_says_so() {
    let findings = judge(&well());
    assert_eq!(worst(&findings), State::Well, "{findings:#?}");
    let parts: Vec<&str> = findings.iter().map(|finding| finding.part).collect();
    assert_eq!(parts, ["definition", "operator", "operator", "rights", "profile", "pods"]);
    assert!(findings.iter().all(|finding| finding.advice.is_none()), "{findings:#?}");
}

/// The exit code of each trouble: 1 where it is seen, 2 where the Lease or the profiles cannot be.
#[test]
fn each_trouble_has_its_state() {
    let silent = Leader::Silent { holder: "berth-0_1".to_owned(), seconds: 300 };
    let lacking = Rights::Reviewed { account: "a".to_owned(), lacks: vec!["list pods".to_owned()] };
    let unread = |fault| Err(ServedCrdError::Unread(fault));
    let table = [
        ("no definition", Facts { definition: Err(ServedCrdError::NotInstalled), ..well() }, State::NotWell),
        ("old definition", Facts { definition: Ok(vec!["spec.nodes".to_owned()]), ..well() }, State::NotWell),
        ("definition forbidden", Facts { definition: unread(denied("get", "crd")), ..well() }, State::NotChecked),
        ("definition unread", Facts { definition: unread(down()), ..well() }, State::NotSeen),
        ("never led", Facts { leader: Ok(Leader::Never), ..well() }, State::NotWell),
        ("nobody leads", Facts { leader: Ok(Leader::Nobody), ..well() }, State::NotWell),
        ("silent", Facts { leader: Ok(silent), ..well() }, State::NotWell),
        ("lease forbidden", Facts { leader: Err(denied("get", "leases")), ..well() }, State::NotSeen),
        ("no deployment", Facts { deployments: Ok(Vec::new()), ..well() }, State::Note),
        ("no replicas", Facts { deployments: Ok(vec![deployment(0, 0)]), ..well() }, State::Note),
        ("half the replicas", Facts { deployments: Ok(vec![deployment(2, 1)]), ..well() }, State::NotWell),
        ("deployments forbidden", Facts { deployments: Err(denied("list", "d")), ..well() }, State::NotChecked),
        ("a right lacks", Facts { rights: lacking, ..well() }, State::NotWell),
        ("rights not asked", Facts { rights: Rights::NotChecked("no".to_owned()), ..well() }, State::NotChecked),
        ("no profile", of_profiles(Vec::new()), State::Note),
        ("profiles forbidden", Facts { profiles: Err(denied("list", "p")), ..well() }, State::NotSeen),
        ("pods forbidden", Facts { orphans: Some(Err(denied("list", "pods"))), ..well() }, State::NotChecked),
        ("names not known", Facts { orphans: None, ..well() }, State::NotChecked),
        ("down", Facts { leader: Err(down()), profiles: Err(down()), ..well() }, State::NotSeen),
    ];
    for (name, facts, want) in table {
        let findings = judge(&facts);
        assert_eq!(worst(&findings), want, "{name}: {findings:#?}");
        let bad = findings.iter().filter(|finding| finding.state == State::NotWell);
        for finding in bad {
            let says = format!("{} {}", finding.text, finding.advice.as_deref().unwrap_or_default());
            assert!(["kubectl", "berth ", "docs/"].iter().any(|word| says.contains(word)), "{name}: {says}");
        }
    }
}

#[test]
fn a_profile_that_does_not_serve_says_why_once() {
    let why = "spec.nodes.selector: a bad key";
    let refused = that_says(served("batch"), Ready::NotAccepted, why);
    let refused = that_says(refused, Accepted::InvalidSelector, why);
    let want = (
        State::NotWell,
        format!("batch: Ready=False/NotAccepted: {why}"),
        "kubectl describe sprof batch; docs/conditions.md#accepted-invalidselector".to_owned(),
    );
    assert_eq!(said(&of_profiles(vec![refused]), "profile"), [want]);
    let failed = that_says(served("batch"), Ready::WorkerNotRunning, "it panicked");
    let failed = that_says(failed, Programmed::WorkerFailed, "it panicked");
    let said = said(&of_profiles(vec![failed]), "profile");
    assert!(said.len() == 1 && said[0].2.ends_with("#programmed-workerfailed"), "{said:?}");
}

#[test]
fn what_a_person_asked_for_and_a_full_cluster_are_notes() {
    let paused = that_says(served("paused"), Ready::Paused, "spec.mode is Paused");
    let dry_run = that_says(served("trial"), Ready::DryRun, "spec.mode is DryRun");
    let full = that_says(served("full"), SchedulingHealthy::Backlog, "3 pods cannot be placed");
    let deleting = that_says(served("gone"), Ready::Deleting, "it is being deleted");
    let deleting = that_says(deleting, Programmed::Draining, "the worker ends");
    let facts = of_profiles(vec![paused, dry_run, full, deleting]);
    let said = said(&facts, "profile");
    assert!(said.len() == 5 && said.iter().all(|(state, ..)| *state == State::Note), "{said:#?}");
    assert_eq!(worst(&judge(&facts)), State::Note);
    let other = that_says(served("a"), SchedulingHealthy::AnotherSchedulerServes, "pod p was bound by x");
    assert_eq!(worst(&judge(&of_profiles(vec![other]))), State::NotWell);
}

#[test]
fn conditions_are_as_old_as_the_last_leader() {
    let facts = Facts { leader: Ok(Leader::Nobody), ..well() };
    let stale = said(&facts, "profile");
    assert_eq!(stale[0].0, State::Note);
    assert!(stale[0].1.ends_with("; as the last leader left it"), "{stale:?}");
    let mut behind = served("batch");
    behind.generation = 2;
    let said = said(&of_profiles(vec![behind]), "profile");
    assert!(said[0].1.starts_with("batch: generation 2 is not read yet"), "{said:?}");
    let unseen = Profile::for_test("batch", 1, SchedulerProfileStatus::default());
    assert_eq!(worst(&judge(&of_profiles(vec![unseen]))), State::NotWell);
}

#[test]
fn a_route_that_is_not_in_force_is_a_trouble_and_an_older_profiles_is_a_note() {
    let said = |reason| said(&of_profiles(vec![that_says(served("batch"), reason, "why")]), "profile");
    let lacking = said(NamespacesRouted::PolicyNotInstalled);
    assert_eq!(lacking[0].0, State::NotWell);
    assert!(lacking[0].2.ends_with("#namespacesrouted-policynotinstalled"), "{lacking:?}");
    assert_eq!(said(NamespacesRouted::OlderProfileRoutes)[0].0, State::Note);
    assert!(said(NamespacesRouted::Routed).is_empty() && said(NamespacesRouted::NoRoute).is_empty());
}

#[test]
fn extenders_have_lines_of_their_own() {
    let mut profile = served("batch");
    profile.status.extenders.push(berth_api::ExtenderStatus { name: "gpu".to_owned(), ..Default::default() });
    let healthy = judge(&of_profiles(vec![profile.clone()]));
    assert!(healthy.iter().any(|finding| finding.part == "extender" && finding.state == State::Well), "{healthy:#?}");
    let open = that_says(profile, ExtendersHealthy::CircuitOpen, "extender gpu failed");
    let open = that_says(open, ResolvedRefs::SecretNotFound, "Secret gpu is not there");
    let said = said(&of_profiles(vec![open]), "extender");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].2.ends_with("#resolvedrefs-secretnotfound") && said[1].2.ends_with("#extendershealthy-circuitopen")
    );
}

#[test]
fn pods_that_nobody_looks_at_are_named_with_what_they_may_mean() {
    let named = |count: usize| -> Vec<Arc<Pod>> {
        (0..count).map(|i| Arc::new(Pod { scheduler_name: "batsh".into(), ..pod(&format!("p{i}"), shape()) })).collect()
    };
    let orphans = |count| Orphans { scheduler_name: "batsh".into(), nearest: Some("batch".into()), pods: named(count) };
    let facts = Facts { orphans: Some(Ok(vec![orphans(1), orphans(2)])), ..well() };
    let said = said(&facts, "pods");
    assert!(
        said[0].1.starts_with("1 pod waits, the oldest default/p0: no scheduler serves schedulerName batsh"),
        "{said:?}"
    );
    assert!(said[1].1.starts_with("2 pods wait") && said[1].1.ends_with("did you mean batch?"), "{said:?}");
    assert_eq!(worst(&judge(&facts)), State::NotWell);
}

/// Whoever writes statuses and names chooses neither how long the answer is nor how long a line.
#[test]
fn the_answer_is_bounded_and_keeps_the_worst() {
    let mut profiles: Vec<Profile> = (0..1_000).map(|i| served(&format!("p{i}"))).collect();
    let bad = that_says(profiles.remove(999), Ready::WorkerNotRunning, &"x".repeat(2_048));
    profiles.push(bad);
    let findings = judge(&of_profiles(profiles));
    assert!(findings.len() < OF_PART + 10, "{}", findings.len());
    assert_eq!(worst(&findings), State::NotWell);
    assert!(findings.iter().any(|finding| finding.text == "and 920 more lines"), "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.text.chars().count() <= TEXT + 1));
    assert_eq!(cut("é".repeat(TEXT)).chars().count(), TEXT);
}

#[test]
fn every_section_that_advice_leads_to_exists() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conditions.md")).unwrap();
    let headings: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| format!("#{}", heading.to_lowercase().replace(": ", "-")))
        .collect();
    for kind in ConditionType::ALL {
        for reason in kind.reasons() {
            let section = section(kind, reason).unwrap();
            assert!(headings.contains(&section), "docs/conditions.md has no section {section}");
        }
    }
    assert_eq!(section(ConditionType::Ready, "OfAnotherVersion"), None);
}
