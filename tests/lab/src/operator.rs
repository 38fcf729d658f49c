//! The operator as the chart would run it, but as a process on this machine: its arguments and environment are those of
//! the rendered Deployment, its credentials a token of the chart's own ServiceAccount.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::authority::SERVER_NAME;
use crate::control_plane::ControlPlane;
use crate::ports::free_address;
use crate::process::Managed;

const READY_LIMIT: Duration = Duration::from_mins(1);

/// How old the metrics may be that the operator serves, the time to write them included.
const METRICS_AGE: Duration = Duration::from_millis(1_200);

const HTTP_FLAG: &str = "--http-address";
const DEBUG_FLAG: &str = "--debug-address";

/// Flags of the Deployment that get another value here: many operators share this machine, and tests read metrics without
/// a token. Each can be given all the same.
const REPLACED: [&str; 2] = ["--probe-address=127.0.0.1:0", "--metrics-authorization=false"];

/// Which operator to run, and as what.
#[derive(Debug, Clone)]
pub struct OperatorOptions {
    /// The `berth` binary.
    pub binary: PathBuf,
    /// The namespace and the name of the Deployment to read.
    pub deployment: (String, String),
    /// The name of the pod that it plays: its identity in the Lease, and the name of its log.
    pub pod_name: String,
    /// Arguments that replace those of the same flag (`--flag=value`) in the Deployment, or are added to them.
    pub args: Vec<String>,
    /// Where it finds the API server, if not at its own address: a proxy in between.
    pub server: Option<String>,
    /// A PEM file of the authorities that it trusts, as a pod has: [`ControlPlane::new_authority`] makes one. It then speaks
    /// to the API server itself, over TLS.
    pub authority: Option<PathBuf>,
    /// Variables beside those of the Deployment.
    pub env: Vec<(String, String)>,
}

impl OperatorOptions {
    /// The binary as installed by `helm install berth charts/berth --namespace berth-system`.
    pub fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            deployment: ("berth-system".to_owned(), "berth".to_owned()),
            pod_name: "berth-lab".to_owned(),
            args: Vec::new(),
            server: None,
            authority: None,
            env: Vec::new(),
        }
    }
}

/// A running operator. Dropping it ends it with SIGTERM.
#[derive(Debug)]
pub struct Operator {
    /// The process.
    pub process: Managed,
    /// `http://127.0.0.1:PORT` of its `/livez`, `/readyz` and `/metrics`.
    pub http: String,
    /// The same of its pages for debugging.
    pub debug: String,
    /// What it was given at its start to be known by; no other process has the same.
    pub token: String,
}

impl Operator {
    /// GET of one of its own pages: the status and the text, which knows of everything that happened before the call.
    pub fn page(&self, path: &str) -> Result<(u16, String)> {
        self.page_as(path, None)
    }

    /// As [`Self::page`], with a bearer token.
    pub fn page_as(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        if path == "/metrics" {
            std::thread::sleep(METRICS_AGE);
        }
        Self::get(&format!("{}{path}", self.http), token)
    }

    /// As [`Self::page`], of its pages for debugging.
    pub fn debug_page(&self, path: &str) -> Result<(u16, String)> {
        Self::get(&format!("{}{path}", self.debug), None)
    }

    fn get(url: &str, token: Option<&str>) -> Result<(u16, String)> {
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        let mut request = agent.get(url);
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call()?;
        let status = answer.status().as_u16();
        Ok((status, answer.body_mut().read_to_string()?))
    }
}

