//! TLS: certificates and key from PEM files, read again when the server is told to.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zaro::{Error, Result};

/// Makes the acceptor of connections with this chain of certificates and this key. HTTP/2 is offered first.
pub(crate) fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor> {
    let named = |path: &Path, e: &dyn std::fmt::Display| Error::usage(format!("{}: {e}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|e| named(certificates, &e))?;
    if chain.is_empty() {
        return Err(named(certificates, &"there is no certificate in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| named(key, &e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|e| named(certificates, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
