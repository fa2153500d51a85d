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

crate::named_enum! {
    /// A list of a request that a place can be in, by the name of its field.
    #[derive(PartialOrd, Ord)]
    pub(super) enum List {
        /// The request itself.
        Request = "request",
        /// The declared tools.
        Tools = "tools",
        /// The system prompt's blocks.
        System = "system",
        /// The messages.
        Messages = "messages",
        /// The items of a Responses request.
        Input = "input",
    }
}

crate::named_enum! {
    /// A list inside a message.
    #[derive(PartialOrd, Ord)]
    enum Parts {
        Content = "content",
        ToolCalls = "tool_calls",
    }
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
