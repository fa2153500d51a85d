//! The gateway's settings: the `serve` section as it is written, and what is made of it once, at the start: upstreams with
//! their keys, the gateway's own keys, the TLS files. Nothing here connects.

mod section;
mod upstream;
mod values;

use std::path::PathBuf;

use epitome_runtime::config::{Environment, SecretError, SecretSource};
use epitome_runtime::ids::TenantId;
use epitome_runtime::model::Secret;

pub use section::{GatewayConfig, Serve};
pub use upstream::Upstream;
#[cfg(test)]
pub(crate) use values::OWN_PATHS;
pub use values::{
    ClientSwitch, LogFormat, Persist, Provider, RoutedSecret, RoutedUrl, Switch, TenantSecret, UpstreamRoute,
};

/// The settings of one gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The section, for every value that is used as it was written.
    pub serve: Serve,
    /// The upstreams; the first whose route fits a request answers it.
    pub upstreams: Vec<Upstream>,
    /// The gateway's own keys; if there are none, every client is the one tenant.
    pub keys: Vec<ApiKey>,
    /// The tenant of requests without such a key.
    pub tenant: TenantId,
    /// The certificate; without one, plain HTTP.
    pub tls: Option<TlsFiles>,
}

/// The reason for which a configuration makes no gateway. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A secret cannot be read.
    #[error("`{0}`: {1}")]
    Secret(&'static str, SecretError),
    /// A key is for an upstream that does not exist.
    #[error("`serve.upstream_keys` has a key for `{0}`, and `serve.upstreams` has no such upstream")]
    NoUpstream(String),
    /// Two upstreams are for the same requests.
    #[error("`serve.upstreams` has `{0}` twice; keep one of them")]
    Twice(String),
    /// A certificate without a key, or a key without a certificate.
    #[error("`{present}` is set and `{missing}` is not; a certificate needs both")]
    HalfTls {
        /// The setting that is set.
        present: &'static str,
        /// The setting that is not.
        missing: &'static str,
    },
    /// Keys are required and there are none.
    #[error("`serve.keys_required` is set and `serve.keys` is empty; nobody could use the gateway")]
    NoKeys,
}

impl Default for Settings {
    fn default() -> Self {
        let settings = Settings::new(Serve::default(), TenantId::local(), &Environment::new());
        settings.expect("the defaults name no secret and no file")
    }
}

impl Settings {
    /// Makes settings of a section; secrets are read now.
    pub fn new(serve: Serve, tenant: TenantId, environment: &Environment) -> Result<Settings, SettingsError> {
        if serve.keys_required && serve.keys.is_empty() {
            return Err(SettingsError::NoKeys);
        }
        let keys = serve.keys.iter().map(|key| {
            let secret = reveal("serve.keys", &key.secret, environment)?;
            Ok(ApiKey { tenant: key.tenant.clone(), secret })
        });
        let (keys, upstreams, tls) =
            (keys.collect::<Result<_, _>>()?, resolve_upstreams(&serve, environment)?, tls_files(&serve)?);
        Ok(Settings { serve, upstreams, keys, tenant, tls })
    }
}

/// Returns the configured upstreams and the providers that no upstream was configured for, in the order in which they are
/// tried.
fn resolve_upstreams(serve: &Serve, environment: &Environment) -> Result<Vec<Upstream>, SettingsError> {
    let mut upstreams: Vec<Upstream> = Vec::new();
    for routed in &serve.upstreams {
        if upstreams.iter().any(|known| known.route == routed.route) {
            return Err(SettingsError::Twice(routed.route.to_string()));
        }
        upstreams.push(Upstream { route: routed.route.clone(), url: routed.url.clone(), key: None });
    }
    for provider in Provider::ALL {
        let route = UpstreamRoute::Provider(provider);
        if !upstreams.iter().any(|known| known.route == route) {
            upstreams.push(Upstream { route, url: provider.address(), key: None });
        }
    }
    for key in &serve.upstream_keys {
        let upstream = upstreams.iter_mut().find(|upstream| upstream.route == key.route);
        let upstream = upstream.ok_or_else(|| SettingsError::NoUpstream(key.route.to_string()))?;
        upstream.key = Some(reveal("serve.upstream_keys", &key.secret, environment)?);
    }
    upstreams.sort_by_key(|upstream| upstream.route.rank());
    Ok(upstreams)
}

fn reveal(key: &'static str, source: &SecretSource, environment: &Environment) -> Result<Secret, SettingsError> {
    let secret = source.reveal(environment).map_err(|reason| SettingsError::Secret(key, reason))?;
    Ok(Secret::new(&secret))
}

fn tls_files(serve: &Serve) -> Result<Option<TlsFiles>, SettingsError> {
    let half = |present, missing| Err(SettingsError::HalfTls { present, missing });
    match (&serve.tls_certificate, &serve.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })),
        (Some(_), None) => half("serve.tls_certificate", "serve.tls_key"),
        (None, Some(_)) => half("serve.tls_key", "serve.tls_certificate"),
        (None, None) => Ok(None),
    }
}

/// A key of the gateway's own.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// The tenant whose data it opens.
    pub tenant: TenantId,
    /// The key.
    pub secret: Secret,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, as PEM.
    pub certificate: PathBuf,
    /// The key, as PEM.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests;
