//! Reads every kind that the engine reads from a live cluster.

use crate::cli::output::counted;
use anyhow::bail;
use berth_cluster::watch::{self, BadObject, CallError, KindVisitor, Listed, ObjectKey, Tracked, Watched};
use berth_core::ledger::Object;
use berth_simulate::Cluster;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use kube::Client;

/// Kinds without which there is no answer.
const NEEDED: [&str; 2] = ["nodes", "pods"];

/// The objects of a kind, and what is to be said of them.
type Read = anyhow::Result<(Vec<Object>, Vec<String>)>;

struct Reads<'a> {
    client: &'a Client,
    all: Vec<LocalBoxFuture<'a, Read>>,
}

impl KindVisitor for Reads<'_> {
    fn visit<K: Tracked>(&mut self) {
        self.all.push(one::<K>(self.client).boxed_local());
    }
}

/// Reads every kind, side by side; what cannot be had goes to `notes`, but for nodes and pods.
pub(super) async fn read(client: &Client, notes: &mut Vec<String>) -> anyhow::Result<Cluster> {
    let mut reads = Reads { client, all: Vec::new() };
    watch::visit_kinds(&mut reads);
    let mut cluster = Cluster::default();
    for read in join_all(reads.all).await {
        let (objects, its_notes) = read?;
        notes.extend(its_notes);
        for object in objects {
            cluster.add(object);
        }
    }
    Ok(cluster)
}

async fn one<W: Watched>(client: &Client) -> Read {
    let mut notes = Vec::new();
    let objects = settled::<W>(watch::list::<W>(client).await, &mut notes)?;
    Ok((objects.into_iter().map(Into::into).collect(), notes))
}

/// The objects of a kind. One that we may not read, or that is not served, counts as empty where there is an answer without.
fn settled<W: Watched>(
    read: Result<Listed<W::Object>, CallError>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<W::Object>> {
    let needed = NEEDED.contains(&W::RESOURCE);
    let listed = match read {
        Ok(listed) => listed,
        Err(CallError::Api { code: 403, .. }) if !needed => {
            notes.push(super::forbidden(W::RESOURCE));
            return Ok(Vec::new());
        }
        Err(CallError::Api { code: 404, .. }) if W::OPTIONAL => return Ok(Vec::new()),
        Err(CallError::Api { code: 404, .. }) if !needed => {
            notes.push(format!("{} is not served by this cluster: answered as if there were none", W::RESOURCE));
            return Ok(Vec::new());
        }
        Err(error @ CallError::Api { code: 403, .. }) => {
            bail!(
                "{error}: {} of the whole cluster are needed, since all of them use capacity or offer some",
                W::RESOURCE
            )
        }
        Err(error) => bail!("{}: {error}", W::RESOURCE),
    };
    if let Some(BadObject { key: ObjectKey { namespace, name, .. }, field, message }) = listed.bad.first() {
        let slash = if namespace.is_empty() { "" } else { "/" };
        let count = counted(listed.bad_count, "object");
        notes.push(format!("{}: {count} left aside: {namespace}{slash}{name}: {field}: {message}", W::RESOURCE));
    }
    Ok(listed.objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Reply, Scripted};
    use serde_json::{Value, json};

    /// A cluster with a node and two pods, where one path answers otherwise.
    async fn cluster(path: &'static str, code: u16) -> (anyhow::Result<Cluster>, Vec<String>) {
        let server = Scripted::start(move |asked| async move {
            if asked.path == path {
                return Reply::status(code, "no");
            }
            let items: Value = match &*asked.path {
                "/api/v1/nodes" => json!([{"metadata": {"name": "n", "uid": "n"}}]),
                "/api/v1/pods" => json!([
                    {"metadata": {"name": "p", "namespace": "a", "uid": "p"}, "spec": {"containers": [{"name": "c"}]}},
                    {"metadata": {"name": "bad", "namespace": "a", "uid": "b"}, "spec": {"priority": "high"}}]),
                _ => json!([]),
            };
            Reply::json(200, json!({"metadata": {"resourceVersion": "7"}, "items": items}))
        })
        .await;
        let mut notes = Vec::new();
        let cluster = read(&server.client(), &mut notes).await;
        (cluster, notes)
    }

    #[tokio::test]
    async fn what_is_not_needed_may_be_forbidden_and_is_named() {
        let table = [
            ("/api/v1/services", 403, "services may not be listed"),
            ("/apis/storage.k8s.io/v1/csinodes", 404, "csinodes.storage.k8s.io is not served"),
        ];
        for (path, code, note) in table {
            let (cluster, notes) = cluster(path, code).await;
            let cluster = cluster.unwrap();
            assert_eq!((cluster.nodes.len(), cluster.pods.len()), (1, 1));
            assert!(notes.iter().any(|said| said.contains(note)), "{notes:?}");
            assert!(notes.iter().any(|said| said.contains("a/bad: spec.priority")), "{notes:?}");
        }
    }

    #[tokio::test]
    async fn a_cluster_without_device_classes_is_like_any_other() {
        let (cluster, notes) = cluster("/apis/resource.k8s.io/v1/deviceclasses", 404).await;
        assert!(cluster.is_ok() && notes.len() == 1, "{notes:?}");
    }

    #[tokio::test]
    async fn without_nodes_or_pods_there_is_no_answer() {
        for (path, kind) in [("/api/v1/nodes", "nodes"), ("/api/v1/pods", "pods")] {
            let error = cluster(path, 403).await.0.unwrap_err().to_string();
            assert!(error.contains(&format!("grant list on {kind}")), "{error}");
            assert!(error.contains("whole cluster"), "{error}");
        }
        let error = cluster("/api/v1/services", 500).await.0.unwrap_err().to_string();
        assert!(error.contains("services") && error.contains("500"), "{error}");
    }
}
