//! Documents.

use std::sync::Arc;

use super::fixture::{NOON, document_key, noon, put, tenant};
use super::{Outcome, claims, conflicts, holds, same};
use epitome_runtime::ids::Moment;
use epitome_runtime::store::{DocumentKey, DocumentKind, DocumentRow, Store, StoredKind, Write};

claims! {
    "a document is read back as it was put, and counts how often it was" => read_back,
    "a document is put only over the version that was expected" => expected,
    "a document that is removed is gone and begins anew" => removed,
    "documents are listed in order of their names, of one kind, from a cursor on" => listed,
    "all documents of a tenant are listed, whatever their kind, by kind and name, from a cursor on" => listed_all,
    "a vacuum removes documents that have expired before the moment, and no others" => vacuumed,
}

async fn read_back(store: Arc<dyn Store>) -> Outcome {
    let key = document_key(&tenant()?, "notes");
    same("before it is put", store.document(&key).await?, None)?;
    store.apply(&[put(&key, None, "one")]).await?;
    let row = DocumentRow { version: 1, at: NOON, expires: None, body: b"one".to_vec() };
    same("the first", store.document(&key).await?, Some(row))?;
    let (at, expires) = (noon(5), Some(noon(9)));
    let write = Write::PutDocument { key: key.clone(), expected: None, at, expires, body: b"two".to_vec() };
    store.apply(&[write]).await?;
    same(
        "the second",
        store.document(&key).await?,
        Some(DocumentRow { version: 2, at, expires, body: b"two".to_vec() }),
    )
}

async fn expected(store: Arc<dyn Store>) -> Outcome {
    let key = document_key(&tenant()?, "notes");
    conflicts("expecting what is not there", store.apply(&[put(&key, Some(1), "one")]).await)?;
    store.apply(&[put(&key, Some(0), "one")]).await?;
    conflicts("expecting nothing", store.apply(&[put(&key, Some(0), "two")]).await)?;
    store.apply(&[put(&key, Some(1), "two")]).await?;
    conflicts("expecting an older one", store.apply(&[put(&key, Some(1), "three")]).await)?;
    conflicts("expecting a later one", store.apply(&[put(&key, Some(3), "three")]).await)?;
    let held = store.document(&key).await?.map(|row| (row.version, row.body));
    same("the document", held, Some((2, b"two".to_vec())))?;
    let puts = [put(&key, Some(2), "raced")];
    let answers = futures_util::future::join_all((0..8).map(|_| store.apply(&puts))).await;
    same("how many of eight win", answers.iter().filter(|answer| answer.is_ok()).count(), 1)
}

async fn removed(store: Arc<dyn Store>) -> Outcome {
    let key = document_key(&tenant()?, "notes");
    store.apply(&[put(&key, None, "one"), put(&key, None, "two")]).await?;
    store.apply(&[Write::DeleteDocument(key.clone())]).await?;
    same("the document", store.document(&key).await?, None)?;
    store.apply(&[Write::DeleteDocument(key.clone())]).await?;
    store.apply(&[put(&key, Some(0), "three")]).await?;
    same("its version", store.document(&key).await?.map(|row| row.version), Some(1))
}

async fn listed(store: Arc<dyn Store>) -> Outcome {
    let tenant = tenant()?;
    let names = ["b", "é", "a/1", "", "Z", "a 1"];
    for name in names {
        store.apply(&[put(&document_key(&tenant, name), None, name)]).await?;
    }
    let stray = DocumentKey { kind: StoredKind::read("memor"), ..document_key(&tenant, "c") };
    store.apply(&[put(&stray, None, "another kind")]).await?;
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.documents(&tenant, DocumentKind::Memory, after.as_deref(), 4).await?;
        holds("a page has at most as many as asked for", page.len() <= 4)?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.name.clone());
        for (key, row) in page {
            same("a listed document", Some(&row), store.document(&key).await?.as_ref())?;
            found.push(key.name);
        }
    }
    same("the names", found, ["", "Z", "a 1", "a/1", "b", "é"].map(str::to_owned).to_vec())
}

async fn listed_all(store: Arc<dyn Store>) -> Outcome {
    let tenant = tenant()?;
    let kinds = DocumentKind::ALL.iter().map(|kind| StoredKind::Known(*kind));
    // Two that no version of today writes, one of them between ours.
    let kinds = kinds.chain(["", "memorandum"].map(StoredKind::read));
    let mut wanted: Vec<DocumentKey> = kinds
        .flat_map(|kind| ["b", "", "Z"].map(|name| DocumentKey { kind: kind.clone(), ..document_key(&tenant, name) }))
        .collect();
    for key in &wanted {
        store.apply(&[put(key, None, &key.name)]).await?;
    }
    wanted.sort_by(|one, other| (one.kind.name(), &one.name).cmp(&(other.kind.name(), &other.name)));
    let mut found: Vec<DocumentKey> = Vec::new();
    loop {
        let page = store.all_documents(&tenant, found.last(), 4).await?;
        holds("a page has at most as many as asked for", page.len() <= 4)?;
        if page.is_empty() {
            break;
        }
        for (key, row) in page {
            same("a listed document", Some(&row), store.document(&key).await?.as_ref())?;
            found.push(key);
        }
    }
    same("the documents", found, wanted)
}

async fn vacuumed(store: Arc<dyn Store>) -> Outcome {
    let tenant = tenant()?;
    let expiring = |name: &str, expires| Write::PutDocument {
        key: document_key(&tenant, name),
        expected: None,
        at: Moment(1),
        expires,
        body: Vec::new(),
    };
    store.apply(&[expiring("old", Some(Moment(10))), expiring("later", Some(NOON)), expiring("kept", None)]).await?;
    let removed = store.vacuum(Moment(100)).await?;
    holds("the vacuum says that it removed something", removed >= 1)?;
    let names = store.documents(&tenant, DocumentKind::Memory, None, 10).await?.into_iter().map(|(key, _)| key.name);
    same("what is left", names.collect::<Vec<_>>(), vec!["kept".to_owned(), "later".to_owned()])
}
