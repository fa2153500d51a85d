//! Events.

use std::sync::Arc;

use super::fixture::{empty_thread, event, event_row, key, tenant};
use super::{Outcome, claims, conflicts, same};
use epitome_runtime::store::{EventRow, Store, Write};

claims! {
    "events are numbered from 1 within their thread, whatever number they came with" => numbered,
    "events are read oldest first, after a number, as many as asked for" => paged,
    "events that race get a number each" => race,
    "an event of a thread that is not there is a conflict" => nowhere,
    "an event sealed anew is read back and nothing else of it changes" => resealed,
}

async fn numbered(store: Arc<dyn Store>) -> Outcome {
    let (one, two) = (empty_thread(&store).await?, empty_thread(&store).await?);
    let odd = Write::AddEvent { key: one.clone(), event: EventRow { number: 77, ..event_row("b") } };
    store.apply(&[event(&one, "a"), event(&two, "x"), odd]).await?;
    store.apply(&[event(&one, "c")]).await?;
    let wanted = ["a", "b", "c"].iter().zip(1..).map(|(text, number)| EventRow { number, ..event_row(text) });
    same("the events", store.events(&one, 0, 10).await?, wanted.collect())?;
    same("the others", store.events(&two, 0, 10).await?, vec![EventRow { number: 1, ..event_row("x") }])
}

async fn paged(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&["a", "b", "c", "d", "e"].map(|text| event(&key, text))).await?;
    let numbers = |rows: Vec<EventRow>| rows.into_iter().map(|event| event.number).collect::<Vec<_>>();
    same("the first two", numbers(store.events(&key, 0, 2).await?), vec![1, 2])?;
    same("after the second", numbers(store.events(&key, 2, 2).await?), vec![3, 4])?;
    same("after the fourth", numbers(store.events(&key, 4, usize::MAX).await?), vec![5])?;
    same("after the last", numbers(store.events(&key, 5, 2).await?), Vec::new())?;
    same("after the end of numbers", numbers(store.events(&key, u64::MAX, 2).await?), Vec::new())
}

async fn race(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let writes = [event(&key, "a"), event(&key, "b")];
    for answer in futures_util::future::join_all((0..8).map(|_| store.apply(&writes))).await {
        answer?;
    }
    let numbers = store.events(&key, 0, 100).await?.into_iter().map(|event| event.number);
    same("the numbers", numbers.collect::<Vec<_>>(), (1..=16).collect())
}

async fn nowhere(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "nobody")?;
    conflicts("the event", store.apply(&[event(&key, "a")]).await)?;
    same("the events", store.events(&key, 0, 10).await?, Vec::new())
}

async fn resealed(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let reseal = |number| Write::ResealEvent { key: key.clone(), number, body: b"anew".to_vec() };
    store.apply(&[event(&key, "a"), event(&key, "b"), reseal(1)]).await?;
    let wanted = [EventRow { number: 1, ..event_row("anew") }, EventRow { number: 2, ..event_row("b") }];
    same("the events", store.events(&key, 0, 10).await?, wanted.to_vec())?;
    conflicts("sealing an event that is not there", store.apply(&[reseal(3)]).await)
}
