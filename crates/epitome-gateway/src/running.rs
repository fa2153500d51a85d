//! A gateway as one value: put together, serving, stopped.
//!
//! ```text
//! start ──► serving ──► stop: no new requests ──► log complete ──► jobs over ──► ledger written
//! ```
//!
//! The order of stopping decides whether anything is lost: requests end first, because they append to the log; the log is
//! complete before jobs end, because a job compacts what is in it; the ledger is last, because all of them cost something.
//! The store is the caller's: it is open before the start and until after the stop.

use std::sync::Arc;
use std::time::Duration;

use epitome::policy::{Preset, preset};
use epitome_runtime::engine::{Engine, Worker};
use epitome_runtime::log::LogError;
use tokio::task::JoinHandle;

use crate::caller::Caller;
use crate::ledger::{Ledger, PriceList};
use crate::mcp::{Hosts, http_service};
use crate::proxy::Relay;
use crate::serve::{Ended, Gateway, Listening, Metrics, Stop, Stopper, signaled};
use crate::settings::Settings;
use crate::tools::Caps;

/// A gateway that is serving.
///
/// It moves through the states above once: the stopper ends serving, and [`stop`](RunningGateway::stop) or
/// [`stop_on_signals`](RunningGateway::stop_on_signals) does the rest in that order. Dropping it instead leaves the tasks running
/// without an owner: messages that are not in the log yet and the newest ledger entries may be lost.
#[derive(Debug)]
pub struct RunningGateway {
    relay: Relay,
    ledger: Arc<Ledger>,
    worker: Worker,
    stopper: Arc<Stopper>,
    stopping: Stop,
    serving: JoinHandle<Ended>,
}

/// The state in which a gateway stopped.
#[derive(Debug)]
pub struct StopReport {
    /// The number of requests that were cut off because they took longer than the grace.
    pub cut: usize,
    /// True if every message that came is in the store; otherwise clients will send the missing ones again.
    pub is_log_complete: bool,
    /// The reason for which the newest entries of the ledger are not written.
    pub ledger: Result<(), LogError>,
}

impl Gateway<Relay> {
    /// Starts a gateway with its proxy, ledger, worker and MCP endpoint, on the current Tokio runtime.
    ///
    /// `compactions` are the numbers for `/metrics` that a listener on the engine's bus collects.
    pub fn start(
        settings: Arc<Settings>,
        engine: Engine,
        compactions: Arc<epitome_runtime::event::CompactionMetrics>,
        listening: Listening,
    ) -> RunningGateway {
        let worker = engine.work();
        let metrics = Arc::new(Metrics::new());
        let ledger =
            Arc::new(Ledger::new(engine.log().clone(), PriceList::shipped()).with_summaries_from(engine.bus()));
        let policies = Preset::ALL.iter().filter_map(|known| Some((known.name.to_owned(), preset(known.name)?)));
        let relay = Relay::new(
            Arc::clone(&settings),
            engine.clone(),
            policies.collect(),
            Arc::clone(&metrics),
            Arc::clone(&ledger),
        );
        // The serving layer authenticates, and leaves the caller in the request's extensions.
        let access = |parts: &http::request::Parts| parts.extensions.get::<Caller>().map(Caller::access);
        let mcp = Some(http_service(engine.clone(), Caps::default(), Hosts::Any, access));
        let (stopper, stopping) = Stop::pair();
        let gateway = Gateway { settings, engine, proxy: relay.clone(), metrics, compactions, mcp };
        // Under the target of the request lines, which a JSON log shows.
        tracing::info!(target: "epitome_gateway::request", address = %listening.address(), "listening");
        let serving = tokio::spawn(gateway.serve(listening, stopping.clone()));
        RunningGateway { relay, ledger, worker, stopper: Arc::new(stopper), stopping, serving }
    }
}

impl RunningGateway {
    /// Returns the proxy, which flushes on demand.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Serves until the first SIGTERM or SIGINT, then stops; a second signal ends what is still under way.
    pub async fn stop_on_signals(self, log_wait: Duration) -> StopReport {
        let stopper = Arc::clone(&self.stopper);
        let signals = tokio::spawn(async move {
            signaled().await;
            stopper.finish();
            signaled().await;
            stopper.at_once();
        });
        let report = self.stopped(log_wait).await;
        signals.abort();
        report
    }

    /// Takes no more requests, finishes those under way within the grace, and writes everything down; waits for the log
    /// as long as `log_wait`.
    pub async fn stop(self, log_wait: Duration) -> StopReport {
        self.stopper.finish();
        self.stopped(log_wait).await
    }

    async fn stopped(mut self, log_wait: Duration) -> StopReport {
        let Ended { cut } = match self.serving.await {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let is_log_complete = self.relay.ended(log_wait).await;
        // A model may take long for a summary; a second signal does not wait for it. The job is taken up again later.
        tokio::select! {
            () = self.worker.stop() => {}
            () = self.stopping.at_once() => {}
        }
        StopReport { cut, is_log_complete, ledger: self.ledger.flush().await }
    }
}
