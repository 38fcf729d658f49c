//! etcd and kube-apiserver on free loopback ports, with credentials, ready to use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::authority;
use crate::etcd::ETCD_QUOTA;
use crate::ports::free_address;
use crate::process::{Managed, Watchdog};
use crate::upstream::Upstream;
use crate::wait::StopFlag;

/// Generous: a start takes 3 s on an idle machine, and tests share theirs with compilers.
const READY_LIMIT: Duration = Duration::from_mins(2);
/// Another process may take a port between its choice and its use.
const START_ATTEMPTS: usize = 3;
const PORT_TAKEN: &str = "address already in use";

/// Ends the process groups in their order, each within five seconds, and removes the directory.
const END_SCRIPT: &str = r#"#!/bin/sh
for pid in PIDS; do
  kill -s TERM -- "-$pid" 2>/dev/null
  for _ in $(seq 50); do kill -s 0 -- "-$pid" 2>/dev/null || break; sleep 0.1; done
  kill -s KILL -- "-$pid" 2>/dev/null
done
rm -rf -- 'DIRECTORY'
"#;

/// Whether etcd waits for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// No fsync: for tests, which never lose power.
    #[default]
    Volatile,
    /// fsync as in production: for benchmarks and whatever must compare with figures measured elsewhere.
    Fsync,
}

/// How to start a control plane. The default suits tests.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether etcd waits for the disk.
    pub durability: Durability,
    /// Further flags of kube-apiserver.
    pub apiserver_args: Vec<String>,
    /// Whether kube-apiserver is reached by IPv6 alone, as in a cluster without IPv4.
    pub ipv6: bool,
    /// Raised by others to give up waiting.
    pub stop: StopFlag,
}

/// A running control plane. Dropping it ends its processes and removes its directory; parts started beside it belong
/// to the caller and should be dropped first.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: the server before its store, the directory last.
    apiserver: Mutex<Managed>,
    etcd: Managed,
    ports: Ports,
    durability: Durability,
    apiserver_args: Vec<String>,
    ipv6: bool,
    pub(crate) upstream: Upstream,
    pub(crate) stop: StopFlag,
    /// `https://127.0.0.1:PORT` of kube-apiserver, or `https://[::1]:PORT`.
    pub server: String,
    /// The PEM file to trust for [`Self::server`].
    pub authority: PathBuf,
    /// A kubeconfig of the cluster's administrator.
    pub kubeconfig: PathBuf,
    /// A client as the cluster's administrator.
    pub api: Api,
    _remover: Watchdog,
    directory: TempDir,
}

