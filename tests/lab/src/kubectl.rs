//! kubectl and helm, as a user would run them.

use std::ffi::OsStr;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::control_plane::ControlPlane;
use crate::upstream::repository;

/// What a command printed and whether it succeeded.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether its exit code was 0.
    pub success: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl ControlPlane {
    /// Runs kubectl as the cluster's administrator. An error only when it could not be started.
    pub fn kubectl<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Outcome> {
        self.run("kubectl", args)
    }

    /// Runs kubectl and returns its standard output; an error with its standard error when it fails.
    pub fn kubectl_ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String> {
        demand("kubectl", args, self.kubectl(args)?)
    }

    /// Runs helm as the cluster's administrator and returns its standard output; an error with its standard error when
    /// it fails.
    pub fn helm<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String> {
        demand("helm", args, self.try_helm(args)?)
    }

    /// Runs helm as the cluster's administrator. An error only when it could not be started.
    pub fn try_helm<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Outcome> {
        self.run("helm", args)
    }

    /// `kubectl apply` of these YAML documents; an error when anything in them is refused.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        let outcome = self.try_apply(yaml)?;
        demand("kubectl", &["apply"], outcome)
    }

    /// `kubectl apply` of these YAML documents, whatever comes of it.
    pub fn try_apply(&self, yaml: &str) -> Result<Outcome> {
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile_in(self.dir())?;
        file.write_all(yaml.as_bytes())?;
        self.kubectl(&[OsStr::new("apply"), OsStr::new("-f"), file.path().as_os_str()])
    }

    /// A command of upstream's with the administrator's kubeconfig and no file of the user's home. Its working directory
    /// is the root of the repository, so that `-f examples/…` reads as a user would type it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.upstream.binary(program));
        command.current_dir(repository());
        command.env("KUBECONFIG", &self.kubeconfig);
        command.env("KUBECACHEDIR", self.dir().join("kube-cache"));
        for (variable, folder) in
            [("HELM_CACHE_HOME", "helm-cache"), ("HELM_CONFIG_HOME", "helm-config"), ("HELM_DATA_HOME", "helm-data")]
        {
            command.env(variable, self.dir().join(folder));
        }
        command
    }

    fn run<S: AsRef<OsStr>>(&self, program: &str, args: &[S]) -> Result<Outcome> {
        let output = self.command(program).args(args).output().with_context(|| format!("starting {program}"))?;
        Ok(Outcome {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

fn demand<S: AsRef<OsStr>>(program: &str, args: &[S], outcome: Outcome) -> Result<String> {
    if outcome.success {
        return Ok(outcome.stdout);
    }
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    bail!("{program} {} failed: {}{}", words.join(" "), outcome.stderr.trim(), outcome.stdout)
}
