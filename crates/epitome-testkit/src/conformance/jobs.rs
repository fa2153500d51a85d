//! The queue.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{finish, job, key, lease, noon, tenant, unknown_kind};
use super::{Outcome, Reason, claims, conflicts, holds, same};
use epitome_runtime::ids::{Moment, ThreadKey};
use epitome_runtime::store::{JobEnd, JobKind, JobRow, JobState, Lease, NewJob, Store, Write};

claims! {
    "a job is read back as it was queued" => queued,
    "a thread has one pending job of a kind at most" => deduplicated,
    "the oldest due job is claimed first, and none before its time" => claim_order,
    "a claimed job is running, has the lease and one attempt more" => claimed,
    "jobs are claimed by kind" => by_kind,
    "of workers that race for a job, one gets it" => claim_race,
    "a thread has one running job at most, whatever its kind" => one_per_thread,
    "workers that race do not get two jobs of one thread" => thread_race,
    "a job whose lease has run out goes to the next worker" => lapsed,
    "a lease that is extended does not run out at its first end" => extended,
    "a worker that no longer holds a job can neither extend nor finish it" => fenced,
    "a failed job is ready again at its next moment" => failed,
    "a job whose attempts are used up is dead and is not claimed" => used_up,
    "a done job is not claimed and lets the next one be queued" => done,
    "a thread's newest job is the one that is told" => newest,
    "a vacuum removes done and dead jobs that are old, and no pending ones" => vacuumed,
}

/// A thread's name and a kind of job that nobody else has.
fn fresh() -> Result<(ThreadKey, JobKind), Reason> {
    Ok((key(&tenant()?, "thread")?, unknown_kind()))
}

async fn enqueue(store: &Arc<dyn Store>, new: &NewJob) -> Outcome {
    Ok(store.apply(&[Write::Enqueue(Box::new(new.clone()))]).await?)
}

async fn take(store: &Arc<dyn Store>, kind: &JobKind, until: i64, now: i64) -> Result<JobRow, Reason> {
    let job = store.claim(kind, &lease(noon(until)), noon(now)).await?;
    job.ok_or_else(|| Reason(format!("there is no job to claim at {now}")))
}

async fn state(store: &Arc<dyn Store>, key: &ThreadKey, kind: &JobKind) -> Result<Option<JobState>, Reason> {
    Ok(store.job(key, kind).await?.map(|job| job.state))
}

async fn queued(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    same("before it is queued", store.job(&key, &kind).await?, None)?;
    let new = NewJob { due: noon(5), attempts_max: 7, ..job(&key, &kind, noon(2)) };
    enqueue(&store, &new).await?;
    let wanted = JobRow {
        id: new.id,
        key: key.clone(),
        kind: kind.clone(),
        state: JobState::Ready,
        attempts: 0,
        attempts_max: 7,
        due: noon(5),
        queued: noon(2),
        lease: None,
        payload: new.payload,
        error: None,
    };
    same("the job", store.job(&key, &kind).await?, Some(wanted))
}

async fn deduplicated(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    let first = job(&key, &kind, noon(0));
    let again = Write::Enqueue(Box::new(job(&key, &kind, noon(1))));
    store.apply(&[Write::Enqueue(Box::new(first.clone())), again.clone()]).await?;
    store.apply(std::slice::from_ref(&again)).await?;
    let running = take(&store, &kind, 100, 50).await?;
    same("the claimed job", running.id, first.id)?;
    store.apply(std::slice::from_ref(&again)).await?;
    same("the newest job while one runs", store.job(&key, &kind).await?.map(|job| job.id), Some(first.id))?;
    let raced = JobKind::from_name("raced");
    let writes: Vec<[Write; 1]> = (0..8).map(|_| [Write::Enqueue(Box::new(job(&key, &raced, noon(2))))]).collect();
    for answer in futures_util::future::join_all(writes.iter().map(|write| store.apply(write))).await {
        answer?;
    }
    holds("no job is left of those that raced", state(&store, &key, &raced).await? == Some(JobState::Ready))
}

async fn claim_order(store: Arc<dyn Store>) -> Outcome {
    let kind = unknown_kind();
    let tenant = tenant()?;
    let mut ids = Vec::new();
    for (name, queued, due) in [("c", 30, 40), ("a", 10, 10), ("late", 5, 900), ("b", 20, 20)] {
        let new = NewJob { due: noon(due), ..job(&key(&tenant, name)?, &kind, noon(queued)) };
        enqueue(&store, &new).await?;
        ids.push(new.id);
    }
    same("what is due before any", store.claim(&kind, &lease(noon(99)), noon(1)).await?, None)?;
    let first = take(&store, &kind, 999, 35).await?;
    let second = take(&store, &kind, 999, 35).await?;
    same("what is due before the third", store.claim(&kind, &lease(noon(999)), noon(35)).await?, None)?;
    let third = take(&store, &kind, 999, 40).await?;
    let fourth = take(&store, &kind, 999, 901).await?;
    same("the order", [first.id, second.id, third.id, fourth.id], [ids[1], ids[3], ids[0], ids[2]])
}

