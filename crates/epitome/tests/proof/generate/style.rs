//! How JSON is written: spaces, key order and escapes, none of which mean anything.

use proptest::prelude::*;
use serde_json::Value;

/// A way to write JSON.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub spaced: bool,
    pub reversed: bool,
    pub escaped: bool,
    /// Whether fields that nobody asked for stand in each message.
    pub extra: bool,
    /// Whether a single text is written as a list of one block.
    pub blocks: bool,
}

/// JSON as most programs write it.
pub const fn plain() -> Style {
    Style { spaced: false, reversed: false, escaped: false, extra: false, blocks: false }
}

/// Any way to write JSON.
pub fn style() -> impl Strategy<Value = Style> {
    any::<(bool, bool, bool, bool, bool)>().prop_map(|(spaced, reversed, escaped, extra, blocks)| Style {
        spaced,
        reversed,
        escaped,
        extra,
        blocks,
    })
}

impl Style {
    /// Writes a value.
    pub fn write(&self, value: &Value) -> String {
        let mut out = String::new();
        self.put(value, &mut out);
        out
    }

    fn put(&self, value: &Value, out: &mut String) {
        match value {
            Value::String(text) => self.quote(text, out),
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.separate(at, out);
                    self.put(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Value::Object(fields) => {
                let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
                if self.reversed {
                    fields.reverse();
                }
                out.push('{');
                for (at, (key, item)) in fields.into_iter().enumerate() {
                    self.separate(at, out);
                    self.quote(key, out);
                    self.space(out);
                    out.push(':');
                    self.space(out);
                    self.put(item, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn separate(&self, at: usize, out: &mut String) {
        if at > 0 {
            out.push(',');
        }
        self.space(out);
    }

    fn space(&self, out: &mut String) {
        if self.spaced {
            out.push_str(" \t");
        }
    }

    fn quote(&self, text: &str, out: &mut String) {
        if !self.escaped {
            return out.push_str(&Value::from(text).to_string());
        }
        out.push('"');
        for unit in text.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b' ' => out.push(char::from(byte)),
                _ => out.push_str(&format!("\\u{unit:04x}")),
            }
        }
        out.push('"');
    }
}
