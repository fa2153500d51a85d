//! `epitome policy`: lists, prints and checks policies.

use std::path::Path;

use epitome::policy::{Policy, Preset};
use serde_json::{Value, json};

use crate::cli::{PolicyArgs, PolicyVerb};
use crate::failure::{Answer, Exit, Failure, Result, words};
use crate::file_compaction::load_policy;
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &PolicyArgs, screen: Screen) -> Result<Answer> {
    match &args.verb {
        PolicyVerb::List => Ok(list(screen)),
        PolicyVerb::Show { name } => show(name),
        PolicyVerb::Check { file } => check(file),
    }
}

fn list(screen: Screen) -> Answer {
    let policies: Vec<Policy> = Preset::ALL.iter().map(Preset::policy).collect();
    let mut table = Table::new("ll");
    for policy in &policies {
        table.row(&[&screen.head(&policy.name), &policy.about]);
    }
    let to_json = |policy: &Policy| json!({"name": policy.name, "version": policy.version, "about": policy.about});
    let json = json!({"policies": policies.iter().map(to_json).collect::<Vec<Value>>(), "default": policies[0].name});
    let note = format!("\nThe default is {}. `--policy` also takes the path of a policy file.\n", policies[0].name);
    Answer::new(table.text(screen) + &note, json)
}

fn show(name: &str) -> Result<Answer> {
    let policy = load_policy(name)?;
    let preset = Preset::ALL.iter().find(|preset| preset.name == name).map(|preset| preset.toml.to_owned());
    let toml = match preset {
        Some(toml) => toml,
        None => std::fs::read_to_string(name).map_err(|error| Failure::unreadable(Path::new(name), words(&error)))?,
    };
    Ok(Answer::new(toml, serde_json::to_value(&policy).unwrap_or_default()))
}

fn check(file: &Path) -> Result<Answer> {
    let toml = std::fs::read_to_string(file).map_err(|error| Failure::unreadable(file, words(&error)))?;
    match Policy::parse(&toml) {
        Ok(policy) => {
            let text = format!("{}: OK, policy {}\n", file.display(), policy.label());
            Ok(Answer::new(text, json!({"file": file.display().to_string(), "policy": policy.label(), "valid": true})))
        }
        Err(error) => Err(Failure::new(Exit::Violations, format!("{}, {error}.", file.display()))
            .hint("`epitome policy show ladder` prints a policy to compare with.")
            .facts(json!({"key": error.key(), "value": error.written()}))),
    }
}
