//! The addresses of the API server, which no profile may name as an extender's.

use super::address::{Host, Url};
use super::endpoints::SliceList;
use berth_cluster::send::Call;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// The Service `default/kubernetes`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Service {
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
}

/// The addresses behind `server` (the URL we reach it by), and those of the Service `default/kubernetes` and of its
/// endpoints. Addresses that cannot be read are left out, and logged.
pub async fn api_server_addresses(kube: &kube::Client, server: &str) -> Vec<IpAddr> {
    let mut found = BTreeSet::new();
    match Url::parse(server).map(|url| (url.host, url.port)) {
        Ok((Host::Address(address), _)) => drop(found.insert(address)),
        Ok((Host::Name(name), port)) => {
            let asked = tokio::time::timeout(READ_TIMEOUT, tokio::net::lookup_host((name.as_str(), port)));
            if let Ok(Ok(addresses)) = asked.await {
                found.extend(addresses.map(|a| a.ip()));
            } else {
                // We are connected to the server: the name may be one that only the client's resolver knows.
                tracing::warn!(%server, "addresses of the API server not found");
            }
        }
        Err(error) => tracing::warn!(%server, %error, "URL of the API server not understood"),
    }
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes";
    let (service, slices) = tokio::join!(
        get::<Service>(kube, "/api/v1/namespaces/default/services/kubernetes"),
        get::<SliceList>(kube, slices)
    );
    found.extend(service.spec.cluster_ips.iter().filter_map(|ip| ip.parse::<IpAddr>().ok()));
    found.extend(slices.addresses());
    found.into_iter().collect()
}

async fn get<T: serde::de::DeserializeOwned + Default>(kube: &kube::Client, path: &str) -> T {
    let read = match Call::get(path.to_owned()).send(kube, READ_TIMEOUT).await {
        Ok(answer) if answer.is_success() => serde_json::from_slice(&answer.body).map_err(|e| e.to_string()),
        Ok(answer) => Err(answer.message()),
        Err(e) => Err(e.to_string()),
    };
    read.unwrap_or_else(|error| {
        tracing::warn!(path, error, "addresses of the API server not read");
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Asked, Reply, Scripted};
    use serde_json::json;

    #[tokio::test]
    async fn all_ways_to_the_api_server_are_known() {
        let api = Scripted::start(|asked: Asked| async move {
            if asked.path.ends_with("/services/kubernetes") {
                Reply::json(200, json!({"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"]}}))
            } else {
                assert!(asked.query.ends_with("%3Dkubernetes"), "{}", asked.query);
                let endpoints = json!([{"addresses": ["172.18.0.2"]}, {"addresses": ["172.18.0.3"], "conditions": {"ready": false}}]);
                Reply::json(200, json!({"items": [{"ports": [{"name": "https", "port": 6443}], "endpoints": endpoints}]}))
            }
        })
        .await;
        let found = api_server_addresses(&api.client(), "https://192.168.1.1:6443").await;
        let want = ["10.96.0.1", "172.18.0.2", "172.18.0.3", "192.168.1.1", "fd00::1"];
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_left_out() {
        let api = Scripted::start(|asked: Asked| async move { Reply::status(403, &asked.path) }).await;
        let found = api_server_addresses(&api.client(), "https://192.168.1.1:6443").await;
        assert_eq!(found, ["192.168.1.1".parse::<IpAddr>().unwrap()]);
        assert!(api_server_addresses(&api.client(), "junk").await.is_empty());
    }
}
