//! How an extender is reached: `spec.extenders[]` with all its references resolved.

use super::address::{Host, Url, UrlError};
use super::contents::Contents;
use berth_api::{self as api, NodePayload};
use berth_core::model::Str;
use berth_core::profile::CompiledProfile;
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Filter,
    Prioritize,
    Preempt,
    Bind,
}

impl Verb {
    /// In the order in which an attempt calls them.
    pub const ALL: [Self; 4] = [Self::Filter, Self::Prioritize, Self::Preempt, Self::Bind];

    /// As metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbSettings {
    /// Without a slash before it.
    pub path: String,
    /// For one whole call.
    pub timeout: Duration,
}

/// Where an extender is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What comes before a verb's path. Its host is the name that the server's certificate must have, and of a Service
    /// `<name>.<namespace>.svc`.
    pub url: Url,
    /// Any ready endpoint of this Service is connected to, and not the URL's host.
    pub service: Option<ServiceKey>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub namespace: String,
    pub name: String,
}

/// What an extender's references led to, unchanged from the Secrets and ConfigMaps.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The authorities that the server's certificate is checked against, in PEM form; `None` for the system's.
    pub authorities: Option<String>,
    /// Our certificate chain and private key, in PEM form.
    pub client: Option<(String, SecretString)>,
    /// Our bearer token.
    pub token: Option<SecretString>,
}

/// Secrets have no equality of their own; here it tells whether an extender must be set up anew.
impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.exposed() == other.exposed()
    }
}

impl Eq for Credentials {}

impl Credentials {
    fn exposed(&self) -> [Option<&str>; 4] {
        let (chain, key) = self.client.as_ref().map(|(chain, key)| (chain.as_str(), key.expose_secret())).unzip();
        [self.authorities.as_deref(), chain, key, self.token.as_ref().map(ExposeSecret::expose_secret)]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub name: Str,
    pub endpoint: Endpoint,
    pub verbs: BTreeMap<Verb, VerbSettings>,
    pub form: NodePayload,
    /// Requests under way at most; at least 1.
    pub concurrency: usize,
    /// While a breaker is open, one call is let through this often.
    pub open_for: Duration,
    /// Whether any certificate is accepted.
    pub skip_verify: bool,
    /// The name that the server's certificate must have, if it is not the endpoint's host.
    pub server_name: Option<String>,
    pub credentials: Credentials,
}

/// Why an extender of `spec.extenders[]` cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("extender {extender}: endpoint.url: {source}")]
    Url {
        extender: String,
        #[source]
        source: UrlError,
    },
    #[error("extender {extender}: endpoint: give either url or service")]
    Endpoint { extender: String },
    #[error("extender {extender}: {field}: {kind} {name} is not in the operator's namespace; create it there")]
    NotFound {
        extender: String,
        field: &'static str,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        name: String,
    },
    /// Secrets that this profile may not use.
    #[error("extender {extender}: {why}")]
    NotPermitted {
        extender: String,
        /// Each Secret with its fix.
        why: String,
    },
    /// The object has no text under the key.
    #[error("extender {extender}: {field}: {kind} {name} has no text under the key {key}; add it")]
    KeyMissing { extender: String, field: &'static str, kind: &'static str, name: String, key: String },
    #[error("extender {extender}: {field}: {message}")]
    Certificate { extender: String, field: &'static str, message: String },
}

impl SettingsError {
    pub fn extender(&self) -> &str {
        match self {
            Self::Url { extender, .. }
            | Self::Endpoint { extender }
            | Self::NotFound { extender, .. }
            | Self::NotPermitted { extender, .. }
            | Self::KeyMissing { extender, .. }
            | Self::Certificate { extender, .. } => extender,
        }
    }
}

/// Finds the data of a ConfigMap or Secret of the operator's namespace by kind and name.
pub type Lookup<'a> = &'a dyn Fn(api::BundleKind, &str) -> Option<Contents>;

/// The objects whose data [`Settings::compile`] needs.
pub fn references(spec: &api::Extender) -> Vec<(api::BundleKind, &str)> {
    let tls = spec.tls.as_ref();
    let authorities = tls.and_then(|tls| tls.ca_bundle_ref.as_ref()).map(|r| (r.kind, r.name.as_str()));
    let client = tls.and_then(|tls| tls.client_cert_ref.as_ref()).map(|r| r.name.as_str());
    let token = spec.auth.as_ref().map(|auth| auth.bearer_token_ref.name.as_str());
    let secrets = client.into_iter().chain(token).map(|name| (api::BundleKind::Secret, name));
    authorities.into_iter().chain(secrets).collect()
}

impl Settings {
    /// The settings of each extender of `profile`, in the order in which the profile asks them; `specs` is its `spec.extenders`.
    pub fn compile_all(
        specs: &[api::Extender],
        profile: &CompiledProfile,
        lookup: Lookup<'_>,
    ) -> Vec<Result<Self, SettingsError>> {
        let spec = |name: &Str| specs.iter().find(|spec| *spec.name == **name);
        let in_order = profile.extenders.iter().filter_map(|extender| spec(&extender.name));
        in_order.map(|spec| Self::compile(spec, &profile.name, lookup)).collect()
    }

