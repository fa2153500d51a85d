//! The way of a request: what its head says, and where it goes.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request};

use super::wishes::Wishes;
use super::{Endpoint, Inner};
use crate::caller::{Admitted, Caller};
use crate::identity::{Client, Named, Scope};
use crate::refusal::Refusal;
use crate::serve::is_local;
use crate::settings::{Provider, Upstream};
use crate::upstream::{self, UpBody};

/// The head of a request, understood.
#[derive(Debug)]
pub(super) struct Head {
    method: Method,
    path: PathAndQuery,
    /// The client's headers.
    headers: HeaderMap,
    /// The path and the headers without the gateway's own keys, where they had some.
    keyless_path: Option<PathAndQuery>,
    keyless_headers: Option<HeaderMap>,
    pub family: Provider,
    pub caller: Caller,
    pub wishes: Wishes,
    pub endpoint: Endpoint,
    /// Where it goes, unless the model has a say in that.
    pub onward: Option<Arc<Onward>>,
}

/// Where requests go, and how.
#[derive(Debug)]
pub(super) struct Onward {
    pub upstream: Arc<Upstream>,
    /// The path that the upstream knows them by.
    path: PathAndQuery,
    /// The headers that they have there.
    headers: HeaderMap,
}

impl Head {
    /// Who sends a request with this head and this body.
    pub(super) fn client(&self, named: &Named<'_>) -> Client {
        Client::of(&self.headers, named)
    }

    /// Where the thread of a client's request is looked for.
    pub(super) fn scope(&self, client: &Client) -> Option<Scope> {
        let words = self.wishes.words();
        Some(Scope::of(self.endpoint.dialect()?, &self.caller, client, words.as_deref()))
    }
}

/// The model that a path names, as in `/v1beta/models/NAME:generateContent`.
fn model_in(path: &str) -> Option<&str> {
    let (_, name) = path.split_once("/models/")?;
    name.split(['/', ':']).next().filter(|name| !name.is_empty())
}

/// A request on its way: where it goes, and what came with it.
pub(super) struct Way {
    pub head: Arc<Head>,
    pub onward: Arc<Onward>,
    /// How long its body was said to be.
    length: Option<HeaderValue>,
    extensions: Extensions,
}

impl Way {
    pub(super) fn new(head: &Arc<Head>, onward: Arc<Onward>, parts: Parts) -> Way {
        let length = parts.headers.get(CONTENT_LENGTH).cloned();
        Way { head: Arc::clone(head), onward, length, extensions: parts.extensions }
    }

    pub(super) fn is_for_an_answer(&self) -> bool {
        matches!(self.head.endpoint, Endpoint::Answer(_))
    }

    pub(super) fn request(&self, body: UpBody, edit: impl FnOnce(&mut HeaderMap)) -> Request<UpBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.onward.path.clone().into();
        *request.headers_mut() = self.onward.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        match &self.length {
            Some(length) => request.headers_mut().insert(CONTENT_LENGTH, length.clone()),
            None => request.headers_mut().remove(CONTENT_LENGTH),
        };
        edit(request.headers_mut());
        request
    }
}

impl Inner {
    /// Understands the head of a request.
    pub(super) fn head(&self, parts: &Parts) -> Result<Head, Refusal> {
        let headers = parts.headers.clone();
        let family = Provider::of(parts.uri.path(), &headers);
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let admitted = self.callers.of_proxied(&headers, &path).map_err(Refusal::Unknown)?;
        let Admitted { caller, headers: keyless_headers, path: keyless_path } = admitted;
        let wishes = Wishes::read(keyless_headers.as_ref().unwrap_or(&headers))
            .map_err(|unclear| Refusal::Unclear { reason: unclear.to_string() })?;
        let by_path = self.upstreams.of(path.path(), model_in(path.path()), family);
        let inner_path = by_path.as_ref().map_or_else(|| path.clone(), |upstream| upstream.path_of(&path));
        let endpoint = Endpoint::of(&parts.method, inner_path.path());
        if let (Some(name), Some(_), false) = (&wishes.policy, endpoint.dialect(), wishes.bypass) {
            self.policy(name)?;
        }
        let method = parts.method.clone();
        let mut head = Head {
            method,
            path,
            headers,
            keyless_path,
            keyless_headers,
            family,
            caller,
            wishes,
            endpoint,
            onward: None,
        };
        if !self.upstreams.are_by_model() || model_in(head.path.path()).is_some() {
            head.onward = by_path.map(|upstream| self.onward(&head, upstream)).transpose()?;
        }
        Ok(head)
    }

    /// Where requests with this head go for an answer of this model.
    pub(super) fn onward_for(&self, head: &Head, model: Option<&str>) -> Result<Arc<Onward>, Refusal> {
        if let Some(onward) = &head.onward {
            return Ok(Arc::clone(onward));
        }
        let upstream = self.upstreams.of(head.path.path(), model, head.family).ok_or(Refusal::NoUpstream)?;
        self.onward(head, upstream)
    }

    fn onward(&self, head: &Head, upstream: Arc<Upstream>) -> Result<Arc<Onward>, Refusal> {
        // A key of the gateway's own is not for pages in a browser on the same machine, where nothing else locks it.
        if upstream.key.is_some() && !self.callers.have_keys() && !is_local(&head.headers) {
            return Err(Refusal::Foreign);
        }
        let path = upstream.path_of(head.keyless_path.as_ref().unwrap_or(&head.path));
        let headers = head.keyless_headers.as_ref().unwrap_or(&head.headers);
        let headers = upstream::headers(&upstream, headers, head.family);
        Ok(Arc::new(Onward { upstream, path, headers }))
    }
}
