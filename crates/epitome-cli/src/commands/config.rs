//! `epitome config`: every setting, its value and where it came from; and the list of trusted files. Secrets are not shown.

use std::path::Path;

use epitome_runtime::config::{FOLDER_FILE, Guard, Origin, Sources, TrustedFiles};
use serde_json::{Value, json};

use crate::cli::{ConfigArgs, ConfigVerb, TrustArgs};
use crate::cli_config::{AllSettings, CliConfig, Flags, environment};
use crate::failure::{Answer, Exit, Failure, Result, words};
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &ConfigArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    match &args.verb {
        ConfigVerb::Show => show(config, screen),
        ConfigVerb::Trust(args) => trust(args, screen),
    }
}

/// Lists, removes or adds a trusted file.
fn trust(args: &TrustArgs, screen: Screen) -> Result<Answer> {
    let homeless = || {
        Failure::new(Exit::Usage, "The list of trusted files has no folder: HOME is not set.")
            .hint("Set HOME or XDG_STATE_HOME. A file named with `--config` needs no trust.")
    };
    let mut trusted = TrustedFiles::load(&environment())?.ok_or_else(homeless)?;
    if args.list {
        return Ok(trusted_list(&trusted));
    }
    let file = args.file.clone().unwrap_or_else(|| FOLDER_FILE.into());
    let (name, path) = (file.display(), file.display().to_string());
    if args.remove {
        if !trusted.remove(&file)? {
            return Err(Failure::new(Exit::Usage, format!("{name} is not trusted."))
                .hint("`epitome config trust --list` lists the files that are."));
        }
        return Ok(Answer::new(format!("{name} is no longer trusted.\n"), json!({"file": path, "trusted": false})));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| Failure::unreadable(&file, words(&error)))?;
    let accepted = guarded_settings(&file)?;
    trusted.add(&file, &text)?;
    let mut table = Table::new("ll");
    let mut settings = serde_json::Map::new();
    for (key, value) in accepted {
        table.row(&[&key, &value]);
        settings.insert(key.to_owned(), json!(value));
    }
    let what = if settings.is_empty() {
        format!("{name} is trusted; nothing in it needed that.\n")
    } else {
        format!("{name} is trusted and may set:\n\n{}", table.text(screen))
    };
    let text = format!("{what}\nIf the file changes, trust it again; `--remove` revokes the trust.\n");
    Ok(Answer::new(text, json!({"file": path, "trusted": true, "settings": settings})))
}

fn trusted_list(trusted: &TrustedFiles) -> Answer {
    let is_current = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| trusted.holds(Path::new(path), &text));
    let rows: Vec<(String, bool)> =
        trusted.files().iter().map(|file| (file.path.clone(), is_current(&file.path))).collect();
    let note = |current: bool| if current { "" } else { " (changed or removed since, so not trusted now)" };
    let mut text: String = rows.iter().map(|(path, current)| format!("{path}{}\n", note(*current))).collect();
    if rows.is_empty() {
        text = "No file is trusted.\n".to_owned();
    }
    let files: Vec<Value> = rows.iter().map(|(path, current)| json!({"file": path, "current": current})).collect();
    Answer::new(text, json!({"list": trusted.list().display().to_string(), "files": files}))
}

/// Returns the settings of a file that need trust, as they can be shown. A file with errors is refused.
fn guarded_settings(file: &Path) -> Result<Vec<(&'static str, String)>> {
    let folder = std::env::current_dir().unwrap_or_default();
    let environment = environment();
    let home = ["HOME", "XDG_DATA_HOME"].into_iter().filter_map(|name| environment.get_key_value(name));
    let home = home.map(|(name, text)| (name.clone(), text.clone())).collect();
    let sources = Sources { file: Some(file.to_owned()), environment: home, folder, ..Sources::default() };
    let settings = AllSettings::load(&sources)?.explained.into_iter();
    let guarded =
        settings.filter(|setting| setting.key.guard == Guard::Guarded && matches!(setting.origin, Origin::File(..)));
    Ok(guarded.map(|setting| (setting.key.name, setting.value)).collect())
}

fn show(config: Option<&Path>, screen: Screen) -> Result<Answer> {
    let loaded = CliConfig::load(config, Flags::default())?.loaded;
    let mut table = Table::with_heads("lll", ["setting", "value", "from"]);
    let mut settings: Vec<Value> = Vec::new();
    for setting in &loaded.explained {
        let (key, value, origin) = (setting.key.name, &setting.value, &setting.origin);
        let is_set = !value.is_empty();
        table.row(&[&key, if is_set { value } else { &"none" }, origin]);
        settings.push(json!({"setting": key, "value": is_set.then_some(value), "from": origin_json(origin)}));
    }
    let file = loaded.file.as_ref().map(|path| path.display().to_string());
    let head = match &file {
        Some(path) => format!("{}\n\n", screen.head(path)),
        None => "No configuration file was found.\n\n".to_owned(),
    };
    Ok(Answer::new(head + &table.text(screen), json!({"file": file, "settings": settings})))
}

fn origin_json(origin: &Origin) -> Value {
    match origin {
        Origin::File(path, line) => json!({"file": path.display().to_string(), "line": line}),
        Origin::Environment(name) => json!({"variable": name}),
        other => json!(other.to_string()),
    }
}
