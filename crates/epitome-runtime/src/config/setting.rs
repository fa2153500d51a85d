//! Settings: what a value may be, and how it is read and shown.

use std::path::{Path, PathBuf};

use epitome::budget::Tokens;
use epitome::policy::Preset;
use epitome::wire::Dialect;

use crate::ids::TenantId;
use crate::store::Sensitivity;

/// A setting as the table knows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Key {
    /// Its section and its name.
    pub name: &'static str,
    /// The default as it would be written; empty when there is none.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Where it counts.
    pub guard: Guard,
    pub(super) shape: Shape,
    pub(super) range: (u64, u64),
}

/// Where a setting counts: a file that merely lies in the working folder may come from anybody, a cloned repository for
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Everywhere: the worst that a stranger can do with it is a prompt of another size or another wait.
    Free,
    /// Not in a folder's file that the user has not trusted: it says where content or keys go, who is asked and in what
    /// words, what is kept for how long, or who is let in.
    Guarded,
}

impl Key {
    /// The environment variable that overrides it.
    pub fn variable(&self) -> String {
        format!("EPITOME_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Whole,
    Flag,
    List,
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    Whole(u64),
    Flag(bool),
    List(Vec<String>),
    /// Nothing that any setting could be; as it was written.
    Other(String),
}

impl Given {
    /// A text from outside a file: what it says depends on the setting.
    pub(super) fn from_text(shape: Shape, text: &str) -> Given {
        let other = || Given::Other(text.to_owned());
        match shape {
            Shape::Text => Given::Text(text.to_owned()),
            Shape::Whole => text.parse().map_or_else(|_| other(), Given::Whole),
            Shape::Flag => text.parse().map_or_else(|_| other(), Given::Flag),
            Shape::List => Given::List(listed(text)),
        }
    }

    /// The value as it was written, for a message.
    pub(super) fn written(&self) -> String {
        match self {
            Given::Text(text) => format!("{text:?}"),
            Given::Whole(number) => number.to_string(),
            Given::Flag(flag) => flag.to_string(),
            Given::List(list) => format!("{list:?}"),
            Given::Other(text) => text.clone(),
        }
    }
}

fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// What a value is read with: the bounds of a number, and where relative paths begin.
pub(super) struct Frame<'a> {
    pub range: (u64, u64),
    pub folder: &'a Path,
    pub home: Option<&'a Path>,
}

impl Frame<'_> {
    /// The path from the folder it is written in; `~/` is the home folder.
    pub fn rooted(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.folder.join(path),
        }
    }
}

/// A type that a setting can have.
pub(super) trait Setting: Sized {
    /// How it is written.
    const SHAPE: Shape;

    /// Whether a value names a place, a program or a secret. A setting of such a type has to be guarded.
    const REACHES_OUT: bool;

    /// Reads what was written; `None` when it is not allowed.
    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self>;

    /// What was written, as it can be shown in a message.
    fn written(given: &Given) -> String {
        given.written()
    }

    /// What is allowed, in words that follow "allowed is".
    fn allowed(frame: &Frame<'_>) -> String;

    /// The value as it can be shown.
    fn shown(&self) -> String;

    /// The value when there is none; `None` when there has to be one.
    fn absent() -> Option<Self> {
        None
    }
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const REACHES_OUT: bool = T::REACHES_OUT;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        T::read(given, frame).map(Some)
    }

    fn written(given: &Given) -> String {
        T::written(given)
    }

    fn allowed(frame: &Frame<'_>) -> String {
        T::allowed(frame)
    }

    fn shown(&self) -> String {
        self.as_ref().map(T::shown).unwrap_or_default()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const SHAPE: Shape = Shape::List;
    const REACHES_OUT: bool = T::REACHES_OUT;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let Given::List(list) = given else { return None };
        list.iter().map(|item| T::read(&Given::Text(item.clone()), frame)).collect()
    }

    fn written(given: &Given) -> String {
        T::written(given)
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("a list, each of it {}", T::allowed(frame))
    }

