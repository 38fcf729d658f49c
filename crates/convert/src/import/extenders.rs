//! Extenders as kube-scheduler's configurations and Policies list them. One kube-scheduler asks them for all its
//! profiles, so every profile gets them all.

use super::duration;
use super::loss::{Loss, Origins};
use super::node::{Fields, ImportError, Node};
use super::tls;
use berth_api::{self as api, SchedulerProfileSpec};
use berth_profile::is_qualified_name;
use serde_json::Value;

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
    list: Vec<api::Extender>,
    /// The path of each in the document.
    fields: Vec<String>,
    /// Resources that NodeResourcesFit ignores because an extender checks them.
    skipped: Vec<String>,
    /// Those of `skipped` whose extender is not in `list`, since it has no verbs.
    unclaimed: Vec<String>,
    /// Secrets for certificates that are written in the document itself.
    pub(super) manifests: Vec<Value>,
}

impl Extenders {
    /// Reads the items of a list of extenders.
    pub(super) fn read(nodes: &[Node<'_>], spelling: Spelling, losses: &mut Vec<Loss>) -> Result<Self, ImportError> {
        let (mut read, mut resources, mut binders) = (Self::default(), Vec::new(), 0);
        for node in nodes {
            let fields = node.fields(&known(spelling))?;
            check(&fields, &mut binders)?;
            let managed = managed_resources(&fields, &mut resources)?;
            let skipped = managed.iter().filter(|r| r.fit_check == api::FitCheck::Skip).map(|r| r.name.clone());
            read.skipped.extend(skipped.clone());
            let name = read.name_for(text(&fields, "urlPrefix")?);
            if let Some(extender) = extender(name, node, spelling, managed.clone(), losses, &mut read.manifests)? {
                read.list.push(extender);
                read.fields.push(node.path().to_owned());
            } else {
                read.unclaimed.extend(skipped);
                losses.push(Loss::note(node.path(), "has no verb, so that nothing is ever asked of it: left out"));
            }
        }
        read.put_ignorable_last();
        Ok(read)
    }

    /// Whether NodeResourcesFit ignores resources of extenders. kube-scheduler then overwrites its `ignoredResources`.
    pub(super) fn take_over_ignored(&self) -> bool {
        !self.skipped.is_empty()
    }

    /// Adds the extenders to a profile.
    pub(super) fn apply(&self, spec: &mut SchedulerProfileSpec, origins: &mut Origins, losses: &mut Vec<Loss>) {
        for (i, field) in self.fields.iter().enumerate() {
            origins.add(format!("spec.extenders[{i}]"), field);
        }
        spec.extenders.clone_from(&self.list);
        if !self.unclaimed.is_empty() {
            let fit = spec.plugin_args.node_resources_fit.get_or_insert_default();
            fit.ignored_resources.clone_from(&self.unclaimed);
            spec.allow_unsafe = api::AllowUnsafe::Acknowledged;
            let what = "ignoredByScheduler of an extender without verbs: taken over as ignoredResources of \
                        NodeResourcesFit with allowUnsafe: Acknowledged";
            losses.push(Loss::note("extenders", what));
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
        let taken = |name: &str| self.list.iter().any(|extender| extender.name == name);
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        std::iter::once(base.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    /// Extenders whose failures are ignored are asked after the others, as kube-scheduler orders them at its start.
    fn put_ignorable_last(&mut self) {
        let pairs = self.list.drain(..).zip(self.fields.drain(..));
        let (last, first): (Vec<_>, Vec<_>) = pairs.partition(|(extender, _)| is_ignorable(extender));
        (self.list, self.fields) = first.into_iter().chain(last).unzip();
    }
}

fn is_ignorable(extender: &api::Extender) -> bool {
    let verbs = [&extender.verbs.filter, &extender.verbs.preempt];
    verbs.into_iter().flatten().any(|verb| verb.failure_policy == api::FailurePolicy::Ignore)
}

fn known(spelling: Spelling) -> [&'static str; 12] {
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
    let weight = weight(fields)?;
    if !text(fields, "prioritizeVerb")?.is_empty() && weight <= 0 {
        let message = format!("{weight} is not positive");
        return Err(ImportError::new(fields.at("weight"), message, "write 1 or more, or remove prioritizeVerb"));
    }
    *binders += u32::from(!text(fields, "bindVerb")?.is_empty());
    if *binders > 1 {
        let message = "is the second extender that binds";
        return Err(ImportError::new(fields.at("bindVerb"), message, "leave binding to one extender"));
    }
    Ok(())
}

fn text<'a>(fields: &Fields<'a>, name: &str) -> Result<&'a str, ImportError> {
    fields.get(name).map_or(Ok(""), |field| field.text())
}

fn flag(fields: &Fields<'_>, name: &str) -> Result<bool, ImportError> {
    fields.get(name).map_or(Ok(false), |field| field.flag())
}

fn weight(fields: &Fields<'_>) -> Result<i64, ImportError> {
    fields.get("weight").map_or(Ok(0), |weight| weight.long())
}

/// One extender as a profile has it; `None` where it has no verbs.
fn extender(
    name: String,
    node: &Node<'_>,
    spelling: Spelling,
    managed_resources: Vec<api::ManagedResource>,
    losses: &mut Vec<Loss>,
    manifests: &mut Vec<Value>,
) -> Result<Option<api::Extender>, ImportError> {
    let fields = node.fields(&known(spelling))?;
    let verbs = verbs(&fields, timeout(&fields, spelling, losses)?)?;
    if verbs == api::ExtenderVerbs::default() {
        return Ok(None);
    }
    let url = url(&fields)?;
    losses.push(Loss::note(fields.at("urlPrefix"), who_allows(&url)));
    let tls = tls::read(&fields, spelling.enable_https(), &url, &name, &mut tls::Out { losses, manifests })?;
    let payload = if flag(&fields, "nodeCacheCapable")? { api::NodePayload::Names } else { api::NodePayload::Full };
    Ok(Some(api::Extender {
        name,
        endpoint: api::ExtenderEndpoint { url: Some(url), service: None },
        // Nothing reads the weight without prioritizeVerb.
        weight: if verbs.prioritize.is_some() { weight(&fields)? } else { 1 },
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
    let failure_policy = if flag(fields, "ignorable")? { api::FailurePolicy::Ignore } else { api::FailurePolicy::Fail };
    let path = |name: &str| -> Result<Option<String>, ImportError> {
        let path = text(fields, name)?;
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
fn timeout(fields: &Fields<'_>, spelling: Spelling, losses: &mut Vec<Loss>) -> Result<api::Duration, ImportError> {
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
        losses.push(Loss::changed(
            node.path(),
            format!("{written} becomes {bounded}: a call may take {} to {}", TIMEOUTS.0, TIMEOUTS.1),
        ));
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
        let fit_check = if flag(&resource, "ignoredByScheduler")? { api::FitCheck::Skip } else { api::FitCheck::Keep };
        read.push(api::ManagedResource { name: text.to_owned(), fit_check });
    }
    Ok(read)
}
