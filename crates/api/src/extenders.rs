//! HTTP servers that a profile asks in the middle of an attempt.

use crate::patterns::{DATA_KEY, DNS_LABEL, DNS_NAME, EXTENDED_RESOURCE, VERB_PATH, between};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{duration::Duration, selector::LabelSelector};

/// The annotation by which a Secret permits the extenders of profiles to use it: the profiles' names, parted by commas.
pub const EXTENDER_PROFILES_ANNOTATION: &str = "scheduling.berth.dev/extender-profiles";

/// An HTTP server that filters or scores nodes, changes victims or binds pods: a kube-scheduler extender (protocol v1).
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.endpoint.service) || has(self.endpoint.url) || !has(self.endpoint.service.scheme) || self.endpoint.service.scheme == 'Https' || !(has(self.tls) || has(self.auth))")
        .message("tls, auth: a plain-text service takes neither: set endpoint.service.scheme: Https, or remove them")
        .field_path(".endpoint"),
    validation = Rule::new("!has(self.endpoint.url) || self.endpoint.url.startsWith('https://') || !(has(self.tls) || has(self.auth))")
        .message("tls, auth: a plain http:// URL takes neither: use https://, or remove them")
        .field_path(".endpoint"),
    validation = Rule::new("!has(self.auth) || !has(self.tls) || !has(self.tls.mode) || self.tls.mode != 'InsecureSkipVerify'")
        .message("auth: with tls.mode InsecureSkipVerify anybody may answer and be told the token: name the authority in tls.caBundleRef, or remove auth")
        .field_path(".auth")
)]
pub struct Extender {
    /// The extender's name in status, metrics and events: a DNS label.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Where the extender is.
    pub endpoint: ExtenderEndpoint,
    /// Which calls the extender serves.
    pub verbs: ExtenderVerbs,
    /// What a point of its score (0 to 10) counts, times 10, beside the weighted scores of plugins (0 to 100).
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: i64,
    /// Names: it is sent node names and uids of victims (nodeCacheCapable). Full: whole nodes and pods.
    #[serde(default)]
    pub node_payload: NodePayload,
    /// Extended resources that it manages. Where there are any, only pods that ask for one of them concern it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub managed_resources: Vec<ManagedResource>,
    /// Pods that concern it, by label. Absent: all that its managed resources let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Most requests to it at one time; more wait.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 256))]
    pub max_concurrent_requests: i32,
    /// How its certificate is checked and which one is shown to it. Absent: against the system's authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExtenderTls>,
    /// The credentials that Berth sends to the extender: those of a Secret in the operator's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ExtenderAuth>,
    /// When its circuit opens, and how often it is probed then.
    #[serde(default)]
    pub circuit_breaker: CircuitBreaker,
}

/// Where an extender is: a URL, or a Service.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.url) != has(self.service)")
        .message("endpoint: give either url or service")
)]
pub struct ExtenderEndpoint {
    /// `https://host[:port][/path]`; the verbs' paths are appended. `http://` takes a process flag of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 8, max = 512), regex(pattern = r"^https?://[^/?#@\s]+(/[^?#\s]*)?$"))]
    pub url: Option<String>,
    /// A Service of any namespace, of whose ready endpoints one is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ExtenderService>,
}

/// A Service behind which an extender is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderService {
    /// The Service's name, in the namespace given here.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The Service's namespace: any, and always given, since a profile is in none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// The Service's port.
    #[serde(default = "https_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Path before those of the verbs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256), regex(pattern = r"^(/[^?#\s]*)?$"))]
    pub path: String,
    /// Https, or Http where the operator was started to allow it.
    #[serde(default)]
    pub scheme: Scheme,
}

/// How a Service is spoken to.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// With TLS; the name checked is `<name>.<namespace>.svc`, unless `tls.serverName` is another.
    #[default]
    Https,
    /// Plain text.
    Http,
}

/// What an extender is asked; at least one of these.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.filter) || has(self.prioritize) || has(self.preempt) || has(self.bind)")
        .message("verbs: give at least one of filter, prioritize, preempt and bind")
)]
pub struct ExtenderVerbs {
    /// To take nodes out of those that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterVerb>,
    /// To score the nodes that fit. A failure leaves its scores out, unless failurePolicy is Fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritize: Option<PrioritizeVerb>,
    /// To change or take back proposed victims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<FilterVerb>,
    /// To bind the pod in the place of Berth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<BindVerb>,
}

/// A call whose failure fails the attempt, unless it is to be ignored.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("timeout", "50ms", "60s", "2s"))]
pub struct FilterVerb {
    /// Appended to the endpoint's path.
    #[schemars(length(min = 1, max = 128), regex(pattern = VERB_PATH))]
    pub path: String,
    /// Longest time for the whole call; 50ms to 60s.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Fail: a failed call fails the attempt, which is tried again after backoff. Ignore: it goes on as if the extender
    /// were not there.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
}

