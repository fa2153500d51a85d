//! Merging: a piece of an object added to what came of it before, whatever fields it has.

use serde_json::{Map, Value};

/// Fields that are said again rather than continued.
const REPEATED: [&str; 6] = ["id", "type", "role", "format", "index", "status"];

/// Adds a piece: texts go on, lists grow, entries of a list with the same `index` and `type` are one.
pub(super) fn merge(into: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (name, value) in piece {
        match (into.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(_)), Value::String(more)) if more.is_empty() => {}
            // A name comes whole, in pieces, or again with every piece.
            (Some(Value::String(text)), Value::String(more)) if name == "name" && more.starts_with(text.as_str()) => {
                *text = more;
            }
            (Some(Value::String(text)), Value::String(more)) if !REPEATED.contains(&name.as_str()) => {
                text.push_str(&more);
            }
            (Some(Value::Object(fields)), Value::Object(more)) => merge(fields, more),
            (Some(Value::Array(list)), Value::Array(more)) => extend(list, more),
            (None, Value::Array(more)) => {
                let mut list = Vec::new();
                extend(&mut list, more);
                into.insert(name, Value::Array(list));
            }
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

fn extend(list: &mut Vec<Value>, more: Vec<Value>) {
    for item in more {
        let same = |old: &&mut Value| {
            item.get("index").is_some()
                && old.get("index") == item.get("index")
                && (item.get("type").is_none() || old.get("type") == item.get("type"))
        };
        match (list.iter_mut().find(same), item) {
            (Some(Value::Object(old)), Value::Object(piece)) => merge(old, piece),
            (_, item) => list.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_one_name_however_it_comes() {
        for pieces in [&["recall"][..], &["re", "call"], &["recall", "recall"], &["re", "recall"], &["recall", ""]] {
            let mut whole = Map::new();
            for piece in pieces {
                merge(&mut whole, Map::from_iter([("name".to_owned(), Value::from(*piece))]));
            }
            assert_eq!(whole["name"], "recall", "{pieces:?}");
        }
    }

    #[test]
    fn pieces_of_unknown_fields_become_one_field() {
        let mut whole = Map::new();
        for piece in [
            json!({"role": "assistant", "content": "", "vendor": {"trace": "a"}}),
            json!({"role": "assistant", "content": "He", "reasoning_details": [{"index": 0, "type": "text", "text": "x"}]}),
            json!({"content": "y", "vendor": {"trace": "b", "n": 1}, "refusal": null}),
            json!({"reasoning_details": [{"index": 0, "type": "text", "text": "y"}, {"index": 0, "type": "sealed", "data": "z"}]}),
            json!({"vendor": {"n": 2}, "list": [1]}),
            json!({"list": [2]}),
        ] {
            let Value::Object(piece) = piece else { unreachable!() };
            merge(&mut whole, piece);
        }
        assert_eq!(
            Value::Object(whole),
            json!({
                "role": "assistant", "content": "Hey", "vendor": {"trace": "ab", "n": 2},
                "reasoning_details": [{"index": 0, "type": "text", "text": "xy"}, {"index": 0, "type": "sealed", "data": "z"}],
                "list": [1, 2],
            })
        );
    }
}
