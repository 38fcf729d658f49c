//! Extenders: one kube-scheduler asks all of them for the pods of every profile.

use super::{Losses, Subject};
use berth_api::{self as api, Extender, FailurePolicy};
use serde_json::{Value, json};

/// The folder of the files that stand for Secrets and ConfigMaps.
const FILES: &str = "/etc/kubernetes/extenders";

/// Whether NodeResourcesFit ignores some resource of `subject` because an extender checks it.
pub(super) fn skips(subject: &Subject<'_>) -> bool {
    let mut resources = subject.spec.extenders.iter().flat_map(|extender| &extender.managed_resources);
    resources.any(|resource| resource.fit_check == api::FitCheck::Skip)
}

/// Writes the extenders of all profiles, each once.
pub(super) fn write(
    subjects: &[Subject<'_>],
    configuration: &mut Value,
    comments: &mut Vec<(String, String)>,
    losses: &mut Losses,
) {
    let mut written: Vec<(&Extender, &str, String)> = Vec::new();
    for subject in subjects {
        for (i, extender) in subject.spec.extenders.iter().enumerate() {
            if written.iter().any(|(other, ..)| *other == extender) {
                continue;
            }
            let field = format!("spec.extenders[{i}]");
            let without = subjects.iter().filter(|s| !s.spec.extenders.contains(extender)).map(|s| s.name);
            let without: Vec<&str> = without.collect();
            if !without.is_empty() {
                let what = format!(
                    "kube-scheduler asks its extenders for the pods of every profile: {} is asked for those of {} too",
                    extender.name,
                    without.join(", ")
                );
                losses.changed(subject.name, &field, what);
            }
            written.push((extender, subject.name, field));
        }
    }
    if written.is_empty() {
        return;
    }
    let mut list = Vec::new();
    let mut binder: Option<&str> = None;
    for (extender, profile, field) in written {
        let comment = format!("from {} of SchedulerProfile {profile}", extender.name);
        comments.push((format!("extenders[{}]", list.len()), comment));
        list.push(one(extender, &mut binder, &mut Lost { profile, field, losses }));
    }
    configuration["extenders"] = list.into();
}

/// Reports losses of one extender.
struct Lost<'a> {
    profile: &'a str,
    field: String,
    losses: &'a mut Losses,
}

impl Lost<'_> {
    fn lose(&mut self, field: &str, what: impl Into<String>) {
        self.losses.lost(self.profile, format!("{}.{field}", self.field), what);
    }

    fn change(&mut self, field: &str, what: impl Into<String>) {
        self.losses.changed(self.profile, format!("{}.{field}", self.field), what);
    }
}

fn one<'a>(extender: &'a Extender, binder: &mut Option<&'a str>, lost: &mut Lost<'_>) -> Value {
    let url = url(extender, lost);
    let https = url.starts_with("https://");
    let mut written = json!({"urlPrefix": url});
    let verbs = &extender.verbs;
    let paths = [
        ("filterVerb", verbs.filter.as_ref().map(|v| &v.path)),
        ("preemptVerb", verbs.preempt.as_ref().map(|v| &v.path)),
        ("prioritizeVerb", verbs.prioritize.as_ref().map(|v| &v.path)),
    ];
    for (name, path) in paths {
        if let Some(path) = path {
            written[name] = path.as_str().into();
        }
    }
    if verbs.prioritize.is_some() {
        written["weight"] = extender.weight.into();
    }
    if let Some(bind) = &verbs.bind {
        if let Some(other) = binder {
            lost.lose("verbs.bind", format!("{other} binds already, and kube-scheduler lets one extender do so"));
        } else {
            written["bindVerb"] = bind.path.as_str().into();
            *binder = Some(&extender.name);
        }
    }
    if let Some(timeout) = timeout(verbs, lost) {
        written["httpTimeout"] = timeout.to_string().into();
    }
    if extender.node_payload == api::NodePayload::Names {
        written["nodeCacheCapable"] = true.into();
    }
    if ignorable(verbs, lost) {
        written["ignorable"] = true.into();
    }
    if !extender.managed_resources.is_empty() {
        let resource = |r: &api::ManagedResource| match r.fit_check {
            api::FitCheck::Keep => json!({"name": r.name}),
            api::FitCheck::Skip => json!({"name": r.name, "ignoredByScheduler": true}),
        };
        written["managedResources"] = extender.managed_resources.iter().map(resource).collect();
    }
    if let Some(tls) = extender.tls.as_ref().filter(|_| https) {
        // enableHTTPS stays out: without a CA it would switch the check of the certificate off.
        written["tlsConfig"] = tls_config(extender, tls, lost);
    }
    without_counterpart(extender, lost);
    written
}

