//! Extenders: a server in another language, on upstream's own wire types, asked in the middle of attempts.

use std::path::PathBuf;
use std::process::Command;

use berth_lab::{Extender, ExtenderOptions};
use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::HOME;
use crate::debug::all_that_is_shown;
use crate::objects::{condition, pod_path, wait_event};
use crate::world::World;

/// A world whose profile asks an extender; `spec` changes what the profile says of it.
fn asking(name: &str, nodes: usize, options: &ExtenderOptions<'_>, spec: impl FnOnce(&mut Value)) -> (World, Extender) {
    let world = World::new(name);
    for index in 0..nodes {
        world.node(&index.to_string(), "4", |node| node);
    }
    let extender = world.plane.start_extender(&format!("extender-{name}"), options).unwrap();
    let mut of = extender.spec("ext");
    spec(&mut of);
    world.profile(name, &json!({"extenders": [of]}));
    (world, extender)
}

fn plain(name: &str, nodes: usize, spec: impl FnOnce(&mut Value)) -> (World, Extender) {
    asking(name, nodes, &ExtenderOptions::default(), spec)
}

#[test]
fn an_extender_takes_nodes_out_and_scores_the_others() {
    let (world, extender) = plain("ext-filters", 3, |_| {});
    extender.rule(&json!({"refused": {"ext-filters-0": "no gpu"}, "scores": {"ext-filters-2": 10}})).unwrap();
    world.pod("a", "100m", |_| {});
    assert_eq!(world.bound("a"), "2");
    let (status, _) = world.reason("ExtendersHealthy", "AllHealthy");
    assert_eq!(status, "True");
    let verbs: Vec<Value> = extender.requests().unwrap().iter().map(|request| request["verb"].clone()).collect();
    assert_eq!(verbs, ["filter", "prioritize"]);
    let all = json!({"ext-filters-0": "no gpu", "ext-filters-1": "no gpu", "ext-filters-2": "no gpu"});
    extender.rule(&json!({"refused": all})).unwrap();
    world.pod("b", "100m", |_| {});
    world.says("b", "0/3 nodes are available: 3 no gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.");
    // Nothing in the cluster changes that: it is tried again after its backoff.
    extender.rule(&json!({})).unwrap();
    world.bound("b");
}

#[test]
fn an_extender_that_fails_is_left_alone_and_taken_back() {
    let (world, extender) = plain("ext-broken", 2, |spec| spec["circuitBreaker"] = json!({"openFor": "1s"}));
    extender.rule(&json!({"status": 500, "only": ["filter"]})).unwrap();
    for name in ["a", "b", "c"] {
        world.pod(name, "100m", |_| {});
    }
    let (_, message) = world.reason("ExtendersHealthy", "CircuitOpen");
    assert!(message.starts_with("ext/filter: 5 failures in a row"), "{message}");
    assert!(!world.held("a").is_empty());
    wait_event(world.plane, "default", "ext-broken", "ExtenderCircuitOpen");
    assert_eq!(
        condition(&world.profile_now(), "Ready").unwrap().0,
        "True",
        "it speaks of the extender, not of the profile"
    );
    extender.rule(&json!({})).unwrap();
    for name in ["a", "b", "c"] {
        world.bound(name);
    }
    world.reason("ExtendersHealthy", "AllHealthy");
}

#[test]
fn a_failure_that_is_to_be_ignored_is() {
    let (world, extender) = plain("ext-ignored", 1, |spec| {
        spec["verbs"]["filter"] = json!({"path": "filter", "timeout": "200ms", "failurePolicy": "Ignore"});
        spec["verbs"]["prioritize"] = Value::Null;
        spec["verbs"].as_object_mut().unwrap().remove("prioritize");
    });
    extender.rule(&json!({"delay": "60s"})).unwrap();
    world.pod("a", "100m", |_| {});
    world.bound("a");
    let (_, message) = world.reason("ExtendersHealthy", "Timeout");
    assert!(message.contains("ext/filter"), "{message}");
}

#[test]
fn pods_that_do_not_concern_an_extender_do_not_wait_for_it() {
    let (world, extender) = plain("ext-other", 1, |spec| spec["podSelector"] = json!({"matchLabels": {"gpu": "yes"}}));
    extender.rule(&json!({"delay": "60s"})).unwrap();
    world.pod("gpu", "100m", |pod| pod["metadata"]["labels"]["gpu"] = json!("yes"));
    world.pod("plain", "100m", |_| {});
    world.bound("plain");
    assert!(world.get("gpu")["spec"]["nodeName"].is_null());
}

