//! Objects of a live cluster as they are written: the few that a question is about.

use super::SourceArgs;
use crate::cli::inputs::{Named, PodSource, Wanted};
use anyhow::anyhow;
use berth_cluster::client;
use kube::{Client, api::ListParams, core::Request};
use serde_json::Value;

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
        written.extend(workload(client, like).await.map_err(said(like.kind.resource()))?);
    }
    Ok(written)
}

fn said(resource: &str) -> impl Fn(kube::Error) -> anyhow::Error {
    move |error| anyhow!("{resource}: {}; it needs the rights get and list on {resource}", client::root_cause(&error))
}

/// The object that `named` names, pods that its selector may select, and the templates of the claims that its next pods get, as far as they
/// are there; nothing where it is not there itself.
async fn workload(client: &Client, named: &Named) -> kube::Result<Vec<Value>> {
    let Named { kind, namespace, name } = named;
    let root = if kind.api_version() == "v1" { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
    let path = format!("{root}/namespaces/{namespace}/{}", kind.resource());
    let request = Request::new(path).get(name, &kube::api::GetParams::default()).map_err(kube::Error::BuildRequest)?;
    let mut object: Value = match client.request(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        answer => answer?,
    };
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
    if *kind != PodSource::Pod {
        let entries = object["spec"]["template"]["spec"]["resourceClaims"].as_array().into_iter().flatten();
        for template in entries.filter_map(|entry| entry["resourceClaimTemplateName"].as_str()) {
            written.extend(claim_template(client, namespace, template).await?);
        }
    }
    written.push(object);
    Ok(written)
}

async fn claim_template(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<Value>> {
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates");
    let request = Request::new(path).get(name, &kube::api::GetParams::default()).map_err(kube::Error::BuildRequest)?;
    let mut template: Value = match client.request(request).await {
        // The answer may do without it, and whoever misses it says so.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
        answer => answer?,
    };
    template["kind"] = "ResourceClaimTemplate".into();
    Ok(Some(template))
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
        assert_eq!(kinds, ["Pod", "ResourceClaimTemplate", "Deployment"], "its pod may have ended");

        let on_a = Wanted { on_nodes: vec!["a".into()], budgets: true, like: None };
        assert_eq!(of(&server.client(), &on_a).await.unwrap().len(), 1, "budgets may not be read");
        assert!(server.requests().iter().any(|asked| asked.query.contains("fieldSelector=spec.nodeName%3Da")));
    }
}
