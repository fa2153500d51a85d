//! A conversation: a session file, a request or a message list, read and counted.
//!
//! This is what every door opens first. It holds the text, the thread that the model would get, the counter that fits, and
//! what stands beside the messages: system prompt, tools, and whatever the provider reported beyond them.

use std::sync::Arc;

use crate::budget::{
    CautiousCounter, CountSource, FixedOverhead, Known, Meter, Model, ScaledCounter, TokenCounter, Tokens, WindowHints,
    counter_for,
};
use crate::session::{Format, ReadOptions, Session, SessionError};
use crate::thread::{Raw, Role, Thread};
use crate::wire::{Dialect, Layout};

/// A session with the thread that its model would get, counted.
pub struct Conversation {
    /// The session, request or list as it was read.
    pub session: Session,
    /// The messages that the model sees now.
    pub thread: Thread,
    /// The model that the counts are for.
    pub model: Option<String>,
    /// Counts tokens.
    pub counter: Arc<dyn TokenCounter>,
}

/// The counter of a conversation: how it is chosen.
#[derive(Clone, Default)]
pub struct CountFor {
    /// The model, where the caller names one; otherwise the one that the session names.
    pub model: Option<String>,
    /// The counter, where the caller has one.
    pub counter: Option<Arc<dyn TokenCounter>>,
    /// Counts on the safe side where no model is named: a count that is too low would end in the provider's refusal. A
    /// model that is named and not known is counted as the gateway counts it.
    pub cautious: bool,
}

impl Conversation {
    /// Reads a session file, a request or a message list. Its format and its model are told by the text itself, and
    /// tokens are counted on the safe side where no known model is named.
    ///
    /// ```
    /// use epitome::Conversation;
    ///
    /// let conversation = Conversation::read(r#"[{"role":"user","content":"hello"}]"#)?;
    /// assert_eq!(conversation.thread.len(), 1);
    /// # Ok::<(), epitome::session::SessionError>(())
    /// ```
    pub fn read(text: &str) -> Result<Conversation, SessionError> {
        let session = Session::read(text, &ReadOptions::default())?;
        Ok(Conversation::new(session, CountFor { cautious: true, ..CountFor::default() }))
    }

    /// Counts a session's messages.
    pub fn new(session: Session, count_for: CountFor) -> Conversation {
        Conversation::until(session, count_for, usize::MAX)
    }

    /// Counts a session's first `count` messages; the thread has no others.
    pub fn until(session: Session, count_for: CountFor, count: usize) -> Conversation {
        let model = count_for.model.or_else(|| session.model().map(str::to_owned));
        let is_known = model.as_deref().is_some_and(|model| Model::named(model).known != Known::Fallback);
        let counter = count_for.counter.unwrap_or_else(|| match (is_known, count_for.cautious, &model) {
            (false, true, None) => Arc::new(CautiousCounter),
            // The number that the gateway says too; for a model that nobody knows it is an estimate.
            (false, _, Some(_)) => Arc::new(ScaledCounter::new(counter_for(model.as_deref()), 1.0)),
            _ => counter_for(model.as_deref()),
        });
        let mut messages = session.messages();
        messages.truncate(count);
        let mut thread = Thread::new();
        thread.extend(messages, &Meter::new(&*counter, session.counting_dialect()));
        Conversation { session, thread, model, counter }
    }

    /// Counts as the session's provider would.
    pub fn meter(&self) -> Meter<'_> {
        Meter::new(&*self.counter, self.dialect())
    }

    /// Returns the dialect that the messages are counted and judged in.
    pub fn dialect(&self) -> Dialect {
        self.session.counting_dialect()
    }

    /// Tells whether the session is a plain list or request, which is written anew, or a file that lines are appended to.
    pub fn is_list(&self) -> bool {
        matches!(self.session.format(), Format::List(_))
    }

    /// Returns the tokens of system messages in the thread.
    pub fn system_messages(&self) -> Tokens {
        let messages = self.thread.messages().iter();
        messages.filter(|message| message.role() == Role::System).map(|message| message.tokens()).sum()
    }

    /// Returns the tokens beside the messages: system prompt, tools and, in a request, the start of the reply.
    pub fn fixed(&self) -> FixedOverhead {
        let (system, tools) = (self.session.system().map(Raw::as_str), self.session.tools().map(Raw::as_str));
        let fixed = self.meter().fixed(system, tools);
        let is_request = self.session.layout() == Some(Layout::Request);
        FixedOverhead { reply: if is_request { fixed.reply } else { Tokens::ZERO }, ..fixed }
    }

    /// Returns the tokens that every prompt has besides the messages: system prompt and tools as the text has them, or what
    /// the provider reported beyond what is counted here, where that is more.
    pub fn beside(&self) -> Tokens {
        let unseen = self.reported().map_or(Tokens::ZERO, |size| size - self.thread.total());
        self.fixed().total().max(unseen)
    }

    /// Returns the size of the prompt by the newest report of the provider: what it counted, and what was added since.
    pub fn reported(&self) -> Option<Tokens> {
        let usage = self.session.usage()?;
        let covers = usage.covers.filter(|covers| *covers <= self.thread.len())?;
        Some(Tokens::new(usage.input + usage.output) + self.thread.tokens(covers..self.thread.len()))
    }

    /// Returns the tokens of images and files, and where the least certain of these counts comes from.
    pub fn media(&self) -> (Tokens, CountSource) {
        let meter = self.meter();
        let media = self.thread.messages().iter().flat_map(|message| message.media()).map(|media| meter.media(media));
        media.fold((Tokens::ZERO, CountSource::Reported), |(tokens, source), count| {
            (tokens + count.tokens, source.max(count.source))
        })
    }

    /// Returns what the conversation itself says about its window: what its file proves, and the model it names.
    pub fn window_hints(&self) -> WindowHints<'_> {
        WindowHints { proven: self.session.proven_window(), model: self.session.model(), ..WindowHints::default() }
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("format", &self.session.format())
            .field("messages", &self.thread.len())
            .field("tokens", &self.thread.total())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