/// The loopback ports of one attempt.
#[derive(Debug)]
struct Ports {
    client: u16,
    peer: u16,
    secure: u16,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver and waits until they serve. Builds the upstream binaries first if need be.
    /// The error of a part that does not come up ends with the tail of its log.
    pub fn start(options: &Options) -> Result<Self> {
        let upstream = Upstream::find_or_build()?;
        let mut attempt = 1;
        loop {
            match Self::start_once(options, &upstream) {
                Err(error) if attempt < START_ATTEMPTS && format!("{error:#}").contains(PORT_TAKEN) => {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn start_once(options: &Options, upstream: &Upstream) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("berth-lab-").tempdir()?;
        let dir = directory.path();
        let remover = Watchdog::removing(dir)?;
        let ports = free_ports()?;
        let token = write_credentials(dir)?;
        let mut etcd = start_etcd(upstream, dir, &ports, options.durability, ETCD_QUOTA)?;
        let mut apiserver = start_apiserver(upstream, dir, &ports, options.ipv6, &options.apiserver_args)?;

        let host = if options.ipv6 { "[::1]" } else { "127.0.0.1" };
        let server = format!("https://{host}:{}", ports.secure);
        let authority = dir.join("certs/apiserver.crt");
        options.stop.wait_for("kube-apiserver's certificate", READY_LIMIT, || {
            fail_if_ended(&mut etcd)?;
            fail_if_ended(&mut apiserver)?;
            Ok(authority.exists().then_some(()))
        })?;
        let api = Api::new(&server, &authority, &token)?;
        let mut last = String::new();
        let ready = options.stop.wait_for("kube-apiserver to be ready", READY_LIMIT, || {
            fail_if_ended(&mut etcd)?;
            fail_if_ended(&mut apiserver)?;
            Ok(match is_ready(&api) {
                Ok(()) => Some(()),
                Err(error) => {
                    last = format!("{error:#}");
                    None
                }
            })
        });
        ready.map_err(|error| apiserver.explain(&error.context(format!("last answer: {last}"))))?;

        let kubeconfig = dir.join("admin.kubeconfig");
        let cluster = json!({"server": server, "certificate-authority": authority});
        write_kubeconfig(&kubeconfig, &cluster, &json!({"token": token}))?;
        Ok(Self {
            apiserver: Mutex::new(apiserver),
            etcd,
            ports,
            durability: options.durability,
            apiserver_args: options.apiserver_args.clone(),
            ipv6: options.ipv6,
            upstream: upstream.clone(),
            stop: options.stop.clone(),
            server,
            authority,
            kubeconfig,
            api,
            _remover: remover,
            directory,
        })
    }

    /// The temporary directory: logs (`NAME.log`), credentials, data. It goes away with this value.
    pub fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// kube-apiserver, for its figures, its log and its end.
    pub fn apiserver(&self) -> MutexGuard<'_, Managed> {
        self.apiserver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts kube-apiserver again after its end, at the same address and with the same certificate. Waits until it is ready.
    pub fn restart_apiserver(&self) -> Result<()> {
        let Self { upstream, ports, ipv6, apiserver_args, .. } = self;
        *self.apiserver() = start_apiserver(upstream, self.dir(), ports, *ipv6, apiserver_args)?;
        self.stop.wait_for("kube-apiserver to be ready again", READY_LIMIT, || {
            fail_if_ended(&mut self.apiserver())?;
            Ok(is_ready(&self.api).is_ok().then_some(()))
        })
    }

    /// etcd, for its figures and its log.
    pub fn etcd(&self) -> &Managed {
        &self.etcd
    }

    /// Starts etcd again, on its data and with another quota in bytes. Waits until kube-apiserver is ready.
    pub fn restart_etcd(&mut self, quota: u64) -> Result<()> {
        self.etcd.signal(Signal::TERM)?;
        self.etcd.wait(READY_LIMIT)?;
        self.etcd = start_etcd(&self.upstream, self.directory.path(), &self.ports, self.durability, quota)?;
        self.stop.wait_for("kube-apiserver to be ready on another etcd", READY_LIMIT, || {
            fail_if_ended(&mut self.etcd)?;
            Ok(is_ready(&self.api).is_ok().then_some(()))
        })
    }

    /// `http://127.0.0.1:PORT` of etcd, which also speaks JSON there.
    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.client)
    }

    /// Waits as [`crate::wait_for`], and gives up when the options' stop flag is raised.
    pub fn wait_for<T>(&self, what: &str, limit: Duration, condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.stop.wait_for(what, limit, condition)
    }

    /// Starts any other process beside the control plane; its log is `NAME.log` in [`Self::dir`].
    pub fn spawn(&self, name: &str, command: Command) -> Result<Managed> {
        Managed::spawn(name, command, self.dir().join(format!("{name}.log")))
    }

    /// A token of a ServiceAccount, good for a day.
    pub fn token_for(&self, namespace: &str, account: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        });
        let answer = self.api.post(&path, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token.context("the answer to a TokenRequest holds no token")?.to_owned())
    }

    /// Writes `NAME.kubeconfig` in [`Self::dir`] for the bearer of `token`.
    pub fn kubeconfig_for_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        let path = self.dir().join(format!("{name}.kubeconfig"));
        let cluster = json!({"server": self.server, "certificate-authority": self.authority});
        write_kubeconfig(&path, &cluster, &json!({"token": token}))?;
        Ok(path)
    }

    /// Writes `NAME.kubeconfig` and `NAME.token` in [`Self::dir`] for a pod: it speaks to a `cluster`, as kubeconfigs describe
    /// one, with the token that the file holds, which may change.
    pub(crate) fn kubeconfig_of_pod(&self, name: &str, token: &str, cluster: &Value) -> Result<PathBuf> {
        let file = self.write_token(name, token)?;
        let path = self.dir().join(format!("{name}.kubeconfig"));
        write_kubeconfig(&path, cluster, &json!({"tokenFile": file}))?;
        Ok(path)
    }

    /// Replaces the token of the operator that plays the pod `name`, as a kubelet does.
    pub fn write_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        let file = self.dir().join(format!("{name}.token"));
        fs::write(&file, token).with_context(|| format!("writing {}", file.display()))?;
        Ok(file)
    }

    /// Leaves everything running without an owner: etcd, kube-apiserver and `others`. Returns a script that ends them
    /// and removes the directory.
    pub fn keep(self, others: Vec<Managed>) -> Result<PathBuf> {
        let Self { apiserver, etcd, directory, _remover: remover, .. } = self;
        drop(remover);
        let apiserver = apiserver.into_inner().unwrap_or_else(PoisonError::into_inner);
        let pids: Vec<String> =
            others.into_iter().chain([apiserver, etcd]).map(|managed| managed.detach().to_string()).collect();
        let directory = directory.keep();
        let script = directory.join("stop.sh");
        let text = END_SCRIPT.replace("PIDS", &pids.join(" ")).replace("DIRECTORY", &directory.display().to_string());
        fs::write(&script, text)?;
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(script)
    }
}

