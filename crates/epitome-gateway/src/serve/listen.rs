//! Listening: the port, the certificate, and the refusal to listen to everybody without keys.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::settings::{Settings, TlsFiles};

/// Why a gateway cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Everybody could use it.
    #[error(
        "{address} can be reached from other machines, and without `serve.keys` whoever reaches it could read every thread"
    )]
    Open {
        /// Where.
        address: SocketAddr,
    },
    /// The port cannot be had.
    #[error("{address} cannot be listened on: {reason}")]
    Port {
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{path} cannot be used for TLS: {reason}")]
    Tls {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Who may come without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    /// This machine alone.
    Local,
    /// Whoever can reach it, on purpose.
    Anybody,
}

/// A port that is listened on.
#[derive(Debug)]
pub struct Listening {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Tls>,
    address: SocketAddr,
}

/// What makes a connection a TLS one.
pub(super) struct Tls(pub(super) TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Listening {
    /// Listens where the settings say.
    pub async fn on(settings: &Settings, openness: Openness) -> Result<Listening, ListenError> {
        let address = settings.serve.listen;
        let is_open = !address.ip().is_loopback() && settings.keys.is_empty();
        if is_open && openness == Openness::Local {
            return Err(ListenError::Open { address });
        }
        let tls = settings.tls.as_ref().map(acceptor).transpose()?;
        let failed = |reason| ListenError::Port { address, reason };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Listening { listener, tls, address })
    }

    /// Where; the port is the real one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients are given.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        format!("{scheme}://{host}:{}", self.address.port())
    }
}

fn acceptor(files: &TlsFiles) -> Result<Tls, ListenError> {
    let failed = |path: &Path, reason: String| ListenError::Tls { path: path.to_owned(), reason };
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
