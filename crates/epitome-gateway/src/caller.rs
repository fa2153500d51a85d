//! Callers: whose request it is, from the keys it came with.
//!
//! A key is compared by its keyed hash, in a time that says nothing of it, and is kept nowhere in the open. Nothing here
//! knows what a caller may do: the runtime's `Access` decides that.

use blake3::Hash;
use epitome_runtime::artifact::Access;
use epitome_runtime::ids::TenantId;
use epitome_runtime::vault::random_secret;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::settings::Settings;

/// The header that carries a key of the gateway's own beside the provider's.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("x-epitome-key");

/// The headers that clients send a provider's key in.
pub const PROVIDER_KEY_HEADERS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// What scopes are hashed under: the same in every process, so that a restart changes nothing.
const SCOPE_KEY: &[u8; 32] = b"epitome gateway scope of callers";

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it is.
    pub tenant: TenantId,
    /// Tells callers of one tenant apart: the hash of the key that the client came with.
    pub scope: [u8; 32],
    /// Whether the provider's key was one of the gateway's own: it must not go to the provider.
    pub replaces_key: bool,
}

impl Caller {
    /// What the runtime is told of who asks.
    pub fn access(&self) -> Access {
        Access::owner(self.tenant.clone(), "gateway")
    }
}

/// Why a caller is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// They came without a key.
    #[error("a key of this gateway is needed; send it as x-epitome-key, or in the place of the provider's key")]
    NoKey,
    /// Their key is none of ours.
    #[error("the key is none of this gateway's; send one as x-epitome-key, or in the place of the provider's key")]
    WrongKey,
}

/// The keys that a gateway knows.
#[derive(Clone, Debug)]
pub struct Callers {
    /// A secret of this process, so that nobody can work on the hashes from outside.
    hashing: [u8; 32],
    keys: Vec<(Hash, TenantId)>,
    are_required: bool,
    tenant: TenantId,
}

impl Callers {
    /// The callers that the settings know.
    pub fn of(settings: &Settings) -> Self {
        let hashing = random_secret();
        let keys = settings
            .keys
            .iter()
            .map(|key| (blake3::keyed_hash(&hashing, key.secret.reveal().as_bytes()), key.tenant.clone()));
        Callers { keys: keys.collect(), are_required: settings.keys_required, tenant: settings.tenant.clone(), hashing }
    }

    /// Whether there are any keys.
    pub fn have_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Who sends a request for a provider.
    pub fn of_proxied(&self, headers: &HeaderMap) -> Result<Caller, Unknown> {
        let own = text(headers, &KEY_HEADER);
        let provider = PROVIDER_KEY_HEADERS.iter().find_map(|name| text(headers, name)).map(bare);
        let scope = scope(provider.or(own).unwrap_or_default());
        let caller = |tenant: &TenantId, replaces_key| Caller { tenant: tenant.clone(), scope, replaces_key };
        if self.keys.is_empty() {
            return Ok(caller(&self.tenant, false));
        }
        let by_provider_key = provider.and_then(|key| self.tenant_of(key));
        match (own, by_provider_key) {
            (Some(own), as_provider_key) => {
                let tenant = self.tenant_of(own).ok_or(Unknown::WrongKey)?;
                Ok(caller(tenant, as_provider_key.is_some()))
            }
            (None, Some(tenant)) => Ok(caller(tenant, true)),
            (None, None) if self.are_required && provider.is_some() => Err(Unknown::WrongKey),
            (None, None) if self.are_required => Err(Unknown::NoKey),
            (None, None) => Ok(caller(&self.tenant, false)),
        }
    }

    /// Who asks the gateway itself: where there are keys, one of them is needed.
    pub fn of_own(&self, headers: &HeaderMap) -> Result<Caller, Unknown> {
        let caller = self.of_proxied(headers)?;
        match self.keys.is_empty() || text(headers, &KEY_HEADER).is_some() || caller.replaces_key {
            true => Ok(caller),
            false if PROVIDER_KEY_HEADERS.iter().any(|name| headers.contains_key(name)) => Err(Unknown::WrongKey),
            false => Err(Unknown::NoKey),
        }
    }

