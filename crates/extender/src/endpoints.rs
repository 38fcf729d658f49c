//! Addresses of servers in the cluster, from Services and their EndpointSlices: those that answer for an extender's Service,
//! and those of the API server, which no profile may name as an extender's.

use super::READ_TIMEOUT;
use super::address::{ApiServers, Host, Url};
use berth_cluster::send::Call;
use berth_cluster::transport::Transport;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A Service and at most `limit` of its EndpointSlices; all if that is 0.
pub(super) async fn read_service(
    kube: &Transport,
    namespace: &str,
    name: &str,
    limit: u32,
) -> (Result<Service, String>, Result<List<EndpointSlice>, String>) {
    let selector = format!("kubernetes.io%2Fservice-name%3D{name}");
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}");
    tokio::join!(
        get(kube, format!("/api/v1/namespaces/{namespace}/services/{name}")),
        get(kube, format!("{slices}&limit={limit}"))
    )
}

async fn get<T: serde::de::DeserializeOwned>(kube: &Transport, path: String) -> Result<T, String> {
    let answer = kube.send(&Call::get(path), READ_TIMEOUT).await.map_err(|e| e.to_string())?;
    if !answer.is_success() {
        return Err(answer.message());
    }
    serde_json::from_slice(&answer.body).map_err(|e| e.to_string())
}

fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// The addresses of a Service's ready endpoints for one of its ports, sorted and without duplicates; `None` if the Service has no such TCP port.
///
/// An endpoint without a `ready` condition is ready, as the API defines it. FQDN slices give no addresses.
pub(super) fn ready_addresses(service: &Service, slices: &List<EndpointSlice>, port: u16) -> Option<Vec<SocketAddr>> {
    let is_tcp = |protocol: Option<&String>| protocol.is_none_or(|p| p == "TCP");
    let is_wanted = |p: &&ServicePort| p.port == i32::from(port) && is_tcp(p.protocol.as_ref());
    let wanted = service.spec.as_ref()?.ports.iter().flatten().find(is_wanted)?.name.as_deref().unwrap_or_default();
    let mut found = BTreeSet::new();
    for slice in &slices.items {
        let named = |p: &&EndpointPort| p.name.as_deref().unwrap_or_default() == wanted && is_tcp(p.protocol.as_ref());
        let target = slice.ports.iter().flatten().find(named).and_then(|p| u16::try_from(p.port?).ok());
        let Some(target) = target else { continue };
        for endpoint in endpoints(slice) {
            let is_ready = endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true);
            // The addresses of one endpoint stand for the same server: the first is enough.
            let address = endpoint.addresses.first().and_then(|a| a.parse::<IpAddr>().ok());
            found.extend(address.filter(|_| is_ready).map(|address| SocketAddr::new(address, target)));
        }
    }
    Some(found.into_iter().collect())
}

/// Between two reads of the API server's addresses: a control plane rarely changes, and a new server takes longer to serve.
const AGAIN: Duration = Duration::from_secs(60);

/// As [`AGAIN`], while the addresses are unknown: until then no extender is asked.
const AGAIN_UNKNOWN: Duration = Duration::from_secs(5);

/// Reads the addresses behind `server` (the URL we reach it by), and those of the Service `default/kubernetes` and of its endpoints
/// into `servers`. What cannot be read stays as it was known: the Service and its endpoints, and apart from them the addresses
/// behind the name.
pub async fn read_api_servers(servers: &ApiServers, kube: &Transport, server: &str) {
    let (reported, named) = tokio::join!(service_addresses(kube), named_addresses(server));
    if let Some(named) = named {
        servers.set_named(named);
    }
    match reported {
        Ok(reported) => servers.set(reported),
        Err(error) => tracing::warn!(error, "addresses of the API server not read: no extender may have one of them"),
    }
}

/// Reads the API server's addresses until `stop`, every [`AGAIN`], or [`AGAIN_UNKNOWN`] while they are unknown.
pub async fn follow_api_servers(servers: ApiServers, kube: Transport, server: String, stop: CancellationToken) {
    follow(servers, kube, server, stop, pause).await;
}

async fn follow(
    servers: ApiServers,
    kube: Transport,
    server: String,
    stop: CancellationToken,
    pause: fn(&ApiServers) -> Duration,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause(&servers)) => read_api_servers(&servers, &kube, &server).await,
        }
    }
}

fn pause(servers: &ApiServers) -> Duration {
    if servers.are_unknown() { AGAIN_UNKNOWN } else { AGAIN }
}

