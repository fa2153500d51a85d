//! What a search asks for. The doors fill in the same fields under the same names: query, who, file, tool, after, newest, limit.

use epitome::budget::Tokens;
use epitome::policy::Tools;
use serde::Serialize;

use super::prompt_lines::PromptLines;
use crate::model::Embeddings;

crate::named_enum! {
    /// Who said something.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Who {
        /// A person.
        User = "user",
        /// The model, its calls included.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
        /// Anybody else: the system, a harness in the user's name, an earlier summary.
        Other = "other",
    }
}

/// What a passage must be besides fitting the words. The default leaves nothing out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallFilter {
    /// Who said it. A person's words in the rejection of a call are the user's.
    pub who: Option<Who>,
    /// The file that it is about: a path, or the end of one.
    pub file: Option<String>,
    /// The tool that was called, in any case.
    pub tool: Option<String>,
    /// Only messages after the one of this number.
    pub after: Option<u64>,
    /// The newest first, and not the best.
    pub newest: bool,
}

impl RecallFilter {
    /// True if it leaves nothing out and keeps the order.
    pub fn is_empty(&self) -> bool {
        *self == RecallFilter::default()
    }
}

/// A search as a door passes it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallRequest {
    /// The words to look for; with a filter there may be none.
    pub words: String,
    /// What else a passage must be.
    pub filter: RecallFilter,
    /// The most passages; twelve without it.
    pub limit: Option<usize>,
    /// The most tokens of the answer; the engine's own limit without it.
    pub tokens_max: Option<Tokens>,
}

impl From<&str> for RecallRequest {
    fn from(words: &str) -> Self {
        RecallRequest { words: words.to_owned(), ..RecallRequest::default() }
    }
}

impl From<&String> for RecallRequest {
    fn from(words: &String) -> Self {
        words.as_str().into()
    }
}

/// The most passages of an answer where nobody says.
const HITS_MAX: usize = 12;

impl RecallRequest {
    /// Returns the search, with the limit of tokens that holds where it names none.
    pub fn query<'a>(
        &'a self,
        tokens_max: Tokens,
        tools: &'a Tools,
        prompt: Option<&'a PromptLines>,
    ) -> RecallQuery<'a> {
        RecallQuery {
            words: &self.words,
            filter: self.filter.clone(),
            tokens_max: self.tokens_max.unwrap_or(tokens_max),
            hits_max: self.limit.unwrap_or(HITS_MAX).max(1),
            tools,
            prompt,
            embeddings: None,
        }
    }
}

impl<'a> RecallQuery<'a> {
    /// The same search, by meaning too where there is an embedding model.
    #[must_use]
    pub fn by_meaning(self, embeddings: Option<&'a Embeddings>) -> RecallQuery<'a> {
        RecallQuery { embeddings, ..self }
    }
}

/// A search of compacted content.
#[derive(Clone, Debug)]
pub struct RecallQuery<'a> {
    /// The words to look for.
    pub words: &'a str,
    /// What else a passage must be.
    pub filter: RecallFilter,
    /// The most tokens of the answer.
    pub tokens_max: Tokens,
    /// The most passages.
    pub hits_max: usize,
    /// What is known of tools.
    pub tools: &'a Tools,
    /// The lines that the prompt holds, where the door knows it.
    pub prompt: Option<&'a PromptLines>,
    /// The model that tells what words mean, where there is one.
    pub embeddings: Option<&'a Embeddings>,
}
