//! Vectors of passages.

use std::sync::Arc;

use epitome_runtime::ids::ThreadKey;
use epitome_runtime::store::{Nearest, Store, StoreError, StoredVector, VectorRow, Write};

use super::fixture::{create, empty_thread, found, index, key, passage, segment, tenant};
use super::{Outcome, claims, conflicts, holds, same};

claims! {
    "a vector is read back as it was put, and those of the newest passages first" => read_back,
    "a vector that is put again takes the place of the one before" => replaced,
    "the passages without a vector of a space are named, the newest first" => unembedded,
    "a vector is found in its own thread and its tenant alone" => isolated,
    "vectors of a thread that is not there are a conflict, and nothing of their batch stays" => nowhere,
    "an index that is dropped and a store that is written anew keep their vectors" => kept,
    "a store that compares vectors by itself finds the nearest, within its segments and the space" => nearest,
    "a store does not compare what is sealed" => sealed,
}

const SPACE: &str = "small model";

fn vector(place: u64, passage: u32, numbers: &[f32]) -> VectorRow {
    VectorRow { place, passage, space: SPACE.to_owned(), vector: StoredVector::Plain(numbers.to_vec()) }
}

fn put(key: &ThreadKey, rows: Vec<VectorRow>) -> Write {
    Write::PutVectors { key: key.clone(), rows }
}

const END: (u64, u32) = (u64::MAX, u32::MAX);

async fn read_back(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let wide: Vec<f32> = (0..3_072).map(|at| (at as f32).sin() / 55.4).collect();
    let rows = vec![
        vector(9, 1, &[0.1, -0.000_000_3, 1e-30]),
        vector(9, 0, &wide),
        VectorRow { vector: StoredVector::Sealed(vec![0, 165, 255]), ..vector(2, 7, &[]) },
        vector(0, 0, &[1.0]),
    ];
    let shuffled = vec![rows[2].clone(), rows[0].clone(), rows[3].clone(), rows[1].clone()];
    store.apply(&[put(&key, shuffled)]).await?;
    same("all of them", store.vectors(&key, END, 10).await?, rows.clone())?;
    same("the first two", store.vectors(&key, END, 2).await?, rows[..2].to_vec())?;
    same("those before a passage", store.vectors(&key, (9, 1), 10).await?, rows[1..].to_vec())?;
    same("those before a message", store.vectors(&key, (9, 0), 1).await?, rows[2..3].to_vec())?;
    same("those before the first", store.vectors(&key, (0, 0), 10).await?, Vec::new())?;
    same("of nobody", store.vectors(&super::fixture::key(&tenant()?, "nobody")?, END, 10).await?, Vec::new())
}

async fn replaced(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    store.apply(&[put(&key, vec![vector(3, 0, &[1.0, 0.0])])]).await?;
    let other = VectorRow { space: "another".into(), vector: StoredVector::Sealed(vec![7]), ..vector(3, 0, &[]) };
    store.apply(&[put(&key, vec![other.clone()])]).await?;
    same("the vector", store.vectors(&key, END, 10).await?, vec![other])?;
    store.apply(&[put(&key, vec![vector(3, 0, &[0.0, 1.0])]), put(&key, Vec::new())]).await?;
    same("the next one", store.vectors(&key, END, 10).await?, vec![vector(3, 0, &[0.0, 1.0])])
}

async fn unembedded(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let rows = vec![passage(1, 0, "one"), passage(4, 0, "four"), passage(4, 1, "more"), passage(8, 0, "eight")];
    store.apply(&[index(&key, rows)]).await?;
    let open = async |space: &str, limit: usize| -> Result<Vec<(u64, u32)>, StoreError> {
        store.unembedded(&key, space, limit).await
    };
    same("all", open(SPACE, 10).await?, vec![(8, 0), (4, 1), (4, 0), (1, 0)])?;
    same("the newest two", open(SPACE, 2).await?, vec![(8, 0), (4, 1)])?;
    store.apply(&[put(&key, vec![vector(8, 0, &[1.0]), vector(4, 0, &[1.0])])]).await?;
    same("the others", open(SPACE, 10).await?, vec![(4, 1), (1, 0)])?;
    same("in another space", open("another", 10).await?.len(), 4)?;
    same("of nobody", store.unembedded(&super::fixture::key(&tenant()?, "nobody")?, SPACE, 10).await?, Vec::new())
}

