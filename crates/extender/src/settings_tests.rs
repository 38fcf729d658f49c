use super::address::Host;
use super::contents::Contents;
use super::settings::*;
use berth_api as api;
use berth_api::BundleKind::{ConfigMap, Secret as SecretKind};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// A Secret that permits `profiles`.
fn secret(profiles: Option<&str>, pairs: &[(&str, &str)]) -> Contents {
    let data: BTreeMap<_, _> = pairs.iter().copied().collect();
    let annotations = profiles.map(|profiles| json!({api::EXTENDER_PROFILES_ANNOTATION: profiles}));
    let value = json!({"metadata": {"annotations": annotations}, "type": "Opaque", "stringData": data});
    Contents::of_secret(serde_json::from_value(value).unwrap())
}

#[test]
fn a_spec_becomes_settings() {
    let settings = Settings::compile(&spec(json!({})), "prof", &nothing).unwrap();
    assert_eq!(settings.endpoint.url.to_string(), "https://ext.example.com:8443/scheduler");
    assert_eq!((settings.form, settings.concurrency, settings.skip_verify), (api::NodePayload::Names, 32, false));
    assert_eq!(settings.open_for, Duration::from_secs(5));
    assert_eq!(settings.verbs.keys().copied().collect::<Vec<_>>(), [Verb::Filter, Verb::Prioritize]);
    assert_eq!(settings.verbs[&Verb::Filter].timeout, Duration::from_secs(2));
    assert_eq!(settings.verbs[&Verb::Prioritize].timeout, Duration::from_secs(5));
    assert_eq!(settings.credentials, Credentials::default());
}

#[test]
fn a_service_has_the_name_that_its_certificate_has() {
    let service = json!({"service": {"name": "ext", "namespace": "gpu", "port": 8443, "path": "/v1/"}});
    let settings =
        Settings::compile(&spec(json!({"endpoint": service, "nodePayload": "Full"})), "prof", &nothing).unwrap();
    let url = &settings.endpoint.url;
    assert_eq!(url.host, Host::Name("ext.gpu.svc".to_owned()));
    assert_eq!((url.scheme, &*url.path), (api::Scheme::Https, "/v1"));
    assert_eq!(url.authority(), "ext.gpu.svc:8443");
    assert_eq!((&*url.to_string(), settings.form), ("https://ext.gpu.svc:8443/v1", api::NodePayload::Full));
}

#[test]
fn references_are_read_and_what_is_missing_is_named() {
    let spec = spec(json!({
        "tls": {"caBundleRef": {"kind": "ConfigMap", "name": "ca"}, "clientCertRef": {"name": "pair"}},
        "auth": {"bearerTokenRef": {"name": "tok", "key": "token"}},
    }));
    assert_eq!(references(&spec), [(ConfigMap, "ca"), (SecretKind, "pair"), (SecretKind, "tok")]);
    let data = |pairs: &[(&str, &str)]| Some(secret(Some("prof"), pairs));
    let all = move |kind, name: &str| match (kind, name) {
        (ConfigMap, "ca") => data(&[("ca.crt", "CA")]),
        (SecretKind, "pair") => data(&[("tls.crt", "CRT"), ("tls.key", "KEY")]),
        (SecretKind, "tok") => data(&[("token", " abc\n")]),
        _ => None,
    };
    let credentials = Settings::compile(&spec, "prof", &all).unwrap().credentials;
    assert_eq!(credentials.authorities.as_deref(), Some("CA"));
    assert_eq!(credentials.token.unwrap().expose_secret(), "abc");
    assert_eq!(credentials.client.unwrap().1.expose_secret(), "KEY");

    let without = |missing: &'static str| {
        let lookup = move |kind, name: &str| if name == missing { None } else { all(kind, name) };
        Settings::compile(&spec, "prof", &lookup).unwrap_err().to_string()
    };
    assert!(without("ca").contains("extender gpu: tls.caBundleRef: ConfigMap ca is not in the operator's namespace"));
    assert!(without("pair").contains("tls.clientCertRef: Secret pair"));
    assert!(without("tok").contains("auth.bearerTokenRef: Secret tok"));
    let no_key = move |kind, name: &str| if name == "tok" { data(&[("other", "x")]) } else { all(kind, name) };
    let error = Settings::compile(&spec, "prof", &no_key).unwrap_err().to_string();
    assert!(error.contains("Secret tok has no text under the key token"), "{error}");
}

#[test]
fn an_invalid_endpoint_is_refused_with_its_cause() {
    for (endpoint, word) in [
        (json!({"url": "https://user@ext.example.com"}), "endpoint.url: a URL has no user"),
        (json!({"url": "https://0x7f.1/"}), "endpoint.url: the host of a URL"),
        (json!({}), "give either url or service"),
    ] {
        let error = Settings::compile(&spec(json!({"endpoint": endpoint})), "prof", &nothing).unwrap_err();
        assert_eq!(error.extender(), "gpu");
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// A profile must not read out what its namespace holds for others.
#[test]
fn secrets_that_do_not_permit_the_profile_are_all_named() {
    let spec = spec(json!({
        "tls": {"caBundleRef": {"kind": "Secret", "name": "ca"}, "clientCertRef": {"name": "pair"}},
        "auth": {"bearerTokenRef": {"name": "pair", "key": "token"}},
    }));
    let error = |ca: Option<&str>, pair: Option<&str>| {
        let lookup = |_, name: &str| {
            let permitted = if name == "ca" { ca } else { pair };
            Some(secret(permitted, &[("ca.crt", "CA"), ("tls.crt", "CRT"), ("tls.key", "KEY"), ("token", "abc")]))
        };
        Settings::compile(&spec, "prof", &lookup).err().map(|error| error.to_string())
    };
    assert_eq!(error(Some("prof"), Some("prof")), None);
    let both = error(None, Some("other")).unwrap();
    let ca = "Secret ca does not permit profile prof to use it: kubectl annotate secret ca --overwrite \
              scheduling.berth.dev/extender-profiles=prof";
    let pair = "Secret pair does not permit profile prof to use it: kubectl annotate secret pair --overwrite \
                scheduling.berth.dev/extender-profiles=other,prof";
    assert_eq!(both, format!("extender gpu: {ca}; {pair}"));
    assert_eq!(error(Some("prof"), None).unwrap().matches("Secret pair").count(), 1);
}
