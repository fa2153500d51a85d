//! Refusals: the log tells each reason apart, and the requester hears the same of all but the passing one.

use std::collections::HashSet;

use epitome_runtime::artifact::{Access, ArtifactError, DenialReason, Denied, Permission, Permissions, PutOptions};
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::store::Sensitivity;
use epitome_testkit::{ObjectCall, ObjectFault};

use crate::house::{DAY, HOUR, House, options, owner, tenant};
use crate::log::Log;

/// A house, who asks, for which id, and when: one for every reason.
async fn each_reason() -> Vec<(DenialReason, House, Access, String, Moment)> {
    let now = Moment::now();
    let reader = || Access::new(tenant("acme"), "reader", Permissions::none().with(Permission::ReadArtifact));
    let mut cases = Vec::new();
    for reason in [
        DenialReason::Unknown,
        DenialReason::WrongTenant,
        DenialReason::MissingPermission,
        DenialReason::Expired,
        DenialReason::WrongKey,
        DenialReason::Damaged,
        DenialReason::Unreachable,
    ] {
        let house = House::new(&[("k1", 1)]);
        let kept = PutOptions { ttl: Some(2 * DAY), ..options() };
        let id = house.keep(&owner("acme"), "content", kept).await;
        let confidential = PutOptions { sensitivity: Sensitivity::Confidential, ..kept };
        cases.push(match reason {
            DenialReason::Unknown => (reason, house, owner("acme"), "00112233445566778899aabb".to_owned(), now),
            DenialReason::WrongTenant => (reason, house, owner("evil"), id, now),
            DenialReason::MissingPermission => {
                let id = house.keep(&owner("acme"), "hush", confidential).await;
                (reason, house, reader(), id, now)
            }
            DenialReason::Expired => (reason, house, owner("acme"), id, now.after(3 * DAY)),
            DenialReason::WrongKey => (reason, house.rekeyed(&[("k2", 2)]), owner("acme"), id, now),
            DenialReason::Damaged => {
                house.objects.fail_always(ObjectCall::Get, ObjectFault::Garbage);
                (reason, house, owner("acme"), id, now)
            }
            _ => {
                house.objects.fail_always(ObjectCall::Get, ObjectFault::Refused);
                (reason, house, owner("acme"), id, now)
            }
        });
    }
    cases
}

#[tokio::test]
async fn the_log_tells_every_reason_apart() {
    let log = Log::start();
    for (reason, house, access, id, now) in each_reason().await {
        log.take();
        let denied = house.artifacts.read(&access, &id, now).await.unwrap_err();
        assert_eq!(denied.reason(), reason);
        let lines = log.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in [
            format!("reason=\"{}\"", reason.name()),
            format!("artifact={id}"),
            format!("requester={}", access.requester),
            format!("tenant={}", access.tenant),
        ] {
            assert!(lines[0].contains(&part), "{part} is not in {}", lines[0]);
        }
    }
}

#[tokio::test]
async fn the_requester_hears_the_same_of_every_reason_that_does_not_pass() {
    let told = |denied: &Denied, id: &str| format!("{denied} / {denied:?}").replace(id, "ID");
    let (mut lasting, mut passing) = (HashSet::new(), HashSet::new());
    for (_, house, access, id, now) in each_reason().await {
        let denied = house.artifacts.read(&access, &id, now).await.unwrap_err();
        if denied.is_passing() { &mut passing } else { &mut lasting }.insert(told(&denied, &id));
    }
    let sentence = "there is no such artifact, or it is not available to you / Denied { id: \"ID\", .. }";
    assert_eq!(lasting, HashSet::from([sentence.to_owned()]));
    assert_eq!(passing.len(), 1);
}

#[tokio::test]
async fn the_event_of_a_refusal_names_the_reason_but_never_another_tenant() {
    let (at, key) = (Moment::now(), ThreadKey::new(tenant("acme"), ThreadId::new()));
    for (reason, house, access, id, now) in each_reason().await {
        let denied = house.artifacts.read(&access, &id, now).await.unwrap_err();
        let event = serde_json::to_value(denied.event(at, key.clone())).unwrap();
        let told = if reason == DenialReason::WrongTenant { "unknown" } else { reason.name() };
        assert_eq!(event["kind"], "artifact_denied");
        assert_eq!(event["details"]["reason"], told);
        assert_eq!(event["details"]["artifact"], id);
        assert_eq!(event["details"]["requester"], access.requester);
    }
}

#[tokio::test]
async fn what_is_no_id_is_refused_as_an_unknown_one_and_logged_on_one_short_line() {
    let house = House::new(&[]);
    let log = Log::start();
    let long = "a".repeat(100_000);
    for id in ["", "../../etc/passwd", "0011\n2233 reason=\"fine\"", "ABCDEFABCDEFABCDEFABCDEF", "é", long.as_str()] {
        let denied = house.artifacts.read(&owner("acme"), id, Moment::now()).await.unwrap_err();
        assert_eq!(denied.reason(), DenialReason::Unknown, "{id}");
        let line = log.take().remove(0);
        assert!(line.len() < 400 && !line.contains('\n'), "{line}");
    }
}

#[tokio::test]
async fn sensitive_content_asks_for_its_own_permission_and_metadata_does_not() {
    let house = House::new(&[]);
    let base = Permissions::none().with(Permission::ReadArtifact);
    for (sensitivity, permission) in [
        (Sensitivity::Confidential, Permission::ReadConfidential),
        (Sensitivity::Restricted, Permission::ReadRestricted),
    ] {
        let kept = PutOptions { sensitivity, ..options() };
        let id = house.keep(&owner("acme"), sensitivity.name(), kept).await;
        let all_but = Permissions::all().without(permission);
        for (permissions, fine) in [(base, false), (all_but, false), (base.with(permission), true)] {
            let access = Access::new(tenant("acme"), "reader", permissions);
            assert_eq!(house.artifacts.read(&access, &id, Moment::now()).await.is_ok(), fine, "{permissions:?}");
            assert_eq!(house.artifacts.metadata(&access, &id).await.unwrap().sensitivity, sensitivity);
        }
    }
}

#[tokio::test]
async fn without_the_permission_nothing_is_read_or_written() {
    let house = House::new(&[]);
    let id = house.keep(&owner("acme"), "content", options()).await;
    house.objects.mend();
    let nobody = Access::new(tenant("acme"), "nobody", Permissions::none());
    for denied in [
        house.artifacts.read(&nobody, &id, Moment::now()).await.unwrap_err(),
        house.artifacts.metadata(&nobody, &id).await.unwrap_err(),
    ] {
        assert_eq!(denied.reason(), DenialReason::MissingPermission);
    }
    let put = house.artifacts.put(&nobody, &ThreadId::new(), b"more", options()).await;
    assert!(matches!(put, Err(ArtifactError::NotAllowed)), "{put:?}");
    assert_eq!(house.objects.calls(), []);
}

#[tokio::test]
async fn an_artifact_is_there_until_its_time_is_over() {
    let house = House::new(&[]);
    let kept = PutOptions { ttl: Some(HOUR), ..options() };
    let id = house.keep(&owner("acme"), "content", kept).await;
    let expires = kept.at.after(HOUR);
    assert!(house.artifacts.read(&owner("acme"), &id, Moment(expires.0 - 1)).await.is_ok());
    let denied = house.artifacts.read(&owner("acme"), &id, expires).await.unwrap_err();
    assert_eq!(denied.reason(), DenialReason::Expired);
}
