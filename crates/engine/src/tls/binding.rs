//! What a login can be tied to a TLS connection by: the hash of the server's certificate.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The value of `tls-server-end-point` (RFC 5929, section 4.1) for a server with this certificate in DER:
/// its hash by the function its signature uses, SHA-256 standing in for MD5 and SHA-1. `None` for
/// signatures that the RFC gives no single hash for, such as Ed25519.
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let signature = Certificate::from_der(certificate).ok()?.signature_algorithm().oid.to_string();
    let algorithm: &Algorithm = match signature.as_str() {
        // RSA (RFC 8017, appendix A.2.4) and ECDSA (RFC 5758, section 3.2) with MD5 or SHA-1, with SHA-256 …
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" => &SHA256,
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => &SHA256,
        // … SHA-384 and SHA-512.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => &SHA384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => &SHA512,
        _ => return None,
    };
    Some(digest(algorithm, certificate).as_ref().to_vec())
}
