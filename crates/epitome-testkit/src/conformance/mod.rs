//! The suite that every store passes: named claims, each put to the test on a live store.
//!
//! A case makes its own tenant, threads and kinds of job, so that the suite can run on a store that already holds
//! something, and twice on the same one. It takes nothing for granted but the trait; it never looks inside a back-end.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use epitome_runtime::store::MemoryStore;
//! use epitome_testkit::conformance;
//!
//! let held = conformance::run(Arc::new(MemoryStore::new())).await;
//! assert!(held.is_ok());
//! # });
//! ```

mod artifacts;
mod batches;
mod documents;
mod events;
mod fixture;
mod jobs;
mod odd;
mod plans;
mod search;
mod tenants;
mod threads;
mod vectors;

use std::pin::Pin;
use std::sync::Arc;

use epitome_runtime::store::{Store, StoreError};

/// A claim that a store has to hold.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    claim: &'static str,
    test: Test,
}

type Test = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

type Outcome = Result<(), Reason>;

impl Case {
    /// Returns the claim as a sentence.
    pub fn claim(&self) -> &'static str {
        self.claim
    }

    /// Puts the claim to the test.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), Failure> {
        (self.test)(store).await.map_err(|Reason(reason)| Failure { claim: self.claim, reason })
    }
}

/// A claim that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store does not hold that {claim}: {reason}")]
pub struct Failure {
    claim: &'static str,
    reason: String,
}

/// All claims.
pub fn cases() -> Vec<Case> {
    let groups = [
        threads::CASES,
        plans::CASES,
        batches::CASES,
        documents::CASES,
        artifacts::CASES,
        events::CASES,
        search::CASES,
        vectors::CASES,
        jobs::CASES,
        tenants::CASES,
        odd::CASES,
    ];
    groups.concat()
}

/// Puts all claims to the test, one after the other, and stops at the first that does not hold. How many there are.
pub async fn run(store: Arc<dyn Store>) -> Result<usize, Failure> {
    let cases = cases();
    for case in &cases {
        case.run(Arc::clone(&store)).await?;
    }
    Ok(cases.len())
}

/// The reason for which a claim does not hold.
#[derive(Debug)]
struct Reason(String);

impl From<StoreError> for Reason {
    fn from(error: StoreError) -> Self {
        Reason(format!("an operation failed because {error}"))
    }
}

/// The two have to be equal.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(Reason(format!("{what} is {found:?} and not {wanted:?}"))) }
}

/// Has to hold.
fn holds(what: &str, is_so: bool) -> Outcome {
    if is_so { Ok(()) } else { Err(Reason(what.to_owned())) }
}

/// Has to be a conflict.
fn conflicts<T: std::fmt::Debug>(what: &str, answer: Result<T, StoreError>) -> Outcome {
    match answer {
        Err(error) if error.is_conflict() => Ok(()),
        other => Err(Reason(format!("{what} gives {other:?} and not a conflict"))),
    }
}

/// Has to be refused or a conflict: it can never be applied.
fn is_rejected(what: &str, answer: Result<(), StoreError>) -> Outcome {
    match answer {
        Err(StoreError::Refused(_) | StoreError::Conflict(_)) => Ok(()),
        other => Err(Reason(format!("{what} gives {other:?} and is not refused"))),
    }
}

/// A table of claims over async functions of a store.
macro_rules! claims {
    ($($claim:literal => $test:ident,)*) => {
        pub(super) const CASES: &[super::Case] = &[$(
            super::Case { claim: $claim, test: |store| Box::pin($test(store)) },
        )*];
    };
}
use claims;

#[cfg(test)]
mod tests {
    use super::*;
    use epitome_runtime::store::MemoryStore;

    #[tokio::test]
    async fn the_memory_store_holds_every_claim_twice_over() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        assert_eq!(run(Arc::clone(&store)).await, Ok(cases().len()));
        assert_eq!(run(store).await, Ok(cases().len()));
    }

    #[test]
    fn no_claim_is_made_twice() {
        let claims: std::collections::BTreeSet<&str> = cases().iter().map(Case::claim).collect();
        assert_eq!(claims.len(), cases().len());
    }
}
