//! A scheduler extender in another language, on upstream's own wire types (`tests/upstream/extender`): it answers by rules, and
//! keeps what it was asked.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::process::Managed;
use crate::upstream::built;

/// Longest wait for it to serve.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// How to start an extender. The default speaks plain text, keeps its requests and cannot bind.
#[derive(Debug, Clone, Default)]
pub struct ExtenderOptions<'a> {
    /// Where it listens, if not on a free port of `127.0.0.1`: `[::1]:0`.
    pub address: Option<&'a str>,
    /// Certificate and private key to serve TLS with.
    pub tls: Option<(&'a Path, &'a Path)>,
    /// Authorities of client certificates: with them one is required.
    pub client_authorities: Option<&'a Path>,
    /// How it binds pods.
    pub kubeconfig: Option<&'a Path>,
    /// Keeps no requests, for benchmarks.
    pub quiet: bool,
}

/// A running extender. Dropping it ends it.
#[derive(Debug)]
pub struct Extender {
    /// The process.
    pub process: Managed,
    /// Where it listens, as `127.0.0.1:PORT` or `[::1]:PORT`.
    pub address: String,
    /// What callers put before a verb: `http://…` or `https://…`, without a slash at its end.
    pub url: String,
    control: Option<ureq::Agent>,
}

impl ControlPlane {
    /// Starts an extender and waits until it listens. Builds it first if need be.
    pub fn start_extender(&self, name: &str, options: &ExtenderOptions<'_>) -> Result<Extender> {
        let mut command = Command::new(built("--extender")?);
        if let Some(address) = options.address {
            command.arg("--address").arg(address);
        }
        if let Some((certificate, key)) = options.tls {
            command.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        if let Some(authorities) = options.client_authorities {
            command.arg("--client-ca").arg(authorities);
        }
        if let Some(kubeconfig) = options.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        if options.quiet {
            command.arg("--quiet");
        }
        let process = self.spawn(name, command)?;
        let address = self.wait_for("the extender to listen", READY_LIMIT, || {
            let log = process.log_tail(20);
            Ok(log.lines().find_map(|line| line.strip_prefix("listening on ")).map(str::to_owned))
        });
        let address = address.map_err(|error| process.explain(&error))?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        // Rules and requests go over plain text only: a test that needs TLS has no need to change them.
        let control = options.tls.is_none().then(|| ureq::Agent::config_builder().build().into());
        Ok(Extender { process, url: format!("{scheme}://{address}"), address, control })
    }
}

impl Extender {
    /// Sets what it answers from now on: see `tests/upstream/extender/rules.go`.
    pub fn rule(&self, rules: &Value) -> Result<()> {
        let body = rules.to_string();
        let agent = self.agent()?;
        agent.put(format!("{}/rules", self.url)).send(&body).context("setting the extender's rules")?;
        Ok(())
    }

    /// What it was asked so far: `{"verb", "agent", "token", "body"}` each, in order.
    pub fn requests(&self) -> Result<Vec<Value>> {
        let mut answer = self.agent()?.get(format!("{}/requests", self.url)).call()?;
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string()?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Forgets what it was asked.
    pub fn forget(&self) -> Result<()> {
        self.agent()?.delete(format!("{}/requests", self.url)).call()?;
        Ok(())
    }

    /// `spec.extenders[]` of a profile that asks it everything but to bind.
    pub fn spec(&self, name: &str) -> Value {
        json!({
            "name": name,
            "endpoint": {"url": self.url},
            "verbs": {"filter": {"path": "filter"}, "prioritize": {"path": "prioritize"}, "preempt": {"path": "preempt"}},
        })
    }

    fn agent(&self) -> Result<&ureq::Agent> {
        self.control.as_ref().context("an extender with TLS takes no rules")
    }
}
