//! The entry point, run in what the layers unpack to: in that root where the tests are root's, else by the loader there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::{Image, folder, ran};

const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Runs the image's entry point with the image's user and environment, which is empty. A path in `args` that begins with `/` is one of the image.
fn run(image: &Image, root: &Path, args: &[&str]) -> Output {
    let entry = image.config()["config"]["Entrypoint"][0].as_str().unwrap().to_owned();
    if rustix::process::geteuid().is_root() {
        let user = format!("--userspec={}", image.config()["config"]["User"].as_str().unwrap());
        let mut command = Command::new("/usr/sbin/chroot");
        return command.arg(user).arg(root).arg(entry).args(args).env_clear().output().unwrap();
    }
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let libraries = inside(&format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let loader = fs::read_dir(&libraries).unwrap().map(|entry| entry.unwrap().path());
    let loader = loader.into_iter().find(|path| path.to_str().unwrap().contains("/ld-linux")).unwrap();
    let args = args.iter().map(|arg| if arg.starts_with('/') { inside(arg) } else { PathBuf::from(arg) });
    let mut command = Command::new(loader);
    command.arg("--library-path").arg(libraries).arg(inside(&entry)).args(args);
    // The system's authorities are not the image's.
    command.env_clear().env("SSL_CERT_FILE", inside(BUNDLE)).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_entry_point_runs_on_the_libraries_of_the_image() {
    let Some(image) = Image::shared("the_entry_point_runs_on_the_libraries_of_the_image") else { return };
    let root = image.unpacked("image-entry");
    let version = run(image, &root, &["--version"]);
    assert_eq!(said(&version), format!("berth {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(image, &root, &["operator", "--help"]);
    assert!(help.status.success() && said(&help).contains("--lease-namespace"), "{}", said(&help));
    // Without a cluster it ends by itself, and says why.
    let alone = run(image, &root, &["operator"]);
    assert!(!alone.status.success() && said(&alone).contains("kubeconfig"), "{}", said(&alone));
}

#[test]
fn the_authorities_are_all_those_of_the_package() {
    let Some(image) = Image::shared("the_authorities_are_all_those_of_the_package") else { return };
    let bundle = fs::read(image.unpacked("image-bundle").join(BUNDLE)).unwrap();
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bundle).collect();
    let mut roots = rustls::RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(read.unwrap());
    assert!(added > 100 && ignored == 0, "{added} authorities, and {ignored} that cannot be used");
}

/// An authority and a certificate of it for 127.0.0.1, in a folder.
fn certificates() -> PathBuf {
    let dir = folder("image-certificates");
    fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    for args in [
        "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=test-ca",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=extender",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
    ] {
        let output = Command::new("openssl").args(args.split(' ')).current_dir(&dir).output().unwrap();
        assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
    }
    dir
}

/// An extender with that certificate, to which every node is well. Serves until the tests end; returns its URL.
fn extender(certificates: &Path) -> String {
    let chain = CertificateDer::from_pem_file(certificates.join("server.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![chain], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/scheduler", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that refuses the certificate is none.
            let _refused = answer(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap()));
        }
    });
    url
}

/// Reads one request and answers it.
fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> std::io::Result<()> {
    let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
    // The body ends with the object that it is.
    while !request.ends_with(b"}") && !request.ends_with(b"}\n") {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..read]);
    }
    let body = r#"{"NodeNames":["a"]}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
    write!(stream, "{head} {}\r\n\r\n{body}", body.len())?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// An extender of a profile without `tls`, asked by the image's own binary: the client and the rules are the operator's.
#[test]
fn an_extender_without_tls_settings_is_verified_by_the_authorities_of_the_image() {
    let Some(image) = Image::shared("an_extender_without_tls_settings_is_verified_by_the_authorities_of_the_image")
    else {
        return;
    };
    let root = image.unpacked("image-tls");
    let certificates = certificates();
    let url = extender(&certificates);
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
         "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
            "schedulerName": "asking", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        {"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "metadata": {"name": "asking"},
         "spec": {"extenders": [{"name": "ext", "endpoint": {"url": url}, "verbs": {"filter": {"path": "filter"}}}]}},
    ]});
    fs::write(root.join("objects.json"), objects.to_string()).unwrap();
    let ask = || {
        let args = ["simulate", "-f", "/objects.json", "--call-extenders", "--extender-allow-host", "127.0.0.1"];
        run(image, &root, &args)
    };

    let stranger = ask();
    assert_eq!(stranger.status.code(), Some(2), "{}", said(&stranger));
    assert!(said(&stranger).contains("UnknownIssuer"), "{}", said(&stranger));

    let bundle = root.join(BUNDLE);
    let public = fs::read_to_string(&bundle).unwrap();
    let ours = fs::read_to_string(certificates.join("ca.crt")).unwrap();
    fs::write(&bundle, format!("{public}{ours}")).unwrap();
    let known = ask();
    assert_eq!(known.status.code(), Some(0), "{}", said(&known));

    fs::remove_file(&bundle).unwrap();
    let without = ask();
    assert_eq!(without.status.code(), Some(2), "{}", said(&without));
    assert!(said(&without).contains("the system has no certificate authorities"), "{}", said(&without));
    ran("rm", &["-r", root.to_str().unwrap()]);
}
