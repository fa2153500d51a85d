//! Artifacts' metadata.

use std::sync::Arc;

use super::fixture::{artifact_row, key, noon, tenant, unique};
use super::{Outcome, claims, conflicts, same};
use epitome_runtime::store::{ArtifactRow, Sensitivity, Store, Write};

claims! {
    "an artifact is read back as it was put, by its id alone" => read_back,
    "an artifact put again keeps thread and moment, the stricter sensitivity and the later expiry" => merged,
    "an artifact that never expires goes on doing so" => everlasting,
    "an artifact is removed by its owner only" => removed,
    "artifacts are listed in order of their ids, from a cursor on" => listed,
}

fn put(row: &ArtifactRow) -> [Write; 1] {
    [Write::PutArtifact(Box::new(row.clone()))]
}

async fn read_back(store: Arc<dyn Store>) -> Outcome {
    let bare = ArtifactRow { expires: None, key_id: None, ..artifact_row(&key(&tenant()?, "thread")?, &unique("a")) };
    for sensitivity in Sensitivity::ALL {
        let row = ArtifactRow { sensitivity, id: unique("artifact"), ..bare.clone() };
        same("before it is put", store.artifact(&row.id).await?, None)?;
        store.apply(&put(&row)).await?;
        same("the artifact", store.artifact(&row.id).await?, Some(row))?;
    }
    Ok(())
}

async fn merged(store: Arc<dyn Store>) -> Outcome {
    let first = artifact_row(&key(&tenant()?, "first")?, &unique("artifact"));
    let again = ArtifactRow {
        thread: key(&first.tenant, "second")?.thread,
        at: noon(50),
        expires: Some(noon(900)),
        key_id: Some("key-2".into()),
        sensitivity: Sensitivity::Confidential,
        ..first.clone()
    };
    let wanted = ArtifactRow { thread: first.thread.clone(), at: first.at, ..again.clone() };
    store.apply(&put(&first)).await?;
    store.apply(&put(&again)).await?;
    same("the artifact", store.artifact(&first.id).await?, Some(wanted.clone()))?;
    let laxer = ArtifactRow { expires: Some(noon(1)), sensitivity: Sensitivity::Public, key_id: None, ..again };
    store.apply(&put(&laxer)).await?;
    same("the artifact put laxer", store.artifact(&first.id).await?, Some(ArtifactRow { key_id: None, ..wanted }))
}

async fn everlasting(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "thread")?;
    for (first, second) in [(None, Some(noon(5))), (Some(noon(5)), None), (None, None)] {
        let row = ArtifactRow { expires: first, ..artifact_row(&key, &unique("artifact")) };
        store.apply(&put(&row)).await?;
        store.apply(&put(&ArtifactRow { expires: second, ..row.clone() })).await?;
        same("the expiry", store.artifact(&row.id).await?.map(|row| row.expires), Some(None))?;
    }
    Ok(())
}

async fn removed(store: Arc<dyn Store>) -> Outcome {
    let row = artifact_row(&key(&tenant()?, "thread")?, &unique("artifact"));
    let stranger = tenant()?;
    store.apply(&put(&row)).await?;
    let by = |tenant| [Write::DeleteArtifact { tenant, id: row.id.clone() }];
    store.apply(&by(stranger.clone())).await?;
    same("after a stranger removed it", store.artifact(&row.id).await?, Some(row.clone()))?;
    let taken = ArtifactRow { tenant: stranger, sensitivity: Sensitivity::Public, ..row.clone() };
    conflicts("a stranger's put over it", store.apply(&put(&taken)).await)?;
    same("after a stranger put it", store.artifact(&row.id).await?, Some(row.clone()))?;
    store.apply(&by(row.tenant.clone())).await?;
    same("after its owner removed it", store.artifact(&row.id).await?, None)?;
    store.apply(&by(row.tenant.clone())).await?;
    Ok(())
}

async fn listed(store: Arc<dyn Store>) -> Outcome {
    let key = key(&tenant()?, "thread")?;
    let mark = unique("a");
    for end in ["3", "1", "2"] {
        store.apply(&put(&artifact_row(&key, &format!("{mark}-{end}")))).await?;
    }
    let ids = |rows: Vec<ArtifactRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let first = ids(store.artifacts(&key.tenant, None, 2).await?);
    same("the first page", first.clone(), vec![format!("{mark}-1"), format!("{mark}-2")])?;
    let rest = ids(store.artifacts(&key.tenant, first.last().map(String::as_str), 2).await?);
    same("the second page", rest, vec![format!("{mark}-3")])
}
