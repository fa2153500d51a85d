//! Settings: what a value may be, and how it is read and shown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use epitome::budget::Tokens;
use epitome::policy::Preset;
use epitome::wire::Dialect;

use crate::engine::{AutoCompaction, SensitivityRule};
use crate::ids::TenantId;
use crate::store::Sensitivity;

/// A setting as the table of its section declares it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its section and its name.
    pub name: &'static str,
    /// The default as it would be written; empty when there is none.
    pub default: &'static str,
    /// The sentence for the documentation.
    pub about: &'static str,
    /// Whether a folder's file may set it.
    pub guard: Guard,
    /// The form of its values.
    pub shape: ValueShape,
    /// The least and the greatest number.
    pub range: (u64, u64),
}

/// Whether a setting counts in a file that merely lies in the working folder, and so may come from anybody, such as with a
/// cloned repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It counts everywhere: the worst that a stranger can do with it is a prompt of another size or another wait.
    Free,
    /// It counts once the user has trusted the file: it says where content or keys go, who is asked and in what words, what
    /// is kept for how long, or who is let in.
    Guarded,
}

impl Key {
    /// Returns the environment variable that overrides it.
    pub fn variable(&self) -> String {
        format!("EPITOME_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// The form of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// A string.
    Text,
    /// A whole number.
    Whole,
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    List,
}

/// A value as it was written, before its setting reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// `true` or `false`.
    Flag(bool),
    /// A list of strings.
    List(Vec<String>),
    /// Something that no setting can be, as it was written.
    Other(String),
}

impl WrittenValue {
    /// Reads a variable, a flag or a default, whose form depends on the setting.
    pub(super) fn from_text(shape: ValueShape, text: &str) -> WrittenValue {
        let other = || WrittenValue::Other(text.to_owned());
        match shape {
            ValueShape::Text => WrittenValue::Text(text.to_owned()),
            ValueShape::Whole => text.parse().map_or_else(|_| other(), WrittenValue::Whole),
            ValueShape::Flag => text.parse().map_or_else(|_| other(), WrittenValue::Flag),
            ValueShape::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                WrittenValue::List(items.map(str::to_owned).collect())
            }
        }
    }

    /// Returns the string, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            WrittenValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name and the value of a string of the form `NAME=VALUE`.
    pub fn name_and_value(&self) -> Option<(&str, WrittenValue)> {
        let (name, value) = self.text()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name, WrittenValue::Text(value.to_owned())))
    }

    /// Returns the value as an error message quotes it.
    pub(super) fn quoted(&self) -> String {
        match self {
            WrittenValue::Text(text) => format!("{text:?}"),
            WrittenValue::Whole(number) => number.to_string(),
            WrittenValue::Flag(flag) => flag.to_string(),
            WrittenValue::List(list) => format!("{list:?}"),
            WrittenValue::Other(text) => text.clone(),
        }
    }
}

/// The circumstances in which a value is read: the bounds of a number, and where relative paths begin.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext<'a> {
    pub(super) range: (u64, u64),
    pub(super) folder: &'a Path,
    pub(super) home: Option<&'a Path>,
}

impl ReadContext<'_> {
    /// Resolves a path from the folder of the file it is written in; `~/` is the home folder.
    pub fn resolve(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.folder.join(path),
        }
    }

    fn within_range(&self, number: u64) -> Option<u64> {
        (self.range.0..=self.range.1).contains(&number).then_some(number)
    }
}

/// A type that a setting can have.
pub trait Setting: Sized {
    /// The form of its values.
    const SHAPE: ValueShape = ValueShape::Text;

    /// True for a type that names a place, a program or a secret; a setting of such a type has to be guarded.
    const REACHES_OUT: bool;

    /// Reads a written value; `None` when it is not allowed.
    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self>;

    /// Quotes a refused value in an error message; a type that may hold a secret hides it.
    fn quoted(written: &WrittenValue) -> String {
        written.quoted()
    }

