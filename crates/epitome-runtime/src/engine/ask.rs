//! Asking: a step, the model's answer, and what a refusal teaches.

use std::time::Instant;

use epitome::budget::Tokens;

use super::StepRequest;
use super::error::EngineError;
use super::thread::OpenThread;
use crate::event::spans::Purpose;
use crate::event::{Event, EventKind};
use crate::ids::Moment;
use crate::model::{Hear, Model, ModelAnswer, ModelError, Usage, answer_traced};

/// How often a prompt that the provider refuses is made smaller.
const HARDER_MAX: u8 = 3;
/// How often a prompt is sent at all: refusals of the output's size come besides.
const RETRIES_MAX: u8 = HARDER_MAX + 2;
/// What is left free when the answer's limit is lowered to what fits.
const OUTPUT_MARGIN: Tokens = Tokens::new(16);

impl OpenThread {
    /// Asks the model for the next answer and appends it. A prompt that the provider says is too long teaches the
    /// window, is compacted harder, and is sent again, three times at most.
    pub async fn ask(
        &mut self,
        model: &dyn Model,
        request: &StepRequest,
        stream: bool,
        hear: &mut Hear<'_>,
    ) -> Result<ModelAnswer, EngineError> {
        let mut request = request.clone();
        request.model.get_or_insert_with(|| model.id().to_owned());
        let mut left = RETRIES_MAX;
        loop {
            let step = self.prepare_step(&request).await?;
            let mut prompt = step.prompt();
            prompt.stream = stream;
            let counted = step.counted();
            self.note_call();
            left -= 1;
            match answer_traced(model, Purpose::Turn, Some(&self.key.thread), &prompt, hear).await {
                Ok(answer) => {
                    self.learn_usage(model.id(), counted, answer.usage.as_ref()).await;
                    self.append(answer.messages.iter().map(String::as_str)).await?;
                    return Ok(answer);
                }
                Err(error) if left == 0 => return Err(error.into()),
                Err(error) => request = self.refused(model.id(), counted, &error, request).await.ok_or(error)?,
            }
        }
    }

    /// Notes that the model is asked now: what it was sent lies in its cache from here on.
    pub fn note_call(&mut self) {
        self.called = Some(Instant::now());
    }

    /// What to ask for after a refusal; `None` when asking again cannot help.
    async fn refused(
        &mut self,
        model: &str,
        counted: Tokens,
        error: &ModelError,
        mut request: StepRequest,
    ) -> Option<StepRequest> {
        let ModelError::Overflow { overflow, .. } = error else { return None };
        self.learn_overflow(model, counted, error).await;
        if let Some(output) = overflow.output_that_fits(OUTPUT_MARGIN).filter(|output| *output > OUTPUT_MARGIN)
            && request.max_output != Some(output)
        {
            request.max_output = Some(output);
            return Some(request);
        }
        (request.harder < HARDER_MAX).then(|| StepRequest { harder: request.harder + 1, ..request })
    }

    /// Learns the window from a provider's refusal, given what the prompt was counted as here.
    pub async fn learn_overflow(&mut self, model: &str, counted: Tokens, error: &ModelError) {
        let ModelError::Overflow { overflow, .. } = error else { return };
        self.engine.learn(|learnt| learnt.error(model, counted, error)).await;
        let event = Event::new(Moment::now(), self.key.clone(), EventKind::ModelOverflowed);
        let limit = overflow.limit().map_or(0, Tokens::get);
        self.engine.inner.bus.emit(&event.with("model", model).with("limit", limit));
    }

    /// Learns from what the provider says a prompt took, given what it was counted as here.
    pub async fn learn_usage(&mut self, model: &str, counted: Tokens, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.engine.learn(|learnt| learnt.usage(model, counted, usage)).await;
        }
    }
}