/// A bind that took effect and was not answered was repeated for ever (kubernetes issue 96579).
#[test]
fn a_bind_by_an_extender_whose_answer_is_lost_is_read_back() {
    let kubeconfig = crate::cluster::shared().plane.kubeconfig.clone();
    let options = ExtenderOptions { kubeconfig: Some(&kubeconfig), ..ExtenderOptions::default() };
    let (world, extender) = asking("ext-binds", 2, &options, |spec| {
        spec["verbs"] = json!({"bind": {"path": "bind", "timeout": "500ms"}});
    });
    world.pod("answered", "100m", |_| {});
    world.bound("answered");
    extender.forget().unwrap();
    extender.rule(&json!({"bindThenHang": true, "delay": "5s"})).unwrap();
    world.pod("lost", "100m", |_| {});
    let node = world.bound("lost");
    world.pod("after", "100m", |_| {});
    world.bound("after");
    let asked = extender.requests().unwrap();
    let of_lost = asked.iter().filter(|request| request["body"]["PodName"] == "lost");
    let nodes: Vec<&str> = of_lost.map(|request| request["body"]["Node"].as_str().unwrap()).collect();
    assert!(!nodes.is_empty() && nodes.iter().all(|asked| *asked == format!("ext-binds-{node}")), "{nodes:?}");
    let bound = world.plane.wait_for("the profile to know", SOON, || {
        let in_flight = world.profile_now()["status"]["pods"]["inFlight"].as_i64();
        Ok((in_flight == Some(0)).then_some(()))
    });
    bound.unwrap();
}

#[test]
fn plain_http_takes_an_option_and_the_refusal_says_which() {
    let world = World::new("ext-refused");
    world.node("0", "4", |node| node);
    let extender = json!({
        "name": "ext",
        "endpoint": {"url": "http://localhost:1/scheduler"},
        "verbs": {"filter": {"path": "filter"}},
    });
    world.profile("ext-refused", &json!({"extenders": [extender]}));
    world.pod("a", "100m", |_| {});
    let message = world.held("a");
    assert!(message.contains("--extender-allow-http localhost"), "{message}");
    world.reason("ExtendersHealthy", "AddressRefused");
}

#[test]
fn an_extender_at_an_address_of_ipv6_is_asked_and_its_profile_binds() {
    let options = ExtenderOptions { address: Some("[::1]:0"), ..ExtenderOptions::default() };
    let (world, extender) = asking("ext-six", 2, &options, |_| {});
    assert!(extender.url.starts_with("http://[::1]:"), "{}", extender.url);
    extender.rule(&json!({"refused": {"ext-six-0": "no gpu"}})).unwrap();
    world.pod("a", "100m", |_| {});
    assert_eq!(world.bound("a"), "1");
    world.reason("ExtendersHealthy", "AllHealthy");
}

#[test]
fn a_slow_extender_of_one_profile_costs_another_nothing() {
    let (world, extender) = plain("ext-slow", 1, |_| {});
    extender.rule(&json!({"delay": "60s"})).unwrap();
    let other = World::with("ext-unbothered", &json!({}), 1);
    for index in 0..10 {
        world.pod(&format!("slow-{index}"), "10m", |_| {});
    }
    for index in 0..10 {
        other.pod(&format!("quick-{index}"), "10m", |_| {});
    }
    for index in 0..10 {
        other.bound(&format!("quick-{index}"));
    }
    assert!(world.get("slow-0")["spec"]["nodeName"].is_null());
}

