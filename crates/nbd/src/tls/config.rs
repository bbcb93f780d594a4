//! TLS configuration from PEM files.

use crate::error::NbdError;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Paths of the server's certificate and key, and of the certificate authorities of its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// The certificate's private key, unencrypted.
    pub key: PathBuf,
    /// Certificates of the authorities that sign clients' certificates. If it is given, each client must present a
    /// certificate of one of them.
    pub client_authority: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files. TLS 1.2 and 1.3 are offered, with the `ring` provider.
    ///
    /// # Errors
    /// [`NbdError::TlsFile`]: a file cannot be read or parsed. [`NbdError::TlsConfig`]: the TLS library rejects the
    /// configuration, for example because the key does not belong to the certificate.
    pub fn load(&self) -> Result<Arc<ServerConfig>, NbdError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| file_error(&self.key, "no usable private key", error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(config_error)?;
        let builder = match &self.client_authority {
            Some(path) => builder.with_client_cert_verifier(verifier(path, provider)?),
            None => builder.with_no_client_auth(),
        };
        builder.with_single_cert(certificates, key).map(Arc::new).map_err(config_error)
    }
}

/// What a client of another server needs for TLS, in the files of one folder, under the names that libnbd and QEMU give them:
/// `ca-cert.pem`, and for a server that wants a certificate of its client `client-cert.pem` and `client-key.pem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// The folder.
    pub folder: PathBuf,
}

impl ClientTlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`TlsFiles::load`].
    pub fn load(&self) -> Result<Arc<ClientConfig>, NbdError> {
        let authority = self.folder.join("ca-cert.pem");
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&authority)? {
            let added = roots.add(certificate);
            added.map_err(|error| file_error(&authority, "not the certificate of an authority", error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(config_error)?
            .with_root_certificates(roots);
        let (own, key) = (self.folder.join("client-cert.pem"), self.folder.join("client-key.pem"));
        if !own.exists() {
            return Ok(Arc::new(builder.with_no_client_auth()));
        }
        let private =
            PrivateKeyDer::from_pem_file(&key).map_err(|error| file_error(&key, "no usable private key", error))?;
        builder.with_client_auth_cert(certificates(&own)?, private).map(Arc::new).map_err(config_error)
    }
}

fn verifier(
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, NbdError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| file_error(path, "not the certificate of an authority", error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(config_error)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NbdError> {
    let unusable = |error| file_error(path, "no usable certificate", error);
    let all =
        CertificateDer::pem_file_iter(path).map_err(unusable)?.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    if all.is_empty() {
        let problem = "the file holds no certificate";
        return Err(NbdError::TlsFile { path: path.to_owned(), problem, source: None });
    }
    Ok(all)
}

fn file_error(path: &Path, problem: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> NbdError {
    NbdError::TlsFile { path: path.to_owned(), problem, source: Some(Box::new(error)) }
}

fn config_error(error: impl std::error::Error + Send + Sync + 'static) -> NbdError {
    NbdError::TlsConfig(Box::new(error))
}