/// A Service becomes its name in the cluster's DNS.
fn url(extender: &Extender, lost: &mut Lost<'_>) -> String {
    let Some(service) = &extender.endpoint.service else { return extender.endpoint.url.clone().unwrap_or_default() };
    let scheme = match service.scheme {
        api::Scheme::Https => "https",
        api::Scheme::Http => "http",
    };
    let url = format!("{scheme}://{}.{}.svc:{}{}", service.name, service.namespace, service.port, service.path);
    lost.change("endpoint.service", format!("becomes {url}, which kube-scheduler must be able to resolve"));
    url
}

/// The longest of the timeouts, unless it is kube-scheduler's default.
fn timeout(verbs: &api::ExtenderVerbs, lost: &mut Lost<'_>) -> Option<api::Duration> {
    let timeouts = [
        ("filter", verbs.filter.as_ref().map(|v| v.timeout)),
        ("prioritize", verbs.prioritize.as_ref().map(|v| v.timeout)),
        ("preempt", verbs.preempt.as_ref().map(|v| v.timeout)),
        ("bind", verbs.bind.as_ref().map(|v| v.timeout)),
    ];
    let longest = timeouts.iter().filter_map(|(_, timeout)| *timeout).max()?;
    for (verb, timeout) in timeouts {
        if let Some(timeout) = timeout.filter(|timeout| *timeout != longest) {
            let what = format!("{timeout} becomes {longest}: an extender has one timeout for all calls");
            lost.change(&format!("verbs.{verb}.timeout"), what);
        }
    }
    (longest != api::Duration::from_secs(5)).then_some(longest)
}

/// Whether failures of filter and preempt are ignored, which is one setting. Those of prioritize always are.
fn ignorable(verbs: &api::ExtenderVerbs, lost: &mut Lost<'_>) -> bool {
    let filter = verbs.filter.as_ref().map(|v| v.failure_policy);
    let preempt = verbs.preempt.as_ref().map(|v| v.failure_policy);
    if verbs.prioritize.as_ref().is_some_and(|v| v.failure_policy == FailurePolicy::Fail) {
        lost.lose("verbs.prioritize.failurePolicy", "kube-scheduler always ignores failures to score");
    }
    let ignorable = filter.or(preempt) == Some(FailurePolicy::Ignore);
    if let (Some(filter), Some(preempt)) = (filter, preempt)
        && filter != preempt
    {
        let what = format!("{preempt:?} becomes {filter:?}, that of filter: an extender has one for both");
        lost.change("verbs.preempt.failurePolicy", what);
    }
    ignorable
}

fn tls_config(extender: &Extender, tls: &api::ExtenderTls, lost: &mut Lost<'_>) -> Value {
    let mut config = json!({});
    let folder = format!("{FILES}/{}", extender.name);
    if tls.mode == api::TlsMode::InsecureSkipVerify {
        config["insecure"] = true.into();
    }
    if let Some(name) = &tls.server_name {
        config["serverName"] = name.as_str().into();
    }
    if let Some(ca) = &tls.ca_bundle_ref {
        let file = format!("{folder}/{}", ca.key);
        lost.change("tls.caBundleRef", format!("mount {:?} {} so that its key {} is {file}", ca.kind, ca.name, ca.key));
        config["caFile"] = file.into();
    }
    if let Some(cert) = &tls.client_cert_ref {
        let (cert_file, key_file) = (format!("{folder}/tls.crt"), format!("{folder}/tls.key"));
        let what = format!("mount Secret {} so that it is {cert_file} and {key_file}", cert.name);
        lost.change("tls.clientCertRef", what);
        config["certFile"] = cert_file.into();
        config["keyFile"] = key_file.into();
    }
    config
}

fn without_counterpart(extender: &Extender, lost: &mut Lost<'_>) {
    if extender.pod_selector.is_some() {
        lost.lose("podSelector", "kube-scheduler asks for every pod that its managedResources let through");
    }
    if extender.max_concurrent_requests != 32 {
        lost.lose("maxConcurrentRequests", "kube-scheduler asks for one pod at a time, and does not count what binds");
    }
    if extender.auth.is_some() {
        lost.lose("auth", "kube-scheduler sends no token to extenders");
    }
    if extender.circuit_breaker != api::CircuitBreaker::default() {
        lost.lose("circuitBreaker", "kube-scheduler asks a broken extender again and again");
    }
}
