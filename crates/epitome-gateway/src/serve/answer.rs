//! An answer on its way: counted while it goes out, and told of when it is over, whether it was finished or not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use epitome_runtime::ids::ThreadId;
use http::{Method, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};

use super::metrics::Metrics;
use super::request_id::RequestId;
use super::route::Route;
use crate::identity::Program;

/// The reason for which a body ended early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Additional fields of a request's log line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogNote {
    /// The thread that the request belongs to.
    pub thread: Option<ThreadId>,
    /// The program that sent it.
    pub client: Option<Program>,
}

/// The body of an answer.
pub struct Answer<B> {
    body: Source<B>,
    account: RequestAccount,
}

enum Source<B> {
    Proxied(B),
    Own(axum::body::Body),
}

impl<B> Answer<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn proxied(body: B, account: RequestAccount) -> Self {
        Answer::of(Source::Proxied(body), account)
    }

    pub(super) fn own(body: axum::body::Body, account: RequestAccount) -> Self {
        Answer::of(Source::Own(body), account)
    }

    fn of(body: Source<B>, account: RequestAccount) -> Self {
        let mut answer = Answer { body, account };
        answer.account.is_complete = answer.is_end_stream();
        answer
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match &mut self.body {
            Source::Proxied(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
            Source::Own(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
        };
        match &frame {
            Some(Ok(frame)) => {
                self.account.bytes += frame.data_ref().map_or(0, |data| data.remaining() as u64);
                // A body of a known size is not asked whether there is more of it.
                self.account.is_complete = self.is_end_stream();
            }
            Some(Err(_)) => {}
            None => self.account.is_complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Proxied(body) => body.is_end_stream(),
            Source::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Proxied(body) => body.size_hint(),
            Source::Own(body) => body.size_hint(),
        }
    }
}

/// A place among the open requests, for as long as it lives.
#[derive(Debug)]
pub(super) struct RequestSlot(Arc<AtomicUsize>);

impl RequestSlot {
    /// A slot, unless there are as many as there may be.
    pub(super) fn take(slots: &Arc<AtomicUsize>, max: usize) -> Option<RequestSlot> {
        let slot = RequestSlot(Arc::clone(slots));
        if slots.fetch_add(1, Ordering::AcqRel) < max { Some(slot) } else { None }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The account of a request, which is written to the log and the metrics when it ends.
pub(super) struct RequestAccount {
    pub metrics: Arc<Metrics>,
    pub route: Route,
    pub id: RequestId,
    pub method: Method,
    pub uri: Uri,
    pub started: Instant,
    pub status: Option<StatusCode>,
    pub note: LogNote,
    pub bytes: u64,
    pub is_complete: bool,
    pub slot: Option<RequestSlot>,
}

impl Drop for RequestAccount {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.metrics.finished(self.route, self.status, took, self.bytes);
        tracing::info!(
            target: "epitome_gateway::request",
            request = self.id.as_str(),
            method = self.method.as_str(),
            path = self.uri.path(),
            status = self.status.map(|status| status.as_u16()),
            ms = took.as_millis() as u64,
            bytes = self.bytes,
            complete = self.is_complete,
            thread = self.note.thread.as_ref().map(ThreadId::as_str),
            client = self.note.client.map(Program::name),
            "request"
        );
    }
}
