//! What the vault promises, stated as tests.

use proptest::prelude::*;

use super::*;

const SECRET: [u8; 32] = [7; 32];

fn key(id: &str, byte: u8) -> MasterKey {
    MasterKey::new(id.parse().unwrap(), [byte; 32])
}

fn vault(keys: &[(&str, u8)]) -> Vault {
    let mut keys = keys.iter().map(|(id, byte)| key(id, *byte));
    let keys = match keys.next() {
        Some(current) => Keys::new(current, keys.collect()),
        None => Keys::none(),
    };
    Vault::new(keys, SECRET)
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn seal(vault: &Vault, plain: &[u8]) -> Vec<u8> {
    vault.seal(&tenant("acme"), Sealing::Message, "t/7", plain)
}

fn open(vault: &Vault, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    vault.open(&tenant("acme"), Sealing::Message, "t/7", sealed)
}

const KINDS: [Sealing; 6] =
    [Sealing::Message, Sealing::Plan, Sealing::Document, Sealing::Event, Sealing::Label, Sealing::Artifact];

proptest! {
    // Each case tries every bit or every length.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_flipped_bit_is_an_error(plain in prop::collection::vec(any::<u8>(), 0..200)) {
        let vault = vault(&[("k1", 1), ("k3", 3)]);
        let mut sealed = seal(&vault, &plain);
        for bit in 0..sealed.len() * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(&vault, &sealed).is_err(), "bit {}", bit);
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn anything_cut_off_or_added_is_an_error(plain in prop::collection::vec(any::<u8>(), 0..200)) {
        let vault = vault(&[("k1", 1)]);
        let mut sealed = seal(&vault, &plain);
        for end in 0..sealed.len() {
            prop_assert!(open(&vault, &sealed[..end]).is_err(), "cut at {}", end);
        }
        sealed.push(0);
        prop_assert!(open(&vault, &sealed).is_err());
    }
}

proptest! {
    #[test]
    fn what_was_sealed_opens_as_it_was(plain in prop::collection::vec(any::<u8>(), 0..5000)) {
        for vault in [vault(&[]), vault(&[("k1", 1)]), vault(&[("k2", 2), ("k1", 1)])] {
            prop_assert_eq!(&open(&vault, &seal(&vault, &plain)).unwrap(), &plain);
        }
    }

    #[test]
    fn bytes_from_anywhere_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let vault = vault(&[("k1", 1)]);
        let marked: Vec<u8> = [&[0xa5, 2, b'k', b'1'], bytes.as_slice()].concat();
        let _ = (open(&vault, &bytes), key_id_of(&bytes), vault.needs_reseal(&bytes));
        prop_assert!(open(&vault, &marked).is_err());
    }

    #[test]
    fn no_eight_bytes_of_the_content_are_in_the_sealed_bytes(plain in "[a-z ]{8,2000}") {
        let sealed = seal(&vault(&[("k1", 1)]), plain.as_bytes());
        let windows: std::collections::HashSet<&[u8]> = sealed.windows(8).collect();
        prop_assert!(plain.as_bytes().windows(8).all(|window| !windows.contains(window)));
    }
}

#[test]
fn another_tenant_kind_or_name_does_not_open() {
    let vault = vault(&[("k1", 1)]);
    for sealed_as in KINDS {
        let sealed = vault.seal(&tenant("acme"), sealed_as, "t/7", b"content");
        for opened_as in KINDS {
            let opened = vault.open(&tenant("acme"), opened_as, "t/7", &sealed);
            assert_eq!(opened.is_ok(), opened_as == sealed_as, "{sealed_as:?} as {opened_as:?}");
        }
        for (who, name) in [("acm", "t/7"), ("acm", "et/7"), ("acme", "t/8"), ("acme", ""), ("acmet", "/7")] {
            assert_eq!(vault.open(&tenant(who), sealed_as, name, &sealed), Err(OpenError::Damaged), "{who} {name}");
        }
    }
}

#[test]
fn the_same_content_is_never_sealed_to_the_same_bytes() {
    let vault = vault(&[("k1", 1)]);
    assert_ne!(seal(&vault, b"content"), seal(&vault, b"content"));
}

#[test]
fn an_older_key_opens_until_it_is_removed() {
    let before = vault(&[("old", 1)]);
    let sealed = seal(&before, b"content");

    let rotated = vault(&[("new", 2), ("old", 1)]);
    assert_eq!(open(&rotated, &sealed).unwrap(), b"content");
    assert!(rotated.needs_reseal(&sealed) && !before.needs_reseal(&sealed));
    let resealed = seal(&rotated, b"content");
    assert_eq!((key_id_of(&sealed), key_id_of(&resealed)), (Some("old"), Some("new")));

    let after = vault(&[("new", 2)]);
    assert_eq!(open(&after, &sealed), Err(OpenError::UnknownKey("old".into())));
    assert_eq!(open(&after, &resealed).unwrap(), b"content");
}

