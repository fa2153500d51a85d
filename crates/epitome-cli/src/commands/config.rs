//! `epitome config`: every setting, its value, and where it came from; and which folders' files are trusted. Secrets are
//! not shown.

use std::path::Path;

use epitome_runtime::config::{Explained, FOLDER_FILE, Guard, Origin, Sources, TrustedFiles};
use serde_json::{Value, json};

use crate::cli::{ConfigArgs, ConfigVerb, TrustArgs};
use crate::failure::{Answer, Exit, Failure, words};
use crate::receipt::headed;
use crate::screen::Screen;
use crate::settings::{AllSettings, Configured, Flags, environment};
use crate::table::{Side, table};

/// Does what was asked of the configuration.
pub fn run(args: &ConfigArgs, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    match &args.verb {
        ConfigVerb::Show => show(config, screen),
        ConfigVerb::Trust(args) => trust(args, screen),
    }
}

/// Lists, removes or adds a trusted file.
fn trust(args: &TrustArgs, screen: Screen) -> Result<Answer, Failure> {
    let homeless = || {
        Failure::new(Exit::Usage, "There is no place for your list of trusted files.")
            .hint("Set HOME or XDG_STATE_HOME; a file that `--config` names needs no trust.")
    };
    let mut trusted = TrustedFiles::load(&environment())?.ok_or_else(homeless)?;
    if args.list {
        return Ok(trusted_list(&trusted));
    }
    let file = args.file.clone().unwrap_or_else(|| FOLDER_FILE.into());
    let (name, path) = (file.display(), file.display().to_string());
    if args.remove {
        return match trusted.remove(&file)? {
            true => Ok(Answer::new(format!("{name} is no longer trusted.\n"), json!({"file": path, "trusted": false}))),
            false => Err(Failure::new(Exit::Usage, format!("{name} is not trusted.")).hint(TRUST_LIST_HINT)),
        };
    }
    let text = std::fs::read_to_string(&file).map_err(|error| Failure::unreadable(&file, words(&error)))?;
    let accepted = guarded_settings(&file)?;
    trusted.add(&file, &text)?;
    let rows: Vec<Vec<String>> = accepted.iter().map(|(key, value)| vec![(*key).to_owned(), value.clone()]).collect();
    let said = match rows.is_empty() {
        true => format!("{name} is trusted; nothing in it needed that.\n"),
        false => format!("{name} is trusted and may set:\n\n{}", table(&[Side::Left, Side::Left], &rows, screen)),
    };
    let settings: serde_json::Map<String, Value> =
        accepted.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let text = format!("{said}\nA change to the file has to be trusted again; `--remove` takes the trust back.\n");
    Ok(Answer::new(text, json!({"file": path, "trusted": true, "settings": settings})))
}

const TRUST_LIST_HINT: &str = "`epitome config trust --list` lists the files that are.";

fn trusted_list(trusted: &TrustedFiles) -> Answer {
    let is_current = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| trusted.holds(Path::new(path), &text));
    let rows: Vec<(String, bool)> =
        trusted.files().iter().map(|file| (file.path.clone(), is_current(&file.path))).collect();
    let text: String = match rows.is_empty() {
        true => "No folder's configuration is trusted.\n".to_owned(),
        false => rows
            .iter()
            .map(|(path, current)| {
                let note = if *current { "" } else { " (changed or gone since: it does not count)" };
                format!("{path}{note}\n")
            })
            .collect(),
    };
    let files: Vec<Value> = rows.iter().map(|(path, current)| json!({"file": path, "current": current})).collect();
    Answer::new(text, json!({"list": trusted.list().display().to_string(), "files": files}))
}

/// The settings of a file that count only when it is trusted, as they can be shown. A file that is wrong is an error.
fn guarded_settings(file: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let folder = std::env::current_dir().unwrap_or_default();
    let environment = environment();
    let home = ["HOME", "XDG_DATA_HOME"].into_iter().filter_map(|name| environment.get_key_value(name));
    let home = home.map(|(name, text)| (name.clone(), text.clone())).collect();
    let sources = Sources { file: Some(file.to_owned()), environment: home, folder, ..Sources::default() };
    let explained = AllSettings::load(&sources)?.explained.into_iter();
    let guarded = explained
        .filter(|setting| setting.key.guard == Guard::Guarded && matches!(setting.origin, Origin::File { .. }));
    Ok(guarded.map(|setting| (setting.key.name, setting.value)).collect())
}

fn show(config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    let loaded = Configured::load(config, Flags::default())?.loaded;
    let mut rows = vec![["setting", "value", "from"].map(str::to_owned).to_vec()];
    rows.extend(loaded.explained.iter().map(|setting| {
        let value = if setting.value.is_empty() { "none" } else { &setting.value };
        vec![setting.key.name.to_owned(), value.to_owned(), setting.origin.to_string()]
    }));
    let file = loaded.file.as_ref().map(|path| path.display().to_string());
    let head = match &file {
        Some(path) => format!("{}\n\n", screen.head(path)),
        None => "No configuration file was found.\n\n".to_owned(),
    };
    let text = head + &headed(&table(&[Side::Left, Side::Left, Side::Left], &rows, screen), screen);
    let settings: Vec<Value> = loaded.explained.iter().map(setting_json).collect();
    Ok(Answer::new(text, json!({"file": file, "settings": settings})))
}

fn setting_json(setting: &Explained) -> Value {
    let value = Some(&setting.value).filter(|value| !value.is_empty());
    json!({"setting": setting.key.name, "value": value, "from": from(&setting.origin)})
}

fn from(origin: &Origin) -> Value {
    match origin {
        Origin::File { path, line } => json!({"file": path.display().to_string(), "line": line}),
        Origin::Environment { name } => json!({"variable": name}),
        other => json!(other.to_string()),
    }
}
