//! TLS settings of an extender: files and certificates there, references to Secrets and ConfigMaps here.

use super::loss::Loss;
use super::node::{Fields, ImportError, Node};
use berth_api as api;
use serde_json::{Value, json};

/// What is reported beside the result.
pub(super) struct Out<'a> {
    pub(super) losses: &'a mut Vec<Loss>,
    pub(super) manifests: &'a mut Vec<Value>,
}

/// A certificate or a key: base64 in the document itself, which has precedence, or the path of a file.
struct Part<'a> {
    data: Option<Node<'a>>,
    file: Option<Node<'a>>,
}

impl<'a> Part<'a> {
    fn of(fields: Option<&Fields<'a>>, data: &str, file: &str) -> Result<Self, ImportError> {
        let filled = |name: &str| -> Result<Option<Node<'a>>, ImportError> {
            let Some(node) = fields.and_then(|f| f.get(name)) else { return Ok(None) };
            Ok(if node.text()?.is_empty() { None } else { Some(node) })
        };
        Ok(Self { data: filled(data)?, file: filled(file)? })
    }

    fn node(&self) -> Option<&Node<'a>> {
        self.data.as_ref().or(self.file.as_ref())
    }

    /// The text in the document, still in base64.
    fn inline(&self) -> Result<Option<&'a str>, ImportError> {
        let Some(node) = &self.data else { return Ok(None) };
        let text = node.text()?;
        let alphabet = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        if !text.chars().all(alphabet) || text.len() % 4 != 0 {
            return Err(node.bad("is not base64", "write the PEM text in base64, or name a file"));
        }
        Ok(Some(text))
    }
}

/// The TLS settings of the extender `name` at `url`, if it is reached over TLS and has any. `enable_https` is the name of
/// the field that says so.
pub(super) fn read(
    extender: &Fields<'_>,
    enable_https: &str,
    url: &str,
    name: &str,
    out: &mut Out<'_>,
) -> Result<Option<api::ExtenderTls>, ImportError> {
    let https = extender.get(enable_https);
    let enabled = https.as_ref().map_or(Ok(false), super::node::Node::flag)?;
    let config = extender.get("tlsConfig");
    let known = ["insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];
    let fields = config.as_ref().map(|config| config.fields(&known)).transpose()?;
    let fields = fields.as_ref();
    if !url.starts_with("https://") {
        for setting in https.filter(|_| enabled).iter().chain(&config) {
            out.losses.push(Loss::note(setting.path(), "without effect: the scheme of urlPrefix is http"));
        }
        return Ok(None);
    }
    let ca = Part::of(fields, "caData", "caFile")?;
    let (cert, key) = (Part::of(fields, "certData", "certFile")?, Part::of(fields, "keyData", "keyFile")?);
    let insecure = fields.and_then(|f| f.get("insecure"));
    let asked = insecure.as_ref().map_or(Ok(false), super::node::Node::flag)?;
    if let (true, Some(node), Some(insecure)) = (asked, ca.node(), &insecure) {
        let message = format!("is true beside {}", node.path());
        return Err(insecure.bad(message, "remove one of them: kube-scheduler refuses both"));
    }
    if !asked && enabled && ca.node().is_none() {
        let what = "without a CA the certificate is not checked: taken over as tls.mode InsecureSkipVerify; \
                    name the CA in tls.caBundleRef instead";
        out.losses.push(Loss::note(extender.at(enable_https), what));
    }
    let unchecked = asked || (enabled && ca.node().is_none());
    let server_name = fields.and_then(|f| f.get("serverName")).map(|n| n.text()).transpose()?.unwrap_or_default();
    let tls = api::ExtenderTls {
        mode: if unchecked { api::TlsMode::InsecureSkipVerify } else { api::TlsMode::Verify },
        server_name: (!server_name.is_empty()).then(|| server_name.to_owned()),
        ca_bundle_ref: ca_bundle(&ca, name, out)?,
        client_cert_ref: client_certificate(&cert, &key, name, out)?,
    };
    Ok((tls != api::ExtenderTls::default()).then_some(tls))
}

fn ca_bundle(ca: &Part<'_>, extender: &str, out: &mut Out<'_>) -> Result<Option<api::CaBundleRef>, ImportError> {
    let Some(node) = ca.node() else { return Ok(None) };
    let (name, key) = (format!("{extender}-ca"), "ca.crt");
    let kind = if let Some(data) = ca.inline()? {
        out.manifests.push(secret(&name, "Opaque", json!({key: data})));
        let what = format!(
            "a profile holds no certificates: it refers to the Secret {name}, which is printed behind the profiles: \
             apply it in the operator's namespace"
        );
        out.losses.push(Loss::lost(node.path(), what));
        api::BundleKind::Secret
    } else {
        let what = format!(
            "a profile names no files: it refers to the ConfigMap {name}: make it in the operator's namespace with \
             kubectl create configmap {name} --from-file={key}={}",
            node.text()?
        );
        out.losses.push(Loss::lost(node.path(), what));
        api::BundleKind::ConfigMap
    };
    Ok(Some(api::CaBundleRef { kind, name, key: key.to_owned() }))
}

fn client_certificate(
    cert: &Part<'_>,
    key: &Part<'_>,
    extender: &str,
    out: &mut Out<'_>,
) -> Result<Option<api::SecretRef>, ImportError> {
    let (cert_node, key_node) = match (cert.node(), key.node()) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (cert, key),
        (Some(alone), None) | (None, Some(alone)) => {
            return Err(alone.bad("stands alone", "give a certificate and its key, or neither"));
        }
    };
    let name = format!("{extender}-client");
    let what = match (cert.inline()?, key.inline()?) {
        (Some(cert), Some(key)) => {
            out.manifests.push(secret(&name, "kubernetes.io/tls", json!({"tls.crt": cert, "tls.key": key})));
            format!(
                "a profile holds no certificates: it refers to the Secret {name}, which is printed behind the profiles: \
                 apply it in the operator's namespace"
            )
        }
        _ => format!(
            "a profile names no files: it refers to the Secret {name}: make it in the operator's namespace with \
             kubectl create secret tls {name} --cert={} --key={}",
            path_or_placeholder(cert, cert_node)?,
            path_or_placeholder(key, key_node)?
        ),
    };
    out.losses.push(Loss::lost(cert_node.path(), what));
    Ok(Some(api::SecretRef { name }))
}

/// The path of the file, or a placeholder that names the field whose text is to be put into a file.
fn path_or_placeholder(part: &Part<'_>, node: &Node<'_>) -> Result<String, ImportError> {
    Ok(if part.data.is_some() { format!("<decoded {}>", node.path()) } else { node.text()?.to_owned() })
}

fn secret(name: &str, kind: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": data})
}
