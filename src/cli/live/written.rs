//! Objects of a live cluster as they are written: the few that a question is about.

use super::SourceArgs;
use crate::cli::inputs::{Named, PodSource, Wanted};
use anyhow::anyhow;
use berth_cluster::client;
use kube::api::{GetParams, ListParams};
use kube::{Client, core::Request};
use serde_json::Value;
use std::collections::BTreeSet;

/// Objects of one page.
const PAGE: u32 = 500;

const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

/// Reads what is `wanted` from the cluster that `args` name. It is read after everything else, and so may be newer.
pub(super) fn read(args: &SourceArgs, wanted: &Wanted) -> anyhow::Result<Vec<Value>> {
    crate::cli::event_loop("the connection")?.block_on(async {
        let config = args.live.cluster.configure().await?;
        let (client, _) = client::reader(config).await.map_err(|error| anyhow!("{error}"))?;
        of(&client, wanted).await
    })
}

async fn of(client: &Client, wanted: &Wanted) -> anyhow::Result<Vec<Value>> {
    let mut written = Vec::new();
    for node in &wanted.on_nodes {
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        written.extend(list(client, "/api/v1/pods", "Pod", on_node).await.map_err(said("pods"))?);
    }
    if wanted.budgets {
        match list(client, BUDGETS, "PodDisruptionBudget", ListParams::default()).await {
            Ok(budgets) => written.extend(budgets),
            // The reader of the cluster has said so, and goes on without.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(said("poddisruptionbudgets.policy")(error)),
        }
    }
    if let Some(like) = &wanted.like {
        let found = workload(client, like).await.map_err(said(like.kind.resource()))?;
        if let Some(object) = found.last() {
            let templates = claim_templates(client, &like.namespace, object).await;
            written.extend(templates.map_err(said("resourceclaimtemplates.resource.k8s.io"))?);
        }
        written.extend(found);
    }
    Ok(written)
}

fn said(resource: &str) -> impl Fn(kube::Error) -> anyhow::Error {
    move |error| anyhow!("{resource}: {}; it needs the rights get and list on {resource}", client::root_cause(&error))
}

/// The object that `named` names, and pods that its selector may select before it; nothing where it is not there.
async fn workload(client: &Client, named: &Named) -> kube::Result<Vec<Value>> {
    let Named { kind, namespace, name } = named;
    let root = if kind.api_version() == "v1" { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
    let path = format!("{root}/namespaces/{namespace}/{}", kind.resource());
    let Some(mut object) = get(client, path, name, &[404]).await? else { return Ok(Vec::new()) };
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name().into();
    let mut written = Vec::new();
    if *kind != PodSource::Pod {
        let labels = object["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten();
        let labels: Vec<String> =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        let selected = ListParams::default().labels(&labels.join(","));
        written = list(client, &format!("/api/v1/namespaces/{namespace}/pods"), "Pod", selected).await?;
    }
    written.push(object);
    Ok(written)
}

/// The templates of the claims that the next pods of a workload get, as far as they are there and this account may get them: the answer may
/// do without, and whoever misses one says so.
async fn claim_templates(client: &Client, namespace: &str, workload: &Value) -> kube::Result<Vec<Value>> {
    let entries = workload["spec"]["template"]["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let names: BTreeSet<&str> = entries.filter_map(|entry| entry["resourceClaimTemplateName"].as_str()).collect();
    let mut templates = Vec::new();
    for name in names {
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates");
        if let Some(mut template) = get(client, path, name, &[403, 404]).await? {
            template["kind"] = "ResourceClaimTemplate".into();
            templates.push(template);
        }
    }
    Ok(templates)
}

/// The object of this name at `path`; `None` where the API server answers with one of these codes.
async fn get(client: &Client, path: String, name: &str, without: &[u16]) -> kube::Result<Option<Value>> {
    let request = Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    match client.request(request).await {
        Err(kube::Error::Api(status)) if without.contains(&status.code) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Every object at `path` that `params` select, page by page, each with its kind.
async fn list(client: &Client, path: &str, kind: &str, params: ListParams) -> kube::Result<Vec<Value>> {
    let mut objects = Vec::new();
    let mut token = None;
    loop {
        let params = ListParams { limit: Some(PAGE), continue_token: token, ..params.clone() };
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = client.request(request).await?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            objects.extend(items.into_iter().filter(Value::is_object).map(|mut item| {
                item["kind"] = kind.into();
                item["apiVersion"] = page["apiVersion"].clone();
                item
            }));
        }
        token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(objects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Reply, Scripted};
    use serde_json::json;

    #[tokio::test]
    async fn only_what_is_wanted_is_read() {
        let server = Scripted::start(|asked| async move {
            match &*asked.path {
                "/apis/apps/v1/namespaces/ci/deployments/web" => Reply::json(
                    200,
                    json!({"metadata": {"name": "web", "namespace": "ci"},
                        "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
                ),
                path if path.ends_with("/none") => Reply::status(404, "no"),
                "/apis/apps/v1/namespaces/ci/deployments/train" => {
                    let entries = json!([{"name": "a", "resourceClaimTemplateName": "one"},
                        {"name": "b", "resourceClaimTemplateName": "none"}, {"name": "c", "resourceClaimName": "d"}]);
                    let template = json!({"spec": {"resourceClaims": entries}});
                    let selector = json!({"matchLabels": {"app": "train"}});
                    Reply::json(
                        200,
                        json!({"metadata": {"name": "train", "namespace": "ci"},
                        "spec": {"selector": selector, "template": template}}),
                    )
                }
                BUDGETS => Reply::status(403, "no"),
                _ => Reply::json(
                    200,
                    json!({"apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "p"}}]}),
                ),
            }
        })
        .await;
        let named = |name: &str| Named { kind: PodSource::Deployment, namespace: "ci".into(), name: name.into() };
        let like = |name: &str| Wanted { like: Some(named(name)), ..Wanted::default() };
        let written = of(&server.client(), &like("web")).await.unwrap();
        assert_eq!(written[0], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
        assert_eq!((&written[1]["kind"], written.len()), (&json!("Deployment"), 2));
        assert!(server.requests().iter().any(|asked| asked.query.contains("labelSelector=app%3Dweb")));
        assert_eq!(of(&server.client(), &like("none")).await.unwrap(), Vec::<Value>::new());

        let written = of(&server.client(), &like("train")).await.unwrap();
        let kinds: Vec<_> = written.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ResourceClaimTemplate", "Pod", "Deployment"], "its pod may have ended");

        let on_a = Wanted { on_nodes: vec!["a".into()], budgets: true, like: None };
        assert_eq!(of(&server.client(), &on_a).await.unwrap().len(), 1, "budgets may not be read");
        assert!(server.requests().iter().any(|asked| asked.query.contains("fieldSelector=spec.nodeName%3Da")));
    }
}
