//! The part of a profile's status that is about extenders. Pure.

use super::extenders::ExtenderFacts;
use berth_api::conditions::{ExtendersHealthy, ResolvedRefs};
use berth_api::{CircuitState, ExtenderFailure, ExtenderState, ExtenderStatus};
use berth_core::io::ExtenderErrorKind;
use berth_extender::{Circuit, ExtenderHealth, SettingsError, Verb, VerbHealth};
use berth_telemetry::HistogramSnapshot;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

/// The condition `ResolvedRefs`.
pub(super) fn resolved(facts: &ExtenderFacts) -> (ResolvedRefs, String) {
    let not_permitted = |problem: &&SettingsError| matches!(problem, SettingsError::NotPermitted { .. });
    let refused: Vec<String> = facts.problems.iter().filter(not_permitted).map(ToString::to_string).collect();
    if !refused.is_empty() {
        return (ResolvedRefs::SecretNotPermitted, refused.join("; "));
    }
    let Some(problem) = facts.problems.first() else {
        return if facts.refers {
            (ResolvedRefs::ResolvedRefs, "everything that the spec refers to is there".to_owned())
        } else {
            (ResolvedRefs::NoRefs, "the spec refers to no other object".to_owned())
        };
    };
    let reason = match problem {
        SettingsError::NotFound { kind: "ConfigMap", .. } => ResolvedRefs::ConfigMapNotFound,
        SettingsError::NotFound { .. } => ResolvedRefs::SecretNotFound,
        SettingsError::NotPermitted { .. } => ResolvedRefs::SecretNotPermitted,
        SettingsError::KeyMissing { .. } => ResolvedRefs::KeyMissing,
        SettingsError::Certificate { .. } | SettingsError::Url { .. } | SettingsError::Endpoint { .. } => {
            ResolvedRefs::InvalidCertificate
        }
    };
    let one = facts.health.iter().find(|one| *one.name == *problem.extender());
    let text = one.filter(|one| one.uses_last_good).and_then(|one| Some(one.unusable.as_ref()?.message.to_string()));
    (reason, text.unwrap_or_else(|| problem.to_string()))
}

/// The condition `ExtendersHealthy`: the gravest cause first.
pub(super) fn healthy(facts: &ExtenderFacts) -> (ExtendersHealthy, String) {
    if facts.health.is_empty() {
        return (ExtendersHealthy::NoExtenders, "the profile has no extenders".to_owned());
    }
    if let Some((extender, pod)) = &facts.dependency {
        let text =
            format!("{extender}: pod {pod} behind it waits for this very profile: give it another schedulerName");
        return (ExtendersHealthy::SelfDependency, text);
    }
    let verbs = || facts.health.iter().flat_map(|one| one.verbs.iter().map(move |(verb, health)| (one, *verb, health)));
    if let Some((one, verb, health)) = verbs().find(|(_, _, health)| health.circuit != Circuit::Closed) {
        return (ExtendersHealthy::CircuitOpen, in_a_row(one, verb, health));
    }
    if let Some((one, error)) = facts.health.iter().find_map(|one| Some((one, one.unusable.as_ref()?))) {
        return (reason_of(error.kind), format!("{}: {}", one.name, error.message));
    }
    if let Some((one, verb, health)) = verbs().find(|(_, _, health)| health.consecutive_failures > 0) {
        let kind = health.last_error.as_ref().map_or(ExtenderErrorKind::Connection, |error| error.kind);
        return (reason_of(kind), in_a_row(one, verb, health));
    }
    if verbs().any(|(_, _, health)| health.was_answered) {
        return (ExtendersHealthy::AllHealthy, "every extender answers".to_owned());
    }
    (ExtendersHealthy::NotYetProbed, "no pod has needed an extender yet".to_owned())
}

fn in_a_row(one: &ExtenderHealth, verb: Verb, health: &VerbHealth) -> String {
    let last = health.last_error.as_ref().map_or_else(String::new, |error| format!(": {}", error.message));
    let failures = health.consecutive_failures;
    let plural = if failures == 1 { "failure" } else { "failures in a row" };
    format!("{}/{}: {failures} {plural}{last}", one.name, verb.as_str())
}

