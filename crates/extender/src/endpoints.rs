//! From a Service and its EndpointSlices to the addresses that answer for it.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    spec: ServiceSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    ports: Option<Vec<ServicePort>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct ServicePort {
    name: Option<String>,
    port: u16,
    protocol: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct SliceList {
    items: Option<Vec<Slice>>,
}

impl SliceList {
    /// Every address, ready or not.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let endpoints = self.items.iter().flatten().flat_map(|slice| slice.endpoints.iter().flatten());
        endpoints.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| address.parse().ok())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Slice {
    endpoints: Option<Vec<Endpoint>>,
    ports: Option<Vec<SlicePort>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    addresses: Vec<String>,
    conditions: Option<Conditions>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct SlicePort {
    name: Option<String>,
    port: Option<u16>,
    protocol: Option<String>,
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|p| p == "TCP")
}

/// The addresses of a Service's ready endpoints for one of its ports, sorted and without duplicates; `None` if the Service has no such TCP port.
///
/// An endpoint without a `ready` condition is ready, as the API defines it. FQDN slices give no addresses.
pub fn ready_addresses(service: &Service, slices: &SliceList, port: u16) -> Option<Vec<SocketAddr>> {
    let ports = service.spec.ports.as_deref().unwrap_or_default();
    let wanted = ports.iter().find(|p| p.port == port && is_tcp(p.protocol.as_deref()))?;
    let wanted = wanted.name.as_deref().unwrap_or_default();
    let mut found = BTreeSet::new();
    for slice in slices.items.as_deref().unwrap_or_default() {
        let named = |p: &&SlicePort| p.name.as_deref().unwrap_or_default() == wanted && is_tcp(p.protocol.as_deref());
        let Some(target) = slice.ports.as_deref().unwrap_or_default().iter().find(named).and_then(|p| p.port) else {
            continue;
        };
        for endpoint in slice.endpoints.as_deref().unwrap_or_default() {
            let is_ready = endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true);
            // The addresses of one endpoint stand for the same server: the first is enough.
            let address = endpoint.addresses.first().and_then(|a| a.parse::<IpAddr>().ok());
            found.extend(address.filter(|_| is_ready).map(|address| SocketAddr::new(address, target)));
        }
    }
    Some(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
}
