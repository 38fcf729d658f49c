//! Extenders as kube-scheduler's configurations and Policies list them. One kube-scheduler asks them for all its
//! profiles, so every profile gets them all. Certificates
//! in files or in the document become references to Secrets and ConfigMaps.

use super::duration;
use super::loss::{Draft, Report};
use super::node::{Fields, ImportError, Node};
use crate::shell_word;
use berth_api as api;
use berth_profile::is_qualified_name;
use serde_json::{Value, json};

/// How long a call may take where the document does not say.
const DEFAULT_TIMEOUT: api::Duration = api::Duration::from_secs(5);

/// The bounds of a profile.
const TIMEOUTS: (api::Duration, api::Duration) = (api::Duration::from_millis(50), api::Duration::from_secs(60));

/// Longest name of an extender.
const NAME_MAX: usize = 63;

/// The two forms of a configuration differ in the names and types of some fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `enableHTTPS`, and durations as text.
    Configuration,
    /// `enableHttps`, and durations as numbers of nanoseconds.
    Policy,
}

impl Spelling {
    const fn enable_https(self) -> &'static str {
        match self {
            Self::Configuration => "enableHTTPS",
            Self::Policy => "enableHttps",
        }
    }
}

/// The extenders of a process, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Extenders {
    /// With the path of each in the document.
    list: Vec<(api::Extender, String)>,
    /// Whether NodeResourcesFit ignores some resource because an extender checks it. kube-scheduler then overwrites its
    /// `ignoredResources`.
    pub(super) take_over_ignored: bool,
    /// Such resources whose extender is not in `list`, since it has no verbs.
    unclaimed: Vec<String>,
}