    fn shown(&self) -> String {
        self.iter().map(T::shown).collect::<Vec<_>>().join(", ")
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

impl Setting for u64 {
    const SHAPE: Shape = Shape::Whole;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let Given::Whole(number) = given else { return None };
        (frame.range.0..=frame.range.1).contains(number).then_some(*number)
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("a whole number from {} to {}", frame.range.0, frame.range.1)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Setting for Tokens {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        let tokens = match given {
            Given::Whole(number) => Tokens::new(*number),
            Given::Text(text) => text.parse().ok()?,
            _ => return None,
        };
        (frame.range.0..=frame.range.1).contains(&tokens.get()).then_some(tokens)
    }

    fn allowed(frame: &Frame<'_>) -> String {
        format!("a number of tokens from {} to {}, such as 12000, 12k, 1.5m or 12_000", frame.range.0, frame.range.1)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    const SHAPE: Shape = Shape::Flag;
    const REACHES_OUT: bool = false;

    fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
        match given {
            Given::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    fn allowed(_: &Frame<'_>) -> String {
        "true or false".to_owned()
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// A type that is written as a text and is read without a frame.
macro_rules! written_as_text {
    ($Type:ty, $allowed:expr, $read:expr, $shown:expr) => {
        impl Setting for $Type {
            const SHAPE: Shape = Shape::Text;
            const REACHES_OUT: bool = false;

            fn read(given: &Given, _: &Frame<'_>) -> Option<Self> {
                let Given::Text(text) = given else { return None };
                let read: fn(&str) -> Option<Self> = $read;
                read(text)
            }

            fn allowed(_: &Frame<'_>) -> String {
                $allowed
            }

            fn shown(&self) -> String {
                let shown: fn(&Self) -> String = $shown;
                shown(self)
            }
        }
    };
}

written_as_text! {
    String,
    "a text that is not empty".to_owned(),
    |text| (!text.trim().is_empty()).then(|| text.to_owned()),
    Clone::clone
}

written_as_text! {
    TenantId,
    "a name of letters, digits, or any of . _ : @ + = -".to_owned(),
    |text| text.parse().ok(),
    ToString::to_string
}

written_as_text! {
    Sensitivity,
    either(Sensitivity::ALL.map(Sensitivity::name)),
    Sensitivity::named,
    |sensitivity| sensitivity.name().to_owned()
}

/// The dialects that providers speak.
const SPOKEN: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

written_as_text! {
    Dialect,
    either(SPOKEN.map(Dialect::name)),
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

written_as_text! {
    PresetName,
    either(Preset::ALL.map(|preset| preset.name)),
    |text| Preset::ALL.iter().find(|preset| preset.name == text).map(|preset| PresetName(preset.name)),
    |name| name.as_str().to_owned()
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummarizerKind {
    /// The one in this program.
    Embedded,
    /// A model.
    Model,
    /// A model, and the one in this program when that fails.
    ModelWithFallback,
}

impl SummarizerKind {
    /// All of them.
    pub const ALL: [SummarizerKind; 3] =
        [SummarizerKind::Embedded, SummarizerKind::Model, SummarizerKind::ModelWithFallback];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SummarizerKind::Embedded => "embedded",
            SummarizerKind::Model => "model",
            SummarizerKind::ModelWithFallback => "model-with-fallback",
        }
    }
}

written_as_text! {
    SummarizerKind,
    either(SummarizerKind::ALL.map(SummarizerKind::name)),
    |text| SummarizerKind::ALL.into_iter().find(|kind| kind.name() == text),
    |kind| kind.name().to_owned()
}

impl Setting for PathBuf {
    const SHAPE: Shape = Shape::Text;
    const REACHES_OUT: bool = true;

    fn read(given: &Given, frame: &Frame<'_>) -> Option<Self> {
        match given {
            Given::Text(text) if !text.is_empty() => Some(frame.rooted(text)),
            _ => None,
        }
    }

    fn allowed(_: &Frame<'_>) -> String {
        "a path".to_owned()
    }

    fn shown(&self) -> String {
        self.display().to_string()
    }
}

/// The names as a choice: `a, b or c`.
pub(super) fn either<const N: usize>(names: [&str; N]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
