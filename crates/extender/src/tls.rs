//! TLS with an extender: which certificate it must have, and which one we show.

use super::settings::{Settings, SettingsError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use secrecy::ExposeSecret;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: ServerName<'static>,
}

/// # Errors
/// A certificate, key or name cannot be used; the error names the field.
pub(super) fn prepare(settings: &Settings) -> Result<Tls, SettingsError> {
    let wrong =
        |field, message: String| SettingsError::Certificate { extender: settings.name.to_string(), field, message };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong("tls", e.to_string()))?;
    let builder = if settings.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        let roots = settings.credentials.authorities.as_deref().map_or_else(system_roots, given_roots);
        builder.with_root_certificates(roots.map_err(|message| wrong("tls.caBundleRef", message))?)
    };
    let mut config = match &settings.credentials.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let pair = client_pair(chain, key.expose_secret());
            let made = pair.and_then(|(chain, key)| {
                builder.with_client_auth_cert(chain, key).map_err(|e| format!("tls.crt and tls.key: {e}"))
            });
            made.map_err(|message| wrong("tls.clientCertRef", message))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = settings.server_name.clone().unwrap_or_else(|| settings.endpoint.url.host.to_string());
    let server_name = ServerName::try_from(name.clone())
        .map_err(|_| wrong("tls.serverName", format!("{name} is neither a DNS name nor an address")))?;
    Ok(Tls { config: Arc::new(config), server_name })
}

fn given_roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|e| format!("a certificate cannot be used: {e}"))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no certificate authorities; name a bundle".to_owned());
    }
    Ok(roots)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Ok(read) if read.is_empty() => Err("there is no certificate in PEM form in it".to_owned()),
        Ok(read) => Ok(read),
        Err(e) => Err(format!("it is not PEM: {e}")),
    }
}

fn client_pair(chain: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(chain).map_err(|message| format!("tls.crt: {message}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|e| format!("tls.key: no private key in PEM form: {e}"))?;
    Ok((chain, key))
}

/// Accepts any certificate: `tls.mode: InsecureSkipVerify`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