impl Extenders {
    /// Reads the items of a list of extenders.
    pub(super) fn read(nodes: &[Node<'_>], spelling: Spelling, report: &mut Report) -> Result<Self, ImportError> {
        let (mut read, mut resources, mut binders) = (Self::default(), Vec::new(), 0);
        for node in nodes {
            let fields = node.fields(&known(spelling))?;
            check(&fields, &mut binders)?;
            let managed = managed_resources(&fields, &mut resources)?;
            let skipped = managed.iter().filter(|r| r.fit_check == api::FitCheck::Skip).map(|r| r.name.clone());
            let skipped: Vec<String> = skipped.collect();
            read.take_over_ignored |= !skipped.is_empty();
            let name = read.name_for(fields.text("urlPrefix")?);
            if let Some(extender) = extender(name, &fields, spelling, managed, report)? {
                read.list.push((extender, node.path().to_owned()));
            } else {
                read.unclaimed.extend(skipped);
                report.note(node.path(), "has no verb, so that nothing is ever asked of it: left out");
            }
        }
        // Extenders whose failures are ignored are asked after the others, as kube-scheduler orders them at its start.
        read.list.sort_by_key(|(extender, _)| is_ignorable(extender));
        Ok(read)
    }

    /// Adds the extenders to a profile.
    pub(super) fn apply(&self, out: &mut Draft) {
        for (i, (extender, field)) in self.list.iter().enumerate() {
            out.origins.add(format!("spec.extenders[{i}]"), field);
            out.spec.extenders.push(extender.clone());
        }
        if let Some((_, field)) = self.list.iter().find(|(extender, _)| skips_unfiltered(extender)) {
            out.spec.allow_unsafe = api::AllowUnsafe::Acknowledged;
            let what = "ignoredByScheduler without filterVerb, so that nobody checks the resource: taken over with \
                        allowUnsafe: Acknowledged";
            out.report.note(format!("{field}.managedResources"), what);
        }
        if !self.unclaimed.is_empty() {
            let fit = out.spec.plugin_args.node_resources_fit.get_or_insert_default();
            fit.ignored_resources.clone_from(&self.unclaimed);
            out.spec.allow_unsafe = api::AllowUnsafe::Acknowledged;
            let what = "ignoredByScheduler of an extender without verbs: taken over as ignoredResources of \
                        NodeResourcesFit with allowUnsafe: Acknowledged";
            out.report.note("extenders", what);
        }
    }

    /// A name that no other extender has, after the host of `url`.
    fn name_for(&self, url: &str) -> String {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', ':']).next().unwrap_or_default();
        let host = host.strip_suffix(".svc.cluster.local").or_else(|| host.strip_suffix(".svc")).unwrap_or(host);
        let plain: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
        let base = plain.get(..plain.len().min(NAME_MAX - 3)).unwrap_or_default().trim_matches('-');
        let base = if base.is_empty() { "extender" } else { base };
        let taken = |name: &str| self.list.iter().any(|(extender, _)| extender.name == name);
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        std::iter::once(base.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }
}

/// Whether a resource is left to `extender`, which is not asked about nodes.
fn skips_unfiltered(extender: &api::Extender) -> bool {
    let skips = extender.managed_resources.iter().any(|resource| resource.fit_check == api::FitCheck::Skip);
    skips && extender.verbs.filter.is_none()
}

fn is_ignorable(extender: &api::Extender) -> bool {
    let verbs = [&extender.verbs.filter, &extender.verbs.preempt];
    verbs.into_iter().flatten().any(|verb| verb.failure_policy == api::FailurePolicy::Ignore)
}

pub(super) const fn known(spelling: Spelling) -> [&'static str; 12] {
    [
        "urlPrefix",
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        spelling.enable_https(),
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    ]
}

/// Refuses what kube-scheduler refuses: scores without a weight, and a second extender that binds.
fn check(fields: &Fields<'_>, binders: &mut u32) -> Result<(), ImportError> {
    let weight = fields.long_or("weight", 0)?;
    if !fields.text("prioritizeVerb")?.is_empty() && weight <= 0 {
        let message = format!("{weight} is not positive");
        return Err(ImportError::new(fields.at("weight"), message, "write 1 or more, or remove prioritizeVerb"));
    }
    *binders += u32::from(!fields.text("bindVerb")?.is_empty());
    if *binders > 1 {
        let message = "is the second extender that binds";
        return Err(ImportError::new(fields.at("bindVerb"), message, "leave binding to one extender"));
    }
    Ok(())
}

/// One extender as a profile has it; `None` where it has no verbs.
fn extender(
    name: String,
    fields: &Fields<'_>,
    spelling: Spelling,
    managed_resources: Vec<api::ManagedResource>,
    report: &mut Report,
) -> Result<Option<api::Extender>, ImportError> {
    let verbs = verbs(fields, timeout(fields, spelling, report)?)?;
    if verbs == api::ExtenderVerbs::default() {
        return Ok(None);
    }
    let url = url(fields)?;
    report.note(fields.at("urlPrefix"), who_allows(&url));
    let tls = tls(fields, spelling.enable_https(), &url, &name, report)?;
    let payload = if fields.flag("nodeCacheCapable")? { api::NodePayload::Names } else { api::NodePayload::Full };
    Ok(Some(api::Extender {
        name,
        endpoint: api::ExtenderEndpoint { url: Some(url), service: None },
        // Nothing reads the weight without prioritizeVerb.
        weight: if verbs.prioritize.is_some() { fields.long_or("weight", 0)? } else { 1 },
        verbs,
        node_payload: payload,
        managed_resources,
        pod_selector: None,
        max_concurrent_requests: 32,
        tls,
        auth: None,
        circuit_breaker: api::CircuitBreaker::default(),
    }))
}

/// The flag without which the operator does not ask an extender at `url`.
fn who_allows(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    if scheme == "http" {
        format!("plain http: the operator asks it only with --extender-allow-http {host}; with TLS it would be safe")
    } else {
        format!("the operator asks it only with --extender-allow-host {host}, or name a Service in endpoint.service")
    }
}

fn verbs(fields: &Fields<'_>, timeout: api::Duration) -> Result<api::ExtenderVerbs, ImportError> {
    let failure_policy = if fields.flag("ignorable")? { api::FailurePolicy::Ignore } else { api::FailurePolicy::Fail };
    let path = |name: &str| -> Result<Option<String>, ImportError> {
        let path = fields.text(name)?;
        if path.contains(['?', '#']) || path.contains(char::is_whitespace) {
            return Err(ImportError::new(fields.at(name), format!("{path:?} is no path"), "write one such as filter"));
        }
        Ok(Some(path.to_owned()).filter(|path| !path.is_empty()))
    };
    let call = |name: &str| Ok(path(name)?.map(|path| api::FilterVerb { path, timeout, failure_policy }));
    // Whatever ignorable says, a failed prioritize call leaves its scores out.
    let ignore = api::FailurePolicy::Ignore;
    Ok(api::ExtenderVerbs {
        filter: call("filterVerb")?,
        prioritize: path("prioritizeVerb")?.map(|path| api::PrioritizeVerb { path, timeout, failure_policy: ignore }),
        preempt: call("preemptVerb")?,
        bind: path("bindVerb")?.map(|path| api::BindVerb { path, timeout }),
    })
}

/// The timeout, which is the same for all verbs, within the bounds of a profile.
fn timeout(fields: &Fields<'_>, spelling: Spelling, report: &mut Report) -> Result<api::Duration, ImportError> {
    let Some(node) = fields.get("httpTimeout") else { return Ok(DEFAULT_TIMEOUT) };
    let written = match spelling {
        Spelling::Configuration => duration::read(&node)?,
        Spelling::Policy => nanoseconds(&node)?,
    };
    if written == api::Duration::default() {
        return Ok(DEFAULT_TIMEOUT);
    }
    let bounded = written.clamp(TIMEOUTS.0, TIMEOUTS.1);
    if bounded != written {
        report.changed(
            node.path(),
            format!("{written} becomes {bounded}: a call may take {} to {}", TIMEOUTS.0, TIMEOUTS.1),
        );
    }
    Ok(bounded)
}

fn nanoseconds(node: &Node<'_>) -> Result<api::Duration, ImportError> {
    let fix = "write nanoseconds without quotes, such as 5000000000 for 5s";
    let nanos = node.long().map_err(|error| ImportError { fix: fix.to_owned(), ..error })?;
    let nanos = u64::try_from(nanos).map_err(|_| node.bad(format!("{nanos} is negative"), fix))?;
    Ok(api::Duration::from_millis(nanos.div_ceil(1_000_000)))
}

fn url(fields: &Fields<'_>) -> Result<String, ImportError> {
    let fix = "write it with its scheme, such as https://gpu.example.com/scheduler";
    let node = fields.need("urlPrefix", fix)?;
    let url = node.text()?.trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let plain = |rest: &str| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(['?', '#']) && !rest.contains(char::is_whitespace)
    };
    if !rest.is_some_and(plain) {
        return Err(node.bad(format!("{url:?} is no URL of a host and a path"), fix));
    }
    Ok(url.to_owned())
}

/// The resources of an extender; `seen` are those of all before it.
fn managed_resources(fields: &Fields<'_>, seen: &mut Vec<String>) -> Result<Vec<api::ManagedResource>, ImportError> {
    let mut read = Vec::new();
    for item in fields.list("managedResources")? {
        let resource = item.fields(&["name", "ignoredByScheduler"])?;
        let name = resource.need("name", "name an extended resource, such as example.com/gpu")?;
        let text = name.text()?;
        let extended = text.contains('/') && !text.contains("kubernetes.io/") && !text.starts_with("requests.");
        if !(is_qualified_name(text) && extended) {
            return Err(name.bad(format!("{text:?} is no extended resource"), "write one, such as example.com/gpu"));
        }
        if seen.iter().any(|s| s == text) {
            return Err(name.bad(format!("{text} is managed already"), "name each resource at one extender"));
        }
        seen.push(text.to_owned());
        let fit_check = if resource.flag("ignoredByScheduler")? { api::FitCheck::Skip } else { api::FitCheck::Keep };
        read.push(api::ManagedResource { name: text.to_owned(), fit_check });
    }
    Ok(read)
}

pub(super) const TLS_FIELDS: [&str; 8] =
    ["insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];

/// A certificate or a key: base64 in the document itself, which has precedence, or the path of a file.
struct Part<'a> {
    data: Option<Node<'a>>,
    file: Option<Node<'a>>,
}

impl<'a> Part<'a> {
    fn of(fields: Option<&Fields<'a>>, data: &str, file: &str) -> Result<Self, ImportError> {
        let filled = |name: &str| -> Result<Option<Node<'a>>, ImportError> {
            let Some(node) = fields.and_then(|f| f.get(name)) else { return Ok(None) };
            Ok(if node.text()?.is_empty() { None } else { Some(node) })
        };
        Ok(Self { data: filled(data)?, file: filled(file)? })
    }