const fn reason_of(kind: ExtenderErrorKind) -> ExtendersHealthy {
    match kind {
        ExtenderErrorKind::Timeout | ExtenderErrorKind::Busy => ExtendersHealthy::Timeout,
        ExtenderErrorKind::Connection => ExtendersHealthy::Unreachable,
        ExtenderErrorKind::Tls => ExtendersHealthy::TLSFailure,
        ExtenderErrorKind::Unauthorized => ExtendersHealthy::Unauthorized,
        ExtenderErrorKind::Status | ExtenderErrorKind::InvalidReply | ExtenderErrorKind::Reported => {
            ExtendersHealthy::InvalidResponse
        }
        ExtenderErrorKind::Refused => ExtendersHealthy::AddressRefused,
        ExtenderErrorKind::CircuitOpen => ExtendersHealthy::CircuitOpen,
    }
}

/// `status.extenders[]`.
pub(super) fn statuses(facts: &ExtenderFacts) -> Vec<ExtenderStatus> {
    facts.health.iter().map(status).collect()
}

fn status(one: &ExtenderHealth) -> ExtenderStatus {
    let verbs = || one.verbs.values();
    let failures = verbs().map(|health| health.consecutive_failures).max().unwrap_or(0);
    let circuit = verbs().map(|health| health.circuit).max().unwrap_or(Circuit::Closed);
    let was_answered = verbs().any(|health| health.was_answered);
    let state = match (failures, was_answered) {
        _ if one.unusable.is_some() => ExtenderState::Degraded,
        (0, true) => ExtenderState::Healthy,
        (0, false) => ExtenderState::Unknown,
        _ => ExtenderState::Degraded,
    };
    let errors = one.verbs.iter().filter_map(|(verb, health)| Some((verb, health.last_error.as_ref()?)));
    ExtenderStatus {
        name: one.name.to_string(),
        state: Some(state),
        circuit: Some(if circuit == Circuit::Closed { CircuitState::Closed } else { CircuitState::Open }),
        p99: verbs()
            .filter_map(|health| p99(&health.latency))
            .max_by(f64::total_cmp)
            .map(|s| format!("{:.0}ms", s * 1000.0)),
        consecutive_failures: failures.into(),
        last_error: errors.max_by_key(|(_, error)| error.at).map(|(verb, error)| ExtenderFailure {
            time: Timestamp::try_from(error.at).ok().map(Time),
            verb: verb.as_str().to_owned(),
            reason: reason_name(error.kind).to_owned(),
            message: error.message.to_string(),
        }),
    }
}

/// The value of `status.extenders[].lastError.reason`: finer than the condition's.
const fn reason_name(kind: ExtenderErrorKind) -> &'static str {
    match kind {
        ExtenderErrorKind::Status => "BadStatus",
        ExtenderErrorKind::Busy => "Busy",
        ExtenderErrorKind::Reported => "Refused",
        other => reason_of(other).as_str(),
    }
}

