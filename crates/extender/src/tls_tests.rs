//! TLS with an extender: which certificates each side accepts, and the message when one is refused.

use super::settings::{Credentials, Settings};
use super::testing::{Act, Rig, Server, settings};
use berth_cluster::bind::WorkerId;
use berth_core::io::{AttemptId, ExtenderErrorKind, ExtenderQuestion, ExtenderRequest, Input};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// Certificates in a directory that goes with it.
struct Authority(PathBuf);

impl Drop for Authority {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

impl Authority {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("berth-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let authority = Self(dir);
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            "-subj",
            &format!("/CN={name}"),
            "-days",
            "30",
        ]);
        authority.write("ca.cnf", "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n");
        authority.write("index.txt", "");
        authority.write("serial", "1000");
        authority
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn openssl(&self, args: &[&str]) {
        let out = Command::new("openssl").args(args).current_dir(&self.0).output().expect("openssl is installed");
        assert!(out.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// A certificate for these names, and its key.
    fn issue(&self, name: &str, alternatives: &str, end: &str) -> (String, String) {
        let (key, csr, crt, ext) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"), format!("{name}.ext"));
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            &key,
            "-out",
            &csr,
            "-subj",
            &format!("/CN={name}"),
        ]);
        self.write(&ext, &format!("subjectAltName={alternatives}\n"));
        self.openssl(&[
            "ca",
            "-batch",
            "-config",
            "ca.cnf",
            "-cert",
            "ca.crt",
            "-keyfile",
            "ca.key",
            "-in",
            &csr,
            "-out",
            &crt,
            "-startdate",
            "20200101000000Z",
            "-enddate",
            end,
            "-notext",
            "-extfile",
            &ext,
        ]);
        (self.read(&crt), self.read(&key))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(Path::new(&self.0).join("ca.crt")).unwrap()).unwrap();
        roots
    }
}

const LATER: &str = "20491231235959Z";

fn acceptor((chain, key): &(String, String), clients: Option<RootCertStore>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

async fn server(acceptor: TlsAcceptor) -> Server {
    Server::start_with(Some(acceptor), |_| Act::Json(json!({"NodeNames": []}))).await
}

/// Asks once; `None` is an answer.
async fn ask(settings: Settings) -> Option<(ExtenderErrorKind, String)> {
    let mut rig = Rig::new().await;
    rig.configure(settings);
    let question = ExtenderQuestion::Filter { nodes: Arc::from(vec!["n".into()]) };
    let ask = ExtenderRequest { attempt: AttemptId(1), extender: "ext".into(), pod: rig.pod("p"), question };
    rig.clients.ask(WorkerId(1), "prof", ask);
    match rig.next().await {
        Input::ExtenderAnswered { answer, .. } => answer.err().map(|e| (e.kind, e.message.to_string())),
        other => panic!("{other:?}"),
    }
}

fn https(server: &Server, authorities: Option<String>) -> Settings {
    let mut settings = settings(&format!("https://{}/scheduler", server.address), Duration::from_secs(20));
    settings.credentials = Credentials { authorities, ..Credentials::default() };
    settings
}

#[tokio::test]
async fn a_certificate_needs_the_right_authority_name_and_time() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let good = ours.issue("good", "DNS:ext.test,IP:127.0.0.1", LATER);
    let expired = ours.issue("expired", "IP:127.0.0.1", "20200102000000Z");
    let other_name = ours.issue("other", "DNS:other.test", LATER);
    let bundle = Some(ours.read("ca.crt"));

    let well = server(acceptor(&good, None)).await;
    assert_eq!(ask(https(&well, bundle.clone())).await, None);
    assert_eq!(ask(Settings { server_name: Some("ext.test".into()), ..https(&well, bundle.clone()) }).await, None);
    let both = Some(format!("{}{}", theirs.read("ca.crt"), ours.read("ca.crt")));
    assert_eq!(ask(https(&well, both)).await, None);

    let late = server(acceptor(&expired, None)).await;
    let misnamed = server(acceptor(&other_name, None)).await;
    for (settings, word) in [
        (https(&well, Some(theirs.read("ca.crt"))), "UnknownIssuer"),
        (https(&well, None), "UnknownIssuer"),
        (https(&late, bundle.clone()), "expired"),
        (https(&misnamed, bundle.clone()), "not valid for name"),
        (Settings { server_name: Some("evil.test".into()), ..https(&well, bundle.clone()) }, "not valid for name"),
    ] {
        // A machine without authorities of its own says so before it connects.
        let (kind, message) = ask(settings.clone()).await.expect("refused");
        assert_eq!(kind, ExtenderErrorKind::Tls, "{message}");
        let bare = settings.credentials.authorities.is_none() && message.contains("no certificate authorities");
        assert!(message.contains(word) || bare, "{message}");
    }
    for server in [&late, &misnamed] {
        assert_eq!(ask(Settings { skip_verify: true, ..https(server, None) }).await, None);
    }
}