    fn node(&self) -> Option<&Node<'a>> {
        self.data.as_ref().or(self.file.as_ref())
    }

    /// The text in the document, still in base64.
    fn inline(&self) -> Result<Option<&'a str>, ImportError> {
        let Some(node) = &self.data else { return Ok(None) };
        let text = node.text()?;
        let alphabet = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        if !text.chars().all(alphabet) || text.len() % 4 != 0 {
            return Err(node.bad("is not base64", "write the PEM text in base64, or name a file"));
        }
        Ok(Some(text))
    }
}

/// The TLS settings of the extender `name` at `url`, if it is reached over TLS and has any. `enable_https` is the name of
/// the field that says so.
fn tls(
    extender: &Fields<'_>,
    enable_https: &str,
    url: &str,
    name: &str,
    report: &mut Report,
) -> Result<Option<api::ExtenderTls>, ImportError> {
    let https = extender.get(enable_https);
    let enabled = https.as_ref().map_or(Ok(false), Node::flag)?;
    let config = extender.get("tlsConfig");
    let fields = config.as_ref().map(|config| config.fields(&TLS_FIELDS)).transpose()?;
    let fields = fields.as_ref();
    if !url.starts_with("https://") {
        for setting in https.filter(|_| enabled).iter().chain(&config) {
            report.note(setting.path(), "without effect: the scheme of urlPrefix is http");
        }
        return Ok(None);
    }
    let ca = Part::of(fields, "caData", "caFile")?;
    let (cert, key) = (Part::of(fields, "certData", "certFile")?, Part::of(fields, "keyData", "keyFile")?);
    let insecure = fields.and_then(|f| f.get("insecure"));
    let asked = insecure.as_ref().map_or(Ok(false), Node::flag)?;
    if let (true, Some(node), Some(insecure)) = (asked, ca.node(), &insecure) {
        let message = format!("is true beside {}", node.path());
        return Err(insecure.bad(message, "remove one of them: kube-scheduler refuses both"));
    }
    if !asked && enabled && ca.node().is_none() {
        let what = "without a CA the certificate is not checked: taken over as tls.mode InsecureSkipVerify; \
                    name the CA in tls.caBundleRef instead";
        report.note(extender.at(enable_https), what);
    }
    let unchecked = asked || (enabled && ca.node().is_none());
    let server_name = fields.map_or(Ok(""), |fields| fields.text("serverName"))?;
    let tls = api::ExtenderTls {
        mode: if unchecked { api::TlsMode::InsecureSkipVerify } else { api::TlsMode::Verify },
        server_name: (!server_name.is_empty()).then(|| server_name.to_owned()),
        ca_bundle_ref: ca_bundle(&ca, name, report)?,
        client_cert_ref: client_certificate(&cert, &key, name, report)?,
    };
    Ok((tls != api::ExtenderTls::default()).then_some(tls))
}

