//! `epitome store`: checks, migrates and cleans up the store of threads, and seals it under another key.

use std::path::Path;

use epitome_runtime::config::StoreUrl;
use epitome_runtime::ids::Moment;
use epitome_runtime::upkeep::{self, CheckReport, RotationReport};
use serde_json::json;

use crate::cli::{StoreArgs, StoreOptions, StoreVerb};
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Answer, Exit, Result};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::progress::Progress;
use crate::receipt::count;
use crate::screen::Screen;

pub fn run(args: &StoreArgs, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer> {
    wait(async {
        if args.verb == StoreVerb::Migrate {
            return migrate(args, config).await;
        }
        let options = StoreOptions { store: args.store.clone(), tenant: None };
        let store = OpenStore::open(config, &options, IfMissing::Fail).await?;
        match args.verb {
            StoreVerb::Check | StoreVerb::Migrate => check(&store, screen, progress).await,
            StoreVerb::Vacuum => vacuum(&store, progress).await,
            StoreVerb::Rotate => rotate(&store, screen, progress).await,
        }
    })
}

/// Opening a store migrates it, so this needs no engine.
async fn migrate(args: &StoreArgs, config: Option<&Path>) -> Result<Answer> {
    let config = CliConfig::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
    let store = config.values().store.url.to_string();
    let Some((found, known)) = config.values().schema().await? else {
        return Ok(Answer::new(format!("{store} has no schema.\n"), json!({"store": store})));
    };
    config.values().open_store().await?;
    let text = if found == known {
        format!("{store} is up to date: schema {known}.\n")
    } else {
        format!("{store}: migrated from schema {found} to {known}.\n")
    };
    Ok(Answer::new(text, json!({"store": store, "from": found, "to": known})))
}

async fn check(store: &OpenStore, screen: Screen, progress: &Progress) -> Result<Answer> {
    let checked = upkeep::check(store.log(), store.engine.artifacts(), &mut |what| progress.now(what)).await?;
    let CheckReport { tenants, threads, messages, plans, documents, findings, .. } = &checked;
    let amounts = amounts(&[(*threads, "thread"), (*messages, "message"), (*plans, "plan"), (*documents, "document")]);
    let json = json!({
        "store": store.url(), "tenants": tenants, "threads": threads, "messages": messages, "plans": plans, "documents": documents,
        "findings": findings,
    });
    Ok(with_findings(format!("CheckReport {amounts}.\n"), findings, "No errors found.", json, screen))
}

/// Joins amounts of things: `2 threads, 1 plan and 0 documents`.
fn amounts(things: &[(u64, &str)]) -> String {
    let all: Vec<String> = things.iter().map(|(number, thing)| count(*number as usize, thing)).collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Adds what was found, a sentence a line, or that there was nothing. Findings make the exit code 1.
fn with_findings(mut text: String, findings: &[String], none: &str, json: serde_json::Value, screen: Screen) -> Answer {
    if findings.is_empty() {
        text.push_str(&format!("{none}\n"));
        return Answer::new(text, json);
    }
    text.extend(findings.iter().map(|sentence| format!("{}\n", screen.bad(sentence))));
    Answer { exit: Exit::Violations, ..Answer::new(text, json) }
}

async fn rotate(store: &OpenStore, screen: Screen, progress: &Progress) -> Result<Answer> {
    let rotated = upkeep::rotate(store.log(), store.engine.artifacts(), &mut |what| progress.now(what)).await?;
    let key = store.log().vault().current_key_id().unwrap_or_default();
    let RotationReport {
        messages, plans, events, labels, documents, artifacts, vectors, indexed, renamed, left, ..
    } = &rotated;
    let mut sealed = vec![
        (*messages, "message"),
        (*plans, "plan"),
        (*events, "event"),
        (*documents, "document"),
        (*artifacts, "artifact"),
    ];
    sealed.extend(Some((*vectors, "vector")).filter(|(number, _)| *number > 0));
    let mut text = String::new();
    // Where nothing could be opened, the reason is all there is to say.
    if left.is_empty() || sealed.iter().any(|(number, _)| *number > 0) {
        let threads = count(*indexed as usize, "thread");
        text = format!("Sealed with the key {key}: {}.\nRebuilt the index of {threads}.\n", amounts(&sealed));
    }
    if *renamed > 0 {
        text.push_str(&format!("Blinded {} that could be read.\n", count(*renamed as usize, "name")));
    }
    let json = json!({
        "store": store.url(), "key": key, "messages": messages, "plans": plans, "events": events, "labels": labels,
        "documents": documents, "artifacts": artifacts, "vectors": vectors, "indexed": indexed, "renamed": renamed, "left": left,
    });
    Ok(with_findings(text, left, "Older keys are no longer needed.", json, screen))
}

async fn vacuum(store: &OpenStore, progress: &Progress) -> Result<Answer> {
    let now = Moment::now();
    let before = file_bytes(store);
    progress.now("Removing expired artifacts");
    let swept = store.engine.artifacts().sweep(now).await?;
    progress.now("Removing expired documents and finished jobs");
    let removed = upkeep::expire(store.log(), now).await?;
    let given_back = before.zip(file_bytes(store)).map(|(before, after)| before.saturating_sub(after));
    let artifacts = count((swept.expired + swept.unreferenced) as usize, "artifact");
    let rows = if removed == 1 { "expired document or finished job" } else { "expired documents and finished jobs" };
    let mut text = format!("Removed {removed} {rows}, and {artifacts} of {} bytes.\n", swept.bytes);
    if let Some(bytes) = given_back {
        text.push_str(&format!("The store's file is {bytes} bytes smaller.\n"));
    }
    let json = json!({
        "store": store.url(), "removed": removed, "expired_artifacts": swept.expired, "unreferenced_artifacts": swept.unreferenced,
        "artifact_bytes": swept.bytes, "bytes_given_back": given_back,
    });
    Ok(Answer::new(text, json))
}

/// Returns the bytes of a store that is a file, with its write-ahead log.
fn file_bytes(store: &OpenStore) -> Option<u64> {
    let StoreUrl::Sqlite(path) = &store.config.values().store.url else { return None };
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    let length = |path: &Path| std::fs::metadata(path).map(|meta| meta.len());
    Some(length(path).ok()? + length(Path::new(&log)).unwrap_or_default())
}