/// Certificates as a user would make them.
struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    fn make(directory: PathBuf) -> Self {
        std::fs::create_dir(&directory).unwrap();
        let certificates = Self { directory };
        certificates.openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=test-ca");
        for (name, extra) in [("server", "subjectAltName=DNS:ext.example.com"), ("client", "subjectAltName=DNS:berth")]
        {
            std::fs::write(certificates.path("ext.cnf"), extra).unwrap();
            certificates
                .openssl(&format!("req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"));
            certificates.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out {name}.crt -extfile ext.cnf"
            ));
        }
        certificates
    }

    fn openssl(&self, args: &str) {
        let output = Command::new("openssl").args(args.split(' ')).current_dir(&self.directory).output().unwrap();
        assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn tls_with_an_authority_a_client_certificate_and_a_token_that_are_named_by_reference() {
    let certificates = Certificates::make(crate::cluster::shared().plane.dir().join("ext-tls"));
    let (certificate, key, authority) =
        (certificates.path("server.crt"), certificates.path("server.key"), certificates.path("ca.crt"));
    let options = ExtenderOptions {
        tls: Some((&certificate, &key)),
        client_authorities: Some(&authority),
        ..ExtenderOptions::default()
    };
    let (world, _extender) = asking("ext-tls", 1, &options, |spec| {
        spec["tls"] = json!({
            "serverName": "ext.example.com",
            "caBundleRef": {"name": "ext-tls-ca"},
            "clientCertRef": {"name": "ext-tls-client"},
        });
        spec["auth"] = json!({"bearerTokenRef": {"name": "ext-tls-token", "key": "token"}});
    });
    let (status, message) = world.reason("ResolvedRefs", "ConfigMapNotFound");
    assert_eq!(status, "False");
    assert!(message.contains("ConfigMap ext-tls-ca"), "{message}");
    world.pod("a", "100m", |_| {});
    world.held("a");
    let api = &world.plane.api;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ext-tls-ca"},
        "data": {"ca.crt": certificates.text("ca.crt")}});
    api.post(&format!("/api/v1/namespaces/{HOME}/configmaps"), &map).unwrap();
    let secret = |name: &str, kind: &str, data: Value| {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name}, "stringData": data});
        api.post(&format!("/api/v1/namespaces/{HOME}/secrets"), &secret).unwrap();
    };
    let pair = json!({"tls.crt": certificates.text("client.crt"), "tls.key": certificates.text("client.key")});
    secret("ext-tls-client", "kubernetes.io/tls", pair);
    secret("ext-tls-token", "Opaque", json!({"token": "s3cret"}));
    let both = || {
        let (_, message) = world.reason("ResolvedRefs", "SecretNotPermitted");
        Ok(Some(message).filter(|message| message.contains("ext-tls-client") && message.contains("ext-tls-token")))
    };
    let message = world.plane.wait_for("both Secrets to be named", SOON, both).unwrap();
    // As a user does it: the commands in the condition.
    for command in message.split("; ").filter_map(|part| part.split_once("kubectl ")) {
        world.plane.kubectl_ok(&command.1.split(' ').collect::<Vec<_>>()).unwrap();
    }
    world.reason("ResolvedRefs", "ResolvedRefs");
    world.bound("a");
    world.reason("ExtendersHealthy", "AllHealthy");
    assert!(world.plane.api.get(&pod_path("ext-tls", "a")).unwrap()["spec"]["nodeName"].is_string());
    let shown = all_that_is_shown("ext-tls", || {
        let (slow, extender) = plain("ext-delayed", 1, |_| {});
        extender.rule(&json!({"delay": "300ms"})).unwrap();
        slow.pod("a", "100m", |_| {});
        slow.bound("a");
        let log = || std::fs::read_to_string(slow.operator.process.log()).unwrap();
        let is_told =
            || Ok(log().lines().any(|l| l.contains("slow attempt") && l.contains("ext-delayed/a")).then_some(()));
        slow.plane.wait_for("the slow attempt to be told", SOON, is_told).unwrap();
        world.pod("at-debug", "100m", |_| {});
        world.bound("at-debug");
    });
    for said in ["https://", "dump: worker", "dump: node", "node chosen"] {
        assert!(shown.contains(said), "{said} is not shown");
    }
    let key = certificates.text("client.key");
    for secret in ["s3cret", "czNjcmV0", key.lines().nth(1).unwrap()] {
        assert!(!shown.contains(secret), "a secret is shown");
    }
    // Withdrawn, it is used no more.
    let token = format!("/api/v1/namespaces/{HOME}/secrets/ext-tls-token");
    let withdrawn = json!({"metadata": {"annotations": {"scheduling.berth.dev/extender-profiles": "another"}}});
    api.patch(&token, berth_lab::Patch::Merge, &withdrawn).unwrap();
    let (_, message) = world.reason("ResolvedRefs", "SecretNotPermitted");
    assert!(message.ends_with("scheduling.berth.dev/extender-profiles=another,ext-tls"), "{message}");
    world.pod("b", "100m", |_| {});
    assert!(world.held("b").contains("does not permit"), "{}", world.held("b"));
}