/// A call whose failure is ignored, unless it is to fail the attempt.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("timeout", "50ms", "60s", "500ms"))]
pub struct PrioritizeVerb {
    /// Appended to the endpoint's path.
    #[schemars(length(min = 1, max = 128), regex(pattern = VERB_PATH))]
    pub path: String,
    /// Longest time for the whole call; 50ms to 60s.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Ignore: a failed call leaves its scores out, as kube-scheduler does. Fail: it fails the attempt.
    #[serde(default = "ignore")]
    pub failure_policy: FailurePolicy,
}

/// The call that binds. Never ignored: an outcome that is not known is read back.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("timeout", "50ms", "60s", "10s"))]
pub struct BindVerb {
    /// Appended to the endpoint's path.
    #[schemars(length(min = 1, max = 128), regex(pattern = VERB_PATH))]
    pub path: String,
    /// Longest time for the whole call; 50ms to 60s.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

/// What a failed call means.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The attempt fails.
    #[default]
    Fail,
    /// The attempt goes on without it.
    Ignore,
}

/// What an extender is sent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodePayload {
    /// Node names, and uids of victims.
    #[default]
    Names,
    /// Whole nodes, and whole victims.
    Full,
}

/// An extended resource that an extender manages.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ManagedResource {
    /// Its name, such as example.com/gpu.
    #[schemars(length(min = 3, max = 317), regex(pattern = EXTENDED_RESOURCE))]
    pub name: String,
    /// Keep: NodeResourcesFit checks it as well. Skip: it is left to the extender, which needs the verb filter for it.
    #[serde(default)]
    pub fit_check: FitCheck,
}

/// Who checks whether a managed resource fits.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FitCheck {
    /// NodeResourcesFit as well.
    #[default]
    Keep,
    /// The extender alone.
    Skip,
}

/// How a connection to an extender is secured. Secrets and ConfigMaps are those of the operator's namespace; a Secret must name
/// the profile in its annotation `scheduling.berth.dev/extender-profiles`.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderTls {
    /// Verify: its certificate is checked. InsecureSkipVerify: anybody may answer in its place.
    #[serde(default)]
    pub mode: TlsMode,
    /// The name its certificate must have, where it is not the endpoint's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
    /// Authorities that its certificate is checked against: a key of a ConfigMap or Secret in the operator's namespace. A Secret
    /// must name this profile in its annotation `scheduling.berth.dev/extender-profiles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
    /// The certificate that is shown to it: a Secret of type kubernetes.io/tls in the operator's namespace, which must name this
    /// profile in its annotation `scheduling.berth.dev/extender-profiles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_ref: Option<SecretRef>,
}

/// Whether a certificate is checked.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsMode {
    /// The extender's certificate is checked.
    #[default]
    Verify,
    /// The certificate is not checked: anybody may answer in the extender's place.
    InsecureSkipVerify,
}

/// A key of a ConfigMap or Secret that holds certificates in PEM form.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleRef {
    /// ConfigMap or Secret.
    #[serde(default)]
    pub kind: BundleKind,
    /// Name of the ConfigMap or Secret, in the operator's namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub name: String,
    /// Key under which the ConfigMap or Secret has the certificates.
    #[serde(default = "ca_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DATA_KEY))]
    pub key: String,
}

/// What holds certificates.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BundleKind {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

/// A Secret.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret, in the operator's namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub name: String,
}

/// A key of a Secret.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret, in the operator's namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_NAME))]
    pub name: String,
    /// Key under which the Secret has the value.
    #[schemars(length(min = 1, max = 253), regex(pattern = DATA_KEY))]
    pub key: String,
}

/// The credentials that Berth sends to an extender.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderAuth {
    /// A token sent as `Authorization: Bearer …`: a key of a Secret in the operator's namespace, which must name this profile in
    /// its annotation `scheduling.berth.dev/extender-profiles`.
    pub bearer_token_ref: SecretKeyRef,
}

/// When an extender's circuit opens: after five failures in a row from at least two pods.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("openFor", "1s", "10m", "5s"))]
pub struct CircuitBreaker {
    /// How often one call is let through to see whether it answers again; 1s to 10m.
    #[serde(default = "default_open_for")]
    pub open_for: Duration,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self { open_for: default_open_for() }
    }
}

const fn one() -> i64 {
    1
}

const fn default_concurrency() -> i32 {
    32
}

const fn https_port() -> i32 {
    443
}

const fn default_timeout() -> Duration {
    Duration::from_secs(5)
}

const fn default_open_for() -> Duration {
    Duration::from_secs(5)
}

const fn ignore() -> FailurePolicy {
    FailurePolicy::Ignore
}

fn ca_key() -> String {
    "ca.crt".to_owned()
}
