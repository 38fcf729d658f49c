//! etcd's housekeeping, through its JSON gateway: what those who run an etcd do with etcdctl.

use anyhow::{Context, Result};
use serde_json::json;

use crate::control_plane::ControlPlane;

/// etcd's quota, in bytes. Its default of 2 GB is reached by 150,000 pods.
pub const ETCD_QUOTA: u64 = 8 << 30;

const STATUS: &str = "/v3/maintenance/status";
const ALARM: &str = "/v3/maintenance/alarm";

impl ControlPlane {
    /// Drops all history, gives freed pages back and disarms what alarms there are: what etcd wants once its quota was reached
    /// and objects were deleted. Returns the size of its data then, in bytes.
    pub fn reclaim_etcd(&self) -> Result<u64> {
        let etcd = self.api.at(&self.etcd_url());
        let now = etcd.post(STATUS, &json!({}))?;
        etcd.post("/v3/kv/compaction", &json!({"revision": now["header"]["revision"], "physical": true}))?;
        etcd.post("/v3/maintenance/defragment", &json!({}))?;
        let raised = etcd.post(ALARM, &json!({"action": "GET"}))?;
        for alarm in raised["alarms"].as_array().into_iter().flatten() {
            let (member, alarm) = (&alarm["memberID"], &alarm["alarm"]);
            etcd.post(ALARM, &json!({"action": "DEACTIVATE", "memberID": member, "alarm": alarm}))?;
        }
        let now = etcd.post(STATUS, &json!({}))?;
        let size: Option<u64> = now["dbSize"].as_str().and_then(|size| size.parse().ok());
        size.context("etcd does not say how large its data is")
    }
}