    /// Resolves `spec.extenders[]` of the profile `profile`.
    pub fn compile(spec: &api::Extender, profile: &str, lookup: Lookup<'_>) -> Result<Self, SettingsError> {
        let tls = spec.tls.as_ref();
        check_permits(spec, profile, lookup)?;
        Ok(Self {
            name: spec.name.as_str().into(),
            endpoint: endpoint(spec)?,
            verbs: verbs(&spec.verbs),
            form: spec.node_payload,
            concurrency: usize::try_from(spec.max_concurrent_requests).unwrap_or(1).max(1),
            open_for: spec.circuit_breaker.open_for.get(),
            skip_verify: tls.is_some_and(|tls| tls.mode == api::TlsMode::InsecureSkipVerify),
            server_name: tls.and_then(|tls| tls.server_name.clone()),
            credentials: credentials(spec, lookup)?,
        })
    }
}

fn endpoint(spec: &api::Extender) -> Result<Endpoint, SettingsError> {
    let extender = || spec.name.clone();
    if let Some(url) = &spec.endpoint.url {
        let url = Url::parse(url).map_err(|source| SettingsError::Url { extender: extender(), source })?;
        return Ok(Endpoint { url, service: None });
    }
    let service = spec.endpoint.service.as_ref();
    let service = service.ok_or_else(|| SettingsError::Endpoint { extender: extender() })?;
    let (namespace, name) = (service.namespace.clone(), service.name.clone());
    let url = Url {
        scheme: service.scheme,
        host: Host::Name(format!("{name}.{namespace}.svc")),
        port: u16::try_from(service.port).unwrap_or(0),
        is_port_named: true,
        path: service.path.trim_end_matches('/').to_owned(),
    };
    Ok(Endpoint { url, service: Some(ServiceKey { namespace, name }) })
}

fn verbs(verbs: &api::ExtenderVerbs) -> BTreeMap<Verb, VerbSettings> {
    let filter = verbs.filter.as_ref().map(|v| (Verb::Filter, &v.path, v.timeout));
    let prioritize = verbs.prioritize.as_ref().map(|v| (Verb::Prioritize, &v.path, v.timeout));
    let preempt = verbs.preempt.as_ref().map(|v| (Verb::Preempt, &v.path, v.timeout));
    let bind = verbs.bind.as_ref().map(|v| (Verb::Bind, &v.path, v.timeout));
    let given = [filter, prioritize, preempt, bind].into_iter().flatten();
    given.map(|(verb, path, timeout)| (verb, VerbSettings { path: path.clone(), timeout: timeout.get() })).collect()
}

/// Refuses Secrets that `profile` may not use: all of them at once, so that one round mends them.
fn check_permits(spec: &api::Extender, profile: &str, lookup: Lookup<'_>) -> Result<(), SettingsError> {
    let named: BTreeSet<_> = references(spec).into_iter().collect();
    let refusal = |(kind, name)| lookup(kind, name)?.refusal(name, profile);
    let refusals: Vec<String> = named.into_iter().filter_map(refusal).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    Err(SettingsError::NotPermitted { extender: spec.name.clone(), why: refusals.join("; ") })
}

fn credentials(spec: &api::Extender, lookup: Lookup<'_>) -> Result<Credentials, SettingsError> {
    let read = |field: &'static str, object: api::BundleKind, name: &str, key: &str| {
        let kind = match object {
            api::BundleKind::ConfigMap => "ConfigMap",
            api::BundleKind::Secret => "Secret",
        };
        let (extender, name) = (spec.name.clone(), name.to_owned());
        match lookup(object, &name) {
            None => Err(SettingsError::NotFound { extender, field, kind, name }),
            Some(data) => {
                let missing = || SettingsError::KeyMissing { extender, field, kind, name, key: key.to_owned() };
                data.text(key).ok_or_else(missing)
            }
        }
    };
    let mut credentials = Credentials::default();
    if let Some(tls) = &spec.tls {
        if let Some(bundle) = &tls.ca_bundle_ref {
            let pem = read("tls.caBundleRef", bundle.kind, &bundle.name, &bundle.key)?;
            credentials.authorities = Some(pem.expose_secret().to_owned());
        }
        if let Some(pair) = &tls.client_cert_ref {
            let read = |key| read("tls.clientCertRef", api::BundleKind::Secret, &pair.name, key);
            credentials.client = Some((read("tls.crt")?.expose_secret().to_owned(), read("tls.key")?));
        }
    }
    if let Some(auth) = &spec.auth {
        let token = &auth.bearer_token_ref;
        let text = read("auth.bearerTokenRef", api::BundleKind::Secret, &token.name, &token.key)?;
        credentials.token = Some(text.expose_secret().trim().into());
    }
    Ok(credentials)
}
