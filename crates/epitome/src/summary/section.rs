//! The sections of a summary: the same content under whatever headings a form gives it.

/// One section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// Words that must stay.
    Pins,
    /// What the user demanded.
    Constraints,
    /// What the user is after, in a model's words.
    Goal,
    /// What it was all for.
    Task,
    /// What the user asked for, one by one.
    Requests,
    /// The summarized part of the turn that goes on.
    TurnContext,
    /// What is known by now.
    Facts,
    /// The plan as last written down.
    Plan,
    /// What is not finished.
    OpenItems,
    /// Choices that bind later work.
    Decisions,
    /// Errors, and what became of them.
    Errors,
    /// Tool answers whose fields must stay.
    Outcomes,
    /// Content that was moved out.
    Artifacts,
    /// Images and files that are not in the prompt.
    Media,
    /// Messages that were hidden.
    Hidden,
    /// What tools did.
    Digest,
    /// Files with what was done to them.
    Files,
    /// Lines of the work, quoted.
    Notes,
}

impl Section {
    /// Every section, in the order in which they are written.
    pub const ALL: [Section; 18] = [
        Section::Pins,
        Section::Constraints,
        Section::Goal,
        Section::Task,
        Section::Requests,
        Section::TurnContext,
        Section::Facts,
        Section::Plan,
        Section::OpenItems,
        Section::Decisions,
        Section::Errors,
        Section::Outcomes,
        Section::Artifacts,
        Section::Media,
        Section::Hidden,
        Section::Digest,
        Section::Files,
        Section::Notes,
    ];
}