    /// What is allowed, in words that follow "allowed is".
    const ALLOWED: &'static str = "";

    /// The same for a type whose words depend on the bounds of a number or on another type.
    fn allowed(_context: &ReadContext<'_>) -> String {
        Self::ALLOWED.to_owned()
    }

    /// Shows the value without its secrets, as `epitome config show` does.
    fn show(&self) -> String;

    /// Returns the value of a setting that nobody set and that has no default; `None` for a type that needs one.
    fn absent() -> Option<Self> {
        None
    }
}

/// Implements [`Setting`] for enums that were declared with [`named_enum!`](crate::named_enum).
#[macro_export]
macro_rules! setting_by_name {
    ($($Enum:ty),+) => {$(
        impl $crate::config::Setting for $Enum {
            const REACHES_OUT: bool = false;

            fn read(written: &$crate::config::WrittenValue, _: &$crate::config::ReadContext<'_>) -> Option<Self> {
                <$Enum>::from_name(written.text()?)
            }

            fn allowed(_: &$crate::config::ReadContext<'_>) -> String {
                $crate::config::choice(&<$Enum>::ALL.map(<$Enum>::name))
            }

            fn show(&self) -> String {
                self.name().to_owned()
            }
        }
    )+};
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: ValueShape = T::SHAPE;
    const REACHES_OUT: bool = T::REACHES_OUT;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        T::read(written, context).map(Some)
    }

    fn quoted(written: &WrittenValue) -> String {
        T::quoted(written)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        T::allowed(context)
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const SHAPE: ValueShape = ValueShape::List;
    const REACHES_OUT: bool = T::REACHES_OUT;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let WrittenValue::List(list) = written else { return None };
        list.iter().map(|item| T::read(&WrittenValue::Text(item.clone()), context)).collect()
    }

    fn quoted(written: &WrittenValue) -> String {
        T::quoted(written)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("a list, each item {}", T::allowed(context))
    }

    fn show(&self) -> String {
        self.iter().map(T::show).collect::<Vec<_>>().join(", ")
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

impl Setting for u64 {
    const SHAPE: ValueShape = ValueShape::Whole;
    const REACHES_OUT: bool = false;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let WrittenValue::Whole(number) = written else { return None };
        context.within_range(*number)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!("a whole number from {} to {}", context.range.0, context.range.1)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Implements [`Setting`] for a newtype that is written as a whole number of units.
macro_rules! whole_units {
    ($( #[doc = $about:literal] $Type:ident($Inner:ty): $from:expr, $to:expr; )+) => {$(
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $Type(pub $Inner);

        impl Setting for $Type {
            const SHAPE: ValueShape = u64::SHAPE;
            const REACHES_OUT: bool = false;

            fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
                let from: fn(u64) -> $Inner = $from;
                u64::read(written, context).map(|number| $Type(from(number)))
            }

            fn allowed(context: &ReadContext<'_>) -> String {
                u64::allowed(context)
            }

            fn show(&self) -> String {
                let to: fn($Inner) -> String = $to;
                to(self.0)
            }
        }
    )+};
}

whole_units! {
    /// A time that is written in seconds.
    Seconds(Duration): Duration::from_secs, |time| time.as_secs().to_string();
    /// A time that is written in milliseconds.
    Milliseconds(Duration): Duration::from_millis, |time| time.as_millis().to_string();
    /// A number of bytes that is written in KB of 1024 bytes.
    Kilobytes(usize): |kb| usize::try_from(kb << 10).unwrap_or(usize::MAX), |bytes| (bytes >> 10).to_string();
    /// A number of bytes that is written in MB of 1024 KB.
    Megabytes(usize): |mb| usize::try_from(mb << 20).unwrap_or(usize::MAX), |bytes| (bytes >> 20).to_string();
}

impl Setting for Tokens {
    const REACHES_OUT: bool = false;

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let tokens = match written {
            WrittenValue::Whole(number) => Tokens::new(*number),
            WrittenValue::Text(text) => text.parse().ok()?,
            _ => return None,
        };
        context.within_range(tokens.get()).map(Tokens::new)
    }

    fn allowed(context: &ReadContext<'_>) -> String {
        format!(
            "a number of tokens from {} to {}, such as 12000, 12k, 1.5m or 12_000",
            context.range.0, context.range.1
        )
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    const SHAPE: ValueShape = ValueShape::Flag;
    const REACHES_OUT: bool = false;
    const ALLOWED: &str = "true or false";

    fn read(written: &WrittenValue, _: &ReadContext<'_>) -> Option<Self> {
        match written {
            WrittenValue::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Implements [`Setting`] for a type that is read from its text alone.
macro_rules! setting_from_text {
    ($Type:ty, $allowed:expr, $read:expr, $show:expr) => {
        impl Setting for $Type {
            const REACHES_OUT: bool = false;

            fn read(written: &WrittenValue, _: &ReadContext<'_>) -> Option<Self> {
                let read: fn(&str) -> Option<Self> = $read;
                read(written.text()?)
            }

            fn allowed(_: &ReadContext<'_>) -> String {
                $allowed
            }

            fn show(&self) -> String {
                let show: fn(&Self) -> String = $show;
                show(self)
            }
        }
    };
}

setting_from_text! {
    String,
    "a text that is not empty".to_owned(),
    |text| (!text.trim().is_empty()).then(|| text.to_owned()),
    Clone::clone
}

setting_from_text! {
    TenantId,
    "a name of letters, digits, or any of . _ : @ + = -".to_owned(),
    |text| text.parse().ok(),
    ToString::to_string
}

/// The dialects that providers speak.
const SPOKEN: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

setting_from_text! {
    Dialect,
    choice(&SPOKEN.map(Dialect::name)),
    |text| SPOKEN.into_iter().find(|dialect| dialect.name() == text),
    |dialect| dialect.name().to_owned()
}

/// The name of a policy that ships with the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetName(&'static str);

impl PresetName {
    /// The name as text.
    pub fn as_str(&self) -> &'static str {
        self.0
    }
}

setting_from_text! {
    PresetName,
    choice(&Preset::ALL.map(|preset| preset.name)),
    |text| Preset::ALL.iter().find(|preset| preset.name == text).map(|preset| PresetName(preset.name)),
    |name| name.as_str().to_owned()
}

crate::named_enum! {
    /// Who writes summaries.
    pub enum SummarizerKind {
        /// The summarizer in this program.
        Embedded = "embedded",
        /// A model.
        Model = "model",
        /// A model, and the summarizer in this program when that fails.
        ModelWithFallback = "model-with-fallback",
    }
}

setting_by_name!(SummarizerKind, Sensitivity, AutoCompaction);

impl Setting for SensitivityRule {
    const REACHES_OUT: bool = false;
    const ALLOWED: &str = "TOOL=SENSITIVITY or PATH=SENSITIVITY, such as crm_*=confidential";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        let (pattern, sensitivity) = written.name_and_value()?;
        let sensitivity = Sensitivity::read(&sensitivity, context)?;
        (!pattern.is_empty()).then(|| SensitivityRule { pattern: pattern.to_owned(), sensitivity })
    }

    fn show(&self) -> String {
        format!("{}={}", self.pattern, self.sensitivity.name())
    }
}

impl Setting for PathBuf {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "a path";

    fn read(written: &WrittenValue, context: &ReadContext<'_>) -> Option<Self> {
        written.text().filter(|text| !text.is_empty()).map(|text| context.resolve(text))
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Setting for SocketAddr {
    const REACHES_OUT: bool = true;
    const ALLOWED: &str = "an IP address and a port, such as 127.0.0.1:8788 or [::1]:8788";

    fn read(written: &WrittenValue, _: &ReadContext<'_>) -> Option<Self> {
        written.text()?.replace("localhost:", "127.0.0.1:").parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Lists names as a choice: `a, b or c`.
pub fn choice(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
