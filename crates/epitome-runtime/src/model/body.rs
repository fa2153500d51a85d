//! The body of a request: a prompt written in its protocol.
//!
//! Messages, tools and the system prompt are spliced in byte for byte: to write them anew would lose the provider's
//! cache and the seals on its reasoning. What is asked is not judged here.

use epitome::budget::Model as Listed;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::protocol::Protocol;
use super::{ModelError, ModelPrompt};

/// The name of the field that limits the answer's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputField {
    /// `max_tokens`: everybody's word.
    Plain,
    /// `max_completion_tokens`: the word OpenAI's newer models insist on, which others do not know.
    Completion,
}

impl OutputField {
    /// The word a host understands.
    pub(super) fn of_host(host: &str) -> Self {
        let newer = ["openai.com", "openai.azure.com"];
        if newer.iter().any(|own| host.ends_with(own)) { OutputField::Completion } else { OutputField::Plain }
    }

    fn name(self, protocol: Protocol) -> &'static str {
        match (protocol, self) {
            (Protocol::Responses, _) => "max_output_tokens",
            (Protocol::Chat, OutputField::Completion) => "max_completion_tokens",
            _ => "max_tokens",
        }
    }
}

/// Writes the body of a request.
pub(super) fn write(
    protocol: Protocol,
    model: &str,
    output: OutputField,
    prompt: &ModelPrompt,
) -> Result<String, ModelError> {
    let mut body = Body::default();
    body.put("model", json!(model).to_string());
    let (list, system) = names(protocol);
    let mut messages = Vec::with_capacity(prompt.messages.len() + 1);
    match (&prompt.system, system) {
        (Some(json), Some(name)) => body.put(name, checked("system prompt", json)?),
        (Some(json), None) => {
            messages.push(format!(r#"{{"role":"system","content":{}}}"#, checked("system prompt", json)?));
        }
        (None, _) => {}
    }
    for message in &prompt.messages {
        messages.push(checked("message", message)?);
    }
    body.put(list, format!("[{}]", messages.join(",")));
    if let Some(tools) = &prompt.tools {
        body.put("tools", checked("list of tools", tools)?);
    }
    body.put_output(protocol, model, output, prompt);
    body.put_stream(protocol, prompt);
    body.put_settings(protocol, &prompt.settings);
    Ok(body.finish())
}

/// Returns the field of the messages and that of the system prompt, which Chat has among the messages.
fn names(protocol: Protocol) -> (&'static str, Option<&'static str>) {
    match protocol {
        Protocol::Chat => ("messages", None),
        Protocol::Responses => ("input", Some("instructions")),
        Protocol::Anthropic => ("messages", Some("system")),
    }
}

/// A text that is JSON, as it is.
fn checked(what: &str, json: &str) -> Result<String, ModelError> {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(_) => Ok(json.trim().to_owned()),
        Err(error) => {
            // The parser's words name a place, never what stands there.
            let message = format!("a {what} of the prompt is not JSON and was not sent: {error}");
            Err(ModelError::Refused(400, message))
        }
    }
}

/// The fields of a body; the first of a name counts.
#[derive(Default)]
struct Body {
    fields: Vec<(String, String)>,
}

impl Body {
    fn put(&mut self, name: &str, json: String) {
        if !self.has(name) {
            self.fields.push((name.to_owned(), json));
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(own, _)| own == name)
    }

    fn put_output(&mut self, protocol: Protocol, model: &str, output: OutputField, prompt: &ModelPrompt) {
        let name = output.name(protocol);
        match prompt.max_output {
            Some(most) => self.put(name, most.get().to_string()),
            // The Messages protocol demands a number.
            None if protocol == Protocol::Anthropic && !prompt.settings.contains_key(name) => {
                self.put(name, Listed::named(model).max_output.get().to_string());
            }
            None => {}
        }
    }

    fn put_stream(&mut self, protocol: Protocol, prompt: &ModelPrompt) {
        self.put("stream", prompt.stream.to_string());
        if prompt.stream && protocol == Protocol::Chat {
            let mut options = match prompt.settings.get("stream_options") {
                Some(Value::Object(options)) => options.clone(),
                _ => Map::new(),
            };
            options.insert("include_usage".into(), Value::Bool(true));
            self.put("stream_options", Value::Object(options).to_string());
        }
    }

    fn put_settings(&mut self, protocol: Protocol, settings: &Map<String, Value>) {
        let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let limited = limits.iter().any(|name| self.has(name));
        for (name, value) in settings {
            if !(limited && limits.contains(&name.as_str())) {
                self.put(name, value.to_string());
            }
        }
        if protocol == Protocol::Responses {
            self.put("store", "false".into());
        }
    }

    fn finish(self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|(name, json)| format!("{}:{json}", json!(name))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

#[cfg(test)]
mod tests {
    use epitome::budget::Tokens;

    use super::*;

    fn prompt(change: impl FnOnce(&mut ModelPrompt)) -> ModelPrompt {
        let mut prompt =
            ModelPrompt { messages: vec![r#"{"role":"user", "content":"a"}"#.into()], ..ModelPrompt::default() };
        change(&mut prompt);
        prompt
    }

    fn body(protocol: Protocol, change: impl FnOnce(&mut ModelPrompt)) -> String {
        write(protocol, "m", OutputField::Plain, &prompt(change)).unwrap()
    }

    #[test]
    fn each_protocol_gets_its_own_layout_with_the_bytes_of_the_prompt() {
        let all = |prompt: &mut ModelPrompt| {
            prompt.system = Some(r#""be  brief""#.into());
            prompt.tools = Some(r#"[{"name":"t","n":1.10}]"#.into());
            prompt.max_output = Some(Tokens::new(9));
            prompt.settings.insert("temperature".into(), json!(0));
        };
        insta::assert_snapshot!(body(Protocol::Chat, all), @r#"{"model":"m","messages":[{"role":"system","content":"be  brief"},{"role":"user", "content":"a"}],"tools":[{"name":"t","n":1.10}],"max_tokens":9,"stream":false,"temperature":0}"#);
        insta::assert_snapshot!(body(Protocol::Responses, all), @r#"{"model":"m","instructions":"be  brief","input":[{"role":"user", "content":"a"}],"tools":[{"name":"t","n":1.10}],"max_output_tokens":9,"stream":false,"temperature":0,"store":false}"#);
        insta::assert_snapshot!(body(Protocol::Anthropic, all), @r#"{"model":"m","system":"be  brief","messages":[{"role":"user", "content":"a"}],"tools":[{"name":"t","n":1.10}],"max_tokens":9,"stream":false,"temperature":0}"#);
    }

    #[test]
    fn a_setting_does_not_take_the_place_of_what_the_prompt_says() {
        let text = body(Protocol::Chat, |prompt| {
            prompt.stream = true;
            prompt.max_output = Some(Tokens::new(9));
            prompt.settings = serde_json::from_value(json!({
                "model": "other", "messages": [], "max_completion_tokens": 7, "stream": false,
                "stream_options": {"include_obfuscation": false, "include_usage": false},
            }))
            .unwrap();
        });
        insta::assert_snapshot!(text, @r#"{"model":"m","messages":[{"role":"user", "content":"a"}],"max_tokens":9,"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":true}}"#);
    }

    #[test]
    fn a_setting_stands_where_the_prompt_says_nothing() {
        let set = |name: &'static str, value: Value| {
            move |prompt: &mut ModelPrompt| {
                prompt.settings.insert(name.into(), value);
            }
        };
        assert!(body(Protocol::Responses, set("store", json!(true))).contains(r#""store":true"#));
        assert!(body(Protocol::Anthropic, set("max_tokens", json!(5))).contains(r#""max_tokens":5"#));
        assert!(body(Protocol::Anthropic, |_| {}).contains(r#""max_tokens":16384"#));
    }

    #[test]
    fn openai_is_asked_in_its_newer_word() {
        let field = |host| OutputField::of_host(host).name(Protocol::Chat);
        assert_eq!(field("api.openai.com"), "max_completion_tokens");
        assert_eq!(field("mine.openai.azure.com"), "max_completion_tokens");
        assert_eq!(field("127.0.0.1"), "max_tokens");
    }

    #[test]
    fn what_is_not_json_is_not_sent() {
        let broken = prompt(|prompt| prompt.messages.push("{\"role\": secret".into()));
        let error = write(Protocol::Chat, "m", OutputField::Plain, &broken).unwrap_err();
        assert!(!error.is_passing() && !error.to_string().contains("secret"), "{error}");
    }
}
