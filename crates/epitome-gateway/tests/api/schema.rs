//! A checker of JSON against the schemas of the document: the keywords that it uses, and a panic at any other.

use serde_json::Value;

/// What is wrong with a value, by a schema of the document.
pub fn mistakes(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let schema = match schema {
        Value::Bool(true) => return Vec::new(),
        Value::Object(schema) => schema,
        other => panic!("{other} is not a schema that is used here"),
    };
    let mut found = Vec::new();
    for (keyword, given) in schema {
        let wrong = |what: &str| format!("{place}: {value} is not {what} {given}");
        match keyword.as_str() {
            "description" | "format" | "title" | "default" => {}
            "$ref" => {
                let target = given.as_str().unwrap().trim_start_matches('#');
                let target = document.pointer(target).unwrap_or_else(|| panic!("{given} is nowhere"));
                found.extend(mistakes(document, target, value, place));
            }
            "type" => found.extend((!is_of_type(given, value)).then(|| wrong("of type"))),
            "enum" => found.extend((!given.as_array().unwrap().contains(value)).then(|| wrong("one of"))),
            "const" => found.extend((given != value).then(|| wrong("the same as"))),
            "minimum" => {
                found.extend(value.as_f64().filter(|v| *v < given.as_f64().unwrap()).map(|_| wrong("at least")));
            }
            "maximum" => {
                found.extend(value.as_f64().filter(|v| *v > given.as_f64().unwrap()).map(|_| wrong("at most")));
            }
            "minLength" => {}
            "required" => {
                let names = given.as_array().unwrap().iter().filter_map(Value::as_str);
                let missing = names.filter(|name| value.is_object() && value.get(name).is_none());
                found.extend(missing.map(|name| format!("{place}: {name} is missing")));
            }
            "properties" => found.extend(members(document, given, value, place)),
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                let others = others.filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)));
                for (name, value) in others {
                    found.extend(mistakes(document, given, value, &format!("{place}/{name}")));
                }
            }
            "items" => {
                for (at, value) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(mistakes(document, given, value, &format!("{place}/{at}")));
                }
            }
            "prefixItems" => {
                let pairs = value.as_array().into_iter().flatten().zip(given.as_array().unwrap());
                for (value, schema) in pairs {
                    found.extend(mistakes(document, schema, value, place));
                }
            }
            "minItems" => {
                found.extend(
                    value.as_array().filter(|v| (v.len() as u64) < given.as_u64().unwrap()).map(|_| wrong("at least")),
                );
            }
            "maxItems" => {
                found.extend(
                    value.as_array().filter(|v| (v.len() as u64) > given.as_u64().unwrap()).map(|_| wrong("at most")),
                );
            }
            "anyOf" | "oneOf" => {
                let fits = |schema: &Value| mistakes(document, schema, value, place).is_empty();
                found.extend((!given.as_array().unwrap().iter().any(fits)).then(|| wrong("any of")));
            }
            other => panic!("{place}: the keyword {other} is not checked here"),
        }
    }
    // What the schema of a closed struct does not name is not in the document.
    found.extend(unnamed(schema, value, place));
    found
}

fn members(document: &Value, properties: &Value, value: &Value, place: &str) -> Vec<String> {
    let named = properties.as_object().unwrap().iter();
    let given = named.filter_map(|(name, schema)| Some((name, schema, value.get(name)?)));
    given.flat_map(|(name, schema, value)| mistakes(document, schema, value, &format!("{place}/{name}"))).collect()
}

fn unnamed(schema: &serde_json::Map<String, Value>, value: &Value, place: &str) -> Vec<String> {
    let (Some(known), Some(given)) = (schema.get("properties").and_then(Value::as_object), value.as_object()) else {
        return Vec::new();
    };
    if schema.contains_key("additionalProperties") {
        return Vec::new();
    }
    let others = given.keys().filter(|name| !known.contains_key(*name));
    others.map(|name| format!("{place}: {name} is not in the document")).collect()
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    };
    match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        other => panic!("{other} is no type"),
    }
}

#[test]
fn the_checker_finds_mistakes() {
    use serde_json::json;
    let document = json!({"components": {"schemas": {"Name": {"type": "string"}}}});
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"$ref": "#/components/schemas/Name"}, "b": {"type": ["integer", "null"], "minimum": 1}}});
    let wrong = |value: Value| mistakes(&document, &schema, &value, "").len();
    assert_eq!(wrong(json!({"a": "x", "b": null})), 0);
    for value in [json!([]), json!({"b": 2}), json!({"a": 1}), json!({"a": "x", "b": 0}), json!({"a": "x", "c": 1})] {
        assert!(wrong(value.clone()) > 0, "{value}");
    }
}