/// Where the authorities of the system are is said by the environment, which belongs to a whole process: the test starts itself again.
#[test]
fn without_a_bundle_the_authorities_of_the_system_count() {
    const URL: &str = "BERTH_TEST_EXTENDER";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Ok(url) = std::env::var(URL) {
        let asked = runtime.block_on(ask(settings(&url, Duration::from_secs(20))));
        panic!("answer: {}", asked.map_or("well".to_owned(), |(kind, message)| format!("{kind:?}: {message}")));
    }
    let (ours, theirs) = (Authority::new("system"), Authority::new("no-system"));
    let good = ours.issue("good", "IP:127.0.0.1", LATER);
    ours.write("none.crt", "");
    let server = runtime.block_on(server(acceptor(&good, None)));
    let answer = |bundle: PathBuf| {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tls_tests::without_a_bundle_the_authorities_of_the_system_count", "--nocapture"]);
        again.env(URL, format!("https://{}/scheduler", server.address)).env_remove("SSL_CERT_DIR");
        let output = again.env("SSL_CERT_FILE", bundle).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        said.split_once("answer: ").unwrap_or_else(|| panic!("{said}")).1.to_owned()
    };
    for (bundle, word) in [
        (ours.0.join("ca.crt"), "well\n"),
        (theirs.0.join("ca.crt"), "Tls: "),
        (ours.0.join("none.crt"), "Tls: extender ext: tls.caBundleRef: the system has no certificate authorities"),
    ] {
        let answer = answer(bundle);
        assert!(answer.starts_with(word), "{word}: {answer}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let (ours, theirs) = (Authority::new("ours-client"), Authority::new("theirs-client"));
    let good = ours.issue("good", "IP:127.0.0.1", LATER);
    let (client, stranger) = (ours.issue("berth", "DNS:berth", LATER), theirs.issue("berth", "DNS:berth", LATER));
    let server = server(acceptor(&good, Some(ours.roots()))).await;
    let with = |pair: Option<(String, String)>| {
        let mut settings = https(&server, Some(ours.read("ca.crt")));
        settings.credentials.client = pair.map(|(chain, key)| (chain, key.into()));
        settings
    };
    assert_eq!(ask(with(Some(client.clone()))).await, None);
    for pair in [None, Some(stranger)] {
        let (kind, message) = ask(with(pair)).await.expect("refused");
        assert_eq!(kind, ExtenderErrorKind::Tls, "{message}");
    }
    for (pair, word) in [
        ((client.0.clone(), "junk".to_owned()), "tls.clientCertRef: tls.key"),
        (("junk".to_owned(), client.1.clone()), "tls.clientCertRef: tls.crt"),
        ((client.0.clone(), good.1.clone()), "tls.clientCertRef: tls.crt and tls.key"),
    ] {
        let (kind, message) = ask(with(Some(pair))).await.expect("refused");
        assert_eq!(kind, ExtenderErrorKind::Tls);
        assert!(message.contains(word), "{message}");
    }
    let (_, message) = ask(https(&server, Some("no PEM".into()))).await.expect("refused");
    assert!(message.contains("tls.caBundleRef: there is no certificate"), "{message}");
}

#[tokio::test]
async fn the_token_is_sent_and_a_plain_server_behind_https_is_refused() {
    let plain = Server::start(|_| Act::Json(json!({}))).await;
    let ours = Authority::new("ours-plain");
    // It waits for the rest of a request that never comes.
    let url = format!("https://{}/scheduler", plain.address);
    let mut hasty = settings(&url, Duration::from_millis(300));
    hasty.credentials.authorities = Some(ours.read("ca.crt"));
    let (kind, message) = ask(hasty).await.expect("refused");
    assert_eq!(kind, ExtenderErrorKind::Timeout, "{message}");

    let good = ours.issue("good", "IP:127.0.0.1", LATER);
    let server = server(acceptor(&good, None)).await;
    let mut settings = https(&server, Some(ours.read("ca.crt")));
    settings.credentials.token = Some("s3cret".to_owned().into());
    assert!(!format!("{settings:?}").contains("s3cret"));
    assert_eq!(ask(settings.clone()).await, None);
    assert!(server.asked()[0].head.iter().any(|l| l == "authorization: bearer s3cret"));
    settings.credentials.token = Some("two\nlines".to_owned().into());
    let (kind, message) = ask(settings).await.expect("refused");
    assert_eq!(kind, ExtenderErrorKind::Refused);
    assert!(message.contains("auth.bearerTokenRef") && !message.contains("two"), "{message}");
}
