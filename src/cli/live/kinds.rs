//! The kinds that the engine reads, and what becomes of each; the table follows that of the operator's watches.

use crate::cli::output::counted;
use anyhow::bail;
use berth_cluster::watch::{
    self, BadObject, CallError, CsiDrivers, CsiNodes, CsiStorageCapacities, DeviceClasses, Listed, Namespaces, Nodes,
    PersistentVolumeClaims, PersistentVolumes, PodDisruptionBudgets, Pods, ReplicaSets, ReplicationControllers,
    Services, StatefulSets, StorageClasses, VolumeAttachments, WatchOptions, Watched,
};
use berth_core::ledger::Object;
use berth_simulate::Cluster;
use futures::FutureExt;
use kube::Client;

/// Defines what is read: `Kind => what an object of it becomes`, one row each; `needed` where there is no answer without.
macro_rules! kinds {
    ($($kind:ident $($needed:ident)? => $object:expr;)+) => {
        /// Reads every kind, side by side; what cannot be had goes to `notes`, but for nodes and pods.
        pub(super) async fn read(client: &Client, notes: &mut Vec<String>) -> anyhow::Result<Cluster> {
            let options = WatchOptions::default();
            let reads = [$(one::<$kind>(client, &options, kinds!(@needed $($needed)?), $object).boxed_local(),)+];
            let mut cluster = Cluster::default();
            for read in futures::future::join_all(reads).await {
                let (objects, said) = read?;
                notes.extend(said);
                for object in objects {
                    cluster.add(object);
                }
            }
            Ok(cluster)
        }
    };
    (@needed needed) => { true };
    (@needed) => { false };
}

kinds! {
    Namespaces => Object::Namespace;
    Nodes needed => |node| Object::Node(Box::new(node));
    Services => Object::Service;
    ReplicationControllers => Object::Workload;
    ReplicaSets => Object::Workload;
    StatefulSets => Object::Workload;
    PersistentVolumes => |volume| Object::Volume(Box::new(volume));
    PersistentVolumeClaims => |claim| Object::Claim(Box::new(claim));
    StorageClasses => Object::StorageClass;
    CsiNodes => Object::CsiNode;
    CsiDrivers => Object::CsiDriver;
    CsiStorageCapacities => Object::CsiCapacity;
    VolumeAttachments => Object::VolumeAttachment;
    PodDisruptionBudgets => Object::Budget;
    DeviceClasses => Object::DeviceClass;
    Pods needed => |pod| Object::Pod(Box::new(pod));
}

/// Reads one kind; with its objects comes what is to be said of it.
async fn one<W: Watched>(
    client: &Client,
    options: &WatchOptions,
    needed: bool,
    object: fn(W::Object) -> Object,
) -> anyhow::Result<(Vec<Object>, Vec<String>)> {
    let mut notes = Vec::new();
    let objects = settled::<W>(watch::list::<W>(client, options).await, needed, &mut notes)?;
    Ok((objects.into_iter().map(object).collect(), notes))
}

/// The objects of a kind. One that we may not read, or that is not served, counts as empty where there is an answer without.
fn settled<W: Watched>(
    read: Result<Listed<W::Object>, CallError>,
    needed: bool,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<W::Object>> {
    let listed = match read {
        Ok(listed) => listed,
        Err(CallError::Api { code: 403, .. }) if !needed => {
            notes.push(format!(
                "{0} may not be listed by this account: answered as if there were none; grant list on {0}",
                W::RESOURCE
            ));
            return Ok(Vec::new());
        }
        Err(CallError::Api { code: 404, .. }) if W::OPTIONAL => return Ok(Vec::new()),
        Err(CallError::Api { code: 404, .. }) if !needed => {
            notes.push(format!("{} is not served by this cluster: answered as if there were none", W::RESOURCE));
            return Ok(Vec::new());
        }
        Err(error @ CallError::Api { code: 403, .. }) => {
            bail!("{error}: {} of the whole cluster are needed, since all of them take room or have some", W::RESOURCE)
        }
        Err(error) => bail!("{}: {error}", W::RESOURCE),
    };
    if let Some(BadObject { namespace, name, field, message, .. }) = listed.bad.first() {
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
