//! An object store that refuses, hangs, lies, breaks off or is full: nothing is lost, and it is said what happened.

use std::time::Duration;

use epitome_runtime::artifact::{ArtifactError, DenialReason, ObjectsError, PutOptions};
use epitome_runtime::ids::{Moment, ThreadId};
use epitome_runtime::store::Store as _;
use epitome_testkit::{ObjectCall, ObjectFault};

use crate::house::{DAY, HOUR, House, options, owner, tenant};

const FAULTS: [ObjectFault; 5] =
    [ObjectFault::Refused, ObjectFault::Hung, ObjectFault::Garbage, ObjectFault::Half, ObjectFault::Full];

#[tokio::test(start_paused = true)]
async fn a_put_that_fails_leaves_no_metadata_and_works_later() {
    for fault in FAULTS {
        let house = House::new(&[("k1", 1)]);
        house.objects.fail(ObjectCall::Put, 1, fault);
        let put = house.artifacts.put(&owner("acme"), &ThreadId::new(), b"content", options()).await;
        let error = put.unwrap_err();
        assert!(error.is_passing(), "{fault:?}: {error}");
        assert_eq!(
            matches!(error, ArtifactError::Objects(ObjectsError::Full(_))),
            fault == ObjectFault::Full,
            "{error}"
        );
        assert_eq!(house.store.artifacts(&tenant("acme"), None, 9).await.unwrap(), []);

        let id = house.keep(&owner("acme"), "content", options()).await;
        assert_eq!(house.artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap().text(), "content");
        assert_eq!(house.findings("acme").await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_says_whether_it_passes_and_gives_nothing_out() {
    let cases = [
        (ObjectFault::Slow(Duration::from_secs(59)), None),
        (ObjectFault::Slow(Duration::from_secs(61)), Some(DenialReason::Unreachable)),
        (ObjectFault::Refused, Some(DenialReason::Unreachable)),
        (ObjectFault::Hung, Some(DenialReason::Unreachable)),
        (ObjectFault::Half, Some(DenialReason::Unreachable)),
        (ObjectFault::Garbage, Some(DenialReason::Damaged)),
        (ObjectFault::Full, None),
    ];
    for keys in [&[][..], &[("k1", 1)]] {
        for (fault, expected) in cases {
            let house = House::new(keys);
            let id = house.keep(&owner("acme"), "content", options()).await;
            house.objects.fail(ObjectCall::Get, 1, fault);
            let first = house.artifacts.read(&owner("acme"), &id, Moment::now()).await;
            assert_eq!(first.err().map(|denied| denied.reason()), expected, "{fault:?} {keys:?}");
            assert_eq!(house.artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap().text(), "content");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_breaks_off_is_finished_by_the_next() {
    for (call, fault) in [ObjectCall::Delete, ObjectCall::List, ObjectCall::Get]
        .into_iter()
        .flat_map(|call| FAULTS.map(|fault| (call, fault)))
    {
        let house = House::new(&[("k1", 1)]);
        let (acme, later) = (owner("acme"), Moment::now().after(2 * DAY));
        let over = PutOptions { ttl: Some(HOUR), ..options() };
        for number in 0..4 {
            house.keep(&acme, &format!("over {number}"), over).await;
            house.artifacts.put(&acme, &ThreadId::new(), format!("lost {number}").as_bytes(), options()).await.unwrap();
        }
        let kept = house.keep(&acme, "kept", options()).await;
        house.objects.fail(call, 2, fault);
        let _ = house.artifacts.sweep(later).await;
        let _ = house.artifacts.sweep(later).await;

        assert_eq!(house.artifacts.sweep(later).await.unwrap(), Default::default(), "{call:?} {fault:?}");
        assert_eq!(house.findings("acme").await, Vec::<String>::new(), "{call:?} {fault:?}");
        assert_eq!(house.artifacts.read(&acme, &kept, later).await.unwrap().text(), "kept");
    }
}

#[tokio::test(start_paused = true)]
async fn resealing_that_breaks_off_loses_nothing_and_is_finished_by_the_next() {
    for (call, fault) in
        [ObjectCall::Put, ObjectCall::Get].into_iter().flat_map(|call| FAULTS.map(|fault| (call, fault)))
    {
        let house = House::new(&[("old", 1)]);
        let acme = owner("acme");
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(house.keep(&acme, &format!("content {number}"), options()).await);
        }
        let rotated = house.rekeyed(&[("new", 2), ("old", 1)]);
        house.objects.mend();
        house.objects.fail(call, 3, fault);
        let _ = rotated.artifacts.reseal(&tenant("acme")).await;
        for (number, id) in ids.iter().enumerate() {
            let read = rotated.artifacts.read(&acme, id, Moment::now()).await.unwrap();
            assert_eq!(read.text(), format!("content {number}"), "{call:?} {fault:?}");
        }
        let rest = rotated.artifacts.reseal(&tenant("acme")).await.unwrap();
        assert!(rest.left.is_empty() && rest.resealed + rest.current == 5, "{call:?} {fault:?}: {rest:?}");
        assert_eq!(house.rekeyed(&[("new", 2)]).findings("acme").await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_of_what_cannot_be_listed_is_an_error_and_not_a_clean_bill() {
    for fault in [ObjectFault::Refused, ObjectFault::Hung, ObjectFault::Garbage, ObjectFault::Half] {
        let house = House::new(&[]);
        house.keep(&owner("acme"), "content", options()).await;
        house.objects.fail(ObjectCall::List, 1, fault);
        assert!(house.artifacts.check(&tenant("acme")).await.is_err(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_object_store_is_not_waited_for_longer_than_patience_allows() {
    let house = House::new(&[]);
    let id = house.keep(&owner("acme"), "content", options()).await;
    house.objects.fail_always(ObjectCall::Get, ObjectFault::Hung);
    let artifacts = house.artifacts.clone().with_timeout(Duration::from_secs(3));
    let begun = tokio::time::Instant::now();
    let denied = artifacts.read(&owner("acme"), &id, Moment::now()).await.unwrap_err();
    assert!(denied.is_passing());
    assert_eq!(begun.elapsed().as_secs(), 3, "by the test's own clock");
}
