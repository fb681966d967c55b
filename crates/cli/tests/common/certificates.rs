//! Certificates made for one test: an authority, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// An authority that clients may trust.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// How long a certificate is good for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Now,
    Expired,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its certificate, PEM.
    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Its certificate, DER.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A certificate for `names`, which may be addresses.
    pub(crate) fn issue(&self, names: &[&str], validity: Validity) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = params(names, validity);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// A certificate for `names` that nobody vouches for.
    pub(crate) fn self_signed(names: &[&str]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names, Validity::Now).self_signed(&key).expect("a certificate");
        Self { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A server that shows it, speaking `versions`; it wants a client's certificate signed by
    /// `clients`, where that is given.
    pub(crate) fn server(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        clients: Option<&Authority>,
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("ring serves them");
        let builder = match clients {
            Some(authority) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(authority.der()).expect("a certificate");
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .expect("roots");
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM");
        builder.with_single_cert(vec![certificate], key).expect("a key that fits")
    }
}

fn params(names: &[&str], validity: Validity) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = match validity {
        Validity::Now => date_time_ymd(2100, 1, 1),
        Validity::Expired => date_time_ymd(2021, 1, 1),
    };
    params
}
