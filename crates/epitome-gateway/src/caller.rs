//! Callers: whose request it is, from the keys that it came with, and what may go on of its head.
//!
//! A key of the gateway's own names the tenant wherever it stands: in any value of any header, behind any scheme, in the
//! query, plain, percent-encoded or in base64. Wherever it stands it also stays here: [`Admitted`] has the head without it.
//!
//! A key is compared by its keyed hash, in a time that says nothing of it, and is kept nowhere in the open. Nothing here
//! knows what a caller may do: the runtime's `Access` decides that.

mod key_finder;

use epitome_runtime::artifact::Access;
use epitome_runtime::ids::TenantId;
use http::header::{AUTHORIZATION, COOKIE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::settings::Settings;
use key_finder::{KeyFinder, Place};

/// The header that carries a key of the gateway's own beside the provider's.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("x-epitome-key");

/// The headers that clients send a provider's key in.
pub const PROVIDER_KEY_HEADERS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// The parameters of a query that clients send a provider's key in.
const QUERY_KEYS: [&str; 4] = ["key", "api_key", "api-key", "access_token"];

/// The key that scopes are hashed with: the same in every process, so that a restart changes nothing.
const SCOPE_KEY: &[u8; 32] = b"epitome gateway scope of callers";

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantId,
    /// Tells callers of one tenant apart: the hash of the key that the client came with.
    pub scope: [u8; 32],
    /// True if a gateway key was not in [`KEY_HEADER`], for example instead of the provider's key.
    pub replaces_key: bool,
}

impl Caller {
    /// Returns the runtime's access for this caller.
    pub fn access(&self) -> Access {
        Access::owner(self.tenant.clone(), "gateway")
    }
}

/// A caller, and what is left of the head without the gateway's own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The caller of a request.
    pub caller: Caller,
    /// The headers without the keys; `None` where they had none.
    pub headers: Option<HeaderMap>,
    /// The path and query without the keys; `None` where they had none.
    pub path: Option<PathAndQuery>,
}

/// The reason for which a caller is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// They came without a key.
    #[error("epitome: a gateway key is required. Send it as x-epitome-key or instead of the provider's key.")]
    NoKey,
    /// Their key is none of ours.
    #[error("epitome: unknown gateway key. Send a valid one as x-epitome-key or instead of the provider's key.")]
    WrongKey,
    /// They came with keys of more than one tenant.
    #[error("epitome: the request has gateway keys of two tenants. Send one of them.")]
    TwoTenants,
    /// A key stands in the path, which cannot go on without it.
    #[error(
        "epitome: a gateway key is in the path of the request, which the provider would see. Send it as x-epitome-key or instead of the provider's key."
    )]
    KeyInPath,
}

/// The gateway's keys, and what a request has to present.
///
/// Without keys every request belongs to the one tenant. With keys, a request that presents one belongs to that key's tenant;
/// one without is refused at the gateway's own endpoints, and at the proxy if keys are required. A key is removed from the head
/// in the same pass that finds it: a key that was found but not removed would be sent to the provider.
#[derive(Clone, Debug)]
pub struct Callers {
    keys: KeyFinder,
    are_required: bool,
    tenant: TenantId,
}

/// The gateway's own keys that a request came with.
#[derive(Default)]
struct Presented<'k> {
    tenants: Vec<&'k TenantId>,
    /// The first of them, as it is written.
    key: Option<Vec<u8>>,
    /// True if one was not in [`KEY_HEADER`].
    is_elsewhere: bool,
}

impl Callers {
    /// The callers that the settings know.
    pub fn of(settings: &Settings) -> Self {
        let keys = settings.keys.iter().map(|key| (key.secret.reveal(), key.tenant.clone()));
        Callers {
            keys: KeyFinder::new(keys),
            are_required: settings.serve.keys_required,
            tenant: settings.tenant.clone(),
        }
    }

