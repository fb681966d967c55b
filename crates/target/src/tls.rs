//! TLS for the target: a certificate of its own, made at the start and signed by itself.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::config::TlsConfig;

/// The server's side of TLS, and the certificate for clients to trust.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificate_pem: String,
}

impl Identity {
    /// Makes the certificate, for localhost, its addresses and the names asked for, and writes it
    /// where it is wanted.
    pub(crate) fn new(tls: &TlsConfig) -> io::Result<Self> {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        names.extend(tls.names.iter().cloned());
        let own = rcgen::generate_simple_self_signed(names).map_err(|error| {
            let names = tls.names.join(", ");
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "no certificate can be made for '{names}' ({error}); give host names or IP addresses"
                ),
            )
        })?;
        let certificate_pem = own.cert.pem();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key)
            })
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Tickets hold the session themselves, so any number of clients can resume.
        config.ticketer = ring::Ticketer::new().map_err(io::Error::other)?;
        if let Some(path) = &tls.certificate_out {
            std::fs::write(path, &certificate_pem).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("the certificate cannot be written to '{}' ({error})", path.display()),
                )
            })?;
        }
        Ok(Self { config: Arc::new(config), certificate_pem })
    }
}
