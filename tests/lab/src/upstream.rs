//! The upstream binaries: where they are, and how they come to be there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The directory of upstream's binaries, complete.
#[derive(Debug, Clone)]
pub struct Upstream {
    home: PathBuf,
}

impl Upstream {
    /// The binaries for the pins of this checkout. Builds them first if they are missing (about eight minutes,
    /// once per machine and pin), with progress on stderr.
    pub fn find_or_build() -> Result<Self> {
        static FOUND: OnceLock<PathBuf> = OnceLock::new();
        if let Some(home) = FOUND.get() {
            return Ok(Self { home: home.clone() });
        }
        let script = repository().join("hack/upstream.sh");
        let printed = Command::new(&script)
            .arg("--print-bin")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("running {}", script.display()))?;
        let bin = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
        let home = match bin.parent() {
            Some(home) if printed.status.success() => home.to_owned(),
            _ => bail!("{} --print-bin named no directory", script.display()),
        };
        if !home.join("complete").exists() && !home.join("complete-demo").exists() {
            let built = Command::new(&script).stdin(Stdio::null()).status()?;
            if !built.success() {
                bail!("{} failed ({built}); its own output says why", script.display());
            }
        }
        Ok(Self { home: FOUND.get_or_init(|| home).clone() })
    }

    /// The path of one binary: `etcd`, `kube-apiserver`, `kubectl`, `kube-scheduler`, `kube-controller-manager`,
    /// `kwok` or `helm`. Where only the demo's are there, the others are built first, with progress on stderr.
    pub fn binary(&self, name: &str) -> PathBuf {
        let path = self.home.join("bin").join(name);
        if !path.exists() {
            // A failure says why on stderr, and starting the binary fails.
            let _built = Command::new(repository().join("hack/upstream.sh")).stdin(Stdio::null()).status();
        }
        path
    }

    /// kwok's stages for nodes that become ready and pods that run, complete and go away at once.
    pub fn kwok_stages(&self) -> PathBuf {
        self.home.join("kwok-stages.yaml")
    }

    /// The path of the conformance oracle: upstream's own scheduler behind JSON lines (`tests/upstream/oracle`).
    /// Builds it, and the parts before it, if they are missing, with progress on stderr.
    pub fn oracle() -> Result<PathBuf> {
        static FOUND: OnceLock<PathBuf> = OnceLock::new();
        built_once(&FOUND, "--oracle")
    }

    /// The path of the tool that says what kstatus and Argo CD make of objects (`tests/upstream/health`). Builds it, and the
    /// parts before it, if they are missing, with progress on stderr.
    pub fn health() -> Result<PathBuf> {
        built("--health")
    }

    /// The path of the tool that makes and checks image layouts (`tests/upstream/crane`). Builds it if it is missing, with progress
    /// on stderr, and nothing else.
    pub fn crane() -> Result<PathBuf> {
        built("--crane")
    }

    /// The path of the tool that knows how the published types are encoded (`tests/upstream/fields`). Builds it if it is missing, with
    /// progress on stderr, and nothing else.
    pub fn fields() -> Result<PathBuf> {
        built("--fields")
    }

    /// The path of krew, which installs plugins of kubectl. Builds it if it is missing, with progress on stderr, and nothing else.
    pub fn krew() -> Result<PathBuf> {
        built("--krew")
    }

    /// The path of promtool, with which Prometheus' own tests of rules are run ([`crate::promtool()`]). Builds it, and the parts
    /// before it, if they are missing, with progress on stderr.
    pub(crate) fn promtool() -> Result<PathBuf> {
        static FOUND: OnceLock<PathBuf> = OnceLock::new();
        built_once(&FOUND, "--promtool")
    }

    /// The path of Prometheus itself ([`crate::Prometheus`]). Builds it, and the parts before it, if they are missing, with
    /// progress on stderr.
    pub(crate) fn prometheus() -> Result<PathBuf> {
        built("--prometheus")
    }
}

/// As [`built`], which this process asks once.
fn built_once(known: &OnceLock<PathBuf>, option: &str) -> Result<PathBuf> {
    if let Some(found) = known.get() {
        return Ok(found.clone());
    }
    let found = built(option)?;
    Ok(known.get_or_init(|| found).clone())
}

/// The path that `hack/upstream.sh` prints for `option`, of a binary that it builds if need be.
pub(crate) fn built(option: &str) -> Result<PathBuf> {
    let script = repository().join("hack/upstream.sh");
    let output = Command::new(&script)
        .arg(option)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} {option} failed ({}); its own output says why", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The root of this repository's checkout.
pub(crate) fn repository() -> &'static Path {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.ancestors().nth(2).unwrap_or(lab)
}
