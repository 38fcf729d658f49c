//! How an extender is reached: `spec.extenders[]` with all its references resolved.

use crate::address::{Host, Scheme, Url, UrlError};
use crate::wire::NodeForm;
use berth_api as api;
use berth_core::model::Str;
use berth_core::profile::CompiledProfile;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use std::collections::BTreeMap;
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Url(Url),
    /// Any ready endpoint of a Service.
    Service {
        namespace: String,
        name: String,
        port: u16,
        scheme: Scheme,
        /// Comes before a verb's path. Empty, or beginning with a slash and without slashes at its end.
        path: String,
    },
}

impl Endpoint {
    pub const fn scheme(&self) -> Scheme {
        match self {
            Self::Url(url) => url.scheme,
            Self::Service { scheme, .. } => *scheme,
        }
    }

    /// The name that the server's certificate must have.
    pub fn host(&self) -> Host {
        match self {
            Self::Url(url) => url.host.clone(),
            Self::Service { namespace, name, .. } => Host::Name(format!("{name}.{namespace}.svc")),
        }
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> String {
        match self {
            Self::Url(url) => url.authority(),
            Self::Service { port, .. } => format!("{}:{port}", self.host()),
        }
    }

    /// Comes before a verb's path.
    pub fn path(&self) -> &str {
        match self {
            Self::Url(url) => &url.path,
            Self::Service { path, .. } => path,
        }
    }
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
    /// The URL before the verbs' paths, for messages.
    pub url: Str,
    pub endpoint: Endpoint,
    pub verbs: BTreeMap<Verb, VerbSettings>,
    pub form: NodeForm,
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
    /// The object has no text under the key.
    #[error("extender {extender}: {field}: {kind} {name} has no text under the key {key}; add it")]
    KeyMissing {
        extender: String,
        field: &'static str,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("extender {extender}: {field}: {message}")]
    Certificate { extender: String, field: &'static str, message: String },
}

impl SettingsError {
    pub fn extender(&self) -> &str {
        match self {
            Self::Url { extender, .. }
            | Self::Endpoint { extender }
            | Self::NotFound { extender, .. }
            | Self::KeyMissing { extender, .. }
            | Self::Certificate { extender, .. } => extender,
        }
    }
}

/// Finds the data of a ConfigMap or Secret of the operator's namespace by kind and name.
pub type Lookup<'a> = &'a dyn Fn(api::BundleKind, &str) -> Option<Contents>;

/// The data of a ConfigMap or Secret, by key. `Debug` shows the keys alone.
#[derive(Debug, Clone, Default)]
pub struct Contents(BTreeMap<String, SecretSlice<u8>>);

impl Contents {
    /// From the two forms that values have.
    pub fn new(
        bytes: Option<BTreeMap<String, k8s_openapi::ByteString>>,
        texts: Option<BTreeMap<String, String>>,
    ) -> Self {
        let bytes = bytes.into_iter().flatten().map(|(key, value)| (key, value.0.into()));
        Self(bytes.chain(texts.into_iter().flatten().map(|(key, text)| (key, text.into_bytes().into()))).collect())
    }

    /// The text under a key; `None` if there is none, or an empty one.
    fn text(&self, key: &str) -> Option<SecretString> {
        let text = std::str::from_utf8(self.0.get(key)?.expose_secret()).ok()?;
        (!text.is_empty()).then(|| text.into())
    }
}

/// Secrets have no equality of their own; here it tells whether an object has changed since it was read.
impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && (self.0.iter().zip(&other.0))
                .all(|((key, value), (k, v))| key == k && value.expose_secret() == v.expose_secret())
    }
}

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
        in_order.map(|spec| Self::compile(spec, lookup)).collect()
    }

    /// Resolves `spec.extenders[]`.
    pub fn compile(spec: &api::Extender, lookup: Lookup<'_>) -> Result<Self, SettingsError> {
        let endpoint = endpoint(spec)?;
        let url = format!("{}://{}{}", endpoint.scheme().as_str(), endpoint.authority(), endpoint.path());
        let tls = spec.tls.as_ref();
        Ok(Self {
            name: spec.name.as_str().into(),
            url: url.into(),
            endpoint,
            verbs: verbs(&spec.verbs),
            form: match spec.node_payload {
                api::NodePayload::Full => NodeForm::Full,
                api::NodePayload::Names => NodeForm::Names,
            },
            concurrency: usize::try_from(spec.max_concurrent_requests).unwrap_or(1).max(1),
            open_for: spec.circuit_breaker.open_for.get(),
            skip_verify: tls.is_some_and(|tls| tls.mode == api::TlsMode::InsecureSkipVerify),
            server_name: tls.and_then(|tls| tls.server_name.clone()),
            credentials: credentials(spec, lookup)?,
        })
    }
}

