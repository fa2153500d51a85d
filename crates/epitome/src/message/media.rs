//! Media: what a message holds besides words. Pictures, documents, recordings, files.
//!
//! Its bytes are looked at to learn their kind and extent, never changed. The part itself stays the JSON it came as.

use std::fmt;
use std::sync::Arc;

use super::raw::Raw;

/// A picture, a document, a recording or any other file in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is to a model.
    pub kind: MediaKind,
    /// The `type` that its dialect gives it, such as `input_file`.
    pub shape: Box<str>,
    /// Its file name or title, where one is given.
    pub name: Option<Box<str>>,
    /// The media type, where it is given or its first bytes tell.
    pub media_type: Option<Box<str>>,
    /// Where its content is.
    pub source: MediaSource,
    /// How large it is as a model sees it, where the content tells.
    pub extent: Option<Extent>,
    /// How closely a model is asked to look at a picture.
    pub detail: ImageDetail,
    /// The part as it came.
    pub json: Raw,
}

/// What media is to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// Something with pages or words: a PDF, a text, a search result.
    Document,
    /// A recording of sound.
    Audio,
    /// A film.
    Video,
    /// Any other file.
    File,
}

/// Where the content of media is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    /// In the part, as base64 without the `data:` prefix.
    Base64(Arc<str>),
    /// In the part, as words.
    Words(Arc<str>),
    /// At an address.
    Url(Arc<str>),
    /// With the provider, under this id.
    FileId(Arc<str>),
}

/// The size of media as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A picture's sides.
    Pixels(ImageSize),
    /// A document's pages.
    Pages(u32),
    /// A recording's length.
    Milliseconds(u64),
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// How closely a model is asked to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImageDetail {
    /// A small copy at a fixed price.
    Low,
    /// In tiles.
    #[default]
    High,
}

impl MediaKind {
    /// The word that a placeholder begins with.
    pub fn label(self) -> &'static str {
        match self {
            MediaKind::Image => "Image",
            MediaKind::Document => "Document",
            MediaKind::Audio => "Audio",
            MediaKind::Video => "Video",
            MediaKind::File => "File",
        }
    }
}

impl MediaSource {
    /// The data, the words, the address or the id.
    pub fn as_str(&self) -> &str {
        match self {
            MediaSource::Base64(text)
            | MediaSource::Words(text)
            | MediaSource::Url(text)
            | MediaSource::FileId(text) => text,
        }
    }
}

impl Media {
    /// Its size in bytes, where the content is in the part.
    pub fn bytes(&self) -> Option<usize> {
        match &self.source {
            MediaSource::Base64(data) => Some(data.trim_end_matches('=').len() * 3 / 4),
            MediaSource::Words(words) => Some(words.len()),
            MediaSource::Url(_) | MediaSource::FileId(_) => None,
        }
    }

    /// The words of a document that is given as words.
    pub fn words(&self) -> Option<&str> {
        match &self.source {
            MediaSource::Words(words) => Some(words),
            _ => None,
        }
    }

    /// Whether it is a picture in one of the shapes that every dialect has: the same picture is the same in all of them.
    pub(crate) fn is_plain_image(&self) -> bool {
        matches!(&*self.shape, "image" | "image_url" | "input_image")
    }
}

/// The longest name or address that is shown.
const NAME_CHARS_MAX: usize = 80;

/// Name, type and size, as far as they are known: `report.pdf, application/pdf, 12 pages, 300 KB`.
impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_by = match &self.source {
            MediaSource::Url(text) | MediaSource::FileId(text) => Some(&**text),
            MediaSource::Base64(_) | MediaSource::Words(_) => None,
        };
        let mut facts: Vec<String> = Vec::new();
        facts.extend(self.name.as_deref().or(known_by).map(shown));
        facts.push(self.media_type.as_deref().map_or_else(|| self.kind.label().to_lowercase(), shown));
        facts.extend(self.extent.map(|extent| extent.to_string()));
        facts.extend(self.bytes().map(size));
        f.write_str(&facts.join(", "))
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Pixels(size) => write!(f, "{}x{}", size.width, size.height),
            Extent::Pages(1) => f.write_str("1 page"),
            Extent::Pages(pages) => write!(f, "{pages} pages"),
            Extent::Milliseconds(ms) => write!(f, "{}.{} s", ms / 1000, ms % 1000 / 100),
        }
    }
}

/// A name on one line, without what would end a placeholder.
fn shown(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_control() || "[]".contains(c) { ' ' } else { c });
    let mut shown: String = plain.take(NAME_CHARS_MAX + 1).collect();
    if let Some((at, _)) = shown.char_indices().nth(NAME_CHARS_MAX) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", (bytes + 500) / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}
