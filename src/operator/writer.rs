//! Writes of profile status: server-side apply with uid and resourceVersion, so that a late write never overwrites a newer
//! status.

use super::observed_spec::ObservedSpec;
use berth_api::{GROUP, SchedulerProfile, SchedulerProfileStatus, VERSION};
use berth_cluster::client::Fault;
use berth_core::model::Str;
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The field manager of our writes.
const MANAGER: &str = "berth";

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum Written {
    /// The object has the status, at this resourceVersion.
    Done(String),
    /// The object changed meanwhile; the watch will show how.
    Overtaken,
    /// The profile was deleted.
    Deleted,
    Failed(Fault),
}

#[derive(Debug, Default)]
pub(super) struct WriteCounters {
    pub(super) written: AtomicU64,
    pub(super) overtaken: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl WriteCounters {
    pub(super) fn count(&self, written: &Written) {
        let counter = match written {
            Written::Done(_) => &self.written,
            Written::Overtaken | Written::Deleted => &self.overtaken,
            Written::Failed(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes `status` if the profile is still the one seen at `resource_version`.
pub(super) async fn write(
    client: Client,
    name: Str,
    uid: String,
    resource_version: String,
    status: SchedulerProfileStatus,
) -> Written {
    let api: Api<DeserializeGuard<SchedulerProfile>> = Api::all(client);
    let body = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "SchedulerProfile",
        "metadata": {"name": &*name, "uid": uid, "resourceVersion": resource_version},
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&body);
    let fault = |error: &kube::Error| Fault::of("patch", "schedulerprofiles.scheduling.berth.dev/status", error);
    match tokio::time::timeout(TIMEOUT, api.patch_status(&name, &params, &patch)).await {
        Ok(Ok(object)) => {
            ObservedSpec::read(object).map_or(Written::Overtaken, |observed| Written::Done(observed.resource_version))
        }
        Ok(Err(kube::Error::Api(answer))) if answer.is_conflict() => Written::Overtaken,
        Ok(Err(kube::Error::Api(answer))) if answer.is_not_found() => Written::Deleted,
        Ok(Err(error)) => Written::Failed(fault(&error)),
        Err(_) => Written::Failed(Fault::Other {
            verb: "patch",
            resource: "schedulerprofiles.scheduling.berth.dev/status",
            message: format!("no answer within {} s", TIMEOUT.as_secs()),
        }),
    }
}