fn endpoint(spec: &api::Extender) -> Result<Endpoint, SettingsError> {
    if let Some(url) = &spec.endpoint.url {
        let url = Url::parse(url);
        return url.map(Endpoint::Url).map_err(|source| SettingsError::Url { extender: spec.name.clone(), source });
    }
    let service = spec.endpoint.service.as_ref();
    let service = service.ok_or_else(|| SettingsError::Endpoint { extender: spec.name.clone() })?;
    Ok(Endpoint::Service {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        port: u16::try_from(service.port).unwrap_or(0),
        scheme: match service.scheme {
            api::Scheme::Https => Scheme::Https,
            api::Scheme::Http => Scheme::Http,
        },
        path: service.path.trim_end_matches('/').to_owned(),
    })
}

fn verbs(verbs: &api::ExtenderVerbs) -> BTreeMap<Verb, VerbSettings> {
    let filter = verbs.filter.as_ref().map(|v| (Verb::Filter, &v.path, v.timeout));
    let prioritize = verbs.prioritize.as_ref().map(|v| (Verb::Prioritize, &v.path, v.timeout));
    let preempt = verbs.preempt.as_ref().map(|v| (Verb::Preempt, &v.path, v.timeout));
    let bind = verbs.bind.as_ref().map(|v| (Verb::Bind, &v.path, v.timeout));
    let given = [filter, prioritize, preempt, bind].into_iter().flatten();
    given.map(|(verb, path, timeout)| (verb, VerbSettings { path: path.clone(), timeout: timeout.get() })).collect()
}

/// Reads the values that an extender's spec refers to.
struct Reader<'a> {
    extender: &'a str,
    lookup: Lookup<'a>,
}

impl Reader<'_> {
    fn read(
        &self,
        field: &'static str,
        kind: api::BundleKind,
        name: &str,
        key: &str,
    ) -> Result<SecretString, SettingsError> {
        let kind_name = match kind {
            api::BundleKind::ConfigMap => "ConfigMap",
            api::BundleKind::Secret => "Secret",
        };
        let extender = self.extender.to_owned();
        let Some(data) = (self.lookup)(kind, name) else {
            return Err(SettingsError::NotFound { extender, field, kind: kind_name, name: name.to_owned() });
        };
        data.text(key).ok_or_else(|| SettingsError::KeyMissing {
            extender,
            field,
            kind: kind_name,
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }
}

fn credentials(spec: &api::Extender, lookup: Lookup<'_>) -> Result<Credentials, SettingsError> {
    let reader = Reader { extender: &spec.name, lookup };
    let mut credentials = Credentials::default();
    if let Some(tls) = &spec.tls {
        if let Some(bundle) = &tls.ca_bundle_ref {
            let pem = reader.read("tls.caBundleRef", bundle.kind, &bundle.name, &bundle.key)?;
            credentials.authorities = Some(pem.expose_secret().to_owned());
        }
        if let Some(pair) = &tls.client_cert_ref {
            let read = |key| reader.read("tls.clientCertRef", api::BundleKind::Secret, &pair.name, key);
            credentials.client = Some((read("tls.crt")?.expose_secret().to_owned(), read("tls.key")?));
        }
    }
    if let Some(auth) = &spec.auth {
        let token = &auth.bearer_token_ref;
        let text = reader.read("auth.bearerTokenRef", api::BundleKind::Secret, &token.name, &token.key)?;
        credentials.token = Some(text.expose_secret().trim().into());
    }
    Ok(credentials)
}
