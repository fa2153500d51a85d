//! A counter made from the bytes of a HuggingFace `tokenizer.json`, for models whose tokenizer is a file.
//!
//! Special tokens in the text are counted as text, and none are added around it. It reads no file and fetches nothing:
//! the caller has the bytes.

use kitoken::Kitoken;

use super::estimate::Estimate;
use super::tokens::{CountSource, TokenCounter, Tokens};

/// The tokenizer of one model.
pub struct TokenizerJson {
    tokenizer: Kitoken,
    name: String,
}

impl TokenizerJson {
    /// Reads the file's content; `name` is what the counter is called from then on.
    pub fn parse(name: impl Into<String>, json: &[u8]) -> Result<Self, TokenizerJsonError> {
        let tokenizer = Kitoken::from_tokenizers_slice(json).map_err(|error| TokenizerJsonError(error.to_string()))?;
        Ok(TokenizerJson { tokenizer, name: name.into() })
    }
}

impl TokenCounter for TokenizerJson {
    /// The tokens of a text. A text that the vocabulary cannot write at all is estimated.
    fn count(&self, text: &str) -> Tokens {
        match self.tokenizer.encode(text, false) {
            Ok(tokens) => Tokens::new(tokens.len() as u64),
            Err(_) => Estimate.count(text),
        }
    }

    fn source(&self) -> CountSource {
        CountSource::Exact
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// A `tokenizer.json` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this tokenizer.json cannot be used: {0}")]
pub struct TokenizerJsonError(String);

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte-level pairs: `h e` and `l l`, then `he ll`, then `hell o`, and a space before `w`.
    fn tiny() -> TokenizerJson {
        let mut vocab = serde_json::Map::new();
        let words = ["h", "e", "l", "o", "w", "r", "d", "Ġ", "he", "ll", "hell", "hello", "Ġw", "<", "|", ">", "n"];
        for word in words {
            vocab.insert(word.to_owned(), vocab.len().into());
        }
        let json = serde_json::json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [{
                "id": words.len(), "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            }],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocab,
                "merges": ["h e", "l l", "he ll", "hell o", "Ġ w"],
            },
        });
        TokenizerJson::parse("tiny", json.to_string().as_bytes()).expect("a tokenizer")
    }

    #[test]
    fn a_text_is_counted_by_the_merges_of_the_file() {
        for (text, tokens) in [("", 0), ("hello", 1), ("hell", 1), ("helo", 3), ("hello world", 6), ("<|end|>", 7)] {
            assert_eq!(tiny().count(text), Tokens::new(tokens), "{text:?}");
        }
    }

    #[test]
    fn a_long_run_of_one_character_is_counted() {
        for (text, tokens) in [(" ", 1_000_000), ("h", 1_000_000), ("ll", 1_000_000)] {
            assert_eq!(tiny().count(&text.repeat(1_000_000)), Tokens::new(tokens), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_tokenizer_is_refused_in_words() {
        for json in ["", "{}", "[1]", "{\"model\":{\"type\":\"BPE\"}}"] {
            let error = TokenizerJson::parse("x", json.as_bytes()).map(|_| ()).expect_err(json).to_string();
            assert!(error.starts_with("this tokenizer.json cannot be used: "), "{error}");
        }
    }
}
