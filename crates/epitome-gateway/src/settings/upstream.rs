//! An upstream: an address that requests are forwarded to.

use epitome_runtime::ids::TenantId;
use epitome_runtime::model::{Secret, ServedModel};
use http::Uri;
use http::uri::PathAndQuery;

use super::values::UpstreamRoute;

/// An address that requests are forwarded to.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The requests that it gets.
    pub route: UpstreamRoute,
    /// Its address: scheme, host, and a path that comes before the request's own.
    pub url: Uri,
    /// The key that it is sent instead of the client's own.
    pub key: Option<Secret>,
}

impl Upstream {
    /// Names a model of it, as a tenant reaches it.
    pub fn served(&self, tenant: &TenantId, model: &str) -> ServedModel {
        ServedModel::new(tenant.clone(), self.address(), model)
    }

    /// Returns the address that it is known by: without credentials and without a query.
    pub fn address(&self) -> String {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{}://{host}{}", self.url.scheme_str().unwrap_or("http"), self.url.path().trim_end_matches('/'))
    }

    /// Joins this upstream's path with a request's. A version that both have is kept once: `/openai/v1` and `/v1/models` are
    /// `/openai/v1/models`.
    pub fn path_of(&self, request: &PathAndQuery) -> PathAndQuery {
        let base = self.url.path().trim_end_matches('/');
        let prefix = match &self.route {
            UpstreamRoute::Path(prefix) => prefix.as_str(),
            _ => "",
        };
        if base.is_empty() && prefix.is_empty() {
            return request.clone();
        }
        let rest = request.as_str();
        let rest = rest.strip_prefix(prefix).unwrap_or(rest);
        let rest = if base.split('/').any(is_version) { without_version(rest) } else { rest };
        let joined = format!("{base}{rest}");
        let joined = if joined.starts_with('/') { joined } else { format!("/{joined}") };
        PathAndQuery::try_from(joined).unwrap_or_else(|_| request.clone())
    }
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A path without the version that it begins with.
fn without_version(path: &str) -> &str {
    let first = path.strip_prefix('/').and_then(|rest| rest.split(['/', '?']).next());
    first.filter(|first| is_version(first)).map_or(path, |version| &path[1 + version.len()..])
}