#[test]
fn another_key_of_the_same_name_is_told_from_damage() {
    let sealed = seal(&vault(&[("k1", 1)]), b"content");
    assert_eq!(open(&vault(&[("k1", 9)]), &sealed), Err(OpenError::WrongKey));
    let mut damaged = sealed.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(open(&vault(&[("k1", 1)]), &damaged), Err(OpenError::Damaged));
}

#[test]
fn without_a_key_content_is_kept_as_it_is_and_opens_after_one_is_configured() {
    let none = vault(&[]);
    let kept = seal(&none, b"content");
    assert_eq!(kept, b"\0content");
    assert!(!none.is_sealing() && !none.needs_reseal(&kept) && key_id_of(&kept).is_none());
    let keyed = vault(&[("k1", 1)]);
    assert!(keyed.needs_reseal(&kept));
    assert_eq!(open(&keyed, &kept).unwrap(), b"content");
}

#[test]
fn sealed_bytes_do_not_open_once_every_key_is_gone() {
    let sealed = seal(&vault(&[("k1", 1)]), b"content");
    assert_eq!(open(&vault(&[]), &sealed), Err(OpenError::UnknownKey("k1".into())));
}

#[test]
fn content_addresses_differ_by_tenant_and_by_key() {
    let (a, b) = (tenant("a"), tenant("b"));
    let none = vault(&[]);
    let keyed = vault(&[("k2", 2), ("k1", 1)]);
    let other_store = Vault::new(Keys::none(), [8; 32]);
    let addresses = [&none, &keyed, &other_store].map(|vault| [vault.artifact_key(&a), vault.artifact_key(&b)]);
    let distinct: std::collections::HashSet<_> = addresses.iter().flatten().collect();
    assert_eq!(distinct.len(), 6);
    let expected = [keyed.artifact_key(&a), vault(&[("k1", 1)]).artifact_key(&a), none.artifact_key(&a)];
    assert_eq!(keyed.artifact_keys(&a), expected);
}

#[test]
fn a_tenant_keeps_its_pseudonym_under_every_key() {
    let name = vault(&[]).pseudonym(&tenant("acme"));
    assert_eq!(name.len(), 32);
    assert_eq!(vault(&[("k1", 1)]).pseudonym(&tenant("acme")), name);
    assert_ne!(vault(&[]).pseudonym(&tenant("acm")), name);
    assert_ne!(Vault::new(Keys::none(), [8; 32]).pseudonym(&tenant("acme")), name);
}

#[test]
fn terms_are_blinded_by_key_and_tenant_and_found_under_every_key() {
    let a = tenant("a");
    assert_eq!(vault(&[]).blind(&a, "invoice"), "invoice");
    assert_eq!(vault(&[]).blind_all(&a, "invoice"), ["invoice"]);

    let old = vault(&[("k1", 1)]).blind(&a, "invoice");
    let rotated = vault(&[("k2", 2), ("k1", 1)]);
    let all = rotated.blind_all(&a, "invoice");
    assert_eq!(all, [rotated.blind(&a, "invoice"), old.clone()]);
    assert!(old.len() == 16 && old.bytes().all(|digit| digit.is_ascii_hexdigit()), "{old}");
    assert_ne!(rotated.blind(&tenant("b"), "invoice"), all[0]);
    assert_ne!(rotated.blind(&a, "invoices"), all[0]);
}

#[test]
fn more_tenants_than_are_kept_at_hand_still_open() {
    let vault = vault(&[("k1", 1)]);
    let names: Vec<TenantId> = (0..TENANTS_MAX + 2).map(|number| tenant(&format!("t{number}"))).collect();
    let sealed = vault.seal(&names[0], Sealing::Label, "", b"content");
    for name in &names {
        vault.pseudonym(name);
    }
    assert_eq!(vault.open(&names[0], Sealing::Label, "", &sealed).unwrap(), b"content");
    assert!(vault.shared.tenants.read().unwrap().len() <= TENANTS_MAX);
}

#[test]
fn nothing_secret_is_in_what_is_printed_of_a_vault() {
    let printed = format!("{:?}", Vault::new(Keys::new(key("k1", 0x5a), vec![]), [0x3c; 32]));
    assert!(printed.contains("k1") && !printed.contains("90") && !printed.contains("60"), "{printed}");
}
