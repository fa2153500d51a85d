//! Threads and their messages.

use epitome::thread::MessageId;
use std::sync::Arc;

use super::fixture::{append, commit, create, empty_thread, id, key, message, noon, tenant, thread_of, thread_row};
use super::{Outcome, claims, conflicts, is_rejected, same};
use epitome_runtime::ids::ThreadId;
use epitome_runtime::store::{Found, Segment, Store, ThreadRow, Write};

claims! {
    "a thread that nobody made is not there" => absent,
    "a thread is read back as it was made" => made,
    "a thread cannot be made twice" => made_twice,
    "an append moves length, tip, turn, tokens and moment" => appended,
    "messages are read back as they were appended, in order, within the asked places" => read_back,
    "messages at single places are read back in their order, each once" => read_at,
    "an append at another place than the end is a conflict" => append_elsewhere,
    "an append to a thread that is not there is a conflict" => append_nowhere,
    "an append without messages or with a gap is refused" => append_malformed,
    "a message is found by its id: the first that is asked for and held, within a scope and a tenant" => found,
    "a fork holds its own messages only and goes on from where it was forked" => forked,
    "of appends at the same place that race, one wins" => append_race,
    "labels are replaced" => labeled,
    "a thread that gets other names is found by its new scope and by its old one no more" => named,
    "a body sealed anew is read back and nothing but its id in the open changes" => resealed,
    "threads are listed in order of their ids, from a cursor on" => listed,
}

async fn absent(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "nobody")?;
    same("the thread", store.thread(&key).await?, None)?;
    same("its messages", store.messages(&key, 0..u64::MAX).await?, Vec::new())?;
    same("its plan", store.plan(&key, None).await?, None)?;
    same("its events", store.events(&key, 0, 10).await?, Vec::new())
}

async fn made(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    same("the thread", store.thread(&key).await?, Some(thread_row(&key)))
}

async fn made_twice(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 2).await?;
    conflicts("making it again", store.apply(&[create(&key)]).await)?;
    same("its length", store.thread(&key).await?.map(|row| row.length), Some(2))
}

async fn appended(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 3).await?;
    store.apply(&[append(&key, 3, 2)]).await?;
    let wanted = ThreadRow { length: 5, tip: id(5), turn: 2, tokens: 50, updated: noon(4), ..thread_row(&key) };
    same("the thread", store.thread(&key).await?, Some(wanted))
}

async fn read_back(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 7).await?;
    let all = store.messages(&key, 0..u64::MAX).await?;
    same("all messages", all, (0..7).map(message).collect())?;
    same("some messages", store.messages(&key, 2..5).await?, (2..5).map(message).collect())?;
    same("no place", store.messages(&key, 4..4).await?, Vec::new())?;
    same("places after the end", store.messages(&key, 7..9).await?, Vec::new())
}

async fn read_at(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 7).await?;
    let wanted = [1, 4, 6].map(message).to_vec();
    same("some messages", store.messages_at(&key, &[6, 1, 4, 1]).await?, wanted)?;
    same("places after the end", store.messages_at(&key, &[2, 7, 1 << 40]).await?, vec![message(2)])?;
    same("no place", store.messages_at(&key, &[]).await?, Vec::new())?;
    let nobody = self::key(&tenant()?, "nobody")?;
    same("a thread that is not there", store.messages_at(&nobody, &[0]).await?, Vec::new())
}

async fn append_elsewhere(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 3).await?;
    conflicts("an append before the end", store.apply(&[append(&key, 2, 1)]).await)?;
    conflicts("an append after the end", store.apply(&[append(&key, 4, 1)]).await)?;
    same("its length", store.messages(&key, 0..u64::MAX).await?.len(), 3)
}

async fn append_nowhere(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "nobody")?;
    conflicts("an append", store.apply(&[append(&key, 0, 1)]).await)?;
    conflicts("a label", store.apply(&[Write::Label { key: key.clone(), labels: Vec::new() }]).await)?;
    same("the thread", store.thread(&key).await?, None)
}

async fn append_malformed(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 1).await?;
    let of = |messages| [Write::Append { key: key.clone(), messages, tokens: 0 }];
    is_rejected("an append of nothing", store.apply(&of(Vec::new())).await)?;
    is_rejected("an append with a gap", store.apply(&of(vec![message(1), message(3)])).await)?;
    is_rejected("an append backwards", store.apply(&of(vec![message(1), message(0)])).await)?;
    same("its length", store.thread(&key).await?.map(|row| row.length), Some(1))
}

async fn found(store: Arc<dyn Store>) -> Outcome {
    let parent = thread_of(&store, 5).await?;
    let fork = key(&parent.tenant, "fork")?;
    let shared = vec![Segment { thread: parent.thread.clone(), until: 3 }];
    let row = ThreadRow { length: 3, tip: id(3), tokens: 30, shared, scope: "scope/two".into(), ..thread_row(&fork) };
    store.apply(&[Write::CreateThread(Box::new(row)), append(&fork, 3, 4)]).await?;
    let held = |thread: &ThreadId, place| Some(Found { thread: thread.clone(), place });
    let tenant = &parent.tenant;
    let missing = id(999);
    for (what, scope, ids, wanted) in [
        ("what only the fork holds", "scope/two", vec![missing, id(7), id(1)], held(&fork.thread, 6)),
        ("what the parent holds", "scope/one", vec![id(2), id(7)], held(&parent.thread, 1)),
        ("what both hold", "scope/two", vec![id(5)], held(&fork.thread, 4)),
        ("the same in one scope", "scope/one", vec![id(5)], held(&parent.thread, 4)),
        ("what the scope does not hold", "scope/one", vec![id(7)], None),
        ("what another scope would", "other", vec![id(1)], None),
        ("what scopes hold that begin like this one", "scope/", vec![id(1), id(5)], None),
        ("nothing", "", vec![], None),
    ] {
        same(what, store.find(tenant, scope, &ids).await?, wanted)?;
    }
    same("another tenant's", store.find(&super::fixture::tenant()?, "", &[id(1)]).await?, None)
}

