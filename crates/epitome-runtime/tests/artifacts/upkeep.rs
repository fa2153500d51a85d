//! Sweeping, resealing and checking.

use std::time::{Duration, SystemTime};

use epitome_runtime::artifact::{DenialReason, PutOptions, open_url};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::store::{Store as _, Write};
use epitome_testkit::{ObjectCall, ObjectFault};
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutPayload};

use crate::house::{DAY, HOUR, House, options, owner, row_of, tenant};
use crate::places::{Folder, files};

async fn object(house: &House) -> Path {
    let listed: Vec<ObjectMeta> = house.objects.list(None).try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    listed[0].location.clone()
}

#[tokio::test]
async fn a_sweep_removes_what_is_over_and_nothing_else() {
    let house = House::new(&[("k1", 1)]);
    let (acme, now) = (owner("acme"), Moment::now());
    let over = PutOptions { ttl: Some(HOUR), ..options() };
    let later = PutOptions { ttl: Some(9 * DAY), ..options() };
    let expired = house.keep(&acme, "over", over).await;
    let kept = [house.keep(&acme, "later", later).await, house.keep(&acme, "always", options()).await];
    house.artifacts.put(&acme, &ThreadId::new(), b"never committed", options()).await.unwrap();

    let early = house.artifacts.sweep(now).await.unwrap();
    assert_eq!((early.expired, early.unreferenced, early.bytes), (0, 0, 0));
    let soon = house.artifacts.sweep(now.after(2 * HOUR)).await.unwrap();
    assert_eq!((soon.expired, soon.unreferenced), (1, 0));
    assert!(soon.bytes > 4, "{soon:?}");
    let next_day = house.artifacts.sweep(now.after(2 * DAY)).await.unwrap();
    assert_eq!((next_day.expired, next_day.unreferenced), (0, 1));

    assert_eq!(house.findings("acme").await, Vec::<String>::new());
    let denied = house.artifacts.read(&acme, &expired, now).await.unwrap_err();
    assert_eq!(denied.reason(), DenialReason::Unknown);
    for id in kept {
        house.artifacts.read(&acme, &id, now.after(2 * DAY)).await.unwrap();
    }
}

#[tokio::test]
async fn content_that_is_put_again_before_it_expires_lasts_as_long_as_the_later_one() {
    let house = House::new(&[("k1", 1)]);
    let (acme, now) = (owner("acme"), Moment::now());
    let id = house.keep(&acme, "content", PutOptions { ttl: Some(HOUR), ..options() }).await;
    house.objects.mend();
    house.keep(&acme, "content", options()).await;
    assert_eq!(house.objects.calls(), [ObjectCall::Put], "bytes that were about to be swept were relied on");
    house.artifacts.sweep(now.after(30 * DAY)).await.unwrap();
    assert_eq!(house.artifacts.read(&acme, &id, now.after(30 * DAY)).await.unwrap().text(), "content");
}

/// Makes every file of a folder this many days old.
fn age(folder: &Folder, days: u32) {
    for file in files(&folder.0) {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - days * DAY).unwrap();
    }
}

