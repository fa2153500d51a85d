//! Wishes: what a request asks of the gateway itself, by header.
//!
//! None of these headers goes to the provider.

use epitome::budget::Tokens;
use http::{HeaderMap, HeaderName};

/// What every header of ours begins with.
pub const PREFIX: &str = "x-epitome-";

/// What a request asks of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// To be left alone.
    pub bypass: bool,
    /// A policy by its name.
    pub policy: Option<String>,
    /// Words that every later prompt must hold.
    pub pins: Vec<String>,
    /// What a summary should look at.
    pub instructions: Option<String>,
    /// Whether it gets the gateway's own tools.
    pub tools: Option<bool>,
    /// The most tokens of the prompt.
    pub budget: Option<Tokens>,
}

/// Why a wish cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epitome: {value:?} in {header} is not allowed; use {wanted}")]
pub struct Unclear {
    header: &'static str,
    value: String,
    wanted: String,
}

impl Wishes {
    /// The words that it wants in its prompt or looked at for it, together.
    pub fn words(&self) -> Option<String> {
        let words: Vec<&str> = self.pins.iter().chain(&self.instructions).map(String::as_str).collect();
        (!words.is_empty()).then(|| serde_json::json!(words).to_string())
    }

    /// Reads the headers of a request.
    pub fn read(headers: &HeaderMap) -> Result<Wishes, Unclear> {
        if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(Wishes::default());
        }
        let mut pins: Vec<String> =
            headers.get_all("x-epitome-pin").iter().map(|value| text(value.as_bytes())).collect();
        if let Some(list) = one(headers, "x-epitome-pins") {
            let list: Vec<String> =
                serde_json::from_str(&list).map_err(|_| unclear("x-epitome-pins", &list, "a JSON list of texts"))?;
            pins.extend(list);
        }
        Ok(Wishes {
            bypass: switch(headers, "x-epitome-bypass")?.unwrap_or(false),
            policy: one(headers, "x-epitome-policy"),
            pins,
            instructions: one(headers, "x-epitome-instructions"),
            tools: switch(headers, "x-epitome-tools")?,
            budget: budget(headers)?,
        })
    }

    /// That a policy is not known.
    pub fn no_policy(name: &str, known: &[String]) -> Unclear {
        unclear("x-epitome-policy", name, &format!("one of {}", known.join(", ")))
    }
}

/// Whether a header is for the gateway alone.
pub fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with(PREFIX)
}

fn one(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| text(value.as_bytes())).filter(|text| !text.is_empty())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn switch(headers: &HeaderMap, name: &'static str) -> Result<Option<bool>, Unclear> {
    let Some(value) = one(headers, name) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(Some(true)),
        "0" | "false" | "off" | "no" => Ok(Some(false)),
        _ => Err(unclear(name, &value, "on or off")),
    }
}

fn budget(headers: &HeaderMap) -> Result<Option<Tokens>, Unclear> {
    let Some(value) = one(headers, "x-epitome-budget") else { return Ok(None) };
    match value.replace('_', "").parse::<u64>() {
        Ok(tokens) if tokens > 0 => Ok(Some(Tokens::new(tokens))),
        _ => Err(unclear("x-epitome-budget", &value, "a number of tokens")),
    }
}

fn unclear(header: &'static str, value: &str, wanted: &str) -> Unclear {
    Unclear { header, value: value.chars().take(80).collect(), wanted: wanted.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn wishes_are_read_and_others_headers_are_none() {
        assert_eq!(Wishes::read(&headers(&[("x-request-id", "1")])), Ok(Wishes::default()));
        let wishes = Wishes::read(&headers(&[
            ("x-epitome-policy", "pi"),
            ("x-epitome-pin", "never push"),
            ("x-epitome-pins", r#"["a","b"]"#),
            ("x-epitome-tools", "ON"),
            ("x-epitome-budget", "20_000"),
        ]))
        .unwrap();
        assert_eq!(wishes.pins, ["never push", "a", "b"]);
        assert_eq!((wishes.policy.as_deref(), wishes.tools), (Some("pi"), Some(true)));
        assert_eq!(wishes.budget, Some(Tokens::new(20_000)));
    }

    #[test]
    fn a_wish_that_is_unclear_says_what_is_meant() {
        for (name, value) in [("x-epitome-bypass", "maybe"), ("x-epitome-budget", "-1"), ("x-epitome-pins", "x")] {
            let error = Wishes::read(&headers(&[(name, value)])).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
