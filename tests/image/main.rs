//! What `make image` makes, here from the debug binary, in `make test-image` from the one that is packaged: the layout, what its layers
//! unpack to, the binary run in that, and the bill of materials. Needs apt-get (Debian or Ubuntu); elsewhere each test of the image
//! says that it is left out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contents;
mod layout;
mod limit;
mod running;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// Names a binary with its symbols that is looked at in the place of the debug one.
const NAMED: &str = "BERTH_IMAGE_BINARY";

/// The binary that is looked at.
fn berth() -> String {
    std::env::var(NAMED).unwrap_or_else(|_| env!("CARGO_BIN_EXE_berth").to_owned())
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A new, empty folder.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _absent = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// What the program prints; it must succeed.
fn ran(program: impl AsRef<OsStr>, args: &[&str]) -> String {
    let program = program.as_ref();
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {args:?}: {said}", program.to_string_lossy());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Says that a test is left out.
#[allow(clippy::explicit_write, reason = "the harness keeps to itself what a passing test prints by a macro")]
fn left_out(test: &str, why: &str) {
    writeln!(std::io::stderr(), "left out: {test}: {why}").unwrap();
}

/// A folder that `hack/image.sh` filled.
struct Image {
    folder: PathBuf,
    /// What the script printed.
    digest: String,
}

impl Image {
    fn make(name: &str) -> Self {
        let folder = folder(name);
        let output = Command::new(repository().join("hack/image.sh"))
            .arg(berth())
            .env("BERTH_IMAGE_QUICK", "1")
            .env("BERTH_IMAGE_DIR", &folder)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let digest = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Self { folder, digest }
    }

    /// The one for all tests. `None`: there is no apt-get, and this is said.
    fn shared(test: &str) -> Option<&'static Self> {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        let is_there = |tool| Command::new(tool).arg("--version").output().is_ok();
        if !is_there("apt-get") || !is_there("dpkg-deb") {
            // Who names a binary wants it looked at.
            assert!(std::env::var_os(NAMED).is_none(), "{NAMED} is set, but there is no apt-get and dpkg-deb");
            left_out(test, "no apt-get and dpkg-deb here, which bring the packages of the image");
            return None;
        }
        Some(IMAGE.get_or_init(|| Self::make("image")))
    }

    fn oci(&self) -> PathBuf {
        self.folder.join("oci")
    }

    fn blob(&self, digest: &str) -> PathBuf {
        self.oci().join("blobs").join(digest.replace(':', "/"))
    }

    fn blob_json(&self, digest: &Value) -> Value {
        json_of(&self.blob(digest.as_str().unwrap()))
    }

    fn manifest(&self) -> Value {
        json_of(&self.blob(&self.digest))
    }

    /// What a container runtime reads.
    fn config(&self) -> Value {
        self.blob_json(&self.manifest()["config"]["digest"])
    }

    /// The archives of the layers, lowest first.
    fn layers(&self) -> Vec<PathBuf> {
        let layers = self.manifest()["layers"].clone();
        layers.as_array().unwrap().iter().map(|layer| self.blob(layer["digest"].as_str().unwrap())).collect()
    }

    /// The layers, unpacked in a folder of this name.
    fn unpacked(&self, name: &str) -> PathBuf {
        let root = folder(name);
        for layer in self.layers() {
            ran("tar", &["-xzf", layer.to_str().unwrap(), "-C", root.to_str().unwrap()]);
        }
        root
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