async fn claimed(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let lease = lease(noon(100));
    let before = store.job(&key, &kind).await?;
    let got = store.claim(&kind, &lease, noon(1)).await?;
    let wanted = before.map(|job| JobRow { state: JobState::Running, attempts: 1, lease: Some(lease), ..job });
    same("the claimed job", got.as_ref(), wanted.as_ref())?;
    same("the job as it is stored", store.job(&key, &kind).await?, wanted)
}

async fn by_kind(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    same("another kind", store.claim(&unknown_kind(), &lease(noon(9)), noon(1)).await?, None)?;
    same("the state", state(&store, &key, &kind).await?, Some(JobState::Ready))
}

async fn claim_race(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let leases: Vec<Lease> = (0..8).map(|_| lease(noon(100))).collect();
    let answers = futures_util::future::join_all(leases.iter().map(|lease| store.claim(&kind, lease, noon(1)))).await;
    let mut won = 0;
    for answer in answers {
        won += usize::from(answer?.is_some());
    }
    same("how many get it", won, 1)?;
    same("its attempts", store.job(&key, &kind).await?.map(|job| job.attempts), Some(1))
}

async fn one_per_thread(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    let other = unknown_kind();
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    enqueue(&store, &job(&key, &other, noon(0))).await?;
    let elsewhere = super::fixture::key(&key.tenant, "elsewhere")?;
    enqueue(&store, &job(&elsewhere, &other, noon(9))).await?;
    let running = take(&store, &kind, 100, 10).await?;
    same("the thread whose job is passed over", take(&store, &other, 100, 10).await?.key, elsewhere)?;
    same("while the thread is busy", store.claim(&other, &lease(noon(100)), noon(10)).await?, None)?;
    store.apply(&[finish(&running, JobEnd::Done)]).await?;
    same("after it is free", take(&store, &other, 100, 10).await?.key, key)
}

async fn thread_race(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "thread")?;
    let kinds: Vec<JobKind> = (0..6).map(|_| unknown_kind()).collect();
    for kind in &kinds {
        enqueue(&store, &job(&key, kind, noon(0))).await?;
    }
    let held = lease(noon(100));
    let answers = futures_util::future::join_all(kinds.iter().map(|kind| store.claim(kind, &held, noon(1)))).await;
    let mut won = 0;
    for answer in answers {
        won += usize::from(answer?.is_some());
    }
    same("how many jobs of the thread run", won, 1)
}

async fn lapsed(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    let other = unknown_kind();
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    enqueue(&store, &job(&key, &other, noon(0))).await?;
    let first = take(&store, &kind, 100, 1).await?;
    same("while the lease runs", store.claim(&kind, &lease(noon(500)), noon(99)).await?, None)?;
    let second = take(&store, &kind, 500, 101).await?;
    same("the job", second.id, first.id)?;
    same("its attempts", second.attempts, 2)?;
    holds("the hold is another one", second.lease != first.lease)?;
    same("another kind meanwhile", store.claim(&other, &lease(noon(500)), noon(102)).await?, None)?;
    same("another kind after the lease", take(&store, &other, 900, 501).await?.kind, other)
}

async fn extended(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let running = take(&store, &kind, 100, 1).await?;
    let token = running.lease.as_ref().map_or(Uuid::nil(), |lease| lease.token);
    store.apply(&[Write::ExtendLease { job: running.id, token, until: noon(300) }]).await?;
    same("after its first end", store.claim(&kind, &lease(noon(500)), noon(200)).await?, None)?;
    let until = store.job(&key, &kind).await?.and_then(|job| job.lease).map(|lease| lease.until);
    same("its end", until, Some(noon(300)))?;
    same("after its second end", take(&store, &kind, 500, 301).await?.id, running.id)
}

