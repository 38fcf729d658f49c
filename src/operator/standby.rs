//! Waiting for the Lease, with everything warm: who leads, and whether this process is one of the same installation.

use super::context::Context;
use super::denials::Permission;
use super::options::OperatorError;
use super::options::Options;
use berth_cluster::events::ObjectRef;
use berth_cluster::lease::{LEASE_NAME, LeaseState};
use berth_telemetry::{Check, Health};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How soon a standby's readiness follows what it may do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Follows the Lease until we lead. A standby is ready: what it has read is warm, and another replica works.
pub(super) async fn await_leadership(
    options: &Options,
    cx: &Context,
    state: &mut watch::Receiver<LeaseState>,
    health: &Health,
) -> Result<(), OperatorError> {
    loop {
        let now = state.borrow_and_update().clone();
        cx.board.lock().lease = Some(now.clone());
        match &now {
            LeaseState::Leading => {
                health.pass(Check::Leadership);
                // A standby passed it without reading any.
                health.fail(Check::Profiles, "not read yet");
                health.set_role(format!("leader: this process, {}", options.identity));
                return Ok(());
            }
            LeaseState::Starting { fault: Some(fault) } if fault.is_forbidden() => return Err(fault.clone().into()),
            LeaseState::Lost { reason } => return Err(OperatorError::LeaseLost(reason.clone())),
            LeaseState::Released => return Err(OperatorError::LeaseLost("it was given back".to_owned())),
            waits => show(options, cx, health, waits),
        }
        loop {
            if let LeaseState::Standby { .. } = now {
                // The leader reads the profiles.
                match unfit(&cx.denials.present(Instant::now())) {
                    Some(why) => health.fail(Check::Profiles, why),
                    None => health.pass(Check::Profiles),
                }
            }
            match tokio::time::timeout(LOOK_EVERY, state.changed()).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(OperatorError::LeaseLost("the election ended".to_owned())),
                Err(_) => {}
            }
        }
    }
}

/// Why a standby could not do what a leader does, if it could not: the rollout that brings it must not take the leader away.
fn unfit(missing: &[Permission]) -> Option<String> {
    let missing = missing.iter().find(|missing| missing.is_essential() || missing.ends_a_leader())?;
    Some(format!("this process could not lead: {missing}"))
}

/// Says in readiness, and in the log, for what we wait.
fn show(options: &Options, cx: &Context, health: &Health, state: &LeaseState) {
    let lease = format!("{}/{LEASE_NAME}", options.lease_namespace);
    match state {
        LeaseState::Starting { fault } => {
            let why = fault.as_ref().map_or_else(String::new, |fault| format!(": {fault}"));
            health.fail(Check::Leadership, format!("lease {lease} has not been read{why}"));
        }
        LeaseState::Standby { holder } => {
            tracing::info!(holder, "standing by");
            health.pass(Check::Leadership);
            health.set_role(format!("standby: {holder} leads"));
        }
        LeaseState::Waiting { holder } => {
            tracing::info!(holder, "waiting for the lease");
            health.fail(Check::Leadership, format!("lease {lease} is held by {holder}, of another installation"));
            health.set_role(format!("waiting: {holder} leads"));
        }
        LeaseState::Unread { fault } => {
            health.fail(Check::Leadership, format!("lease {lease} was not read for longer than it lasts: {fault}"));
            health.set_role("waiting: who leads is not known".to_owned());
        }
        LeaseState::Deleted => {
            let gone = "or its holder taken out of it";
            tracing::warn!(lease, "the lease is gone, {gone}: whoever held it may lead for as long as it lasted");
            health
                .fail(Check::Leadership, format!("lease {lease} was deleted, {gone}: whoever held it may still lead"));
            health.set_role("waiting: the lease was deleted or cleared".to_owned());
        }
        LeaseState::AnotherInstallation { holder } => another_installation(options, cx, health, &lease, holder),
        LeaseState::Leading | LeaseState::Lost { .. } | LeaseState::Released => {}
    }
}

/// Says in the log, in readiness and on our own pod that someone else works here; metrics read the board.
fn another_installation(options: &Options, cx: &Context, health: &Health, lease: &str, holder: &str) {
    let text = format!(
        "AnotherInstallation: lease {lease} is held and renewed by {holder}: remove one of the two installations; this one waits"
    );
    tracing::warn!(holder, lease, "another installation works in this cluster");
    health.fail(Check::Leadership, text.clone());
    health.set_role(format!("waiting: {holder} leads"));
    if let Some(pod) = &options.pod {
        let object = ObjectRef::pod(&pod.namespace, &pod.name, &pod.uid);
        cx.warn(object, "AnotherInstallation", "Leading", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_that_may_not_do_what_a_leader_must_is_not_ready() {
        let of = |verb, resource| [Permission { verb, resource }];
        assert_eq!(unfit(&[]), None);
        assert_eq!(unfit(&of("create", "events.events.k8s.io")), None, "a leader does without");
        for needed in [of("list", "controllerrevisions.apps"), of("create", "pods/binding"), of("list", "pods")] {
            let why = unfit(&needed).unwrap();
            assert!(why.starts_with("this process could not lead: may not"), "{why}");
        }
    }
}
