use super::address::{Host, Scheme};
use super::settings::*;
use super::wire::NodeForm;
use berth_api as api;
use berth_api::BundleKind::{ConfigMap, Secret as SecretKind};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::time::Duration;

fn spec(change: Value) -> api::Extender {
    let mut value = json!({"name": "gpu", "endpoint": {"url": "https://ext.example.com:8443/scheduler/"},
        "verbs": {"filter": {"path": "filter", "timeout": "2s"}, "prioritize": {"path": "prio"}}});
    for (key, member) in change.as_object().unwrap() {
        value[key] = member.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn nothing(_: api::BundleKind, _: &str) -> Option<Contents> {
    None
}

#[test]
fn a_spec_becomes_settings() {
    let settings = Settings::compile(&spec(json!({})), &nothing).unwrap();
    assert_eq!(&*settings.url, "https://ext.example.com:8443/scheduler");
    assert_eq!((settings.form, settings.concurrency, settings.skip_verify), (NodeForm::Names, 32, false));
    assert_eq!(settings.open_for, Duration::from_secs(5));
    assert_eq!(settings.verbs.keys().copied().collect::<Vec<_>>(), [Verb::Filter, Verb::Prioritize]);
    assert_eq!(settings.verbs[&Verb::Filter].timeout, Duration::from_secs(2));
    assert_eq!(settings.verbs[&Verb::Prioritize].timeout, Duration::from_secs(5));
    assert_eq!(settings.credentials, Credentials::default());
}

#[test]
fn a_service_has_the_name_that_its_certificate_has() {
    let service = json!({"service": {"name": "ext", "namespace": "gpu", "port": 8443, "path": "/v1/"}});
    let settings = Settings::compile(&spec(json!({"endpoint": service, "nodePayload": "Full"})), &nothing).unwrap();
    assert_eq!(settings.endpoint.host(), Host::Name("ext.gpu.svc".to_owned()));
    assert_eq!((settings.endpoint.scheme(), settings.endpoint.path()), (Scheme::Https, "/v1"));
    assert_eq!(settings.endpoint.authority(), "ext.gpu.svc:8443");
    assert_eq!((&*settings.url, settings.form), ("https://ext.gpu.svc:8443/v1", NodeForm::Full));
}

#[test]
fn references_are_read_and_what_is_missing_is_named() {
    let spec = spec(json!({
        "tls": {"caBundleRef": {"kind": "ConfigMap", "name": "ca"}, "clientCertRef": {"name": "pair"}},
        "auth": {"bearerTokenRef": {"name": "tok", "key": "token"}},
    }));
    assert_eq!(references(&spec), [(ConfigMap, "ca"), (SecretKind, "pair"), (SecretKind, "tok")]);
    let data = |pairs: &[(&str, &str)]| {
        let texts = pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Some(Contents::new(None, Some(texts)))
    };
    let all = move |kind, name: &str| match (kind, name) {
        (ConfigMap, "ca") => data(&[("ca.crt", "CA")]),
        (SecretKind, "pair") => data(&[("tls.crt", "CRT"), ("tls.key", "KEY")]),
        (SecretKind, "tok") => data(&[("token", " abc\n")]),
        _ => None,
    };
    let credentials = Settings::compile(&spec, &all).unwrap().credentials;
    assert_eq!(credentials.authorities.as_deref(), Some("CA"));
    assert_eq!(credentials.token.unwrap().expose_secret(), "abc");
    assert_eq!(credentials.client.unwrap().1.expose_secret(), "KEY");

    let without = |missing: &'static str| {
        let lookup = move |kind, name: &str| if name == missing { None } else { all(kind, name) };
        Settings::compile(&spec, &lookup).unwrap_err().to_string()
    };
    assert!(without("ca").contains("extender gpu: tls.caBundleRef: ConfigMap ca is not in the operator's namespace"));
    assert!(without("pair").contains("tls.clientCertRef: Secret pair"));
    assert!(without("tok").contains("auth.bearerTokenRef: Secret tok"));
    let no_key = move |kind, name: &str| if name == "tok" { data(&[("other", "x")]) } else { all(kind, name) };
    let error = Settings::compile(&spec, &no_key).unwrap_err().to_string();
    assert!(error.contains("Secret tok has no text under the key token"), "{error}");
}

#[test]
fn an_invalid_endpoint_is_refused_with_its_cause() {
    for (endpoint, word) in [
        (json!({"url": "https://user@ext.example.com"}), "endpoint.url: a URL has no user"),
        (json!({"url": "https://0x7f.1/"}), "endpoint.url: the host of a URL"),
        (json!({}), "give either url or service"),
    ] {
        let error = Settings::compile(&spec(json!({"endpoint": endpoint})), &nothing).unwrap_err();
        assert_eq!(error.extender(), "gpu");
        assert!(error.to_string().contains(word), "{error}");
    }
}
