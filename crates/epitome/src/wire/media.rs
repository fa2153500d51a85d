//! Reading media: the blocks of all dialects that hold pictures, documents, recordings and files.
//!
//! One reading for all of them: a block says by its `type` what it is, and gateways pass blocks of one dialect on in
//! another. What no dialect knows is media when it carries data in base64, whatever it is called.

use serde_json::Value;

use crate::message::{ImageDetail, Media, MediaKind, MediaSource, Raw, extent_of, is_base64, media_type_of};

/// Fields that hold what a provider sealed, not what somebody attached.
const SEALED: [&str; 4] = ["encrypted_content", "encrypted_index", "signature", "thinkingSignature"];

/// A block as media; `None` when it is none. Its JSON is asked for only then.
pub fn media(block: &Value, json: &dyn Fn() -> Raw) -> Option<Media> {
    let found = known(block).or_else(|| unknown(block))?;
    Some(found.into_media(kind_of(block), json()))
}

/// The recording of an assistant's message in Chat.
pub fn spoken(audio: &Value, json: Raw) -> Option<Media> {
    let data = text(audio, "data").filter(|data| !data.is_empty());
    let source = data.map(inline).or_else(|| text(audio, "id").map(|id| MediaSource::FileId(id.into())))?;
    Some(Found::new(MediaKind::Audio, source).into_media("audio", json))
}

/// What a block holds.
struct Found {
    kind: MediaKind,
    name: Option<String>,
    media_type: Option<String>,
    source: MediaSource,
    detail: ImageDetail,
}

impl Found {
    fn new(kind: MediaKind, source: MediaSource) -> Found {
        Found { kind, name: None, media_type: None, source, detail: ImageDetail::High }
    }

    fn named(self, name: Option<&str>) -> Found {
        Found { name: name.filter(|name| !name.is_empty()).map(str::to_owned), ..self }
    }

    fn typed(self, media_type: Option<&str>) -> Found {
        Found { media_type: media_type.map(str::to_owned).or(self.media_type), ..self }
    }

    /// Looks at the data: its first bytes tell the type where nobody says it, and all of them the extent.
    fn into_media(self, shape: &str, json: Raw) -> Media {
        let Found { kind, name, media_type, source, detail } = self;
        let data = match &source {
            MediaSource::Base64(data) => Some(&**data),
            _ => None,
        };
        let media_type = media_type.or_else(|| data.and_then(media_type_of).map(str::to_owned));
        let kind = media_type.as_deref().and_then(kind_of_type).unwrap_or(kind);
        let extent = data.and_then(|data| extent_of(kind, data));
        Media {
            kind,
            shape: shape.into(),
            name: name.map(Into::into),
            media_type: media_type.map(Into::into),
            source,
            extent,
            detail,
            json,
        }
    }
}

fn kind_of(block: &Value) -> &str {
    text(block, "type").unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The first of these fields that is a text.
fn any_text<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| text(value, key))
}

/// What a media type is to a model; `None` where it does not tell.
fn kind_of_type(media_type: &str) -> Option<MediaKind> {
    match media_type.split('/').next()? {
        "image" => Some(MediaKind::Image),
        "audio" => Some(MediaKind::Audio),
        "video" => Some(MediaKind::Video),
        "text" => Some(MediaKind::Document),
        _ if media_type.starts_with("application/pdf") => Some(MediaKind::Document),
        _ => None,
    }
}

/// Data or an address, as one field holds either.
fn inline(text: &str) -> MediaSource {
    let Some(rest) = text.strip_prefix("data:") else {
        return match text.contains("://") {
            true => MediaSource::Url(text.into()),
            false => MediaSource::Base64(text.into()),
        };
    };
    match rest.split_once(";base64,") {
        Some((_, data)) => MediaSource::Base64(data.into()),
        None => MediaSource::Url(text.into()),
    }
}

/// The media type that a `data:` address states.
fn stated_type(text: &str) -> Option<&str> {
    let stated = text.strip_prefix("data:")?.split([';', ',']).next()?;
    Some(stated).filter(|stated| !stated.is_empty())
}

/// Media in a field that holds data or an address.
fn found(kind: MediaKind, content: &str) -> Found {
    Found::new(kind, inline(content)).typed(stated_type(content))
}

fn by_id(kind: MediaKind, id: &str) -> Found {
    Found::new(kind, MediaSource::FileId(id.into()))
}

/// The shapes that the dialects define.
fn known(block: &Value) -> Option<Found> {
    match kind_of(block) {
        "image" => anthropic_source(block, MediaKind::Image).or_else(|| sdk_file(block, MediaKind::Image)),
        "document" => anthropic_source(block, MediaKind::Document).map(|found| found.named(text(block, "title"))),
        "search_result" => search_result(block),
        // A file that a provider's tool reads, or has made.
        "container_upload" | "code_execution_output" | "bash_code_execution_output" => {
            text(block, "file_id").map(|id| by_id(MediaKind::File, id))
        }
        "image_url" => openai_image(block, block.get("image_url")?),
        "video_url" => {
            let url = block.get("video_url")?;
            url.as_str().or_else(|| text(url, "url")).map(|url| found(MediaKind::Video, url))
        }
        "input_image" | "computer_screenshot" => openai_image(block, block),
        "file" => block.get("file").and_then(openai_file).or_else(|| sdk_file(block, MediaKind::Document)),
        "input_file" => openai_file(block),
        "input_audio" => input_audio(block.get("input_audio").unwrap_or(block)),
        "image_generation_call" => text(block, "result").map(|data| found(MediaKind::Image, data)),
        "audio" => sdk_file(block, MediaKind::Audio),
        "media" | "file-data" | "file-url" | "file-id" => sdk_file(block, MediaKind::Document),
        "image-data" | "image-url" | "image-file-id" => sdk_file(block, MediaKind::Image),
        _ => None,
    }
}