async fn isolated(store: Arc<dyn Store>) -> Outcome {
    let own = empty_thread(&store).await?;
    let beside = key(&own.tenant, "beside")?;
    // The same name with another tenant.
    let foreign = ThreadKey::new(tenant()?, own.thread.clone());
    store.apply(&[create(&beside), create(&foreign)]).await?;
    for (at, key) in [&own, &beside, &foreign].into_iter().enumerate() {
        store
            .apply(&[index(key, vec![passage(0, 0, "word")]), put(key, vec![vector(0, 0, &[at as f32, 1.0])])])
            .await?;
    }
    same("its own", store.vectors(&own, END, 10).await?, vec![vector(0, 0, &[0.0, 1.0])])?;
    same("the tenant's other thread's", store.vectors(&beside, END, 10).await?, vec![vector(0, 0, &[1.0, 1.0])])?;
    same("another tenant's", store.vectors(&foreign, END, 10).await?, vec![vector(0, 0, &[2.0, 1.0])])?;
    let near = store.nearest(&foreign.tenant, &[segment(&beside, 9)], SPACE, &[1.0, 1.0], 10).await?;
    same("near for another tenant", near.map_or(0, |near| near.neighbors.len()), 0)
}

async fn nowhere(store: Arc<dyn Store>) -> Outcome {
    let (key, nobody) = (empty_thread(&store).await?, key(&tenant()?, "nobody")?);
    store.apply(&[put(&key, vec![vector(0, 0, &[1.0])])]).await?;
    let batch = [put(&key, vec![vector(0, 0, &[2.0]), vector(1, 0, &[2.0])]), put(&nobody, vec![vector(0, 0, &[1.0])])];
    conflicts("the batch", store.apply(&batch).await)?;
    same("what there was", store.vectors(&key, END, 10).await?, vec![vector(0, 0, &[1.0])])
}

async fn kept(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let rows = || vec![passage(0, 0, "salt")];
    store.apply(&[index(&key, rows()), put(&key, vec![vector(0, 0, &[1.0, 0.5])])]).await?;
    store.apply(&[Write::DropIndex(key.clone()), index(&key, rows())]).await?;
    store.scrub().await?;
    same("the vectors", store.vectors(&key, END, 10).await?, vec![vector(0, 0, &[1.0, 0.5])])?;
    same("the index", found(&store, &key.tenant, &[segment(&key, 9)], "salt").await?, vec![(0, 0)])
}

async fn nearest(store: Arc<dyn Store>) -> Outcome {
    let parent = empty_thread(&store).await?;
    let fork = key(&parent.tenant, "fork")?;
    store.apply(&[create(&fork)]).await?;
    let other = VectorRow { space: "another".into(), ..vector(4, 0, &[1.0, 0.0]) };
    store
        .apply(&[
            put(&parent, vec![vector(0, 0, &[0.0, 1.0]), vector(1, 2, &[0.8, 0.6]), vector(7, 0, &[1.0, 0.0])]),
            put(&fork, vec![vector(1, 2, &[0.8, 0.6]), vector(5, 0, &[-1.0, 0.0]), other]),
        ])
        .await?;
    let segments = [segment(&parent, 4), segment(&fork, 9)];
    let Some(Nearest { neighbors, typical }) = store.nearest(&parent.tenant, &segments, SPACE, &[1.0, 0.0], 2).await?
    else {
        return Ok(());
    };
    let places: Vec<(u64, u32)> = neighbors.iter().map(|near| (near.place, near.passage)).collect();
    same("the nearest two", places, vec![(1, 2), (0, 0)])?;
    let similar = |at: usize, wanted: f64| (neighbors[at].similarity - wanted).abs() < 1e-4;
    holds("their similarity is the cosine", similar(0, 0.8) && similar(1, 0.0))?;
    holds(&format!("the median is 0, and not {typical}"), typical.abs() < 1e-4)?;
    let none = store.nearest(&parent.tenant, &[], SPACE, &[1.0, 0.0], 2).await?;
    same("in no segment", none.map_or(0, |near| near.neighbors.len()), 0)
}

async fn sealed(store: Arc<dyn Store>) -> Outcome {
    let key = empty_thread(&store).await?;
    let closed = VectorRow { vector: StoredVector::Sealed(vec![165, 1]), ..vector(1, 0, &[]) };
    store.apply(&[put(&key, vec![vector(0, 0, &[1.0, 0.0]), closed])]).await?;
    same(
        "an answer without the sealed one",
        store.nearest(&key.tenant, &[segment(&key, 9)], SPACE, &[1.0, 0.0], 9).await?,
        None,
    )
}
