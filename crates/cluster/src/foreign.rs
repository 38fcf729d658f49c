//! Which foreign scheduler bound a pod of ours, as far as that can be seen.
//!
//! A bind through the API leaves no trace in `managedFields` (tried on 1.36). What can be seen is who wrote the pod's node
//! name or its `PodScheduled` condition some other way, and who reported a `Scheduled` event on it.

use crate::managed_fields::{FIELD_MANAGER, Managed, ManagedPod};
use crate::send::Call;
use crate::write::lock;
use berth_core::model::Pod;
use kube::Client;
use serde::Deserialize;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two look-ups: one name is enough for a condition, and a second scheduler binds many pods.
const INTERVAL: Duration = Duration::from_secs(10);

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignBinder {
    /// A field manager, or the reporter of a `Scheduled` event.
    pub name: String,
    /// The time of that write, as the object has it (RFC 3339); empty if the object has none.
    pub at: String,
    pub source: Source,
}

/// Where a foreign scheduler was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It manages the pod's `spec.nodeName`.
    NodeName,
    /// It reported the pod as scheduled.
    Event,
    /// It wrote the pod's `PodScheduled` condition: it works on the same pods.
    Condition,
}

/// Looks foreign schedulers up, at most one pod every 10 seconds.
pub struct ForeignBinds {
    client: Client,
    own_instance: String,
    last: Mutex<Option<Instant>>,
}

impl std::fmt::Display for ForeignBinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match self.source {
            Source::NodeName => "field manager of spec.nodeName",
            Source::Event => "reporter of its Scheduled event",
            Source::Condition => "field manager of its PodScheduled condition",
        };
        write!(f, "{} ({how})", self.name)
    }
}

impl ForeignBinds {
    /// `host` is what our own events' `reportingInstance` ends with.
    pub fn new(client: Client, host: &str) -> Self {
        Self { client, own_instance: format!("-{host}"), last: Mutex::new(None) }
    }

    /// Returns who bound this pod; `None` if that cannot be seen or read, or if another pod was looked up just before.
    pub async fn who(&self, pod: &Pod) -> Option<ForeignBinder> {
        if !self.may_look(Instant::now()) {
            return None;
        }
        let mut found = self.in_managed_fields(pod).await;
        if found.as_ref().is_none_or(|b| b.source == Source::Condition) {
            found = self.in_events(pod).await.or(found);
        }
        found
    }

    fn may_look(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let due = last.is_none_or(|at| now.duration_since(at) >= INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }

    async fn in_managed_fields(&self, pod: &Pod) -> Option<ForeignBinder> {
        let read = ManagedPod::read(&self.client, pod).await.ok().flatten()?;
        let seen = |m: &Managed| {
            if m.manager == FIELD_MANAGER {
                None
            } else if m.fields_v1["f:spec"].get("f:nodeName").is_some() {
                Some(Source::NodeName)
            } else {
                let conditions = &m.fields_v1["f:status"]["f:conditions"];
                conditions.get(r#"k:{"type":"PodScheduled"}"#).map(|_| Source::Condition)
            }
        };
        let mut found: Option<ForeignBinder> = None;
        for one in read.managed {
            if let Some(source) = seen(&one)
                && found.as_ref().is_none_or(|_| source == Source::NodeName)
            {
                found = Some(ForeignBinder { name: one.manager, at: one.time, source });
            }
        }
        found
    }

    async fn in_events(&self, pod: &Pod) -> Option<ForeignBinder> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<One>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct One {
            reporting_controller: String,
            reporting_instance: String,
            event_time: Option<String>,
            deprecated_source: Reporter,
            deprecated_last_timestamp: Option<String>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Reporter {
            component: String,
        }
        let uri = format!(
            "/apis/events.k8s.io/v1/namespaces/{}/events?limit=5&fieldSelector=regarding.uid%3D{},reason%3DScheduled",
            pod.key.namespace, pod.uid
        );
        let list: List = self.read(uri).await?;
        list.items.into_iter().find(|e| !e.reporting_instance.ends_with(&self.own_instance)).and_then(|e| {
            let name = [e.reporting_instance, e.reporting_controller, e.deprecated_source.component]
                .into_iter()
                .find(|name| !name.is_empty())?;
            let at = e.event_time.or(e.deprecated_last_timestamp).unwrap_or_default();
            Some(ForeignBinder { name, at, source: Source::Event })
        })
    }

    /// Reads an object; a failure is only logged, since nothing depends on it.
    async fn read<T: serde::de::DeserializeOwned>(&self, uri: String) -> Option<T> {
        let answer = Call::get(uri).send(&self.client, TIMEOUT).await.ok()?;
        if !answer.is_success() {
            tracing::debug!(code = answer.code, message = answer.message(), "foreign bind not looked up");
            return None;
        }
        serde_json::from_slice(&answer.body).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted, pod};
    use serde_json::{Value, json};

    async fn who(managed: Value, events: Value) -> Option<ForeignBinder> {
        let server = Scripted::start(move |asked| {
            let reply = if asked.path.contains("/events") {
                Reply::json(200, json!({"items": events}))
            } else {
                Reply::json(200, json!({"metadata": {"uid": "uid-p", "managedFields": managed}}))
            };
            async move { reply }
        })
        .await;
        ForeignBinds::new(server.client(), "own-host").who(&pod("ns", "p")).await
    }

    #[tokio::test]
    async fn the_binder_is_named_where_it_can_be_seen() {
        let node = json!({"manager": "hand", "time": "t", "fieldsV1": {"f:spec": {"f:nodeName": {}}}});
        let condition = json!({"manager": "kube-scheduler", "time": "t",
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"PodScheduled\"}": {}}}}});
        let ours = json!({"manager": "berth", "time": "t",
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"PodScheduled\"}": {}}}}});
        let event = json!({"reportingController": "bin", "reportingInstance": "bin-other-host", "eventTime": "e"});
        let own_event = json!({"reportingController": "bin", "reportingInstance": "bin-own-host", "eventTime": "e"});
        let named = |b: Option<ForeignBinder>| b.map(|b| (b.name, b.source));

        assert_eq!(named(who(json!([condition, node]), json!([])).await), Some(("hand".into(), Source::NodeName)));
        assert_eq!(
            named(who(json!([condition]), json!([event])).await),
            Some(("bin-other-host".into(), Source::Event))
        );
        assert_eq!(
            named(who(json!([ours, condition]), json!([own_event])).await),
            Some(("kube-scheduler".into(), Source::Condition))
        );
        assert_eq!(who(json!([ours]), json!([own_event])).await, None);
    }

    #[tokio::test]
    async fn at_most_one_pod_in_ten_seconds_is_looked_up() {
        let server = Scripted::start(|_| async { Reply::status(403, "no") }).await;
        let foreign = ForeignBinds::new(server.client(), "h");
        for _ in 0..50 {
            assert_eq!(foreign.who(&pod("ns", "p")).await, None);
        }
        assert_eq!(server.requests().len(), 2);
    }
}