fn start_etcd(upstream: &Upstream, dir: &Path, ports: &Ports, durability: Durability, quota: u64) -> Result<Managed> {
    let client = format!("http://127.0.0.1:{}", ports.client);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    let mut command = Command::new(upstream.binary("etcd"));
    command.arg("--data-dir").arg(dir.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}"), "--log-level", "warn"]);
    command.args(["--quota-backend-bytes", &quota.to_string()]);
    if durability == Durability::Volatile {
        command.arg("--unsafe-no-fsync");
    }
    Managed::spawn("etcd", command, dir.join("etcd.log"))
}

fn start_apiserver(upstream: &Upstream, dir: &Path, ports: &Ports, ipv6: bool, further: &[String]) -> Result<Managed> {
    let (address, services) = if ipv6 { ("::1", "fd00:10::/112") } else { ("127.0.0.1", "10.0.0.0/24") };
    let mut command = Command::new(upstream.binary("kube-apiserver"));
    command.args(["--etcd-servers", &format!("http://127.0.0.1:{}", ports.client)]);
    command.args(["--bind-address", address, "--advertise-address", address]);
    command.args(["--secure-port", &ports.secure.to_string()]);
    command.arg("--cert-dir").arg(dir.join("certs"));
    command.args(["--service-cluster-ip-range", services]);
    command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
    command.arg("--service-account-signing-key-file").arg(dir.join("sa.key"));
    command.arg("--service-account-key-file").arg(dir.join("sa.key"));
    command.args(["--authorization-mode", "RBAC"]);
    command.arg("--token-auth-file").arg(dir.join("tokens.csv"));
    // Without kube-controller-manager no namespace gets its default account, and this plugin would refuse every pod.
    command.args(["--disable-admission-plugins", "ServiceAccount"]);
    command.args(["--endpoint-reconciler-type", "none"]);
    command.args(authority::flag(dir));
    command.args(further);
    Managed::spawn("kube-apiserver", command, dir.join("kube-apiserver.log"))
}

/// Makes the key that signs ServiceAccount tokens and the administrator's token, and returns the latter.
fn write_credentials(dir: &Path) -> Result<String> {
    let key = openssl(dir, "genrsa 2048")?;
    fs::write(dir.join("sa.key"), key)?;
    let token = openssl(dir, "rand -hex 16")?.trim().to_owned();
    fs::write(dir.join("tokens.csv"), format!("{token},admin,admin,system:masters\n"))?;
    Ok(token)
}

/// Runs openssl in `dir`. Arguments are separated by spaces.
pub(crate) fn openssl(dir: &Path, args: &str) -> Result<String> {
    let mut command = Command::new("openssl");
    command.args(args.split(' ')).current_dir(dir);
    let output = command.output().context("running openssl: is it installed?")?;
    if !output.status.success() {
        bail!("openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn write_kubeconfig(path: &Path, cluster: &Value, user: &Value) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
    });
    fs::write(path, serde_json::to_string_pretty(&config)?).with_context(|| format!("writing {}", path.display()))
}

/// Ready means more than `/readyz`: the system's namespaces are made shortly after it.
fn is_ready(api: &Api) -> Result<()> {
    let answer = api.request("GET", "/readyz", None)?;
    if !answer.is_success() {
        let text = answer.body.as_str().map_or_else(|| answer.body.to_string(), str::to_owned);
        let failing: Vec<&str> = text.lines().filter(|line| line.starts_with("[-]")).collect();
        bail!("/readyz says {}: {}", answer.status, failing.join(", "));
    }
    for namespace in ["default", "kube-system"] {
        let _: Value = api.get(&format!("/api/v1/namespaces/{namespace}"))?;
    }
    Ok(())
}

fn fail_if_ended(part: &mut Managed) -> Result<()> {
    match part.ended()? {
        Some(status) => Err(part.explain(&anyhow!("{} ended while starting ({status})", part.name()))),
        None => Ok(()),
    }
}

fn free_ports() -> Result<Ports> {
    let port = || free_address().map(|address| address.port());
    Ok(Ports { client: port()?, peer: port()?, secure: port()? })
}