    /// True if any keys are configured.
    pub fn have_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Identifies the caller of a proxied request, and removes gateway keys from its head.
    pub fn of_proxied(&self, headers: &HeaderMap, path: &PathAndQuery) -> Result<Admitted, Unknown> {
        let own = text(headers, &KEY_HEADER);
        if self.keys.is_empty() {
            let scope = scope(provider_key(headers, path).as_deref().or(own).unwrap_or_default().as_bytes());
            let caller = Caller { tenant: self.tenant.clone(), scope, replaces_key: false };
            return Ok(Admitted { caller, headers: None, path: None });
        }
        let mut presented = Presented::default();
        let left = self.headers_without_keys(headers, &mut presented);
        if own.is_some_and(|own| !self.keys.is_in(own.as_bytes(), Place::Credential)) {
            return Err(Unknown::WrongKey);
        }
        let mut others = headers.iter().filter(|(name, _)| **name != KEY_HEADER);
        presented.is_elsewhere =
            others.any(|(name, value)| self.keys.is_in(value.as_bytes(), Place::named(name.as_str())));
        let before = presented.tenants.len();
        let left_path = self.path_without_keys(path, &mut presented)?;
        presented.is_elsewhere |= presented.tenants.len() > before;
        let provider = provider_key(left.as_ref().unwrap_or(headers), left_path.as_ref().unwrap_or(path));
        let tenant = match presented.tenants.split_first() {
            Some((first, rest)) if rest.iter().all(|tenant| tenant == first) => (*first).clone(),
            Some(_) => return Err(Unknown::TwoTenants),
            None if !self.are_required => self.tenant.clone(),
            None if provider.is_some() => return Err(Unknown::WrongKey),
            None => return Err(Unknown::NoKey),
        };
        let of_scope = provider.map(String::into_bytes).or(presented.key).unwrap_or_default();
        let caller = Caller { tenant, scope: scope(&of_scope), replaces_key: presented.is_elsewhere };
        Ok(Admitted { caller, headers: left, path: left_path })
    }

    /// Identifies the caller of one of the gateway's own endpoints; if keys are configured, one is required.
    pub fn of_own(&self, headers: &HeaderMap) -> Result<Caller, Unknown> {
        let Admitted { caller, headers: left, .. } = self.of_proxied(headers, &PathAndQuery::from_static("/"))?;
        match self.keys.is_empty() || left.is_some() {
            true => Ok(caller),
            false if PROVIDER_KEY_HEADERS.iter().any(|name| headers.contains_key(name)) => Err(Unknown::WrongKey),
            false => Err(Unknown::NoKey),
        }
    }

    /// The headers without the gateway's own keys; `None` where there are none in them.
    fn headers_without_keys<'k>(&'k self, headers: &HeaderMap, presented: &mut Presented<'k>) -> Option<HeaderMap> {
        let place = |name: &HeaderName| Place::named(name.as_str());
        let has_keys = |name: &HeaderName, value: &HeaderValue| self.keys.is_in(value.as_bytes(), place(name));
        if !headers.iter().any(|(name, value)| has_keys(name, value)) {
            return None;
        }
        let mut left = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            presented.add(&self.keys, value.as_bytes(), place(name));
            let separator = if *name == COOKIE { b';' } else { b',' };
            let rest = self.keys.without(value.as_bytes(), separator, place(name));
            let rest = match rest {
                None => Some(value.clone()),
                Some(rest) => HeaderValue::from_bytes(rest.trim_ascii()).ok().filter(|rest| !rest.is_empty()),
            };
            if let Some(rest) = rest {
                left.append(name, rest);
            }
        }
        Some(left)
    }

    /// The path and query without the gateway's own keys; `None` where there are none in them.
    fn path_without_keys<'k>(
        &'k self,
        path: &PathAndQuery,
        presented: &mut Presented<'k>,
    ) -> Result<Option<PathAndQuery>, Unknown> {
        if self.keys.is_in(path.path().as_bytes(), Place::Other) {
            return Err(Unknown::KeyInPath);
        }
        let parameters: Vec<&str> = path.query().unwrap_or_default().split('&').collect();
        let mut left: Vec<&str> = Vec::with_capacity(parameters.len());
        for parameter in &parameters {
            let place = Place::named(parameter.split('=').next().unwrap_or_default());
            if self.keys.is_in(parameter.as_bytes(), place) {
                presented.add(&self.keys, parameter.as_bytes(), place);
            } else {
                left.push(parameter);
            }
        }
        if left.len() == parameters.len() {
            return Ok(None);
        }
        let path = if left.is_empty() { path.path().to_owned() } else { format!("{}?{}", path.path(), left.join("&")) };
        path.parse().map(Some).map_err(|_| Unknown::KeyInPath)
    }
}

impl<'k> Presented<'k> {
    fn add(&mut self, keys: &'k KeyFinder, text: &[u8], place: Place) {
        for (tenant, key) in keys.find(text, place) {
            self.tenants.push(tenant);
            self.key.get_or_insert(key);
        }
    }
}

fn scope(key: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(SCOPE_KEY, key).as_bytes()
}

