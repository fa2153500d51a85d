//! Plans.

use std::sync::Arc;

use super::fixture::{append, commit, empty_thread, key as named, noon, plan_row, tenant, thread_of, thread_row};
use super::{Outcome, claims, conflicts, same};
use epitome_runtime::store::{Store, ThreadRow, Write};

claims! {
    "a plan is read back as it was committed, by version and as the newest" => read_back,
    "a commit moves the thread's version and moment and nothing else" => moved,
    "a plan that is not the next version is a conflict" => out_of_turn,
    "of commits of the same version that race, one wins" => race,
    "an append does not stand in the way of a commit" => append_between,
    "a plan sealed anew is read back and nothing else of it changes" => resealed,
}

async fn read_back(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 1).await?;
    same("the plan before the first", store.plan(&key, None).await?, None)?;
    store.apply(&[commit(&key, 1), commit(&key, 2)]).await?;
    store.apply(&[commit(&key, 3)]).await?;
    same("the newest", store.plan(&key, None).await?, Some(plan_row(3)))?;
    same("an older one", store.plan(&key, Some(2)).await?, Some(plan_row(2)))?;
    same("one of the future", store.plan(&key, Some(4)).await?, None)?;
    same("version 0", store.plan(&key, Some(0)).await?, None)
}

async fn moved(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[commit(&key, 1)]).await?;
    let wanted = ThreadRow { version: 1, updated: noon(101), ..thread_row(&key) };
    same("the thread", store.thread(&key).await?, Some(wanted))
}

async fn out_of_turn(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[commit(&key, 1)]).await?;
    conflicts("the same version", store.apply(&[commit(&key, 1)]).await)?;
    conflicts("the version after the next", store.apply(&[commit(&key, 3)]).await)?;
    conflicts("version 0", store.apply(&[commit(&key, 0)]).await)?;
    same("the newest", store.plan(&key, None).await?.map(|plan| plan.version), Some(1))?;
    let nobody = named(&tenant()?, "nobody")?;
    conflicts("a plan of no thread", store.apply(&[commit(&nobody, 1)]).await)
}

async fn race(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let commits = [commit(&key, 1)];
    let answers = futures_util::future::join_all((0..8).map(|_| store.apply(&commits))).await;
    same("how many win", answers.iter().filter(|answer| answer.is_ok()).count(), 1)?;
    for lost in answers.into_iter().filter(Result::is_err) {
        conflicts("losing", lost)?;
    }
    Ok(())
}

async fn append_between(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 2).await?;
    store.apply(&[commit(&key, 1)]).await?;
    store.apply(&[append(&key, 2, 2)]).await?;
    store.apply(&[commit(&key, 2)]).await?;
    let row = store.thread(&key).await?.map(|row| (row.length, row.version));
    same("length and version", row, Some((4, 2)))
}

async fn resealed(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let reseal = |version| Write::ResealPlan { key: key.clone(), version, body: b"anew".to_vec() };
    store.apply(&[commit(&key, 1), commit(&key, 2), reseal(1)]).await?;
    let mut wanted = plan_row(1);
    wanted.body = b"anew".to_vec();
    same("the plan", store.plan(&key, Some(1)).await?, Some(wanted))?;
    same("the other", store.plan(&key, Some(2)).await?, Some(plan_row(2)))?;
    conflicts("sealing a plan that is not there", store.apply(&[reseal(3)]).await)?;
    let nobody = named(&tenant()?, "nobody")?;
    let elsewhere = Write::ResealPlan { key: nobody, version: 1, body: Vec::new() };
    conflicts("sealing a plan of no thread", store.apply(&[elsewhere]).await)
}
