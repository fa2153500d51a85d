//! `/v1/embeddings`: a vector for each text, made of its words alone.
//!
//! It understands nothing. A word and the triples of its letters each have a place of their own by their hash, so that texts with
//! the same words are near, words of one stem are a little, and the same text always has the same vector.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::rejection::ProviderRejection;
use super::request::MockRequest;

/// The numbers of a vector where the request names none, and the most.
const DIMENSIONS: u64 = 256;
const DIMENSIONS_MAX: u64 = 3072;
/// The most texts of a request, as OpenAI has it.
const TEXTS_MAX: usize = 2048;
/// What a triple of letters counts beside a whole word.
const TRIPLE_WEIGHT: f32 = 0.25;

/// Reads the texts of a request.
pub(crate) fn texts(request: &MockRequest) -> Result<Vec<String>, ProviderRejection> {
    let rejected = |message: &str, field: &'static str| {
        Err(ProviderRejection::invalid(message).about(field).breaking("embeddings"))
    };
    if request.text("model").is_none_or(str::is_empty) {
        return rejected("you must provide a model parameter", "model");
    }
    let texts: Option<Vec<String>> = match request.field("input") {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(texts)) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    match texts {
        Some(texts) if texts.is_empty() || texts.len() > TEXTS_MAX || texts.iter().any(String::is_empty) => {
            rejected("'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs.", "input")
        }
        Some(texts) => Ok(texts),
        None => rejected("'$.input' is invalid: it is neither a string nor a list of strings.", "input"),
    }
}

/// Returns the body of the answer.
pub(crate) fn answer(request: &MockRequest, texts: &[String], tokens: u64) -> Result<Value, ProviderRejection> {
    let rejected = |message: String, field: &'static str| {
        Err(ProviderRejection::invalid(message).about(field).breaking("embeddings"))
    };
    let dimensions = request.field("dimensions").map_or(Some(DIMENSIONS), Value::as_u64);
    let Some(dimensions) = dimensions.filter(|dimensions| (1..=DIMENSIONS_MAX).contains(dimensions)) else {
        return rejected(format!("'$.dimensions' is not a number from 1 to {DIMENSIONS_MAX}."), "dimensions");
    };
    let is_packed = match request.text("encoding_format") {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return rejected(format!("'{other}' is not one of 'float' and 'base64'."), "encoding_format"),
    };
    let embedding = |text: &String| {
        let vector = vector(text, dimensions as usize);
        match is_packed {
            true => json!(STANDARD.encode(vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())),
            false => json!(vector),
        }
    };
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": embedding(text)}))
        .collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Ok(json!({"object": "list", "data": data, "model": request.model(), "usage": usage}))
}

/// The vector of a text, at length one.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimensions];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        add(&mut vector, word, 1.0);
        let letters: Vec<char> = word.chars().collect();
        letters.windows(3).for_each(|triple| add(&mut vector, &triple.iter().collect::<String>(), TRIPLE_WEIGHT));
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    match length > 0.0 {
        true => vector.iter_mut().for_each(|number| *number /= length),
        false => vector[0] = 1.0,
    }
    vector
}

/// Adds something to the number that its hash names, up or down.
fn add(vector: &mut [f32], name: &str, weight: f32) {
    let hash = blake3::hash(name.as_bytes());
    let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap_or_default());
    let at = (number >> 1) as usize % vector.len();
    vector[at] += if number & 1 == 0 { weight } else { -weight };
}
