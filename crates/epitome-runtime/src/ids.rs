//! Names and moments: who owns a thread, which thread it is, and when something happened.
//!
//! A name is checked once, where it comes in; nothing after that has to ask what is in it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The most characters of a name.
const NAME_CHARS_MAX: usize = 200;

/// A text that is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a name: 1 to {NAME_CHARS_MAX} letters, digits, or any of . _ : @ + = - are")]
pub struct NotAName {
    text: String,
}

fn checked(text: &str) -> Result<Box<str>, NotAName> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._:@+=-".contains(c);
    let is_name = !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(fine);
    let no_path = text != "." && text != "..";
    if is_name && no_path { Ok(text.into()) } else { Err(NotAName { text: text.chars().take(80).collect() }) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NotAName;

            fn from_str(text: &str) -> Result<Self, NotAName> {
                checked(text).map($name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAName;

            fn try_from(text: String) -> Result<Self, NotAName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// Whose data it is. Nothing crosses from one tenant to another.
    TenantId
}

name! {
    /// A thread, within its tenant.
    ThreadId
}

impl TenantId {
    /// The tenant of a machine that has only one.
    pub fn local() -> Self {
        TenantId("local".into())
    }
}

impl ThreadId {
    /// A new id; later ones sort after earlier ones.
    pub fn new() -> Self {
        ThreadId(Uuid::now_v7().to_string().into())
    }
}

impl Default for ThreadId {
    fn default() -> Self {
        ThreadId::new()
    }
}

/// A thread and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ThreadKey {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub thread: ThreadId,
}

impl ThreadKey {
    /// A thread of a tenant.
    pub fn new(tenant: TenantId, thread: ThreadId) -> Self {
        ThreadKey { tenant, thread }
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.thread)
    }
}

/// A moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// Now, by the system's clock.
    pub fn now() -> Self {
        Moment(jiff::Timestamp::now().as_millisecond())
    }

    /// This much later.
    pub fn after(self, duration: std::time::Duration) -> Self {
        Moment(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}