/// Anthropic's `source`: base64, text, a list of blocks, an address or a file id.
fn anthropic_source(block: &Value, kind: MediaKind) -> Option<Found> {
    let source = block.get("source")?;
    let media_type = text(source, "media_type");
    if text(source, "type") == Some("text") {
        return text(source, "data")
            .map(|words| Found::new(kind, MediaSource::Words(words.into())).typed(media_type.or(Some("text/plain"))));
    }
    if let Some(content) = source.get("content") {
        return Some(Found::new(kind, MediaSource::Words(words_in(content).into())).typed(Some("text/plain")));
    }
    let data = text(source, "data").map(|data| found(kind, data));
    let url = || text(source, "url").map(|url| found(kind, url));
    let id = || text(source, "file_id").map(|id| by_id(kind, id));
    data.or_else(url).or_else(id).map(|found| found.typed(media_type))
}

/// A result of a search, as a tool or a user hands it in: words with a title and an address.
fn search_result(block: &Value) -> Option<Found> {
    let words = words_in(block.get("content")?);
    let head = [text(block, "title"), text(block, "source")];
    let words: Vec<&str> = head.into_iter().flatten().chain([words.as_str()]).collect();
    let found = Found::new(MediaKind::Document, MediaSource::Words(words.join("\n").into()));
    Some(found.typed(Some("text/plain")).named(text(block, "title")))
}

/// The words of a string or of a list of text blocks.
fn words_in(content: &Value) -> String {
    match content {
        Value::String(words) => words.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| text(block, "text")).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

fn openai_image(block: &Value, image: &Value) -> Option<Found> {
    let url = image.as_str().or_else(|| any_text(image, &["url", "image_url"]));
    let by_url = url.map(|url| found(MediaKind::Image, url));
    let read = by_url.or_else(|| text(image, "file_id").map(|id| by_id(MediaKind::Image, id)))?;
    let is_low = [image, block].into_iter().any(|value| text(value, "detail") == Some("low"));
    Some(Found { detail: if is_low { ImageDetail::Low } else { ImageDetail::High }, ..read })
}

/// OpenAI's file: in the request, at an address, or known to the provider.
fn openai_file(file: &Value) -> Option<Found> {
    let name = text(file, "filename");
    let read = match any_text(file, &["file_data", "file_url"]) {
        Some(content) => found(MediaKind::Document, content),
        None => by_id(MediaKind::Document, text(file, "file_id")?),
    };
    let by_name = name.and_then(type_by_name).filter(|_| read.media_type.is_none());
    Some(read.typed(by_name).named(name))
}

/// The media type that a file's name tells; the common ones that first bytes do not.
fn type_by_name(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "txt" | "md" | "log" | "rst" => Some("text/plain"),
        "csv" => Some("text/csv"),
        "html" | "htm" => Some("text/html"),
        "json" => Some("application/json"),
        "xml" => Some("application/xml"),
        "pdf" => Some("application/pdf"),
        _ => None,
    }
}

fn input_audio(audio: &Value) -> Option<Found> {
    let read = match text(audio, "data") {
        Some(data) => found(MediaKind::Audio, data),
        None => by_id(MediaKind::Audio, text(audio, "file_id")?),
    };
    Some(match text(audio, "format") {
        Some(format) => read.typed(Some(&format!("audio/{format}"))),
        None => read,
    })
}

/// The AI SDK's file and image, and MCP's and pi's, which say the same with other keys.
fn sdk_file(block: &Value, kind: MediaKind) -> Option<Found> {
    let read = match any_text(block, &["data", "image", "url", "blob"]) {
        Some(content) => found(kind, content),
        None => match any_text(block, &["fileId", "file_id"]) {
            Some(id) => by_id(kind, id),
            None => inner_file(block, kind)?,
        },
    };
    let media_type = any_text(block, &["mediaType", "mimeType", "media_type"]);
    Some(read.typed(media_type).named(any_text(block, &["filename", "name", "title"])))
}

/// The AI SDK's newer files: `data` is an object that says what it is.
fn inner_file(block: &Value, kind: MediaKind) -> Option<Found> {
    let data = ["data", "fileId"].iter().find_map(|key| block.get(*key)).filter(|data| data.is_object())?;
    if let Some(words) = text(data, "text") {
        return Some(Found::new(kind, MediaSource::Words(words.into())).typed(Some("text/plain")));
    }
    let content = any_text(data, &["data", "url"]).map(|content| found(kind, content));
    // A reference names the file once for each provider.
    let id = || data.as_object()?.values().find_map(Value::as_str).map(|id| by_id(kind, id));
    content.or_else(id)
}

/// A block that nobody knows, by the longest data that it carries.
fn unknown(block: &Value) -> Option<Found> {
    let data = longest_data(block)?;
    let name = any_text(block, &["filename", "name", "title", "uri"]);
    let media_type = any_text(block, &["mediaType", "mimeType", "media_type", "mime_type"]);
    Some(found(MediaKind::File, data).typed(media_type).named(name))
}

fn longest_data(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => (is_data_address(text) || is_base64(text)).then_some(text),
        Value::Array(items) => items.iter().filter_map(longest_data).max_by_key(|data| data.len()),
        Value::Object(fields) => {
            let open = fields.iter().filter(|(key, _)| !SEALED.contains(&key.as_str()));
            open.filter_map(|(_, value)| longest_data(value)).max_by_key(|data| data.len())
        }
        _ => None,
    }
}

fn is_data_address(text: &str) -> bool {
    text.starts_with("data:")
        && text.split_once(";base64,").is_some_and(|(head, _)| !head.contains(char::is_whitespace))
}