async fn forked(store: Arc<dyn Store>) -> Outcome {
    let parent = thread_of(&store, 5).await?;
    let fork = key(&parent.tenant, "fork")?;
    let shared = vec![Segment { thread: parent.thread.clone(), until: 3 }];
    let row = ThreadRow { length: 3, tip: id(3), tokens: 30, shared, ..thread_row(&fork) };
    store.apply(&[Write::CreateThread(Box::new(row.clone())), append(&fork, 3, 2)]).await?;
    let wanted = ThreadRow { length: 5, tip: id(5), turn: 2, tokens: 50, updated: noon(4), ..row };
    same("the fork", store.thread(&fork).await?, Some(wanted))?;
    same("its own messages", store.messages(&fork, 0..10).await?, vec![message(3), message(4)])?;
    same("the parent's length", store.thread(&parent).await?.map(|row| row.length), Some(5))?;
    let gaps: Vec<String> =
        store.check().await?.into_iter().filter(|line| line.contains(fork.tenant.as_str())).collect();
    same("what is wrong with it", gaps, Vec::new())
}

async fn append_race(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 1).await?;
    let appends = [append(&key, 1, 1)];
    let racers = (0..8).map(|_| store.apply(&appends));
    let answers = futures_util::future::join_all(racers).await;
    same("how many win", answers.iter().filter(|answer| answer.is_ok()).count(), 1)?;
    for lost in answers.into_iter().filter(Result::is_err) {
        conflicts("losing", lost)?;
    }
    same("its length", store.messages(&key, 0..10).await?.len(), 2)
}

async fn named(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 2).await?;
    let name = |key| Write::NameThread { key, scope: "other/two".into(), counter: "chars/3".into() };
    store.apply(&[name(key.clone())]).await?;
    let held = Found { thread: key.thread.clone(), place: 1 };
    same("in its new scope", store.find(&key.tenant, "other/two", &[id(2)]).await?, Some(held))?;
    same("in its old scope", store.find(&key.tenant, "scope/one", &[id(2)]).await?, None)?;
    let row = store.thread(&key).await?.map(|row| (row.length, row.scope, row.counter));
    same("the thread", row, Some((2, "other/two".to_owned(), "chars/3".to_owned())))?;
    let nobody = self::key(&key.tenant, "nobody")?;
    conflicts("naming what is not there", store.apply(&[name(nobody)]).await)
}

async fn labeled(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 1).await?;
    let before = store.thread(&key).await?;
    store.apply(&[Write::Label { key: key.clone(), labels: b"other".to_vec() }]).await?;
    let wanted = before.map(|row| ThreadRow { labels: b"other".to_vec(), ..row });
    same("the thread", store.thread(&key).await?, wanted)
}

async fn resealed(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 3).await?;
    let id = MessageId::from_bytes([7; 32]);
    let reseal = |place| Write::Reseal { key: key.clone(), place, id, body: b"anew".to_vec() };
    let before = store.thread(&key).await?;
    store.apply(&[reseal(1)]).await?;
    let mut wanted: Vec<_> = (0..3).map(message).collect();
    wanted[1] = epitome_runtime::store::MessageRow { id, body: b"anew".to_vec(), ..wanted[1].clone() };
    same("the messages", store.messages(&key, 0..3).await?, wanted)?;
    same("the thread", store.thread(&key).await?, before.clone())?;
    store.apply(&[reseal(2)]).await?;
    same("the tip", store.thread(&key).await?, before.map(|row| ThreadRow { tip: id, ..row }))?;
    conflicts("sealing a message that is not there", store.apply(&[reseal(3)]).await)
}

async fn listed(store: Arc<dyn Store>) -> Outcome {
    let tenant = tenant()?;
    for name in ["b", "d", "a", "B", "c"] {
        store.apply(&[create(&key(&tenant, name)?)]).await?;
    }
    store.apply(&[append(&key(&tenant, "c")?, 0, 1), commit(&key(&tenant, "a")?, 1)]).await?;
    let mut pages = Vec::new();
    let mut after: Option<ThreadId> = None;
    loop {
        let page = store.threads(&tenant, after.as_ref(), 2).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.thread.clone());
        pages.push(page.iter().map(|row| row.key.thread.to_string()).collect::<Vec<_>>());
    }
    same("the pages", pages, vec![vec!["B".into(), "a".into()], vec!["b".into(), "c".into()], vec!["d".into()]])?;
    let first = store.threads(&tenant, None, 3).await?;
    same("a listed thread", first.get(1), store.thread(&key(&tenant, "a")?).await?.as_ref())?;
    same("no limit at all", store.threads(&tenant, None, usize::MAX).await?.len(), 5)?;
    same("a limit of none", store.threads(&tenant, None, 0).await?, Vec::new())
}