/// The provider's key that a request has: in a header, or in the query as some providers take it.
fn provider_key(headers: &HeaderMap, path: &PathAndQuery) -> Option<String> {
    let in_headers = PROVIDER_KEY_HEADERS.iter().find_map(|name| text(headers, name)).map(bare);
    let in_query = || {
        let mut parameters = path.query()?.split('&').filter_map(|parameter| parameter.split_once('='));
        parameters.find(|(name, _)| QUERY_KEYS.contains(name)).map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    in_headers.or_else(in_query).map(str::to_owned)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// A key without the word before it.
fn bare(value: &str) -> &str {
    match value.split_once([' ', '\t']) {
        Some((word, key)) if word.eq_ignore_ascii_case("bearer") => key.trim(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use epitome_runtime::model::Secret;
    use http::HeaderValue;

    use super::*;
    use crate::settings::{ApiKey, Serve};

    fn callers(keys: &[(&str, &str)], are_required: bool) -> Callers {
        let keys = keys
            .iter()
            .map(|(tenant, secret)| ApiKey { tenant: tenant.parse().expect("a name"), secret: Secret::new(secret) });
        let serve = Serve { keys_required: are_required, ..Serve::default() };
        Callers::of(&Settings { serve, keys: keys.collect(), ..Settings::default() })
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn proxied(callers: &Callers, pairs: &[(&'static str, &'static str)]) -> Result<Caller, Unknown> {
        let admitted = callers.of_proxied(&headers(pairs), &PathAndQuery::from_static("/v1/messages"));
        admitted.map(|admitted| admitted.caller)
    }

    fn told(caller: Result<Caller, Unknown>) -> Result<(String, bool), Unknown> {
        caller.map(|caller| (caller.tenant.to_string(), caller.replaces_key))
    }

    const KEYS: [(&str, &str); 2] = [("acme", "ek-acme"), ("bolt", "ek-bolt")];

    #[test]
    fn a_tenant_is_known_by_its_key_wherever_it_stands() {
        let tenant = |pairs: &[(&'static str, &'static str)]| told(proxied(&callers(&KEYS, true), pairs));
        let acme = |replaces_key| Ok(("acme".to_owned(), replaces_key));
        assert_eq!(tenant(&[("authorization", "Bearer ek-acme")]), acme(true));
        assert_eq!(tenant(&[("authorization", "bearer  ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-goog-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("api-key", "ek-bolt")]), Ok(("bolt".to_owned(), true)));
        assert_eq!(tenant(&[("x-epitome-key", "ek-acme"), ("authorization", "Bearer sk-theirs")]), acme(false));
        assert_eq!(tenant(&[("x-epitome-key", "ek-acme"), ("x-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-epitome-key", "wrong"), ("x-api-key", "ek-acme")]), Err(Unknown::WrongKey));
        assert_eq!(tenant(&[("x-epitome-key", "ek-bolt"), ("x-api-key", "ek-acme")]), Err(Unknown::TwoTenants));
        assert_eq!(tenant(&[("authorization", "Bearer sk-theirs"), ("x-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-api-key", "sk-theirs")]), Err(Unknown::WrongKey));
        assert_eq!(tenant(&[]), Err(Unknown::NoKey));
    }

    #[test]
    fn where_keys_are_not_required_a_strangers_request_is_the_one_tenants() {
        let local = Ok(("local".to_owned(), false));
        for callers in [callers(&KEYS, false), callers(&[], false)] {
            assert_eq!(told(proxied(&callers, &[("x-api-key", "sk-theirs")])), local);
            assert_eq!(told(proxied(&callers, &[])), local);
        }
    }

    #[test]
    fn the_gateways_own_endpoints_need_a_key_as_soon_as_there_is_one() {
        let own = |keys: &[(&str, &str)], pairs: &[(&'static str, &'static str)]| {
            told(callers(keys, false).of_own(&headers(pairs)))
        };
        assert_eq!(own(&[], &[]), Ok(("local".to_owned(), false)));
        assert_eq!(own(&KEYS, &[]), Err(Unknown::NoKey));
        assert_eq!(own(&KEYS, &[("authorization", "Bearer sk-theirs")]), Err(Unknown::WrongKey));
        assert_eq!(own(&KEYS, &[("authorization", "Bearer ek-bolt")]), Ok(("bolt".to_owned(), true)));
    }

    #[test]
    fn a_scope_is_the_keys_and_the_same_in_every_process() {
        let scope =
            |pairs: &[(&'static str, &'static str)]| proxied(&callers(&KEYS, false), pairs).expect("a caller").scope;
        let one = scope(&[("authorization", "Bearer sk-one")]);
        assert_eq!(one, scope(&[("x-api-key", "sk-one")]), "of two processes, under another header");
        assert_ne!(one, scope(&[("x-api-key", "sk-two")]));
        assert_eq!(scope(&[("x-epitome-key", "ek-acme"), ("x-api-key", "sk-one")]), one);
    }
}