#[tokio::test]
async fn a_sweep_between_a_put_and_its_commit_leaves_the_bytes() {
    let (acme, now) = (owner("acme"), Moment::now());
    let over = PutOptions { ttl: Some(Duration::from_millis(1)), at: Moment(now.0 - 1000), ..options() };
    // The old bytes are an expired artifact's, or a crash left them there.
    for committed in [true, false] {
        let folder = Folder::new();
        let house = House::at(open_url(folder.address()).unwrap(), &[("k1", 1)]);
        house.keep(&acme, "something else of the tenant", options()).await;
        let write = house.artifacts.put(&acme, &ThreadId::new(), b"content", over).await.unwrap();
        if committed {
            house.store.apply(&[write]).await.unwrap();
        }
        age(&folder, 3);

        let write = house.artifacts.put(&acme, &ThreadId::new(), b"content", options()).await.unwrap();
        house.artifacts.sweep(now.after(Duration::from_secs(60))).await.unwrap();
        let id = row_of(&write).id.clone();
        house.store.apply(&[write]).await.unwrap();
        assert_eq!(house.artifacts.read(&acme, &id, now).await.unwrap().text(), "content", "{committed}");

        house.store.apply(&[Write::DeleteArtifact { tenant: tenant("acme"), id }]).await.unwrap();
        age(&folder, 3);
        assert_eq!(house.artifacts.sweep(now).await.unwrap().unreferenced, 1, "{committed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_artifact_that_is_put_again_during_a_sweep_is_left() {
    let house = House::new(&[]);
    let (acme, later) = (owner("acme"), Moment::now().after(2 * HOUR));
    let over = PutOptions { ttl: Some(HOUR), ..options() };
    let mut contents = ["one", "two"];
    contents.sort_by_key(|content| house.artifacts.id(&acme.tenant, content.as_bytes()));
    for content in contents {
        house.keep(&acme, content, over).await;
    }
    // The sweep has read both rows when it waits for the bytes of the first.
    house.objects.fail(ObjectCall::Get, 1, ObjectFault::Slow(Duration::from_secs(9)));
    let (swept, id) = tokio::join!(house.artifacts.sweep(later), house.keep(&acme, contents[1], options()));
    assert_eq!(swept.unwrap().expired, 1);
    assert_eq!(house.artifacts.read(&acme, &id, later).await.unwrap().text(), contents[1]);
}

#[tokio::test]
async fn a_rotated_key_is_needed_until_everything_is_resealed() {
    let house = House::new(&[("old", 1)]);
    let (acme, now) = (owner("acme"), Moment::now());
    let id = house.keep(&acme, "content", options()).await;
    let rotated = house.rekeyed(&[("new", 2), ("old", 1)]);
    let without_old = house.rekeyed(&[("new", 2)]);
    assert_eq!(rotated.artifacts.read(&acme, &id, now).await.unwrap().text(), "content");
    assert_eq!(without_old.artifacts.read(&acme, &id, now).await.unwrap_err().reason(), DenialReason::WrongKey);
    let left = without_old.artifacts.reseal(&tenant("acme")).await.unwrap().left;
    assert!(left.len() == 1 && left[0].to_string().contains("the key old, which is not configured"), "{left:?}");

    let first = rotated.artifacts.reseal(&tenant("acme")).await.unwrap();
    let second = rotated.artifacts.reseal(&tenant("acme")).await.unwrap();
    assert_eq!([(first.resealed, first.current), (second.resealed, second.current)], [(1, 0), (0, 1)]);
    let read = without_old.artifacts.read(&acme, &id, now).await.unwrap();
    assert_eq!((read.text(), read.metadata().key_id.as_deref()), ("content", Some("new")));
    assert_eq!(without_old.findings("acme").await, Vec::<String>::new());
}

#[tokio::test]
async fn what_was_put_before_there_was_a_key_is_sealed_by_resealing() {
    let plain = House::new(&[]);
    let id = plain.keep(&owner("acme"), "in plain sight", options()).await;
    let keyed = plain.rekeyed(&[("k1", 1)]);
    assert_eq!(keyed.artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap().text(), "in plain sight");
    assert_eq!(keyed.artifacts.reseal(&tenant("acme")).await.unwrap().resealed, 1);
    let bytes = keyed.objects.get(&object(&keyed).await).await.unwrap().bytes().await.unwrap();
    assert!(!bytes.windows(5).any(|window| window == b"plain"));
    assert_eq!(keyed.artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap().text(), "in plain sight");
}

#[tokio::test]
async fn metadata_that_lags_behind_its_bytes_is_found_and_set_right() {
    let house = House::new(&[("old", 1)]);
    let acme = owner("acme");
    let write = house.artifacts.put(&acme, &ThreadId::new(), b"content", options()).await.unwrap();
    house.store.apply(std::slice::from_ref(&write)).await.unwrap();
    let rotated = house.rekeyed(&[("new", 2), ("old", 1)]);
    rotated.artifacts.reseal(&tenant("acme")).await.unwrap();
    house.store.apply(&[write]).await.unwrap();
    let findings = rotated.findings("acme").await;
    assert!(findings.len() == 1 && findings[0].contains("sealed with the key new"), "{findings:?}");
    assert_eq!(rotated.artifacts.reseal(&tenant("acme")).await.unwrap().current, 1);
    assert_eq!(rotated.findings("acme").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_check_names_everything_that_is_not_as_it_was_written() {
    for keys in [&[][..], &[("k1", 1)]] {
        let house = House::new(keys);
        let id = house.keep(&owner("acme"), "content", options()).await;
        let path = object(&house).await;
        let good = house.objects.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        let flipped: Vec<u8> =
            good.iter().enumerate().map(|(at, byte)| if at == good.len() / 2 { byte ^ 1 } else { *byte }).collect();
        let cases = [
            (vec![], "does not open"),
            (flipped, if keys.is_empty() { "not what its id stands for" } else { "does not open" }),
            (
                good[..good.len() - 1].to_vec(),
                if keys.is_empty() { "not what its id stands for" } else { "does not open" },
            ),
            (vec![0; 5000], "not what its id stands for"),
        ];
        for (bytes, expected) in cases {
            house.objects.put(&path, PutPayload::from(bytes)).await.unwrap();
            let findings = house.findings("acme").await;
            assert!(findings.len() == 1 && findings[0].contains(expected) && findings[0].contains(&id), "{findings:?}");
            let denied = house.artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap_err();
            assert_eq!(denied.reason(), DenialReason::Damaged);
        }
        house.objects.delete(&path).await.unwrap();
        let stranger = Path::from(format!("{}/notes.txt", path.parts().next().unwrap().as_ref()));
        house.objects.put(&stranger, PutPayload::from_static(b"mine")).await.unwrap();
        let findings = house.findings("acme").await;
        assert!(findings[0].contains("is gone") && findings[1].contains("notes.txt"), "{findings:?}");
        house.artifacts.sweep(Moment::now().after(9 * DAY)).await.unwrap();
        assert!(house.objects.get(&stranger).await.is_ok(), "a sweep took what is not an artifact");
    }
}

#[tokio::test]
async fn more_artifacts_than_fit_a_page_are_all_looked_after() {
    let house = House::new(&[]);
    let over = PutOptions { ttl: Some(HOUR), ..options() };
    for number in 0..1203 {
        house.keep(&owner("acme"), &number.to_string(), over).await;
    }
    assert_eq!(house.findings("acme").await, Vec::<String>::new());
    assert_eq!(house.artifacts.sweep(Moment::now().after(DAY)).await.unwrap().expired, 1203);
    assert_eq!(house.store.artifacts(&tenant("acme"), None, 9).await.unwrap(), []);
}