    /// Whose key it is. Every key is looked at, and each comparison takes the same time.
    fn tenant_of(&self, key: &str) -> Option<&TenantId> {
        let hash = blake3::keyed_hash(&self.hashing, key.as_bytes());
        self.keys.iter().fold(None, |found, (known, tenant)| if *known == hash { Some(tenant) } else { found })
    }
}

fn scope(key: &str) -> [u8; 32] {
    *blake3::keyed_hash(SCOPE_KEY, key.as_bytes()).as_bytes()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// A key without the word before it.
fn bare(value: &str) -> &str {
    match value.split_once(' ') {
        Some((word, key)) if word.eq_ignore_ascii_case("bearer") => key.trim(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use epitome_runtime::model::Secret;
    use http::HeaderValue;

    use super::*;
    use crate::settings::ApiKey;

    fn callers(keys: &[(&str, &str)], are_required: bool) -> Callers {
        let keys = keys
            .iter()
            .map(|(tenant, secret)| ApiKey { tenant: tenant.parse().expect("a name"), secret: Secret::new(secret) });
        Callers::of(&Settings { keys: keys.collect(), keys_required: are_required, ..Settings::default() })
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn told(caller: Result<Caller, Unknown>) -> Result<(String, bool), Unknown> {
        caller.map(|caller| (caller.tenant.to_string(), caller.replaces_key))
    }

    const KEYS: [(&str, &str); 2] = [("acme", "ek-acme"), ("bolt", "ek-bolt")];

    #[test]
    fn a_tenant_is_known_by_its_key_wherever_it_stands() {
        let tenant = |pairs: &[(&'static str, &'static str)]| told(callers(&KEYS, true).of_proxied(&headers(pairs)));
        let acme = |replaces_key| Ok(("acme".to_owned(), replaces_key));
        assert_eq!(tenant(&[("authorization", "Bearer ek-acme")]), acme(true));
        assert_eq!(tenant(&[("authorization", "bearer  ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-goog-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("api-key", "ek-bolt")]), Ok(("bolt".to_owned(), true)));
        assert_eq!(tenant(&[("x-epitome-key", "ek-acme"), ("authorization", "Bearer sk-theirs")]), acme(false));
        assert_eq!(tenant(&[("x-epitome-key", "ek-acme"), ("x-api-key", "ek-acme")]), acme(true));
        assert_eq!(tenant(&[("x-epitome-key", "wrong"), ("x-api-key", "ek-acme")]), Err(Unknown::WrongKey));
        assert_eq!(tenant(&[("x-api-key", "sk-theirs")]), Err(Unknown::WrongKey));
        assert_eq!(tenant(&[]), Err(Unknown::NoKey));
    }

    #[test]
    fn where_keys_are_not_required_a_strangers_request_is_the_one_tenants() {
        let local = Ok(("local".to_owned(), false));
        for callers in [callers(&KEYS, false), callers(&[], false)] {
            assert_eq!(told(callers.of_proxied(&headers(&[("x-api-key", "sk-theirs")]))), local);
            assert_eq!(told(callers.of_proxied(&headers(&[]))), local);
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
        let scope = |pairs: &[(&'static str, &'static str)]| {
            callers(&KEYS, false).of_proxied(&headers(pairs)).expect("a caller").scope
        };
        let one = scope(&[("authorization", "Bearer sk-one")]);
        assert_eq!(one, scope(&[("x-api-key", "sk-one")]), "of two processes, under another header");
        assert_ne!(one, scope(&[("x-api-key", "sk-two")]));
        assert_eq!(scope(&[("x-epitome-key", "ek-acme"), ("x-api-key", "sk-one")]), one);
    }
}
