//! Extenders called by a command: with the operator's own client, under the operator's own rules.

use super::inputs::{Calls, NODES};
use axum::Router;
use axum::http::{StatusCode, Uri, header};
use berth_cluster::lease::Gate;
use berth_cluster::recheck::Unchanged;
use berth_core::io::{
    AttemptId, ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, ExtenderRequest, Input, WorkerId,
};
use berth_core::model::{Pod, PodKey, Str};
use berth_core::profile::CompiledProfile;
use berth_extender::address::AddressPolicy;
use berth_extender::{
    BOUND_WITHIN, CallResult, ExtenderClients, ExtenderHealth, KeyOf, LANDS_WITHIN, ObjectStore, Options, Verb,
    VerbHealth, tcp,
};
use berth_simulate::Extenders;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{runtime::Runtime, sync::mpsc};

/// Hosts that extenders may be on. The operator takes the same.
#[derive(Debug, clap::Args)]
pub(super) struct AllowArgs {
    /// A host that extenders may be on, beside Services: a name, *.domain, an IP address or a range. May be given several times.
    #[arg(long, value_name = "HOST", env = "BERTH_EXTENDER_ALLOW_HOST", value_delimiter = ',')]
    pub(super) extender_allow_host: Vec<String>,

    /// A host that may be spoken to in plain http: as for --extender-allow-host, which it includes, or NAME.NAMESPACE.svc.
    #[arg(long, value_name = "HOST", env = "BERTH_EXTENDER_ALLOW_HTTP", value_delimiter = ',')]
    pub(super) extender_allow_http: Vec<String>,
}

/// Whether and how a command calls extenders.
#[derive(Debug, clap::Args)]
pub(super) struct CallArgs {
    /// Ask the profiles' extenders to filter, to score and about victims, as the operator would; nothing is bound by them.
    ///
    /// They are called from here, at their URLs. Secrets and ConfigMaps that profiles name are taken from the manifests.
    #[arg(long)]
    pub(super) call_extenders: bool,

    #[command(flatten)]
    allow: AllowArgs,
}

impl CallArgs {
    /// What the inputs must keep for the calls.
    pub(super) fn inputs(&self) -> Calls {
        Calls::new(self.call_extenders)
    }
}

pub(super) struct Caller {
    runtime: Runtime,
    clients: ExtenderClients,
    answers: mpsc::UnboundedReceiver<Input>,
    asked: u64,
}

impl Caller {
    /// Sets up a client for each extender of `profiles`.
    pub(super) fn new(args: &CallArgs, profiles: &[Arc<CompiledProfile>], calls: &Calls) -> anyhow::Result<Self> {
        let allow = &args.allow;
        let policy = AddressPolicy::new(&allow.extender_allow_host, &allow.extender_allow_http)?;
        let runtime = super::event_loop("calls")?;
        let (deliver, answers) = mpsc::unbounded_channel();
        let store = Arc::new(ObjectStore::default());
        let clients = {
            let _inside = runtime.enter();
            ExtenderClients::new(Options {
                policy,
                connector: tcp(),
                kube: inputs_as_api_server(calls).into(),
                store: store.clone(),
                key_of: keys(calls),
                // Nothing is bound, so nobody needs to lead.
                gate: Gate::new(),
                recheck: Arc::new(Unchanged),
                bound_within: BOUND_WITHIN,
                lands_within: LANDS_WITHIN,
                // A caller that has ended waits for no answer.
                deliver: Arc::new(move |_, input| drop(deliver.send(input))),
                notify: Arc::new(|_| {}),
            })
        };
        for profile in profiles {
            clients.configure(&profile.name, &profile.scheduler_names, calls.settings(profile));
        }
        for (path, node) in calls.objects() {
            if let Some(name) = path.strip_prefix(NODES) {
                store.put_node(name, node.to_string().as_bytes());
            }
        }
        Ok(Self { runtime, clients, answers, asked: 0 })
    }

    /// A line for each extender that could not be called, or of which calls failed.
    pub(super) fn troubles(&self, profiles: &[Arc<CompiledProfile>]) -> Vec<String> {
        let of = |profile: &Arc<CompiledProfile>| {
            let name = profile.name.clone();
            self.clients.health(&profile.name).into_iter().flat_map(move |health| troubles(&name, &health))
        };
        profiles.iter().flat_map(of).collect()
    }
}

impl Extenders for Caller {
    fn answer(
        &mut self,
        profile: &CompiledProfile,
        extender: &Str,
        pod: &Arc<Pod>,
        question: ExtenderQuestion,
    ) -> Result<ExtenderReply, ExtenderError> {
        self.asked += 1;
        let attempt = AttemptId(self.asked);
        let request = ExtenderRequest { attempt, extender: extender.clone(), pod: pod.clone(), question };
        self.clients.ask(WorkerId(0), &profile.name, request);
        while let Some(input) = self.runtime.block_on(self.answers.recv()) {
            if let Input::ExtenderAnswered { attempt: answered, answer, .. } = input
                && answered == attempt
            {
                return answer;
            }
        }
        Err(ExtenderError { kind: ExtenderErrorKind::Busy, message: "the calls have ended".into() })
    }
}

fn troubles(profile: &Str, health: &ExtenderHealth) -> Vec<String> {
    let who = format!("extender {} of SchedulerProfile {profile}", health.name);
    if let Some(error) = &health.unusable {
        return vec![format!("{who} was not called: {}", error.message)];
    }
    let trouble = |(verb, of): (&Verb, &VerbHealth)| {
        let all: u64 = of.results.values().sum();
        let failed = all - of.results.get(&CallResult::Ok).copied().unwrap_or_default();
        let last = of.last_error.as_ref().map_or("it answered with an error", |last| &*last.message);
        (failed > 0).then(|| format!("{who}: {failed} of {all} calls to {} failed: {last}", verb.as_str()))
    };
    health.verbs.iter().filter_map(trouble).collect()
}

/// Namespace and name of the pods among the manifests, by uid.
fn keys(calls: &Calls) -> KeyOf {
    let text = |object: &Value, key: &str| Str::from(object["metadata"][key].as_str().unwrap_or_default());
    let key = |object| PodKey { namespace: text(object, "namespace"), name: text(object, "name") };
    let pods = calls.objects().filter(|(path, _)| !path.starts_with(NODES));
    let keys: BTreeMap<Str, PodKey> = pods.map(|(_, pod)| (text(pod, "uid"), key(pod))).collect();
    Arc::new(move |uid| keys.get(uid).cloned())
}

/// A client that reads pods and nodes from the manifests, as if they were in an API server: extenders' clients need one.
fn inputs_as_api_server(calls: &Calls) -> kube::Client {
    let objects = calls.objects().map(|(path, object)| (path.to_owned(), object.to_string()));
    let objects: Arc<BTreeMap<String, String>> = Arc::new(objects.collect());
    let answer = move |uri: Uri| {
        let found = objects.get(uri.path()).cloned();
        let (code, body) = found.map_or_else(|| not_found(uri.path()), |body| (StatusCode::OK, body));
        std::future::ready((code, [(header::CONTENT_TYPE, "application/json")], body))
    };
    kube::Client::new(Router::new().fallback(answer), "default")
}

fn not_found(path: &str) -> (StatusCode, String) {
    let message = format!("{path} is not among the manifests");
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404, "message": message,
    });
    (StatusCode::NOT_FOUND, status.to_string())
}
