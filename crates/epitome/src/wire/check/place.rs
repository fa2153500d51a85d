//! Where in a request something stands, written the way providers write it: `messages.33.content.1`.
//!
//! A place only points; it holds no content and never looks any up.

use std::fmt;

/// A place in a request: a list, an entry of it, a part of that entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    list: List,
    index: Option<usize>,
    part: Option<(Parts, usize)>,
}

/// A list of a request that a place can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum List {
    /// The request itself.
    Request,
    /// The declared tools.
    Tools,
    /// The system prompt's blocks.
    System,
    /// The messages.
    Messages,
    /// The items of a Responses request.
    Input,
}

/// A list inside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Parts {
    Content,
    ToolCalls,
}

impl Place {
    pub(super) fn whole(list: List) -> Self {
        Place { list, index: None, part: None }
    }
    pub(super) fn entry(list: List, index: usize) -> Self {
        Place { list, index: Some(index), part: None }
    }

    /// A part of this entry's content.
    pub(super) fn content(self, index: usize) -> Self {
        Place { part: Some((Parts::Content, index)), ..self }
    }
    pub(super) fn call(self, index: usize) -> Self {
        Place { part: Some((Parts::ToolCalls, index)), ..self }
    }

    /// The name of the list: `messages`, `input`, `system`, `tools`, or `request` for the whole.
    pub fn list(&self) -> &'static str {
        self.list.name()
    }

    /// The entry, if the place is inside the list.
    pub fn index(&self) -> Option<usize> {
        self.index
    }

    /// The block, part or call, if the place is inside the entry.
    pub fn part(&self) -> Option<usize> {
        self.part.map(|(_, index)| index)
    }
}

impl List {
    /// The field's name in a request.
    pub(super) fn name(self) -> &'static str {
        match self {
            List::Request => "request",
            List::Tools => "tools",
            List::System => "system",
            List::Messages => "messages",
            List::Input => "input",
        }
    }
}

impl Parts {
    fn name(self) -> &'static str {
        match self {
            Parts::Content => "content",
            Parts::ToolCalls => "tool_calls",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.list.name())?;
        if let Some(index) = self.index {
            write!(f, ".{index}")?;
        }
        match self.part {
            Some((parts, index)) => write!(f, ".{}.{index}", parts.name()),
            None => Ok(()),
        }
    }
}
