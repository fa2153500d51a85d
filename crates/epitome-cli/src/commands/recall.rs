//! `epitome recall`: passages of a session file or a thread that match a query.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use epitome::budget::{Characters, Meter, Tokens, counter_for};
use epitome::session::Session;
use epitome::thread::{NewMessage, Thread};
use epitome_runtime::ids::{Moment, TenantId, ThreadId, ThreadKey};
use epitome_runtime::log::{Log, LogEntry, LogError, NewThread, words_of};
use epitome_runtime::recall::{
    EmbedLimits, PromptLines, RecallFilter, RecallRequest, RecallResult, embed_passages, index_rows, recall,
};
use epitome_runtime::store::{MemoryStore, ThreadRow, Write};
use epitome_runtime::vault::{Keys, Vault};
use serde_json::json;

use crate::artifact_folder::ArtifactFolder;
use crate::cli::{InputArgs, RecallArgs};
use crate::cli_config::CliConfig;
use crate::failure::{Answer, Result};
use crate::input::{read, session};
use crate::numbers::{self, LoggedMessage};
use crate::open_store::{IfMissing, OpenStore, wait};

/// The passages that get their vectors before a search, where there is an embedding endpoint: a person waits for them.
const AT_ONCE: EmbedLimits = EmbedLimits { passages_max: 1000, time_max: Duration::from_secs(20) };

pub fn run(args: &RecallArgs, config: Option<&Path>) -> Result<Answer> {
    let request = request(args);
    let is_file = args.source.exists() || args.source == Path::new("-");
    let (name, found) = match is_file {
        true => (args.source.display().to_string(), wait(in_file(args, &request, config))?),
        false => wait(in_store(args, &request, config))?,
    };
    let text = match found.hits.is_empty() && found.others.is_empty() {
        true => format!("No indexed message of {} {name} matches.\n", if is_file { "file" } else { "thread" }),
        false => found.render() + "\n",
    };
    Ok(Answer::new(text, json!({"thread": name, "query": request.words, "found": found})))
}

fn request(args: &RecallArgs) -> RecallRequest {
    RecallRequest {
        words: args.query.join(" "),
        filter: RecallFilter {
            who: args.who,
            file: args.about.clone(),
            tool: args.tool.clone(),
            after: args.after.map(|after| after as u64),
            newest: args.newest,
        },
        limit: args.limit,
        tokens_max: args.tokens.map(Tokens::new),
    }
}

async fn in_store(args: &RecallArgs, request: &RecallRequest, config: Option<&Path>) -> Result<(String, RecallResult)> {
    let store = OpenStore::open_to_search(config, &args.store_options, IfMissing::Fail).await?;
    let row = store.require_thread(&args.source.to_string_lossy()).await?;
    // What fails here fails the search by meaning too, and the answer says so.
    store.engine.embed_passages(&row, AT_ONCE).await.ok();
    let found = store.engine.search(&row, request, None).await?;
    Ok((row.key.thread.to_string(), found))
}

/// Searches a file as a thread that is kept in memory for as long as that takes.
async fn in_file(args: &RecallArgs, request: &RecallRequest, config: Option<&Path>) -> Result<RecallResult> {
    let input = InputArgs {
        file: args.source.clone(),
        format: args.format,
        skip_bad_lines: args.skip_bad_lines,
        artifacts: args.artifacts.clone(),
    };
    let session = session(read(&input.file)?.text, &input)?;
    let folder = ArtifactFolder::of(input.artifacts.as_deref(), &input.file);
    let messages = numbers::whole_log(&session, &folder, &input.file)?;
    let (log, row) = log_of(&session, messages).await?;
    let config = CliConfig::for_file(config)?;
    let tools = config.values().compaction_policy()?.tools;
    let prompt = prompt_lines(&session);
    let embeddings = config.values().embeddings(&config.environment)?;
    if let Some(embeddings) = &embeddings {
        embed_passages(&log, &row, embeddings, AT_ONCE).await.ok();
    }
    let query = request.query(config.values().recall.tokens_max, &tools, prompt.as_ref());
    let query = query.by_meaning(embeddings.as_ref());
    Ok(recall(&log, &row, &query, &*counter_for(session.model())).await?)
}

/// The lines of what the model sees of a file; `None` where it sees all of it.
fn prompt_lines(session: &Session) -> Option<PromptLines> {
    let is_compacted = !session.compactions().is_empty() || session.is_compacted_list();
    is_compacted.then(|| {
        let texts: Vec<String> = session.context().iter().map(|seen| words_of(&seen.message.parts)).collect();
        PromptLines::of_texts(texts.iter().map(String::as_str))
    })
}

/// Puts messages into a log in memory, with their index. A copy that a compaction made is found as the original.
async fn log_of(session: &Session, messages: Vec<LoggedMessage>) -> Result<(Log, ThreadRow)> {
    let log = Log::new(Arc::new(MemoryStore::new()), Vault::new(Keys::none(), [0; 32]));
    let key = ThreadKey::new(TenantId::local(), ThreadId::new());
    let copies: Vec<bool> = messages.iter().map(|logged| logged.is_copy).collect();
    let messages: Vec<NewMessage> = messages.into_iter().map(|logged| logged.message).collect();
    let mut thread = Thread::new();
    thread.extend(messages.clone(), &Meter::new(&Characters::Four, session.counting_dialect()));
    let new = NewThread {
        key: key.clone(),
        dialect: session.format().name().to_owned(),
        counter: "none".to_owned(),
        at: Moment(0),
        scope: String::new(),
        labels: serde_json::Value::Null,
    };
    log.create(new).await?;
    let (mut rows, mut index) = (Vec::new(), Vec::new());
    for (place, (message, counted)) in messages.into_iter().zip(thread.messages()).enumerate() {
        if !copies[place] {
            index.extend(index_rows(log.vault(), &key.tenant, place as u64, &words_of(&message.parts)));
        }
        let entry = LogEntry {
            place: place as u64,
            id: counted.id(),
            stored: counted.id(),
            turn: counted.turn(),
            part_tokens: Vec::new(),
            // Nothing here was counted as the answer is.
            counter: Some("characters".to_owned()),
            at: Moment(0),
            message,
        };
        rows.push(log.foreign_row(&key, &entry));
    }
    let append = Write::Append { key: key.clone(), tokens: 0, messages: rows };
    log.apply(&[append, Write::Index { key: key.clone(), rows: index }]).await?;
    let row = log.thread(&key).await?.ok_or(LogError::NoThread(key.thread))?;
    Ok((log, row))
}
