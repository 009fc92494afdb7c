//! TLS by a certificate and its private key.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;

/// A certificate with those that vouch for it, and its private key.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Certificate {
    /// Reads the PEM of a certificate, followed by those that vouch for it, and the PEM of its private key.
    ///
    /// # Errors
    /// [`ServeError::Tls`] for bytes that have no certificate or no key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, ServeError> {
        let told = |what: &str, error: String| ServeError::Tls(format!("{what}: {error}"));
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| told("certificate", error.to_string()))?;
        if chain.is_empty() {
            return Err(told(
                "certificate",
                "expected one in PEM, got none".to_owned(),
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| told("private key", error.to_string()))?;
        Ok(Self { chain, key })
    }

    /// What accepts connections with this certificate.
    ///
    /// # Errors
    /// [`ServeError::Tls`] for a key that isn't that of the certificate.
    pub(crate) fn acceptor(self) -> Result<TlsAcceptor, ServeError> {
        let told = |error: tokio_rustls::rustls::Error| ServeError::Tls(error.to_string());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(told)?
            .with_no_client_auth()
            .with_single_cert(self.chain, self.key)
            .map_err(told)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        let refused = |chain: &[u8], key: &[u8]| {
            let certificate = Certificate::from_pem(chain, key);
            certificate.unwrap_err().to_string()
        };
        let said = refused(b"", b"");
        assert_eq!(said, "TLS: certificate: expected one in PEM, got none");
        let pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(pem, b"").starts_with("TLS: private key"));
    }
}
