//! TLS by rustls, driven without IO: ciphertext in, plaintext out.

mod binding;

use std::io::Read;
use std::sync::Arc;

use plimsoll_core::plan::{Tls, Verification};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// How to begin TLS towards one target. Sessions are resumed among its connections.
#[derive(Clone, Debug)]
pub struct TlsSetup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsSetup {
    /// Reads the roots and checks the name.
    ///
    /// # Errors
    /// A sentence naming what is wrong and what to do.
    pub fn new(tls: &Tls) -> Result<Self, String> {
        let name = ServerName::try_from(tls.server_name.clone()).map_err(|_| {
            format!(
                "'{}' is neither a host name nor an address; give the certificate's name with --sni",
                tls.server_name
            )
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring serves TLS 1.2 and 1.3");
        let roots = match &tls.verification {
            Verification::PlatformRoots => Some(platform_roots()?),
            Verification::Roots(pem) => Some(pem_roots(pem)?),
            Verification::DangerouslyNone => None,
        };
        let builder = match roots {
            Some(roots) if tls.check_name => builder.with_root_certificates(roots),
            roots => {
                let whole = |roots| {
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                        .build()
                        .map_err(|error| format!("the root certificates cannot be used: {error}"))
                };
                let whole = roots.map(whole).transpose()?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(TakesAnyName { whole, provider }))
            }
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols.clone_from(&tls.alpn);
        Ok(Self { config: Arc::new(config), name })
    }

    pub(crate) fn begin(&self) -> TlsSession {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("a client hello can be made for every checked name");
        TlsSession { connection, established: false }
    }
}

fn platform_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("this machine has no trusted certificates to check the server with; \
                    install its certificate bundle, give one with --cacert FILE, or use -k to check nothing \
                    (PostgreSQL: sslmode=require)"
            .into());
    }
    Ok(roots)
}

fn pem_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| format!("the file of root certificates is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("a root certificate cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the file of root certificates holds none; give a PEM file with --cacert (PostgreSQL: sslrootcert)".into());
    }
    Ok(roots)
}

/// One connection's TLS.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ClientConnection,
    established: bool,
}

/// What came out of received ciphertext.
pub(crate) struct Decrypted {
    /// The handshake has been completed by these bytes.
    pub(crate) established: bool,
    /// The peer has said properly that nothing follows.
    pub(crate) closed: bool,
}

impl TlsSession {
    /// Appends what must be sent to `out`.
    pub(crate) fn write_pending(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if self.connection.write_tls(out).is_err() {
                unreachable!("a vector takes every byte");
            }
        }
    }

    /// What a login can be tied to this session by; `None` before the handshake is over.
    pub(crate) fn server_end_point(&self) -> Option<Vec<u8>> {
        binding::server_end_point(self.connection.peer_certificates()?.first()?)
    }

    /// Encrypts `plain` and appends the records to `out`.
    pub(crate) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let mut rest = plain;
        while !rest.is_empty() {
            // The session buffers up to a limit of its own; emptied on every turn, it takes more.
            match std::io::Write::write(&mut self.connection.writer(), rest) {
                Ok(taken) => rest = &rest[taken..],
                Err(_) => unreachable!("the writer of a session never fails"),
            }
            self.write_pending(out);
        }
    }

    /// Takes `cipher`, appends plaintext to `plain` and what must be sent back to `out`.
    pub(crate) fn decrypt(
        &mut self,
        cipher: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Decrypted, TlsError> {
        let mut rest = cipher;
        let mut closed = false;
        while !rest.is_empty() && !closed {
            if self.connection.read_tls(&mut rest).is_err() {
                return Err(TlsError(Error::General(
                    "the peer's record does not fit into the session's buffer".into(),
                )));
            }
            let state = self.connection.process_new_packets();
            // Alerts are owed to the peer even when its bytes were bad.
            self.write_pending(out);
            let state = state.map_err(TlsError)?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            if self.connection.reader().read_exact(&mut plain[before..]).is_err() {
                unreachable!("the session has as much plaintext as it says");
            }
            closed = state.peer_has_closed();
        }
        let established = !self.established && !self.connection.is_handshaking();
        self.established |= established;
        Ok(Decrypted { established, closed })
    }
}

/// Why TLS failed; as text with what to do about it, where that is known.
#[derive(Debug)]
pub(crate) struct TlsError(Error);

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match reason(self) {
            "certificate_unknown_issuer" => {
                "trust its authority with --cacert FILE (PostgreSQL: sslrootcert), or check nothing with -k \
                 (PostgreSQL: sslmode=require)"
            }
            "certificate_wrong_name" | "alert_unrecognised_name" => "give the name it goes by with --sni",
            "certificate_expired" | "certificate_not_valid_yet" => {
                "renew it, mend this machine's clock, or check nothing with -k (PostgreSQL: sslmode=require)"
            }
            "client_certificate_required" => "client certificates cannot be given yet",
            "not_tls" => "the port may be one for http://",
            _ => return self.0.fmt(f),
        };
        write!(f, "{}; {remedy}", self.0)
    }
}

/// A short name for why TLS failed; it follows `tls_` in results.
pub(crate) fn reason(error: &TlsError) -> &'static str {
    match &error.0 {
        Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate_expired",
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "certificate_not_valid_yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "certificate_wrong_name"
            }
            CertificateError::UnknownIssuer => "certificate_unknown_issuer",
            CertificateError::Revoked => "certificate_revoked",
            _ => "certificate_invalid",
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => "client_certificate_required",
            AlertDescription::UnrecognisedName => "alert_unrecognised_name",
            AlertDescription::ProtocolVersion => "alert_protocol_version",
            AlertDescription::NoApplicationProtocol => "alert_no_application_protocol",
            AlertDescription::HandshakeFailure => "alert_handshake_failure",
            _ => "alert",
        },
        Error::PeerIncompatible(_) => "peer_incompatible",
        Error::InvalidMessage(_) => "not_tls",
        _ => "failed",
    }
}

/// Takes a certificate for any name, and without a `whole` check of who signed it any certificate; but still has
/// the peer prove that it holds the key of the one it shows.
#[derive(Debug)]
struct TakesAnyName {
    whole: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TakesAnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(whole) = &self.whole else { return Ok(ServerCertVerified::assertion()) };
        // The name is what is looked at last, so a certificate that fails by it passed everything else.
        match whole.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
