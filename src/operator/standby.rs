//! Waiting for the Lease, with everything warm: who leads, and whether this process is one of the same installation.

use super::context::Context;
use super::options::OperatorError;
use super::options::Options;
use berth_cluster::events::ObjectRef;
use berth_cluster::lease::{LEASE_NAME, LeaseState};
use berth_telemetry::{Check, Health};
use tokio::sync::watch;

/// Follows the Lease until we lead. A standby is ready: what it has read is warm, and another replica works.
pub(super) async fn await_leadership(
    options: &Options,
    cx: &Context,
    state: &mut watch::Receiver<LeaseState>,
    health: &Health,
) -> Result<(), OperatorError> {
    let lease = format!("{}/{LEASE_NAME}", options.lease_namespace);
    loop {
        let now = state.borrow_and_update().clone();
        cx.board.lock().lease = Some(now.clone());
        match now {
            LeaseState::Leading => {
                health.pass(Check::Leadership);
                // A standby passed it without reading any.
                health.fail(Check::Profiles, "not read yet");
                health.set_role(format!("leader: this process, {}", options.identity));
                return Ok(());
            }
            LeaseState::Starting { fault: Some(fault) } if fault.is_forbidden() => return Err(fault.into()),
            LeaseState::Starting { fault } => {
                let why = fault.map_or_else(String::new, |fault| format!(": {fault}"));
                health.fail(Check::Leadership, format!("lease {lease} has not been read{why}"));
            }
            LeaseState::Standby { holder } => {
                tracing::info!(holder, "standing by");
                health.pass(Check::Leadership);
                // The leader reads the profiles.
                health.pass(Check::Profiles);
                health.set_role(format!("standby: {holder} leads"));
            }
            LeaseState::Waiting { holder } => {
                tracing::info!(holder, "waiting for the lease");
                health.fail(Check::Leadership, format!("lease {lease} is held by {holder}, of another installation"));
                health.set_role(format!("waiting: {holder} leads"));
            }
            LeaseState::Deleted => {
                tracing::warn!(
                    lease,
                    "the lease is gone, or its holder taken out of it: whoever held it may lead for as long as it lasted"
                );
                health.fail(
                    Check::Leadership,
                    format!("lease {lease} was deleted, or its holder taken out of it: whoever held it may still lead"),
                );
                health.set_role("waiting: the lease was deleted or cleared".to_owned());
            }
            LeaseState::AnotherInstallation { holder } => another_installation(options, cx, health, &lease, &holder),
            LeaseState::Lost { reason } => return Err(OperatorError::LeaseLost(reason)),
            LeaseState::Released => return Err(OperatorError::LeaseLost("it was given back".to_owned())),
        }
        if state.changed().await.is_err() {
            return Err(OperatorError::LeaseLost("the election ended".to_owned()));
        }
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