impl ControlPlane {
    /// Starts the operator. Of the Deployment's arguments only those about its own pages are changed: they are on a free
    /// loopback port, and open. Does not wait: see [`Self::wait_until_serving`].
    pub fn start_operator(&self, options: &OperatorOptions) -> Result<Operator> {
        let (namespace, name) = &options.deployment;
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        let deployment = self.api.get(&path).context("reading the chart's Deployment")?;
        let spec = &deployment["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        let account = spec["serviceAccountName"]
            .as_str()
            .with_context(|| format!("deployment {namespace}/{name} names no serviceAccountName"))?;
        let environment = environment(container, namespace, &options.pod_name, account)?;
        let (args, [http, debug]) = arguments(container, &environment, &options.args)?;

        let token = self.token_for(namespace, account)?;
        let cluster = if let Some(file) = &options.authority {
            json!({"server": self.server, "certificate-authority": file, "tls-server-name": SERVER_NAME})
        } else {
            let server = options.server.as_deref().unwrap_or(&self.server);
            json!({"server": server, "certificate-authority": self.authority})
        };
        let kubeconfig = self.kubeconfig_of_pod(&options.pod_name, &token, &cluster)?;
        let mut command = Command::new(&options.binary);
        command.args(args).env_clear().envs(environment).env("KUBECONFIG", kubeconfig);
        command.envs(options.env.iter().cloned());
        command.current_dir(self.dir());
        let process = self.spawn(&options.pod_name, command)?;
        Ok(Operator { process, http, debug, token })
    }

    /// Waits until the operator is ready and leads; an error ends with the tail of its log.
    pub fn wait_until_serving(&self, operator: &mut Operator) -> Result<()> {
        self.wait_until(operator, |page| page.contains("\nleader: "))
    }

    /// Waits until the operator is ready: it leads, or stands by.
    pub fn wait_until_ready(&self, operator: &mut Operator) -> Result<()> {
        self.wait_until(operator, |_| true)
    }

    fn wait_until(&self, operator: &mut Operator, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let ready = self.wait_for("the operator's /readyz", READY_LIMIT, || {
            if let Some(status) = operator.process.ended()? {
                bail!("the operator ended ({status})");
            }
            let answer = operator.page("/readyz?verbose");
            Ok(answer.is_ok_and(|(status, page)| status == 200 && wanted(&page)).then_some(()))
        });
        ready.map_err(|error| operator.process.explain(&error))
    }
}

/// The variables of the container, as a kubelet would resolve them for this pod.
fn environment(container: &Value, namespace: &str, pod_name: &str, account: &str) -> Result<BTreeMap<String, String>> {
    let mut resolved = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().context("a variable of the Deployment has no name")?;
        let value = if let Some(field) = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            match field {
                "metadata.name" => pod_name.to_owned(),
                "metadata.namespace" => namespace.to_owned(),
                // No pod stands behind this process; events on it only need the form of a uid.
                "metadata.uid" => format!("00000000-0000-4000-8000-{:012x}", std::process::id()),
                "spec.serviceAccountName" => account.to_owned(),
                "status.podIP" => "127.0.0.1".to_owned(),
                _ => bail!("variable {name} of the Deployment: field {field} has no value here"),
            }
        } else if variable.get("valueFrom").is_some() {
            bail!("variable {name} of the Deployment: only fieldRef can be resolved here");
        } else {
            expand(variable["value"].as_str().unwrap_or_default(), &resolved)
        };
        resolved.insert(name.to_owned(), value);
    }
    Ok(resolved)
}

/// The container's arguments with `overrides` in force, and the URLs of the operator's pages and of those for debugging.
fn arguments(
    container: &Value,
    environment: &BTreeMap<String, String>,
    overrides: &[String],
) -> Result<(Vec<String>, [String; 2])> {
    let flag_of = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let mut overrides = overrides.to_vec();
    for flag in [HTTP_FLAG, DEBUG_FLAG] {
        if !overrides.iter().any(|argument| flag_of(argument) == flag) {
            let free = free_address()?;
            overrides.push(format!("{flag}={free}"));
        }
    }
    for flag in REPLACED {
        if !overrides.iter().any(|argument| flag_of(argument) == flag_of(flag)) {
            overrides.push(flag.to_owned());
        }
    }
    let url = |flag: &str| {
        let address = overrides.iter().find_map(|argument| argument.strip_prefix(flag)?.strip_prefix('='));
        address
            .map(|address| format!("http://{address}"))
            .with_context(|| format!("{flag} must be given as {flag}=HOST:PORT"))
    };
    let urls = [url(HTTP_FLAG)?, url(DEBUG_FLAG)?];
    let replaced: Vec<String> = overrides.iter().map(|argument| flag_of(argument)).collect();
    let kept = container["args"]
        .as_array()
        .context("the Deployment's container has no arguments")?
        .iter()
        .filter_map(Value::as_str)
        .filter(|argument| !replaced.contains(&flag_of(argument)))
        .map(|argument| expand(argument, environment));
    Ok((kept.chain(overrides.iter().cloned()).collect(), urls))
}

/// Replaces each `$(NAME)` of a known variable, as a kubelet does; unknown ones stay.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployment_is_read_as_a_kubelet_reads_it() {
        let container = json!({
            "args": ["operator", "--state-namespace=$(POD_NAMESPACE)", "--http-address=0.0.0.0:8080", "--qps=$(NONE)"],
            "env": [
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "WHO", "value": "me in $(POD_NAMESPACE)"},
            ],
        });
        let environment = environment(&container, "berth-system", "berth-0", "berth").unwrap();
        assert_eq!(environment["WHO"], "me in berth-system");
        let overrides = ["--http-address=127.0.0.1:7", "--debug-address=127.0.0.1:8", "--more=1"].map(str::to_owned);
        let (args, urls) = arguments(&container, &environment, &overrides).unwrap();
        assert_eq!(urls, ["http://127.0.0.1:7", "http://127.0.0.1:8"]);
        assert_eq!(
            args,
            [
                "operator",
                "--state-namespace=berth-system",
                "--qps=$(NONE)",
                "--http-address=127.0.0.1:7",
                "--debug-address=127.0.0.1:8",
                "--more=1",
                "--probe-address=127.0.0.1:0",
                "--metrics-authorization=false"
            ]
        );
    }

    #[test]
    fn a_variable_that_cannot_be_resolved_is_named() {
        let container = json!({
            "env": [{"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        });
        let error = environment(&container, "ns", "pod", "account").unwrap_err();
        assert!(error.to_string().contains("SECRET"), "{error}");
    }
}
