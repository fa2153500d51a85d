//! Batches: all of the writes or none.

use epitome::thread::MessageId;
use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{
    append, artifact_row, commit, create, document_key, event, finish, found, index, job, key, lease, noon, passage,
    plan_row, put, segment, thread_of, unique, unknown_kind,
};
use super::{Outcome, claims, conflicts, same};
use epitome_runtime::store::{DocumentKind, JobEnd, JobId, Sensitivity, Store, Write};

claims! {
    "a batch whose last write conflicts changes nothing, whatever came before it" => whole_or_not,
    "the writes of a batch see those before them" => in_order,
    "the same expectation twice in a batch is a conflict" => twice,
    "an empty batch is fine" => nothing,
    "one compaction is one batch" => compaction,
}

async fn whole_or_not(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 2).await?;
    let (kind, other_kind) = (unknown_kind(), unknown_kind());
    let document = document_key(&key.tenant, "notes");
    let artifact = artifact_row(&key, &unique("artifact"));
    let running = {
        let queue = Write::Enqueue(Box::new(job(&key, &kind, noon(0))));
        let passages = index(&key, vec![passage(0, 0, "old words")]);
        let artifact = Write::PutArtifact(Box::new(artifact.clone()));
        store
            .apply(&[put(&document, None, "one"), queue, passages, commit(&key, 1), event(&key, "one"), artifact])
            .await?;
        store.claim(&kind, &lease(noon(10)), noon(1)).await?
    };
    let Some(running) = running else { return super::holds("the job cannot be claimed", false) };
    let token = running.lease.as_ref().map_or(Uuid::nil(), |lease| lease.token);
    let stricter = epitome_runtime::store::ArtifactRow { sensitivity: Sensitivity::Restricted, ..artifact.clone() };
    let fork = super::fixture::key(&key.tenant, "another")?;
    let writes = [
        create(&fork),
        append(&key, 2, 3),
        commit(&key, 2),
        index(&key, vec![passage(1, 0, "new words")]),
        Write::Label { key: key.clone(), labels: b"new".to_vec() },
        put(&document, Some(1), "two"),
        put(&document_key(&key.tenant, "fresh"), Some(0), "fresh"),
        Write::DeleteDocument(document.clone()),
        Write::PutArtifact(Box::new(stricter)),
        Write::DeleteArtifact { tenant: key.tenant.clone(), id: artifact.id.clone() },
        event(&key, "two"),
        Write::Enqueue(Box::new(job(&key, &other_kind, noon(0)))),
        Write::ExtendLease { job: running.id, token, until: noon(900) },
        Write::Reseal { key: key.clone(), place: 0, id: MessageId::from_bytes([7; 32]), body: b"anew".to_vec() },
        Write::ResealPlan { key: key.clone(), version: 1, body: b"anew".to_vec() },
        Write::ResealEvent { key: key.clone(), number: 1, body: b"anew".to_vec() },
        finish(&running, JobEnd::Done),
        Write::DropIndex(key.clone()),
        Write::FinishJob { job: JobId::new(), token, end: JobEnd::Done },
    ];
    let before = store.thread(&key).await?;
    let messages = store.messages(&key, 0..10).await?;
    for last in 1..writes.len() {
        let mut batch = writes[..last].to_vec();
        batch.extend(writes.last().cloned());
        conflicts("a batch with a conflict at its end", store.apply(&batch).await)?;
    }
    same("the thread", store.thread(&key).await?, before)?;
    same("the other thread", store.thread(&fork).await?, None)?;
    same("the messages", store.messages(&key, 0..10).await?, messages)?;
    same("the newest plan", store.plan(&key, None).await?, Some(plan_row(1)))?;
    let all = [segment(&key, 10)];
    same("the index", found(&store, &key.tenant, &all, "words").await?, vec![(0, 0)])?;
    let held = store.document(&document).await?.map(|row| (row.version, row.body));
    same("the document", held, Some((1, b"one".to_vec())))?;
    same("how many documents", store.documents(&key.tenant, DocumentKind::Memory, None, 10).await?.len(), 1)?;
    same("the artifact", store.artifact(&artifact.id).await?, Some(artifact))?;
    let events = store.events(&key, 0, 10).await?.into_iter().map(|event| event.body).collect::<Vec<_>>();
    same("the events", events, vec![b"one".to_vec()])?;
    same("the running job", store.job(&key, &kind).await?, Some(running))?;
    same("the other job", store.job(&key, &other_kind).await?, None)
}

async fn in_order(store: Arc<dyn Store>) -> Outcome {
    let key = key(&super::fixture::tenant()?, "thread")?;
    let document = document_key(&key.tenant, "notes");
    let removed = Write::DeleteDocument(document.clone());
    let writes = [create(&key), append(&key, 0, 2), append(&key, 2, 1), commit(&key, 1), commit(&key, 2)];
    store.apply(&writes).await?;
    store
        .apply(&[put(&document, Some(0), "a"), put(&document, Some(1), "b"), removed, put(&document, Some(0), "c")])
        .await?;
    let row = store.thread(&key).await?.map(|row| (row.length, row.version));
    same("length and version", row, Some((3, 2)))?;
    let held = store.document(&document).await?.map(|row| (row.version, row.body));
    same("the document", held, Some((1, b"c".to_vec())))
}

async fn twice(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 1).await?;
    conflicts("an append twice", store.apply(&[append(&key, 1, 1), append(&key, 1, 1)]).await)?;
    conflicts("a plan twice", store.apply(&[commit(&key, 1), commit(&key, 1)]).await)?;
    let row = store.thread(&key).await?.map(|row| (row.length, row.version));
    same("length and version", row, Some((1, 0)))
}

async fn nothing(store: Arc<dyn Store>) -> Outcome {
    Ok(store.apply(&[]).await?)
}

async fn compaction(store: Arc<dyn Store>) -> Outcome {
    let key = thread_of(&store, 4).await?;
    let kind = unknown_kind();
    store.apply(&[Write::Enqueue(Box::new(job(&key, &kind, noon(0))))]).await?;
    let claimed = store.claim(&kind, &lease(noon(10)), noon(1)).await?;
    let Some(claimed) = claimed else { return super::holds("the job cannot be claimed", false) };
    let artifact = artifact_row(&key, &unique("artifact"));
    let work = [
        commit(&key, 1),
        index(&key, vec![passage(0, 0, "a passage")]),
        Write::PutArtifact(Box::new(artifact.clone())),
        finish(&claimed, JobEnd::Done),
    ];
    store.apply(&work).await?;
    conflicts("the same batch again", store.apply(&work).await)?;
    same("the version", store.thread(&key).await?.map(|row| row.version), Some(1))?;
    same("the artifact", store.artifact(&artifact.id).await?, Some(artifact))
}