async fn service_addresses(kube: &Transport) -> Result<BTreeSet<IpAddr>, String> {
    // All slices: others in the namespace must not crowd out the API server's own.
    let (service, slices) = read_service(kube, "default", "kubernetes", 0).await;
    let (service, slices) = (service?, slices?);
    let cluster_ips = service.spec.into_iter().filter_map(|spec| spec.cluster_ips).flatten();
    let endpoints = slices.items.iter().flat_map(endpoints).flat_map(|endpoint| &endpoint.addresses).cloned();
    Ok(cluster_ips.chain(endpoints).filter_map(|address| address.parse::<IpAddr>().ok()).collect())
}

/// The addresses behind `server`; `None` if they are not found now.
async fn named_addresses(server: &str) -> Option<BTreeSet<IpAddr>> {
    let Url { host, port, .. } = Url::parse(server)
        .inspect_err(|error| tracing::debug!(%server, %error, "URL of the API server not understood"))
        .ok()?;
    let name = match host {
        Host::Address(address) => return Some([address].into()),
        Host::Name(name) => name,
    };
    let asked = tokio::time::timeout(READ_TIMEOUT, tokio::net::lookup_host((name.as_str(), port)));
    if let Ok(Ok(addresses)) = asked.await {
        return Some(addresses.map(|a| a.ip()).collect());
    }
    // We are connected to the server: the name may be one that only the client's resolver, or its proxy, knows.
    tracing::debug!(%server, "addresses behind the name of the API server not found");
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Asked, Reply, Scripted, until};
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn addresses(service: Value, slices: Value, port: u16) -> Option<Vec<String>> {
        let service = serde_json::from_value(service).unwrap();
        let slices = serde_json::from_value(slices).unwrap();
        Some(ready_addresses(&service, &slices, port)?.iter().map(ToString::to_string).collect())
    }

    fn service() -> Value {
        json!({"metadata": {"name": "ext"}, "spec": {"type": "ClusterIP", "ports": [
            {"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP"},
            {"name": "https", "port": 443, "targetPort": "https"},
            {"name": "dns", "port": 53, "protocol": "UDP"}]}})
    }

    #[test]
    fn ready_endpoints_of_the_named_port_answer() {
        let slices = json!({"metadata": {}, "items": [
            {"addressType": "IPv4", "metadata": {"name": "ext-a"}, "ports": [{"name": "metrics", "port": 9091}, {"name": "https", "port": 8443, "protocol": "TCP"}],
             "endpoints": [
                {"addresses": ["10.0.0.2"], "conditions": {"ready": true, "serving": true}, "targetRef": {"kind": "Pod"}},
                {"addresses": ["10.0.0.1", "10.0.0.99"]},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.0.0.4"], "conditions": {"ready": null}}]},
            {"addressType": "IPv4", "ports": [{"name": "https", "port": 9443}], "endpoints": [{"addresses": ["10.0.0.5"], "conditions": {}}, {"addresses": ["10.0.0.5"]}]},
            {"addressType": "IPv6", "ports": [{"name": "https", "port": 8443}], "endpoints": [{"addresses": ["fd00::1"]}]},
            {"addressType": "FQDN", "ports": [{"name": "https", "port": 8443}], "endpoints": [{"addresses": ["evil.example.com"]}]},
            {"addressType": "IPv4", "ports": [{"name": "https", "port": null}], "endpoints": [{"addresses": ["10.0.0.6"]}]},
            {"addressType": "IPv4", "ports": null, "endpoints": null},
            {"addressType": "IPv4", "ports": [{"name": "https", "port": 8443, "protocol": "UDP"}], "endpoints": [{"addresses": ["10.0.0.7"]}]}]});
        let want = ["10.0.0.1:8443", "10.0.0.2:8443", "10.0.0.4:8443", "10.0.0.5:9443", "[fd00::1]:8443"];
        assert_eq!(addresses(service(), slices, 443).unwrap(), want);
    }

    #[test]
    fn a_single_port_needs_no_name() {
        let service = json!({"spec": {"ports": [{"port": 80}]}});
        let slices =
            json!({"items": [{"ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"]}]}]});
        assert_eq!(addresses(service, slices, 80).unwrap(), ["10.0.0.1:8080"]);
    }

    #[test]
    fn a_port_that_is_not_there_is_told_from_no_endpoints() {
        assert_eq!(addresses(service(), json!({"items": []}), 8443), None);
        assert_eq!(addresses(service(), json!({"items": []}), 53), None);
        assert_eq!(addresses(json!({"spec": {"type": "ExternalName"}}), json!({}), 443), None);
        assert_eq!(addresses(service(), json!({"items": null}), 443), Some(vec![]));
    }

    #[tokio::test]
    async fn all_ways_to_the_api_server_are_known() {
        let api = Scripted::start(|asked: Asked| async move {
            if asked.path.ends_with("/services/kubernetes") {
                Reply::json(200, json!({"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"]}}))
            } else {
                assert!(asked.query.ends_with("%3Dkubernetes&limit=0"), "{}", asked.query);
                let endpoints = json!([{"addresses": ["172.18.0.2"]}, {"addresses": ["172.18.0.3"], "conditions": {"ready": false}}]);
                Reply::json(200, json!({"items": [{"ports": [{"name": "https", "port": 6443}], "endpoints": endpoints}]}))
            }
        })
        .await;
        let servers = ApiServers::default();
        read_api_servers(&servers, &api.client().into(), "https://192.168.1.1:6443").await;
        assert!(!servers.are_unknown());
        for address in ["10.96.0.1", "172.18.0.2", "172.18.0.3", "192.168.1.1", "fd00::1", "::ffff:172.18.0.3"] {
            assert!(servers.contain(address.parse().unwrap()), "{address}");
        }
        assert!(!servers.contain("172.18.0.4".parse().unwrap()));
    }

    /// A name server that is away for a moment must not open the way to the API server.
    #[tokio::test]
    async fn a_look_up_that_fails_leaves_what_was_known_behind_the_name() {
        let api = Scripted::start(|_: Asked| async move { Reply::json(200, json!({"items": []})) }).await;
        let (servers, behind) = (ApiServers::default(), "192.168.1.1".parse().unwrap());
        read_api_servers(&servers, &api.client().into(), "https://192.168.1.1:6443").await;
        assert!(servers.contain(behind));
        // No name server knows this name (RFC 6761).
        read_api_servers(&servers, &api.client().into(), "https://api.invalid:6443").await;
        assert!(servers.contain(behind) && !servers.are_unknown());
        read_api_servers(&servers, &api.client().into(), "https://192.168.1.2:6443").await;
        assert!(!servers.contain(behind), "found anew, they replace what was known");
    }

    #[tokio::test]
    async fn what_cannot_be_read_leaves_what_was_known() {
        let refused = Scripted::start(|asked: Asked| async move { Reply::status(403, &asked.path) }).await;
        let servers = ApiServers::default();
        read_api_servers(&servers, &refused.client().into(), "https://192.168.1.1:6443").await;
        assert!(servers.are_unknown(), "a part of them would leave the others open");
        let empty = Scripted::start(|_: Asked| async move { Reply::json(200, json!({"items": []})) }).await;
        read_api_servers(&servers, &empty.client().into(), "junk").await;
        assert!(!servers.are_unknown());
        read_api_servers(&servers, &refused.client().into(), "junk").await;
        assert!(!servers.are_unknown());
    }

    /// A control plane is replaced, and at first it does not answer.
    #[tokio::test]
    async fn they_are_read_until_they_are_known_and_again_after_that() {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let api = Scripted::start(move |asked: Asked| {
            let read = counted.fetch_add(usize::from(asked.path.ends_with("/endpointslices")), Ordering::SeqCst);
            async move {
                match read {
                    0..3 => Reply::status(403, "not yet"),
                    3..6 => Reply::json(200, json!({"items": [{"endpoints": [{"addresses": ["172.18.0.2"]}]}]})),
                    _ => Reply::json(200, json!({"items": [{"endpoints": [{"addresses": ["172.18.0.3"]}]}]})),
                }
            }
        })
        .await;
        let (servers, stop) = (ApiServers::default(), CancellationToken::new());
        let pause = |_: &ApiServers| Duration::from_millis(1);
        let following =
            tokio::spawn(follow(servers.clone(), api.client().into(), "junk".to_owned(), stop.clone(), pause));
        until("they are known", || !servers.are_unknown()).await;
        until("the new one is known", || servers.contain("172.18.0.3".parse().unwrap())).await;
        assert!(!servers.contain("172.18.0.2".parse().unwrap()), "it is another's by now");
        stop.cancel();
        following.await.unwrap();
    }

    #[test]
    fn they_are_read_each_minute_and_sooner_while_unknown() {
        let servers = ApiServers::default();
        assert_eq!(pause(&servers), Duration::from_secs(5));
        servers.set([]);
        assert_eq!(pause(&servers), Duration::from_secs(60));
    }
}
