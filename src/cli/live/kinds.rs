//! Reads every kind that the engine reads from a live cluster.

use crate::cli::output::counted;
use anyhow::bail;
use berth_cluster::watch::{
    self, Absence, BadObject, CallError, KindVisitor, ListOptions, Listed, ObjectKey, Tracked, Watched,
};
use berth_core::ledger::Object;
use berth_simulate::Cluster;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, try_join_all};
use kube::Client;

/// Kinds without which there is no answer.
const NEEDED: [&str; 2] = ["nodes", "pods"];

/// Pods that have some are held where they cannot be read.
const CLAIMS: &str = "resourceclaims.resource.k8s.io";

/// How often the whole cluster is read anew because the API server has the version no more, before it is read without one.
const BEGINNINGS: usize = 3;

/// The note where the kinds could not be read at one resourceVersion.
const NOT_ONE_PICTURE: &str = "not everything could be read at one resourceVersion: what changed meanwhile may be seen in one kind and not in another";

/// The objects of a kind, and what is to be said of them.
struct Read {
    resource: &'static str,
    objects: Vec<Object>,
    notes: Vec<String>,
    /// Why there are none.
    absence: Option<Absence>,
    /// Whether it was read at the version that was asked for.
    is_at: bool,
}

struct Reads<'a> {
    client: &'a Client,
    options: ListOptions<'a>,
    all: Vec<LocalBoxFuture<'a, Result<Read, NotRead>>>,
}

/// Why a kind was not read.
#[derive(Debug, thiserror::Error)]
enum NotRead {
    /// The API server has the version, or that of the pages so far, no more.
    #[error("the cluster changes faster than it can be read: the API server gives up pages while they are read")]
    Gone,
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl KindVisitor for Reads<'_> {
    fn visit<K: Tracked>(&mut self) {
        self.all.push(one::<K>(self.client, self.options).boxed_local());
    }
}

/// Reads every kind, side by side and at one resourceVersion; what cannot be had goes to `notes`, but for nodes and pods. With
/// `whole_pods`, bound pods are read as wholly as those that wait.
pub(super) async fn read(client: &Client, whole_pods: bool, notes: &mut Vec<String>) -> anyhow::Result<Cluster> {
    for _ in 0..BEGINNINGS {
        // Without a version the lists say what is wrong.
        let Ok(version) = watch::present_version(client).await else { break };
        match all(client, ListOptions { at: Some(&version), whole_pods }).await {
            Err(NotRead::Gone) => {}
            read => return Ok(put_together(read?, notes)),
        }
    }
    Ok(put_together(all(client, ListOptions { at: None, whole_pods }).await?, notes))
}

/// Every kind. One that is gone ends the others.
async fn all(client: &Client, options: ListOptions<'_>) -> Result<Vec<Read>, NotRead> {
    let mut reads = Reads { client, options, all: Vec::new() };
    watch::visit_kinds(&mut reads);
    try_join_all(reads.all).await
}

fn put_together(all: Vec<Read>, notes: &mut Vec<String>) -> Cluster {
    if !all.iter().all(|read| read.is_at) {
        notes.push(NOT_ONE_PICTURE.to_owned());
    }
    let mut cluster = Cluster::default();
    for Read { resource, objects, notes: its_notes, absence, .. } in all {
        notes.extend(its_notes);
        if resource == CLAIMS {
            cluster.claims_unread = absence.map(Absence::as_str);
        }
        for object in objects {
            cluster.add(object);
        }
    }
    cluster
}

/// A kind. Where its API server does not know the version, or takes none, it is read as it is now.
async fn one<W: Watched>(client: &Client, options: ListOptions<'_>) -> Result<Read, NotRead> {
    let (listed, is_at) = match watch::list::<W>(client, options).await {
        Err(CallError::Gone) => return Err(NotRead::Gone),
        Err(CallError::Api { code: 504, .. } | CallError::Refused { .. }) if options.at.is_some() => {
            (watch::list::<W>(client, ListOptions { at: None, ..options }).await, false)
        }
        listed => (listed, options.at.is_some()),
    };
    let absence = listed.as_ref().err().and_then(CallError::absence);
    let mut notes = Vec::new();
    let objects = settled::<W>(listed, &mut notes)?;
    let objects = objects.into_iter().map(Into::into).collect();
    Ok(Read { resource: W::RESOURCE, objects, notes, absence, is_at })
}

/// The objects of a kind. One that we may not read, or that is not served, counts as empty where there is an answer without.
fn settled<W: Watched>(
    read: Result<Listed<W::Object>, CallError>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<W::Object>> {
    let needed = NEEDED.contains(&W::RESOURCE);
    let listed = match read {
        Ok(listed) => listed,
        Err(CallError::Api { code: 403, .. }) if W::RESOURCE == CLAIMS => {
            notes.push(format!(
                "{CLAIMS} may not be listed by this account: pods with claims are answered as held, whatever the operator may read; grant \
                 list on {CLAIMS}"
            ));
            return Ok(Vec::new());
        }
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

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
        let cluster = read(&server.client(), false, &mut notes).await;
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

    /// The API server has none of the first two versions that it gives, and of the third all kinds but Services.
    #[tokio::test]
    async fn all_kinds_are_read_at_one_version_or_it_is_said() {
        let notes = |gone: u32, apart: &'static str| async move {
            let given = Arc::new(AtomicU32::new(0));
            let server = Scripted::start(move |asked| {
                let is_first = asked.query.contains("limit=1&") || asked.query.ends_with("limit=1");
                let version = given.fetch_add(u32::from(is_first), Ordering::Relaxed) + u32::from(is_first);
                async move {
                    if asked.query.contains("resourceVersionMatch=Exact") {
                        assert!(asked.query.contains(&format!("resourceVersion={version}")), "{}", asked.query);
                        if version <= gone {
                            return Reply::status(410, "compacted");
                        }
                        if asked.path.ends_with(apart) {
                            return Reply::status(504, "Too large resource version");
                        }
                    }
                    Reply::json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": []}))
                }
            })
            .await;
            let mut notes = Vec::new();
            read(&server.client(), false, &mut notes).await.unwrap();
            notes
        };
        assert_eq!(notes(2, "none").await, [] as [&str; 0], "read anew until one is there");
        assert_eq!(notes(0, "/services").await, [NOT_ONE_PICTURE]);
        assert_eq!(notes(9, "none").await, [NOT_ONE_PICTURE], "read as it is");
    }

    #[tokio::test]
    async fn a_cluster_without_device_classes_is_like_any_other() {
        let (cluster, notes) = cluster("/apis/resource.k8s.io/v1/deviceclasses", 404).await;
        assert!(cluster.is_ok() && notes.len() == 1, "{notes:?}");
    }

    /// Of a pod with claims it is not said that they are missing where this account may not see them, or where there is no such kind.
    #[tokio::test]
    async fn whether_resource_claims_were_read_is_kept() {
        let claims = "/apis/resource.k8s.io/v1/resourceclaims";
        for (path, code, why) in
            [("/none", 404, None), (claims, 404, Some("not_served")), (claims, 403, Some("forbidden"))]
        {
            let (cluster, _) = cluster(path, code).await;
            let cluster = cluster.unwrap();
            let unread = cluster.ledger().devices().unread().map(ToString::to_string);
            assert_eq!((cluster.claims_unread, unread.as_deref()), (why, why), "{path} {code}");
        }
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
