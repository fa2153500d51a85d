//! Odd input: nothing, much of it, and bytes that are no text.

use std::sync::Arc;

use epitome::budget::Tokens;

use super::fixture::{
    append, document_key, empty_thread, event_row, found, id, job, key, lease, message, noon, plan_row, segment,
    tenant, thread_row, unique,
};
use super::{Outcome, claims, holds, same};
use epitome_runtime::ids::Moment;
use epitome_runtime::store::{DocumentKind, IndexRow, JobEnd, JobKind, MessageRow, PlanRow, Store, ThreadRow, Write};

claims! {
    "a body of any bytes and any size comes back as it went in" => bodies,
    "empty lists and large numbers come back as they went in" => extremes,
    "many messages in one append are all there" => many,
    "a long passage is found by its terms" => long_passage,
    "text with quotes, signs and line ends comes back as it went in" => texts,
    "a store that is as it should be has nothing to say when it is checked" => checked,
}

/// Nothing, a NUL, bytes that are not UTF-8, what SQL would quote, and a megabyte.
fn bytes() -> Vec<Vec<u8>> {
    let large = (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![Vec::new(), vec![0], vec![0, 255, 0, 128, 13, 10], b"'; drop table threads; --\\x".to_vec(), large]
}

async fn bodies(store: Arc<dyn Store>) -> Outcome {
    for body in bytes() {
        let key = key(&tenant()?, "thread")?;
        let row = ThreadRow { labels: body.clone(), ..thread_row(&key) };
        let document = document_key(&key.tenant, "notes");
        let said = MessageRow { body: body.clone(), ..message(0) };
        let plan = PlanRow { body: body.clone(), ..plan_row(1) };
        let event = epitome_runtime::store::EventRow { body: body.clone(), ..event_row("") };
        let writes = [
            Write::CreateThread(Box::new(row)),
            Write::Append { key: key.clone(), messages: vec![said], tokens: 1 },
            Write::CommitPlan { key: key.clone(), plan: Box::new(plan) },
            Write::AddEvent { key: key.clone(), event },
            Write::PutDocument {
                key: document.clone(),
                expected: None,
                at: noon(0),
                expires: None,
                body: body.clone(),
            },
        ];
        store.apply(&writes).await?;
        let back = [
            store.thread(&key).await?.map(|row| row.labels),
            store.messages(&key, 0..1).await?.pop().map(|row| row.body),
            store.plan(&key, None).await?.map(|row| row.body),
            store.events(&key, 0, 1).await?.pop().map(|row| row.body),
            store.document(&document).await?.map(|row| row.body),
        ];
        holds("a body is not what it was", back.iter().all(|held| held.as_ref() == Some(&body)))?;
    }
    Ok(())
}

async fn extremes(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let most = i64::MAX as u64;
    let said = MessageRow {
        part_tokens: vec![Tokens::new(most), Tokens::ZERO],
        turn: u32::MAX,
        at: Moment(i64::MIN),
        ..message(0)
    };
    let bare = MessageRow { part_tokens: Vec::new(), id: id(u64::MAX), at: Moment(i64::MAX), ..message(1) };
    let messages = vec![said, bare];
    let plan = PlanRow {
        covers: most,
        live_from: most,
        before: most,
        after: 0,
        compacted: Vec::new(),
        policy: String::new(),
        at: Moment(-1),
        ..plan_row(1)
    };
    store.apply(&[Write::Append { key: key.clone(), messages: messages.clone(), tokens: most }]).await?;
    store.apply(&[Write::CommitPlan { key: key.clone(), plan: Box::new(plan.clone()) }]).await?;
    same("the messages", store.messages(&key, 0..2).await?, messages)?;
    same("the plan", store.plan(&key, None).await?, Some(plan))?;
    same("the tokens", store.thread(&key).await?.map(|row| row.tokens), Some(most))
}

async fn many(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[append(&key, 0, 3_000)]).await?;
    store.apply(&[append(&key, 3_000, 1)]).await?;
    same("how many", store.messages(&key, 0..u64::MAX).await?.len(), 3_001)?;
    same("one in the middle", store.messages(&key, 1_777..1_778).await?, vec![message(1_777)])
}

async fn long_passage(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let mut terms: Vec<String> = (0..20_000).map(|at| format!("word{at}")).collect();
    terms.extend((0..1_000).map(|_| "often".to_owned()));
    let long = "x".repeat(5_000);
    terms.push(long.clone());
    let row = IndexRow { place: 0, passage: 0, first_line: 1, last_line: u32::MAX, terms };
    store.apply(&[Write::Index { key: key.clone(), rows: vec![row] }]).await?;
    for term in ["word0", "word19999", "often", &long] {
        let answer = found(&store, &key.tenant, &[segment(&key, 1)], term).await?;
        same("the answer for a term", answer, vec![(0, 0)])?;
    }
    Ok(())
}

async fn texts(store: Arc<dyn Store>) -> Outcome {
    let text = "it's \"quoted\" \\ % _ ; --\r\n\t$1 ?1 {} 日本 \u{1f600}";
    let key = key(&tenant()?, "thread")?;
    let kind = JobKind::from_name(&unique(text));
    let document = document_key(&key.tenant, text);
    let mut new = job(&key, &kind, noon(0));
    new.payload = text.into();
    let row = ThreadRow { dialect: text.into(), counter: text.into(), ..thread_row(&key) };
    let body = Vec::new();
    let put = Write::PutDocument { key: document.clone(), expected: None, at: noon(0), expires: None, body };
    store.apply(&[Write::CreateThread(Box::new(row.clone())), put, Write::Enqueue(Box::new(new))]).await?;
    same("the thread", store.thread(&key).await?, Some(row))?;
    let names = store.documents(&key.tenant, DocumentKind::Memory, None, 2).await?.into_iter().map(|(key, _)| key);
    same("the document's name", names.collect::<Vec<_>>(), vec![document])?;
    let Some(running) = store.claim(&kind, &lease(noon(9)), noon(1)).await? else {
        return holds("the job cannot be claimed", false);
    };
    same("the payload", running.payload.as_str(), text)?;
    let end = JobEnd::Failed { again: noon(2), error: format!("{text}\0") };
    store.apply(&[super::fixture::finish(&running, end)]).await?;
    let error = store.job(&key, &kind).await?.and_then(|job| job.error).unwrap_or_default();
    holds("the error is not what it was, but for a NUL", error.starts_with(text))
}

async fn checked(store: Arc<dyn Store>) -> Outcome {
    let key = super::fixture::thread_of(&store, 3).await?;
    store.apply(&[append(&key, 3, 2)]).await?;
    same("what it says", store.check().await?, Vec::new())
}
