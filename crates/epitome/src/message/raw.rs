//! Raw JSON, kept as it came: slices of one shared source.
//!
//! Nothing here parses or changes a byte; that is the point of it.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A piece of text that shares its source with every other piece of it.
#[derive(Clone)]
pub struct Raw {
    source: Arc<String>,
    range: Range<usize>,
}

impl Raw {
    /// The whole of a text.
    pub fn whole(text: impl Into<String>) -> Self {
        let source = Arc::new(text.into());
        let range = 0..source.len();
        Raw { source, range }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.source[self.range.clone()]
    }

    /// The piece of this text at a byte range counted from its own start.
    pub fn slice(&self, range: Range<usize>) -> Raw {
        assert!(self.as_str().get(range.clone()).is_some(), "{range:?} is not a piece of this text");
        let start = self.range.start + range.start;
        Raw { source: Arc::clone(&self.source), range: start..start + range.len() }
    }

    /// The piece that `inner`, a slice borrowed from this very text, stands for.
    pub fn piece(&self, inner: &str) -> Raw {
        self.slice(offset_range(self.as_str(), inner))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// Where `inner`, borrowed from `outer`, lies in it.
pub(crate) fn offset_range(outer: &str, inner: &str) -> Range<usize> {
    let start = inner.as_ptr() as usize - outer.as_ptr() as usize;
    start..start + inner.len()
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Raw) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Raw {}

impl PartialEq<str> for Raw {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<String> for Raw {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl Deref for Raw {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Raw {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<String> for Raw {
    fn from(text: String) -> Raw {
        Raw::whole(text)
    }
}
