//! The full-text index.

use std::sync::Arc;

use super::fixture::{empty_thread, event, found, index, key, passage, segment, tenant, thread_of};
use super::{Outcome, claims, conflicts, holds, same};
use epitome_runtime::store::{Candidate, IndexRow, SearchOrder, Store, StoreError, Write};

claims! {
    "a passage is found by any of its terms and tells where it is" => any_term,
    "a passage that holds more of the terms, or a term more often, comes first" => ranking,
    "an answer is no longer than asked for and keeps the best" => limited,
    "asked for the newest, an answer begins with the passages of the last messages, however well others fit" => newest,
    "of each segment only passages before its end are found" => bounded,
    "a passage that is indexed already stays as it is" => kept,
    "an index that is dropped finds nothing and can be made anew" => dropped,
    "a store that is written anew has and finds what it had and found" => scrubbed,
    "passages of a thread that is not there are a conflict" => nowhere,
    "terms of any script are found, and only whole" => scripts,
    "terms that mean something to a query language are only terms" => operators,
    "a search for nothing finds nothing" => nothing,
}

async fn any_term(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[index(&key, vec![passage(4, 2, "red green"), passage(9, 0, "blue")])]).await?;
    let answer = store
        .search(&key.tenant, &[segment(&key, 100)], &["green".into(), "grey".into()], SearchOrder::Best, 10)
        .await?;
    let score = answer.first().map_or(0.0, |candidate| candidate.score);
    let thread = key.thread.clone();
    let wanted = Candidate { thread, place: 4, passage: 2, first_line: 21, last_line: 30, score };
    same("the answer", answer, vec![wanted])?;
    let all = [segment(&key, 100)];
    same("another term", found(&store, &key.tenant, &all, "blue").await?, vec![(9, 0)])?;
    same("a term that is nowhere", found(&store, &key.tenant, &all, "gre").await?, Vec::new())
}

async fn ranking(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let rows = vec![
        passage(0, 0, "pump one two three four"),
        passage(1, 0, "pump pump pump two three"),
        passage(2, 0, "pump valve two three four"),
        passage(3, 0, "nothing of the kind here"),
    ];
    store.apply(&[index(&key, rows)]).await?;
    let all = [segment(&key, 100)];
    let more_often = found(&store, &key.tenant, &all, "pump").await?;
    same("the first for one term", more_often.first(), Some(&(1, 0)))?;
    same("how many for one term", more_often.len(), 3)?;
    let more_terms = found(&store, &key.tenant, &all, "valve four").await?;
    same("the answer for two terms", more_terms, vec![(2, 0), (0, 0)])?;
    let answer = store.search(&key.tenant, &all, &["pump".into(), "valve".into()], SearchOrder::Best, 10).await?;
    let falling = answer.windows(2).all(|pair| pair[0].score >= pair[1].score);
    holds("the scores do not fall", falling)
}

async fn newest(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let mut rows: Vec<IndexRow> = (0..30).map(|place| passage(place, 0, "oil oil oil water")).collect();
    rows.extend([passage(30, 0, "a little oil among many other words"), passage(30, 1, "oil"), passage(31, 0, "sand")]);
    store.apply(&[index(&key, rows)]).await?;
    let places = async |until: u64, limit: usize| -> Result<Vec<(u64, u32)>, StoreError> {
        let answer =
            store.search(&key.tenant, &[segment(&key, until)], &["oil".into()], SearchOrder::Newest, limit).await?;
        Ok(answer.iter().map(|candidate| (candidate.place, candidate.passage)).collect())
    };
    same("the newest", places(100, 3).await?, vec![(30, 1), (30, 0), (29, 0)])?;
    same("the newest before an end", places(10, 1).await?, vec![(9, 0)])
}

async fn limited(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let mut rows: Vec<IndexRow> = (0..20).map(|place| passage(place, 0, "oil and water and sand")).collect();
    rows.push(passage(20, 0, "oil oil oil and water"));
    store.apply(&[index(&key, rows)]).await?;
    let answer = store.search(&key.tenant, &[segment(&key, 100)], &["oil".into()], SearchOrder::Best, 3).await?;
    same("how many", answer.len(), 3)?;
    same("the best", answer.first().map(|candidate| candidate.place), Some(20))?;
    same(
        "none asked for",
        store.search(&key.tenant, &[segment(&key, 100)], &["oil".into()], SearchOrder::Best, 0).await?,
        Vec::new(),
    )
}

async fn bounded(store: Arc<dyn Store>) -> Outcome {
    let parent = empty_thread(&store).await?;
    let fork = key(&parent.tenant, "fork")?;
    let stray = key(&parent.tenant, "stray")?;
    store.apply(&[super::fixture::create(&fork), super::fixture::create(&stray)]).await?;
    let words = |places: &[u64]| places.iter().map(|place| passage(*place, 0, "steam")).collect::<Vec<_>>();
    store
        .apply(&[index(&parent, words(&[1, 2, 3, 4])), index(&fork, words(&[2, 5, 6, 7])), index(&stray, words(&[0]))])
        .await?;
    let answer = store
        .search(&parent.tenant, &[segment(&parent, 3), segment(&fork, 7)], &["steam".into()], SearchOrder::Best, 10)
        .await?;
    let mut places: Vec<_> = answer.into_iter().map(|found| (found.thread, found.place)).collect();
    places.sort();
    let (of_parent, of_fork) = (|place| (parent.thread.clone(), place), |place| (fork.thread.clone(), place));
    let mut wanted = vec![of_parent(1), of_parent(2), of_fork(2), of_fork(5), of_fork(6)];
    wanted.sort();
    same("what is found", places, wanted)?;
    let none = [segment(&parent, 0), segment(&key(&parent.tenant, "nobody")?, 9)];
    same("within nothing", found(&store, &parent.tenant, &none, "steam").await?, Vec::new())?;
    same("in no segment", found(&store, &parent.tenant, &[], "steam").await?, Vec::new())?;
    let endless = [segment(&parent, u64::MAX)];
    same("in an endless segment", found(&store, &parent.tenant, &endless, "steam").await?.len(), 4)
}

