//! Every way that one tenant might get at another's artifacts, and that it leads nowhere.

use epitome::plan::ArtifactId;
use epitome_runtime::artifact::{Access, ArtifactError, DenialReason, Permissions};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::store::{ArtifactRow, Store, Write};
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutPayload};

use crate::house::{DAY, House, options, owner, row_of, tenant};

const SECRET: &str = "the merger is on Thursday";

async fn paths(house: &House) -> Vec<Path> {
    let listed: Vec<ObjectMeta> = house.objects.list(None).try_collect().await.unwrap();
    listed.into_iter().map(|meta| meta.location).collect()
}

#[tokio::test]
async fn a_leaked_id_does_not_read_for_another_tenant() {
    for keys in [&[][..], &[("k1", 1)]] {
        let house = House::new(keys);
        let id = house.keep(&owner("acme"), SECRET, options()).await;
        house.objects.mend();
        let almighty = Access::new(tenant("evil"), "evil-admin", Permissions::all());
        let read = house.artifacts.read(&almighty, &id, Moment::now()).await.unwrap_err();
        let metadata = house.artifacts.metadata(&almighty, &id).await.unwrap_err();
        assert_eq!((read.reason(), metadata.reason()), (DenialReason::WrongTenant, DenialReason::WrongTenant));
        assert_eq!(house.objects.calls(), [], "content was touched");
    }
}

#[tokio::test]
async fn an_unknown_id_and_anothers_id_are_refused_alike() {
    let house = House::new(&[("k1", 1)]);
    let id = house.keep(&owner("acme"), SECRET, options()).await;
    house.objects.mend();
    let (key, at) = (epitome_runtime::ids::ThreadKey::new(tenant("evil"), ThreadId::new()), Moment::now());
    let mut told = Vec::new();
    for asked in [id.as_str(), "00112233445566778899aabb"] {
        let denied = house.artifacts.read(&owner("evil"), asked, at).await.unwrap_err();
        let event = denied.event(at, key.clone());
        let told_of_it = format!("{denied} {denied:?} {event:?} {}", denied.is_passing());
        told.push((told_of_it.replace(asked, "ID"), house.objects.calls()));
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn the_same_content_has_an_id_and_bytes_of_its_own_in_every_tenant() {
    for keys in [&[][..], &[("k1", 1)]] {
        let house = House::new(keys);
        let acme = house.keep(&owner("acme"), SECRET, options()).await;
        let other = house.keep(&owner("other"), SECRET, options()).await;
        assert_ne!(acme, other);
        assert_ne!(acme, ArtifactId::of(SECRET.as_bytes()).as_str(), "the id gives a guess at the content away");
        assert_eq!(paths(&house).await.len(), 2);
        assert!(house.artifacts.read(&owner("other"), &acme, Moment::now()).await.is_err());
        assert_eq!(house.artifacts.read(&owner("other"), &other, Moment::now()).await.unwrap().text(), SECRET);
    }
}

#[tokio::test]
async fn bytes_copied_under_another_tenants_name_do_not_open() {
    for keys in [&[][..], &[("k1", 1)]] {
        let house = House::new(keys);
        let stolen = house.keep(&owner("acme"), SECRET, options()).await;
        let from = paths(&house).await.remove(0);
        let bait = house.keep(&owner("evil"), "bait", options()).await;
        let to = paths(&house).await.into_iter().find(|path| *path != from).unwrap();
        let bytes = house.objects.get(&from).await.unwrap().bytes().await.unwrap();
        house.objects.put(&to, PutPayload::from(bytes.to_vec())).await.unwrap();

        let denied = house.artifacts.read(&owner("evil"), &bait, Moment::now()).await.unwrap_err();
        assert_eq!(denied.reason(), DenialReason::Damaged, "{keys:?}");
        assert_eq!(house.artifacts.read(&owner("acme"), &stolen, Moment::now()).await.unwrap().text(), SECRET);
    }
}

#[tokio::test]
async fn metadata_moved_to_another_tenant_finds_no_bytes() {
    let house = House::new(&[("k1", 1)]);
    let write = house.artifacts.put(&owner("acme"), &ThreadId::new(), SECRET.as_bytes(), options()).await.unwrap();
    let forged = ArtifactRow { tenant: tenant("evil"), ..row_of(&write).clone() };
    let id = forged.id.clone();
    house.store.apply(&[Write::PutArtifact(Box::new(forged))]).await.unwrap();
    let denied = house.artifacts.read(&owner("evil"), &id, Moment::now()).await.unwrap_err();
    assert_eq!(denied.reason(), DenialReason::Damaged);
}

#[tokio::test]
async fn an_id_that_another_tenant_holds_is_not_taken_over() {
    let house = House::new(&[("k1", 1)]);
    let write = house.artifacts.put(&owner("acme"), &ThreadId::new(), SECRET.as_bytes(), options()).await.unwrap();
    let forged = ArtifactRow { tenant: tenant("evil"), ..row_of(&write).clone() };
    house.store.apply(&[Write::PutArtifact(Box::new(forged))]).await.unwrap();
    let again = house.artifacts.put(&owner("acme"), &ThreadId::new(), SECRET.as_bytes(), options()).await;
    assert!(matches!(&again, Err(ArtifactError::Store(error)) if error.is_conflict()), "{again:?}");
}

#[tokio::test]
async fn looking_after_one_tenant_leaves_the_others_alone() {
    let house = House::new(&[("k1", 1)]);
    let kept = house.keep(&owner("other"), SECRET, options()).await;
    let over = epitome_runtime::artifact::PutOptions { ttl: Some(crate::house::HOUR), ..options() };
    house.keep(&owner("acme"), SECRET, over).await;
    let rotated = house.rekeyed(&[("k2", 2), ("k1", 1)]);
    rotated.artifacts.reseal(&tenant("acme")).await.unwrap();
    rotated.artifacts.sweep(Moment::now().after(2 * DAY)).await.unwrap();

    let metadata = house.artifacts.metadata(&owner("other"), &kept).await.unwrap();
    assert_eq!(metadata.key_id.as_deref(), Some("k1"));
    assert_eq!(house.artifacts.read(&owner("other"), &kept, Moment::now()).await.unwrap().text(), SECRET);
    assert_eq!(rotated.findings("acme").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_name_of_a_tenant_is_in_no_path() {
    for keys in [&[][..], &[("k1", 1)]] {
        let house = House::new(keys);
        house.keep(&owner("acme"), SECRET, options()).await;
        let path = paths(&house).await.remove(0).to_string();
        assert!(!path.contains("acme"), "{path}");
    }
}
