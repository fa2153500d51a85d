//! The gateway's own tools, as values: what a model is told of them, and what comes of a call.

/// A tool as a model is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// Its parameters, as JSON schema.
    pub parameters: &'static str,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the model reads.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}
