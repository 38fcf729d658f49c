//! The cluster's SchedulerProfiles, compiled as the operator compiles them.

use crate::cli::inputs;
use anyhow::anyhow;
use berth_api as api;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;
use std::sync::Arc;

fn path() -> String {
    format!("/apis/{}/{}/schedulerprofiles", api::GROUP, api::VERSION)
}

/// The profiles that serve the pods of `cluster`, and whether there is none, so that the Default preset answers for every pod.
pub(super) async fn read(
    client: &Client,
    server: &str,
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Vec<Arc<CompiledProfile>>, bool)> {
    let objects = match list(client).await {
        Ok(objects) => objects,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!(
                "{0} may not be listed by this account: answered as if there were none; grant list on {0}",
                api::CRD_NAME
            ));
            Vec::new()
        }
        Err(error) => return Err(anyhow!("{}: {}", api::CRD_NAME, berth_cluster::client::root_cause(&error))),
    };
    if objects.is_empty() {
        notes.push(
            "no SchedulerProfile in the cluster: the Default preset, which is kube-scheduler as it comes, answers for \
             every pod (--profile FILE takes another)"
                .to_owned(),
        );
    }
    Ok(inputs::live_profiles(objects, server, cluster, notes)?)
}

async fn list(client: &Client) -> kube::Result<Vec<Value>> {
    let mut objects = Vec::new();
    let mut token = None;
    loop {
        let params = ListParams { limit: Some(500), continue_token: token, ..ListParams::default() };
        let request = Request::new(path()).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = client.request(request).await?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            objects.extend(items);
        }
        token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(objects);
        }
    }
}