fn ca_bundle(ca: &Part<'_>, extender: &str, report: &mut Report) -> Result<Option<api::CaBundleRef>, ImportError> {
    let Some(node) = ca.node() else { return Ok(None) };
    let (name, key) = (format!("{extender}-ca"), "ca.crt");
    let kind = if let Some(data) = ca.inline()? {
        report.manifests.push(secret(&name, "Opaque", json!({key: data})));
        report.lost(node.path(), printed(&name));
        api::BundleKind::Secret
    } else {
        let what = format!(
            "a profile names no files: it refers to the ConfigMap {name}: make it in the operator's namespace with \
             kubectl create configmap {name} --from-file={}",
            shell_word(&format!("{key}={}", node.text()?))
        );
        report.lost(node.path(), what);
        api::BundleKind::ConfigMap
    };
    Ok(Some(api::CaBundleRef { kind, name, key: key.to_owned() }))
}

fn client_certificate(
    cert: &Part<'_>,
    key: &Part<'_>,
    extender: &str,
    report: &mut Report,
) -> Result<Option<api::SecretRef>, ImportError> {
    let (cert_node, key_node) = match (cert.node(), key.node()) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (cert, key),
        (Some(alone), None) | (None, Some(alone)) => {
            return Err(alone.bad("stands alone", "give a certificate and its key, or neither"));
        }
    };
    let name = format!("{extender}-client");
    let what = match (cert.inline()?, key.inline()?) {
        (Some(cert), Some(key)) => {
            report.manifests.push(secret(&name, "kubernetes.io/tls", json!({"tls.crt": cert, "tls.key": key})));
            printed(&name)
        }
        _ => format!(
            "a profile names no files: it refers to the Secret {name}: permit the profile to use it with the annotation \
             {} and make it in the operator's namespace with kubectl create secret tls {name} --cert={} --key={}",
            api::EXTENDER_PROFILES_ANNOTATION,
            shell_word(&path_or_placeholder(cert, cert_node)?),
            shell_word(&path_or_placeholder(key, key_node)?)
        ),
    };
    report.lost(cert_node.path(), what);
    Ok(Some(api::SecretRef { name }))
}

/// The path of the file, or a placeholder that names the field whose text is to be put into a file.
fn path_or_placeholder(part: &Part<'_>, node: &Node<'_>) -> Result<String, ImportError> {
    Ok(if part.data.is_some() { format!("<decoded {}>", node.path()) } else { node.text()?.to_owned() })
}

fn printed(secret: &str) -> String {
    format!(
        "a profile holds no certificates: it refers to the Secret {secret}, which is printed behind the profiles: \
         apply it in the operator's namespace"
    )
}

fn secret(name: &str, kind: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": data})
}
