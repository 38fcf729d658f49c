use super::CompileError;
use super::selectors;
use berth_api as api;
use berth_core::model::Str;
use berth_core::profile::{CompiledProfile, Extender, OnFailure};

/// Resolves the part of `spec.extenders` that decisions depend on; TLS and authentication are resolved by the extender
/// client.
///
/// Extenders whose filter failures are ignored come after the others, as upstream orders them at its start. Resources that
/// only an extender checks are not checked by NodeResourcesFit.
pub(super) fn compile(
    specs: &[api::Extender],
    allow_unsafe: api::AllowUnsafe,
    profile: &mut CompiledProfile,
) -> Result<(), CompileError> {
    let mut managed: Vec<&str> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let field = format!("spec.extenders[{i}]");
        profile.extenders.push(one(spec, &field)?);
        check_safe(spec, allow_unsafe, &field)?;
        for resource in &spec.managed_resources {
            if managed.contains(&resource.name.as_str()) {
                let message = format!("{} is managed by another extender already", resource.name);
                let fix = "leave it to one of them";
                return Err(CompileError::args(format!("{field}.managedResources"), message, fix));
            }
            managed.push(&resource.name);
            let ignored = &mut profile.fit.ignored_resources;
            let name: Str = resource.name.as_str().into();
            if resource.fit_check == api::FitCheck::Skip && !ignored.contains(&name) {
                ignored.push(name);
            }
        }
    }
    if specs.iter().filter(|spec| spec.verbs.bind.is_some()).count() > 1 {
        let fix = "remove verbs.bind from the others";
        return Err(CompileError::args("spec.extenders", "only one extender can bind", fix));
    }
    profile.extenders.sort_by_key(|extender| extender.filter == Some(OnFailure::Ignore));
    Ok(())
}

/// The API server has the same rules; manifests that it never saw come here as well.
fn check_safe(spec: &api::Extender, allow_unsafe: api::AllowUnsafe, field: &str) -> Result<(), CompileError> {
    let unverified = spec.tls.as_ref().is_some_and(|tls| tls.mode == api::TlsMode::InsecureSkipVerify);
    if spec.auth.is_some() && unverified {
        let message = "with tls.mode InsecureSkipVerify anybody may answer and be told the token";
        let fix = "name the authority in tls.caBundleRef, or remove auth";
        return Err(CompileError::args(format!("{field}.auth"), message, fix));
    }
    let skips = spec.managed_resources.iter().position(|resource| resource.fit_check == api::FitCheck::Skip);
    if let (Some(i), None, api::AllowUnsafe::None) = (skips, &spec.verbs.filter, allow_unsafe) {
        let message = "Skip leaves the resource to an extender that has no verb filter, so that nobody checks it";
        let fix = "add verbs.filter, or set spec.allowUnsafe: Acknowledged";
        return Err(CompileError::args(format!("{field}.managedResources[{i}].fitCheck"), message, fix));
    }
    Ok(())
}

fn one(spec: &api::Extender, field: &str) -> Result<Extender, CompileError> {
    let verbs = &spec.verbs;
    if verbs.filter.is_none() && verbs.prioritize.is_none() && verbs.preempt.is_none() && verbs.bind.is_none() {
        let fix = "give at least one of filter, prioritize, preempt and bind";
        return Err(CompileError::args(format!("{field}.verbs"), "the extender is asked nothing", fix));
    }
    if !(1..=1_000_000).contains(&spec.weight) {
        let message = format!("{} is out of range", spec.weight);
        return Err(CompileError::args(format!("{field}.weight"), message, "use 1 to 1,000,000"));
    }
    let pod_selector = spec.pod_selector.as_ref();
    let pod_selector =
        pod_selector.map(|s| selectors::label_selector(s, &format!("{field}.podSelector"))).transpose()?;
    let mut managed: Vec<Str> = spec.managed_resources.iter().map(|r| r.name.as_str().into()).collect();
    managed.sort();
    Ok(Extender {
        name: spec.name.as_str().into(),
        url: url(&spec.endpoint).into(),
        filter: verbs.filter.as_ref().map(|verb| policy(verb.failure_policy)),
        prioritize: verbs.prioritize.as_ref().map(|verb| policy(verb.failure_policy)),
        preempt: verbs.preempt.as_ref().map(|verb| policy(verb.failure_policy)),
        binds: verbs.bind.is_some(),
        weight: spec.weight,
        full_nodes: spec.node_payload == api::NodePayload::Full,
        managed,
        pod_selector: pod_selector.filter(|selector| !selector.requirements.is_empty()),
    })
}

const fn policy(policy: api::FailurePolicy) -> OnFailure {
    match policy {
        api::FailurePolicy::Fail => OnFailure::Fail,
        api::FailurePolicy::Ignore => OnFailure::Ignore,
    }
}

/// The endpoint as messages name it, without trailing slashes.
fn url(endpoint: &api::ExtenderEndpoint) -> String {
    let url = match (&endpoint.url, &endpoint.service) {
        (Some(url), _) => url.clone(),
        (None, Some(service)) => {
            let scheme = if service.scheme == api::Scheme::Http { "http" } else { "https" };
            format!("{scheme}://{}.{}.svc:{}{}", service.name, service.namespace, service.port, service.path)
        }
        (None, None) => String::new(),
    };
    url.trim_end_matches('/').to_owned()
}
