//! `epitome store`: checks, migrates and clears up the store, and brings it under another key.

use std::path::Path;

use epitome_runtime::config::StoreUrl;
use epitome_runtime::ids::Moment;
use epitome_runtime::upkeep::{CheckReport, RotationReport, check, expire, rotate};
use serde_json::json;

use crate::cli::{StoreArgs, StoreCommand, StoreVerb};
use crate::failure::{Answer, Exit, Failure};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::progress::Progress;
use crate::receipt::plural;
use crate::screen::Screen;
use crate::settings::{Configured, Flags};

/// Does what was asked of the store.
pub fn run(args: &StoreCommand, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    wait(async {
        match args.verb {
            StoreVerb::Check => checked(&opened(args, config).await?, screen, progress).await,
            StoreVerb::Migrate => migrated(args, config).await,
            StoreVerb::Vacuum => vacuumed(&opened(args, config).await?, progress).await,
            StoreVerb::Rotate => rotated(&opened(args, config).await?, screen, progress).await,
        }
    })
}

async fn opened(args: &StoreCommand, config: Option<&Path>) -> Result<OpenStore, Failure> {
    let store_args = StoreArgs { store: args.store.clone(), tenant: None };
    OpenStore::open(config, &store_args, IfMissing::Fail).await
}

fn name(open_store: &OpenStore) -> String {
    open_store.configured.config().store.url.to_string()
}

async fn migrated(args: &StoreCommand, config: Option<&Path>) -> Result<Answer, Failure> {
    let configured = Configured::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
    let store = configured.config().store.url.to_string();
    let Some((found, known)) = configured.config().schema().await? else {
        return Ok(Answer::new(format!("{store} has no schema.\n"), json!({"store": store})));
    };
    configured.config().open_store().await?;
    let text = match found == known {
        true => format!("{store} has schema {known} already.\n"),
        false => format!("{store} went from schema {found} to {known}.\n"),
    };
    Ok(Answer::new(text, json!({"store": store, "from": found, "to": known})))
}

async fn checked(open_store: &OpenStore, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    let checked = check(open_store.log(), open_store.engine.artifacts(), &mut |what| progress.now(what)).await?;
    let CheckReport { tenants, threads, messages, plans, documents, findings, .. } = &checked;
    let looked_at = [(*threads, "thread"), (*messages, "message"), (*plans, "plan"), (*documents, "document")];
    let mut answer = Answer::new(
        format!("Looked at {}.\n", amounts(&looked_at)),
        json!({
            "store": name(open_store), "tenants": tenants, "threads": threads, "messages": messages, "plans": plans, "documents": documents,
            "findings": findings,
        }),
    );
    answer.text.push_str(&listed(findings, "All is well.", screen));
    if !findings.is_empty() {
        answer.exit = Exit::Violations;
    }
    Ok(answer)
}

/// Amounts of things: `2 threads, 1 plan and 0 documents`.
fn amounts(things: &[(u64, &str)]) -> String {
    let all: Vec<String> = things.iter().map(|(n, name)| format!("{n} {name}{}", plural(*n as usize))).collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Sentences, each on its line; a word where there is none.
fn listed(sentences: &[String], none: &str, screen: Screen) -> String {
    match sentences.is_empty() {
        true => format!("{none}\n"),
        false => sentences.iter().map(|sentence| format!("{}\n", screen.bad(sentence))).collect(),
    }
}

async fn rotated(open_store: &OpenStore, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    let rotated = rotate(open_store.log(), open_store.engine.artifacts(), &mut |what| progress.now(what)).await?;
    let key = open_store.log().vault().current_key_id().unwrap_or_default();
    let RotationReport { messages, plans, events, labels, documents, artifacts, indexed, renamed, left, .. } = &rotated;
    let sealed = [
        (*messages, "message"),
        (*plans, "plan"),
        (*events, "event"),
        (*documents, "document"),
        (*artifacts, "artifact"),
    ];
    let mut text = String::new();
    // Where nothing could be opened, why is all there is to say.
    if left.is_empty() || sealed.iter().any(|(count, _)| *count > 0) {
        let anew = amounts(&[(*indexed, "thread")]);
        text = format!("Sealed with the key {key}: {}.\nThe index of {anew} was made anew.\n", amounts(&sealed));
    }
    if *renamed > 0 {
        let was = if *renamed == 1 { "name that told" } else { "names that told" };
        text.push_str(&format!("Blinded {renamed} {was} what was said.\n"));
    }
    let mut answer = Answer::new(
        text,
        json!({
            "store": name(open_store), "key": key, "messages": messages, "plans": plans, "events": events, "labels": labels,
            "documents": documents, "artifacts": artifacts, "indexed": indexed, "renamed": renamed, "left": left,
        }),
    );
    answer.text.push_str(&listed(left, "No older key is needed any more.", screen));
    if !left.is_empty() {
        answer.exit = Exit::Violations;
    }
    Ok(answer)
}

async fn vacuumed(open_store: &OpenStore, progress: &Progress) -> Result<Answer, Failure> {
    let now = Moment::now();
    let before = size(open_store);
    progress.now("Removing expired artifacts");
    let swept = open_store.engine.artifacts().sweep(now).await?;
    progress.now("Removing expired documents and finished jobs");
    let removed = expire(open_store.log(), now).await?;
    let given_back = before.zip(size(open_store)).map(|(before, after)| before.saturating_sub(after));
    let artifacts = amounts(&[(swept.expired + swept.unreferenced, "artifact")]);
    let rows = if removed == 1 { "expired document or finished job" } else { "expired documents and finished jobs" };
    let mut text = format!("Removed {removed} {rows}, and {artifacts} of {} bytes.\n", swept.bytes);
    if let Some(bytes) = given_back {
        text.push_str(&format!("The store gave {bytes} bytes back.\n"));
    }
    let json = json!({
        "store": name(open_store), "removed": removed, "expired_artifacts": swept.expired, "unreferenced_artifacts": swept.unreferenced,
        "artifact_bytes": swept.bytes, "bytes_given_back": given_back,
    });
    Ok(Answer::new(text, json))
}

/// The bytes of a store that is a file.
fn size(open_store: &OpenStore) -> Option<u64> {
    match &open_store.configured.config().store.url {
        StoreUrl::Sqlite(path) => {
            let mut log = path.clone().into_os_string();
            log.push("-wal");
            let length = |path: &Path| std::fs::metadata(path).map(|meta| meta.len());
            Some(length(path).ok()? + length(Path::new(&log)).unwrap_or_default())
        }
        _ => None,
    }
}
