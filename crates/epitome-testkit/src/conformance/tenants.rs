//! Tenants: nothing crosses from one to another.

use epitome::thread::MessageId;
use std::sync::Arc;

use super::fixture::{
    append, artifact_row, commit, create, document_key, event, found, index, job, key, noon, passage, put, segment,
    tenant, thread_of, unique, unknown_kind,
};
use super::{Outcome, claims, conflicts, holds, same};
use epitome_runtime::store::{DocumentKind, Store, Write};

claims! {
    "no method shows a tenant what another holds under the same names" => isolated,
    "no write of a tenant changes what another holds under the same names" => untouched,
    "every tenant that has anything is told, once" => told,
}

async fn isolated(store: Arc<dyn Store>) -> Outcome {
    let owner = thread_of(&store, 2).await?;
    let kind = unknown_kind();
    let artifact = artifact_row(&owner, &unique("artifact"));
    let writes = [
        commit(&owner, 1),
        event(&owner, "secret"),
        index(&owner, vec![passage(0, 0, "secret")]),
        put(&document_key(&owner.tenant, "notes"), None, "secret"),
        Write::PutArtifact(Box::new(artifact.clone())),
        Write::Enqueue(Box::new(job(&owner, &kind, noon(0)))),
    ];
    store.apply(&writes).await?;
    let stranger = tenant()?;
    let guess = key(&stranger, owner.thread.as_str())?;
    same("the thread", store.thread(&guess).await?, None)?;
    same("the threads", store.threads(&stranger, None, 10).await?, Vec::new())?;
    same("the messages", store.messages(&guess, 0..10).await?, Vec::new())?;
    same("the plan", store.plan(&guess, None).await?, None)?;
    same("an older plan", store.plan(&guess, Some(1)).await?, None)?;
    same("the document", store.document(&document_key(&stranger, "notes")).await?, None)?;
    same("the documents", store.documents(&stranger, DocumentKind::Memory, None, 10).await?, Vec::new())?;
    same("the artifacts", store.artifacts(&stranger, None, 10).await?, Vec::new())?;
    same("whose the artifact is", store.artifact(&artifact.id).await?.map(|row| row.tenant), Some(owner.tenant))?;
    same("the events", store.events(&guess, 0, 10).await?, Vec::new())?;
    same("a search", found(&store, &stranger, &[segment(&guess, 100)], "secret").await?, Vec::new())?;
    same("the job", store.job(&guess, &kind).await?, None)
}

async fn untouched(store: Arc<dyn Store>) -> Outcome {
    let owner = thread_of(&store, 1).await?;
    let notes = document_key(&owner.tenant, "notes");
    let setup =
        [commit(&owner, 1), event(&owner, "a"), index(&owner, vec![passage(0, 0, "word")]), put(&notes, None, "a")];
    store.apply(&setup).await?;
    let before = store.thread(&owner).await?;
    let stranger = key(&tenant()?, owner.thread.as_str())?;
    conflicts("an append", store.apply(&[append(&stranger, 1, 1)]).await)?;
    conflicts("a plan", store.apply(&[commit(&stranger, 2)]).await)?;
    let body = b"anew".to_vec();
    conflicts(
        "a seal",
        store.apply(&[Write::Reseal { key: stranger.clone(), place: 0, id: MessageId::ROOT, body }]).await,
    )?;
    let theirs = document_key(&stranger.tenant, "notes");
    store.apply(&[create(&stranger), append(&stranger, 0, 3), commit(&stranger, 1), event(&stranger, "b")]).await?;
    store.apply(&[put(&theirs, Some(0), "b"), Write::DeleteDocument(theirs), Write::DropIndex(stranger)]).await?;
    same("the thread", store.thread(&owner).await?, before)?;
    same("its messages", store.messages(&owner, 0..10).await?.len(), 1)?;
    same("its events", store.events(&owner, 0, 10).await?.len(), 1)?;
    same("its index", found(&store, &owner.tenant, &[segment(&owner, 9)], "word").await?.len(), 1)?;
    same("its document", store.document(&notes).await?.map(|row| row.body), Some(b"a".to_vec()))
}

async fn told(store: Arc<dyn Store>) -> Outcome {
    let (one, two, three, four) = (tenant()?, tenant()?, tenant()?, tenant()?);
    let thread = key(&one, "thread")?;
    let artifact = artifact_row(&key(&three, "thread")?, &unique("artifact"));
    let waiting = job(&key(&four, "thread")?, &unknown_kind(), noon(0));
    let writes = [
        create(&thread),
        put(&document_key(&one, "notes"), None, "a"),
        put(&document_key(&two, "notes"), None, "a"),
        Write::PutArtifact(Box::new(artifact)),
        Write::Enqueue(Box::new(waiting)),
    ];
    store.apply(&writes).await?;
    let told = store.tenants().await?;
    for tenant in [one, two, three, four] {
        same("how often a tenant is told", told.iter().filter(|other| **other == tenant).count(), 1)?;
    }
    let nobody = tenant()?;
    holds("a tenant that has nothing is told", !told.contains(&nobody))
}
