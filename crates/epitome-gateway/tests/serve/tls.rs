//! TLS: the certificate that was named is the one that is shown, and what is none is refused before it listens.

use std::path::PathBuf;
use std::sync::Arc;

use epitome_gateway::serve::{Listening, Openness};
use epitome_gateway::settings::{Settings, TlsFiles};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use crate::fixture::{Running, rest_of};

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve")).join(name)
}

fn with_files(certificate: &str, key: &str) -> Settings {
    Settings { tls: Some(TlsFiles { certificate: file(certificate), key: file(key) }), ..Settings::default() }
}

fn connector() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("certificate.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[tokio::test]
async fn it_shows_the_certificate_and_answers() {
    let running = Running::new(with_files("certificate.pem", "key.pem")).await;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector().connect(name, running.connect().await).await.expect("a TLS connection");
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("ok\n"), "{said}");
    let mut plain = running.connect().await;
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(!rest_of(&mut plain).await.contains("200 OK"), "it answers without TLS");
}

#[tokio::test]
async fn what_is_no_certificate_is_refused_by_name() {
    for (certificate, key, named) in [
        ("none.pem", "key.pem", "none.pem"),
        ("certificate.pem", "none.pem", "none.pem"),
        ("key.pem", "key.pem", "key.pem"),
    ] {
        let settings = with_files(certificate, key);
        let error = Listening::on(&settings, Openness::Local).await.unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("TLS"), "{error}");
    }
}
