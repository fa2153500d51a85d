//! Asking: a step, the model's answer, and what a refusal teaches.
//!
//! A limit that a refusal names is a suspicion: it holds for this thread, for a while. It becomes a lesson for the tenant
//! when a prompt that was compacted to within it is accepted.

use std::time::{Duration, Instant};

use epitome::budget::Tokens;

use super::StepRequest;
use super::error::Result;
use super::thread::OpenThread;
use crate::event::spans::CallPurpose;
use crate::event::{Event, EventField, EventKind};
use crate::ids::Moment;
use crate::model::{
    Hear, LEARNED_WINDOW_MIN, Model, ModelAnswer, ModelError, OverflowRetry, ServedModel, Usage, answer_traced,
    believable_limit,
};

/// The most times that one prompt is sent, whatever [`OverflowRetry`] advises.
const SENDS_MAX: u8 = 5;
const SUSPECTED_FOR: Duration = Duration::from_secs(3600);

/// A window that a refusal of a thread's prompt named.
#[derive(Clone, Debug)]
pub(super) struct SuspectedWindow {
    served: ServedModel,
    limit: Tokens,
    /// True if the refusal was the provider's own word, so that it may become a lesson.
    is_believable: bool,
    since: Instant,
}

impl OpenThread {
    /// Asks the model for the next answer and appends it. A prompt that the provider says is too long teaches the
    /// window, is compacted harder, and is sent again, three times at most.
    pub async fn ask(
        &mut self,
        model: &dyn Model,
        request: &StepRequest,
        stream: bool,
        hear: &mut Hear<'_>,
    ) -> Result<ModelAnswer> {
        let mut request = request.clone();
        request.model.get_or_insert_with(|| model.id().to_owned());
        let served = ServedModel::new(self.key.tenant.clone(), model.upstream(), model.id());
        let served = request.served.get_or_insert(served).clone();
        let mut left = SENDS_MAX;
        loop {
            let step = self.prepare_step(&request).await?;
            let mut prompt = step.prompt();
            prompt.stream = stream;
            let counted = step.counted();
            self.note_call();
            left -= 1;
            match answer_traced(model, CallPurpose::Turn, Some(&self.key.thread), &prompt, hear).await {
                Ok(answer) => {
                    self.learn_usage(&served, counted, answer.usage.as_ref()).await;
                    if step.version > 0 {
                        self.confirm_window(&served, counted, answer.usage.as_ref()).await;
                    }
                    self.append(answer.messages.iter().map(String::as_str)).await?;
                    return Ok(answer);
                }
                Err(error) if left == 0 => return Err(error.into()),
                Err(error) => {
                    self.learn_overflow(&served, counted, &error).await;
                    match OverflowRetry::after(&error, request.harder, request.max_output) {
                        OverflowRetry::LowerOutput(output) => request.max_output = Some(output),
                        OverflowRetry::CompactHarder(harder) if self.engine.settings().compacts_on_overflow() => {
                            request.harder = harder;
                        }
                        OverflowRetry::CompactHarder(_) => return Err(error.into()),
                        OverflowRetry::GiveUp => return Err(error.into()),
                    }
                }
            }
        }
    }

    /// Notes that the model is asked now: what it was sent lies in its cache from here on.
    pub fn note_call(&mut self) {
        self.last_call = Some(Instant::now());
    }

    /// Returns the model of a step as the tenant reaches it; without a model, `None`.
    pub(super) fn served(&self, request: &StepRequest) -> Option<ServedModel> {
        let model = || request.model.as_deref().or(self.engine.settings().model.as_deref());
        let unnamed = || Some(ServedModel::new(self.key.tenant.clone(), "", model()?));
        request.served.clone().or_else(unnamed)
    }

    /// The window that a refusal of this thread's prompts named, while it is believed.
    pub(super) fn suspected_window(&self, served: Option<&ServedModel>) -> Option<Tokens> {
        let suspected = self.suspected.as_ref().filter(|suspected| Some(&suspected.served) == served)?;
        (suspected.since.elapsed() < SUSPECTED_FOR).then_some(suspected.limit)
    }

    /// Suspects the window that a provider's refusal names, given what the prompt was counted as here.
    pub async fn learn_overflow(&mut self, served: &ServedModel, counted: Tokens, error: &ModelError) {
        let ModelError::Overflow { overflow, .. } = error else { return };
        if let Some(limit) = overflow.limit().filter(|limit| *limit >= LEARNED_WINDOW_MIN) {
            let is_believable = believable_limit(counted, error).is_some();
            let served = served.clone();
            self.suspected = Some(SuspectedWindow { served, limit, is_believable, since: Instant::now() });
        }
        if believable_limit(counted, error).is_some() {
            self.engine.learn(served, |lesson| lesson.refuse(counted, error)).await;
        }
        let event = Event::new(Moment::now(), self.key.clone(), EventKind::ModelOverflowed);
        let limit = overflow.limit().map_or(0, Tokens::get);
        self.engine
            .inner
            .bus
            .emit(&event.with(EventField::Model, served.model.as_str()).with(EventField::Limit, limit));
    }

    /// Learns from what the provider says a prompt took, given what it was counted as here.
    pub async fn learn_usage(&mut self, served: &ServedModel, counted: Tokens, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.engine.learn(served, |lesson| lesson.accept(counted, usage)).await;
        }
    }

    /// A compacted prompt was accepted. If it is within a limit that a refusal of this thread named before, that limit was
    /// seen to hold; if it is larger, the limit is not the window.
    pub async fn confirm_window(&mut self, served: &ServedModel, counted: Tokens, usage: Option<&Usage>) {
        let Some(suspected) = self.suspected.as_mut().filter(|suspected| suspected.served == *served) else { return };
        let used = usage.map(|usage| Tokens::new(usage.input)).filter(|used| *used > Tokens::ZERO).unwrap_or(counted);
        let limit = suspected.limit;
        if used > limit {
            self.suspected = None;
        } else if std::mem::take(&mut suspected.is_believable) {
            let (thread, is_configured) = (&self.key.thread, self.engine.settings().window.is_some());
            let now = self.engine.inner.clock.now();
            self.engine.learn(served, |lesson| lesson.hold(limit, thread, is_configured, now)).await;
        }
    }
}
