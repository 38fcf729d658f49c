//! Names and Services made addresses: looked up once, each checked.

use super::address::{AddressPolicy, Url};
use super::connector::tcp;
use super::resolve::{Lookup, Net, Resolver, system_lookup};
use super::settings::{Endpoint, ServiceKey};
use super::testing::local;
use berth_core::io::ExtenderErrorKind;
use berth_testing::{Asked, Reply, Scripted};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A resolver's answers, one list a look-up; the last stays.
fn answers(lists: &[&[&str]]) -> (Lookup, Arc<AtomicUsize>) {
    let lists: Vec<Vec<SocketAddr>> =
        lists.iter().map(|list| list.iter().map(|a| SocketAddr::new(a.parse().unwrap(), 443)).collect()).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let lookup: Lookup = Arc::new(move |_, port| {
        let at = count.fetch_add(1, Ordering::SeqCst).min(lists.len() - 1);
        let list = lists[at].iter().map(|a| SocketAddr::new(a.ip(), port)).collect();
        Box::pin(async move { Ok(list) })
    });
    (lookup, asked)
}

fn url(text: &str) -> Endpoint {
    Endpoint { url: Url::parse(text).unwrap(), service: None }
}

fn resolver_of(endpoint: Endpoint, policy: Arc<AddressPolicy>, lookup: Lookup, api: &Scripted) -> Resolver {
    Resolver::new(endpoint, Net { policy, lookup, connector: tcp(), kube: api.client().into() })
}

async fn nobody() -> Scripted {
    Scripted::start(|asked: Asked| async move { Reply::status(404, &asked.path) }).await
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_the_next_moment_is_checked_again_and_refused() {
    let policy = Arc::new(AddressPolicy::new(&["ext.example.com".to_owned()], &[]).unwrap());
    let (lookup, asked) = answers(&[&["10.1.2.3"], &["127.0.0.1"], &["169.254.169.254", "10.1.2.4"], &[]]);
    let api = nobody().await;
    let resolver = resolver_of(url("https://ext.example.com:8443"), policy, lookup, &api);
    assert_eq!(resolver.addresses().await.unwrap(), ["10.1.2.3:8443".parse().unwrap()]);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one look-up gives all that is connected to");
    let failure = resolver.addresses().await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ExtenderErrorKind::Refused, false));
    assert!(failure.error.message.contains("leads to 127.0.0.1, a loopback address"), "{}", failure.error.message);
    assert_eq!(resolver.addresses().await.unwrap(), ["10.1.2.4:8443".parse().unwrap()], "what is allowed is used");
    let failure = resolver.addresses().await.unwrap_err();
    assert!(failure.error.message.contains("has no address that is ready"));
}

#[tokio::test]
async fn addresses_take_turns() {
    let policy = Arc::new(AddressPolicy::default());
    let (lookup, _) = answers(&[&["10.0.0.1", "10.0.0.2", "10.0.0.3"]]);
    let api = nobody().await;
    let resolver = resolver_of(url("https://ext.example.com"), policy, lookup, &api);
    let mut first = Vec::new();
    for _ in 0..4 {
        first.push(resolver.addresses().await.unwrap()[0].ip().to_string());
    }
    assert_eq!(first, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1"]);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_a_connection_that_is_not_made() {
    let api = nobody().await;
    let resolver = resolver_of(url("http://no-such-host.invalid"), Arc::new(local()), system_lookup(), &api);
    let failure = resolver.addresses().await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ExtenderErrorKind::Connection, false));
    assert!(failure.error.message.contains("no-such-host.invalid"), "{}", failure.error.message);
}

fn service() -> Endpoint {
    let service = ServiceKey { namespace: "gpu".to_owned(), name: "ext".to_owned() };
    Endpoint { service: Some(service), ..url("https://ext.gpu.svc:8443") }
}

#[tokio::test]
async fn a_service_resolves_to_its_ready_endpoints_which_are_checked() {
    let api = Scripted::start(|asked: Asked| async move {
        match asked.path.as_str() {
            "/api/v1/namespaces/gpu/services/ext" => {
                Reply::json(200, json!({"spec": {"ports": [{"name": "https", "port": 8443}]}}))
            }
            "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices" => {
                assert!(asked.query.contains("labelSelector=kubernetes.io%2Fservice-name%3Dext"), "{}", asked.query);
                Reply::json(
                    200,
                    json!({"items": [{"ports": [{"name": "https", "port": 9443}], "endpoints": [
                        {"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.9"], "conditions": {"ready": false}},
                        {"addresses": ["169.254.169.254"]}, {"addresses": ["10.96.0.1"]}]}]}),
                )
            }
            other => panic!("{other}"),
        }
    })
    .await;
    let policy =
        Arc::new(AddressPolicy::default().with_api_servers(["10.96.0.1".parse().unwrap()].into_iter().collect()));
    let resolver = resolver_of(service(), policy, system_lookup(), &api);
    for _ in 0..3 {
        assert_eq!(resolver.addresses().await.unwrap(), ["10.0.0.1:9443".parse().unwrap()]);
    }
    assert_eq!(api.requests().len(), 2, "what was just read is not read again");
    resolver.forget().await;
    resolver.addresses().await.unwrap();
    assert_eq!(api.requests().len(), 4);
}

#[tokio::test]
async fn a_missing_service_or_port_is_reported() {
    let api = nobody().await;
    let resolver = resolver_of(service(), Arc::new(local()), system_lookup(), &api);
    let message = resolver.addresses().await.unwrap_err().error.message;
    assert!(message.contains("Service gpu/ext") && message.contains("/services/ext"), "{message}");
    let api = Scripted::start(|_: Asked| async { Reply::json(200, json!({"spec": {"ports": [{"port": 80}]}})) }).await;
    let resolver = resolver_of(service(), Arc::new(local()), system_lookup(), &api);
    let message = resolver.addresses().await.unwrap_err().error.message;
    assert!(message.contains("Service gpu/ext has no TCP port 8443: correct endpoint.service.port"), "{message}");
}

#[tokio::test]
async fn a_silent_name_server_takes_one_look_up_however_many_give_up() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, answer) = (asked.clone(), Arc::new(tokio::sync::Notify::new()));
    let waits = answer.clone();
    let lookup: Lookup = Arc::new(move |_, port| {
        count.fetch_add(1, Ordering::SeqCst);
        let waits = waits.clone();
        Box::pin(async move {
            waits.notified().await;
            Ok(vec![SocketAddr::new("10.0.0.1".parse().unwrap(), port)])
        })
    });
    let api = nobody().await;
    let resolver = resolver_of(url("https://ext.example.com"), Arc::default(), lookup, &api);
    for _ in 0..5 {
        let hasty = tokio::time::timeout(std::time::Duration::from_millis(10), resolver.addresses());
        assert!(hasty.await.is_err());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    answer.notify_one();
    assert_eq!(resolver.addresses().await.unwrap().len(), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    answer.notify_one();
    resolver.addresses().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "the next connection looks again");
}