async fn fenced(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let first = take(&store, &kind, 100, 1).await?;
    let second = take(&store, &kind, 500, 101).await?;
    let stale = first.lease.as_ref().map_or(Uuid::nil(), |lease| lease.token);
    let failed = JobEnd::Failed { again: noon(0), error: "late".into() };
    let extension = Write::ExtendLease { job: first.id, token: stale, until: noon(900) };
    conflicts("an extension of a lost hold", store.apply(&[extension]).await)?;
    conflicts("finishing a lost hold", store.apply(&[finish(&first, JobEnd::Done)]).await)?;
    conflicts("failing a lost hold", store.apply(&[finish(&first, failed)]).await)?;
    same("the job", store.job(&key, &kind).await?.as_ref(), Some(&second))?;
    store.apply(&[finish(&second, JobEnd::Done)]).await?;
    conflicts("finishing twice", store.apply(&[finish(&second, JobEnd::Done)]).await)
}

async fn failed(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let running = take(&store, &kind, 100, 1).await?;
    let end = JobEnd::Failed { again: noon(50), error: "The model did not answer.".into() };
    store.apply(&[finish(&running, end)]).await?;
    let error = Some("The model did not answer.".to_owned());
    let wanted = JobRow { state: JobState::Ready, lease: None, due: noon(50), error, ..running.clone() };
    same("the job", store.job(&key, &kind).await?, Some(wanted))?;
    same("before its next moment", store.claim(&kind, &lease(noon(500)), noon(49)).await?, None)?;
    let again = take(&store, &kind, 100, 50).await?;
    same("its attempts", again.attempts, 2)?;
    store.apply(&[finish(&again, JobEnd::Done)]).await?;
    let last = store.job(&key, &kind).await?.map(|job| (job.state, job.error, job.lease));
    same("the job when it is done", last, Some((JobState::Done, None, None)))
}

async fn used_up(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    let failing = NewJob { attempts_max: 1, ..job(&key, &kind, noon(0)) };
    enqueue(&store, &failing).await?;
    let running = take(&store, &kind, 100, 1).await?;
    store.apply(&[finish(&running, JobEnd::Failed { again: noon(2), error: "no".into() })]).await?;
    same("after it failed", state(&store, &key, &kind).await?, Some(JobState::Dead))?;
    same("what is claimed then", store.claim(&kind, &lease(noon(900)), noon(500)).await?, None)?;
    enqueue(&store, &NewJob { attempts_max: 1, ..job(&key, &kind, noon(3)) }).await?;
    take(&store, &kind, 100, 4).await?;
    let behind = super::fixture::key(&key.tenant, "behind")?;
    enqueue(&store, &job(&behind, &kind, noon(5))).await?;
    same("the job after the one that lapsed", take(&store, &kind, 900, 101).await?.key, behind)?;
    let dead = store.job(&key, &kind).await?.map(|job| (job.state, job.lease, job.error.is_some()));
    same("the job that lapsed", dead, Some((JobState::Dead, None, true)))
}

async fn done(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    enqueue(&store, &job(&key, &kind, noon(0))).await?;
    let running = take(&store, &kind, 100, 1).await?;
    store.apply(&[finish(&running, JobEnd::Done)]).await?;
    same("what is claimed then", store.claim(&kind, &lease(noon(900)), noon(500)).await?, None)?;
    let next = job(&key, &kind, noon(600));
    enqueue(&store, &next).await?;
    same("the next one", take(&store, &kind, 900, 601).await?.id, next.id)
}

async fn newest(store: Arc<dyn Store>) -> Outcome {
    let (key, kind) = fresh()?;
    for queued in [10, 20, 30] {
        enqueue(&store, &job(&key, &kind, noon(queued))).await?;
        let running = take(&store, &kind, 100, queued).await?;
        store.apply(&[finish(&running, JobEnd::Done)]).await?;
    }
    same("the newest", store.job(&key, &kind).await?.map(|job| job.queued), Some(noon(30)))
}

async fn vacuumed(store: Arc<dyn Store>) -> Outcome {
    let tenant = tenant()?;
    let kind = unknown_kind();
    for (name, attempts_max, end) in [
        ("done", 2, Some(JobEnd::Done)),
        ("dead", 1, Some(JobEnd::Failed { again: Moment(3), error: "no".into() })),
        ("running", 2, None),
    ] {
        let new = NewJob { attempts_max, ..job(&key(&tenant, name)?, &kind, Moment(1)) };
        enqueue(&store, &new).await?;
        let running = take(&store, &kind, 100, 0).await?;
        store.apply(&end.map(|end| finish(&running, end)).into_iter().collect::<Vec<_>>()).await?;
    }
    enqueue(&store, &job(&key(&tenant, "ready")?, &kind, Moment(1))).await?;
    holds("the vacuum says that it removed two", store.vacuum(Moment(50)).await? >= 2)?;
    for (name, left) in [("done", false), ("dead", false), ("running", true), ("ready", true)] {
        same(&format!("whether {name} is left"), store.job(&key(&tenant, name)?, &kind).await?.is_some(), left)?;
    }
    Ok(())
}
