//! Listening: the port, the certificate, and the refusal to be reachable by everybody without keys.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::settings::{Settings, TlsFiles};

/// The reason for which a gateway cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Anybody could use it.
    #[error(
        "{0} can be reached from other machines, and without `serve.keys` anybody who reaches it can read every thread"
    )]
    Open(SocketAddr),
    /// The port cannot be bound.
    #[error("{0} cannot be listened on: {1}")]
    Port(SocketAddr, io::Error),
    /// The certificate or its key cannot be used.
    #[error("{0} cannot be used for TLS: {1}")]
    Tls(PathBuf, String),
}

/// The clients that need no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    /// Those on this machine.
    Local,
    /// Everybody, on purpose.
    Anybody,
}

/// A bound port.
#[derive(Debug)]
pub struct Listening {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Tls>,
    address: SocketAddr,
}

/// Makes TLS connections of TCP connections.
pub(super) struct Tls(pub(super) TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Listening {
    /// Binds the address of the settings.
    pub async fn on(settings: &Settings, openness: Openness) -> Result<Listening, ListenError> {
        let address = settings.serve.listen;
        let is_open = !address.ip().is_loopback() && settings.keys.is_empty();
        if is_open && openness == Openness::Local {
            return Err(ListenError::Open(address));
        }
        let tls = settings.tls.as_ref().map(acceptor).transpose()?;
        let failed = |reason| ListenError::Port(address, reason);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Listening { listener, tls, address })
    }

    /// Returns the bound address, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL for clients on this machine: an unspecified address is shown as loopback.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        format!("{}://{address}", self.scheme())
    }

    /// Returns the bound address as a URL.
    pub fn bound_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

fn acceptor(files: &TlsFiles) -> Result<Tls, ListenError> {
    let failed = |path: &Path, reason: String| ListenError::Tls(path.to_owned(), reason);
    let chain = CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| failed(&files.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(&files.certificate, "there is no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| failed(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls(TlsAcceptor::from(Arc::new(config))))
}