async fn kept(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[index(&key, vec![passage(0, 0, "first"), passage(0, 0, "second")])]).await?;
    store.apply(&[index(&key, vec![passage(0, 0, "third"), passage(0, 1, "fourth")])]).await?;
    let all = [segment(&key, 100)];
    same("the first", found(&store, &key.tenant, &all, "first second third").await?, vec![(0, 0)])?;
    same("the second", found(&store, &key.tenant, &all, "second").await?, Vec::new())?;
    same("the third", found(&store, &key.tenant, &all, "third").await?, Vec::new())?;
    same("the fourth", found(&store, &key.tenant, &all, "fourth").await?, vec![(0, 1)])
}

async fn dropped(store: Arc<dyn Store>) -> Outcome {
    let (key, other) = (empty_thread(&store).await?, empty_thread(&store).await?);
    let rows = || vec![passage(0, 0, "salt"), passage(3, 1, "salt")];
    store.apply(&[index(&key, rows()), index(&other, rows())]).await?;
    store.apply(&[Write::DropIndex(key.clone())]).await?;
    let all = [segment(&key, 100)];
    same("after the drop", found(&store, &key.tenant, &all, "salt").await?, Vec::new())?;
    same("elsewhere", found(&store, &other.tenant, &[segment(&other, 100)], "salt").await?.len(), 2)?;
    store.apply(&[Write::DropIndex(key.clone()), index(&key, vec![passage(3, 1, "pepper")])]).await?;
    same("made anew", found(&store, &key.tenant, &all, "pepper salt").await?, vec![(3, 1)])?;
    store.apply(&[Write::DropIndex(super::fixture::key(&tenant()?, "nobody")?)]).await?;
    Ok(())
}

async fn scrubbed(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 3).await?;
    let all = [segment(&key, 100)];
    store.apply(&[index(&key, vec![passage(0, 0, "old word"), passage(1, 0, "gone")]), event(&key, "e")]).await?;
    store.apply(&[Write::DropIndex(key.clone()), index(&key, vec![passage(0, 0, "new word")])]).await?;
    let before = (store.messages(&key, 0..3).await?, store.events(&key, 0, 9).await?);
    store.scrub().await?;
    same("the rows", (store.messages(&key, 0..3).await?, store.events(&key, 0, 9).await?), before)?;
    same("what is indexed", found(&store, &key.tenant, &all, "word").await?, vec![(0, 0)])?;
    same("what was dropped", found(&store, &key.tenant, &all, "gone").await?, Vec::new())?;
    store.apply(&[index(&key, vec![passage(2, 0, "later")])]).await?;
    same("what is indexed later", found(&store, &key.tenant, &all, "later").await?, vec![(2, 0)])
}

async fn nowhere(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "nobody")?;
    conflicts("the passages", store.apply(&[index(&key, vec![passage(0, 0, "word")])]).await)
}

async fn scripts(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let words = ["größe", "naïve", "日本語", "данные", "मराठी", "42", "x86", "été", "ete", "ｆｕｌｌ", "𝔘𝔫𝔦", "עברית"];
    let rows = words.iter().zip(0..).map(|(word, place)| passage(place, 0, word)).collect();
    store.apply(&[index(&key, rows)]).await?;
    for (word, place) in words.iter().zip(0..) {
        let answer = found(&store, &key.tenant, &[segment(&key, 100)], word).await?;
        same(&format!("the answer for {word}"), answer, vec![(place, 0)])?;
    }
    same("the answer for a part", found(&store, &key.tenant, &[segment(&key, 100)], "日本").await?, Vec::new())
}

async fn operators(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let words = ["and", "or", "not", "near", "the", "null"];
    let rows = words.iter().zip(0..).map(|(word, place)| passage(place, 0, word)).collect();
    store.apply(&[index(&key, rows)]).await?;
    let all = [segment(&key, 100)];
    for (word, place) in words.iter().zip(0..) {
        same(&format!("the answer for {word}"), found(&store, &key.tenant, &all, word).await?, vec![(place, 0)])?;
    }
    for broken in ["\"", "'", "a'b", "(", "*", "a:b", "-", "\\", "a & b | !c", "^"] {
        found(&store, &key.tenant, &all, broken).await?;
    }
    Ok(())
}

async fn nothing(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let bare = IndexRow { terms: Vec::new(), ..passage(0, 0, "") };
    store.apply(&[index(&key, vec![bare, passage(1, 0, "word")]), index(&key, Vec::new())]).await?;
    let all = [segment(&key, 100)];
    same("no term", store.search(&key.tenant, &all, &[], SearchOrder::Best, 10).await?, Vec::new())?;
    same("an empty term", found(&store, &key.tenant, &all, "").await?, Vec::new())?;
    same("a term twice", found(&store, &key.tenant, &all, "word word").await?, vec![(1, 0)])
}
