//! Certificate authorities of the API server that a test replaces.
//!
//! They stand beside the certificate that kube-apiserver makes for itself: a client that asks for [`SERVER_NAME`] is shown one by
//! the newest authority, and the lab's own clients, which ask for an address, go on with the server's own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::control_plane::{ControlPlane, openssl};

/// The name by which the API server is asked for if its certificate is to come from [`ControlPlane::new_authority`].
pub(crate) const SERVER_NAME: &str = "kubernetes.default.svc";

/// The directory of the authority and of the certificate that it gave.
const FOLDER: &str = "authority";

impl ControlPlane {
    /// Makes an authority and, by it, a certificate that kube-apiserver shows from its next start on, in place of an earlier one.
    /// Returns the authority's own certificate, in PEM: the text that a client is to trust. All have the same name, as in a
    /// cluster whose authority is replaced.
    pub fn new_authority(&self) -> Result<String> {
        let dir = self.dir().join(FOLDER);
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        fs::write(dir.join("names"), format!("subjectAltName=DNS:{SERVER_NAME}"))?;
        for args in [
            "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=kubernetes",
            "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=kube-apiserver",
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
        ] {
            openssl(&dir, args)?;
        }
        Ok(fs::read_to_string(dir.join("ca.crt"))?)
    }
}

/// kube-apiserver's flag for the certificate, once there is one.
pub(crate) fn flag(dir: &Path) -> Option<String> {
    let file = |name: &str| dir.join(FOLDER).join(name);
    let (certificate, key) = (file("server.crt"), file("server.key"));
    let is_there = certificate.exists();
    is_there.then(|| format!("--tls-sni-cert-key={},{}:{SERVER_NAME}", certificate.display(), key.display()))
}
