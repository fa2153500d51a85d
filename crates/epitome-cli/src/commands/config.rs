//! `epitome config`: every setting, its value, and where it came from. Secrets are not shown.

use std::path::Path;

use epitome_runtime::config::Origin;
use serde_json::{Value, json};

use crate::cli::{ConfigArgs, ConfigVerb};
use crate::failure::{Answer, Failure};
use crate::paint::Paint;
use crate::receipt::headed;
use crate::settings::{Configured, Flags};
use crate::table::{Side, table};

/// Does what was asked of the configuration.
pub fn run(args: &ConfigArgs, config: Option<&Path>, paint: Paint) -> Result<Answer, Failure> {
    match args.verb {
        ConfigVerb::Show => show(config, paint),
    }
}

fn show(config: Option<&Path>, paint: Paint) -> Result<Answer, Failure> {
    let loaded = Configured::load(config, Flags::default())?.loaded;
    let mut rows = vec![["setting", "value", "from"].map(str::to_owned).to_vec()];
    rows.extend(loaded.explain().iter().map(|(key, value, origin)| {
        let value = if value.is_empty() { "none" } else { value };
        vec![(*key).to_owned(), value.to_owned(), origin.to_string()]
    }));
    let file = loaded.file.as_ref().map(|path| path.display().to_string());
    let head = match &file {
        Some(path) => format!("{}\n\n", paint.head(path)),
        None => "No configuration file was found.\n\n".to_owned(),
    };
    let text = head + &headed(&table(&[Side::Left, Side::Left, Side::Left], &rows), paint);
    let settings: Vec<Value> = loaded.explain().iter().map(setting).collect();
    Ok(Answer::new(text, json!({"file": file, "settings": settings})))
}

fn setting((key, value, origin): &(&'static str, String, Origin)) -> Value {
    let value = Some(value).filter(|value| !value.is_empty());
    json!({"setting": key, "value": value, "from": from(origin)})
}

fn from(origin: &Origin) -> Value {
    match origin {
        Origin::File { path, line } => json!({"file": path.display().to_string(), "line": line}),
        Origin::Environment { name } => json!({"variable": name}),
        other => json!(other.to_string()),
    }
}