/// The upper bound, in seconds, of the bucket that holds the slowest of 99 in 100 calls.
fn p99(latency: &HistogramSnapshot) -> Option<f64> {
    let wanted = (latency.count * 99).div_ceil(100);
    let mut seen = 0;
    let bucket = latency.buckets.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    bucket.map(|(bound, _)| *bound).filter(|bound| latency.count > 0 && bound.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::{io::ExtenderError, model::PodKey};
    use berth_extender::LastError;
    use berth_telemetry::Histogram;
    use std::collections::BTreeMap;
    use std::time::{Duration, SystemTime};

    fn verb(circuit: Circuit, failures: u32, kind: Option<ExtenderErrorKind>) -> VerbHealth {
        let latency = Histogram::default();
        (0..100).for_each(|i| latency.record(Duration::from_millis(if i < 99 { 3 } else { 900 })));
        let last_error =
            kind.map(|kind| LastError { at: SystemTime::UNIX_EPOCH, kind, message: "no answer in 500 ms".into() });
        VerbHealth {
            circuit,
            consecutive_failures: failures,
            last_error,
            was_answered: failures == 0,
            latency: latency.snapshot(),
            results: BTreeMap::new(),
        }
    }

    fn facts(health: VerbHealth) -> ExtenderFacts {
        let one =
            ExtenderHealth { name: "gpu".into(), verbs: [(Verb::Filter, health)].into(), ..ExtenderHealth::default() };
        ExtenderFacts { health: vec![one], ..ExtenderFacts::default() }
    }

    #[test]
    fn the_gravest_cause_is_reported_first() {
        use ExtenderErrorKind::{Refused, Timeout};
        assert_eq!(healthy(&ExtenderFacts::default()).0, ExtendersHealthy::NoExtenders);
        let good = facts(verb(Circuit::Closed, 0, None));
        assert_eq!(healthy(&good).0, ExtendersHealthy::AllHealthy);
        let slow = facts(verb(Circuit::Closed, 2, Some(Timeout)));
        assert_eq!(healthy(&slow).0, ExtendersHealthy::Timeout);
        assert_eq!(healthy(&slow).1, "gpu/filter: 2 failures in a row: no answer in 500 ms");
        let open = facts(verb(Circuit::Open, 5, Some(Timeout)));
        assert_eq!(healthy(&open).0, ExtendersHealthy::CircuitOpen);
        let mut refused = good.clone();
        refused.health[0].unusable = Some(ExtenderError { kind: Refused, message: "host x is on no list".into() });
        assert_eq!(healthy(&refused).0, ExtendersHealthy::AddressRefused);
        let pod = PodKey { namespace: "gpu".into(), name: "ext-0".into() };
        let itself = ExtenderFacts { dependency: Some(("gpu".to_owned(), pod)), ..open };
        assert_eq!(healthy(&itself).0, ExtendersHealthy::SelfDependency);
        assert!(healthy(&itself).1.contains("gpu/ext-0"), "{}", healthy(&itself).1);
    }

    #[test]
    fn health_becomes_the_extenders_status() {
        let listed = statuses(&facts(verb(Circuit::Open, 5, Some(ExtenderErrorKind::Timeout))));
        assert_eq!((listed[0].state, listed[0].circuit), (Some(ExtenderState::Degraded), Some(CircuitState::Open)));
        assert_eq!((listed[0].p99.as_deref(), listed[0].consecutive_failures), (Some("4ms"), 5));
        assert_eq!(listed[0].last_error.as_ref().unwrap().reason, "Timeout");
    }

    #[test]
    fn a_missing_reference_is_named() {
        let problem = SettingsError::NotFound {
            extender: "gpu".to_owned(),
            field: "tls.caBundleRef",
            kind: "ConfigMap",
            name: "gpu-ca".to_owned(),
        };
        let mut facts = ExtenderFacts { problems: vec![problem], refers: true, ..Default::default() };
        let (reason, text) = resolved(&facts);
        assert_eq!(reason, ResolvedRefs::ConfigMapNotFound);
        assert!(text.contains("ConfigMap gpu-ca"), "{text}");
        // What is used meanwhile is said where the missing object is: deleting a Secret does not revoke it.
        let message = "ConfigMap gpu-ca is gone; until then what was read before goes on being used";
        let unusable = Some(ExtenderError { kind: ExtenderErrorKind::Refused, message: message.into() });
        facts.health =
            vec![ExtenderHealth { name: "gpu".into(), unusable, uses_last_good: true, ..Default::default() }];
        assert_eq!(resolved(&facts), (ResolvedRefs::ConfigMapNotFound, message.to_owned()));
    }

    #[test]
    fn every_secret_that_is_not_permitted_is_named() {
        let problem = |extender: &str, why: &str| SettingsError::NotPermitted {
            extender: extender.to_owned(),
            why: why.to_owned(),
        };
        let missing = SettingsError::Endpoint { extender: "first".to_owned() };
        let problems = vec![missing, problem("a", "Secret x: annotate it"), problem("b", "Secret y: annotate it")];
        let (reason, text) = resolved(&ExtenderFacts { problems, refers: true, ..Default::default() });
        assert_eq!(reason, ResolvedRefs::SecretNotPermitted);
        assert_eq!(text, "extender a: Secret x: annotate it; extender b: Secret y: annotate it");
    }
}
