//! Doubles and suites for tests of programs that embed epitome.
//!
//! | | |
//! |---|---|
//! | [`FaultyStore`] | a [`Store`](epitome_runtime::store::Store) that refuses, hangs, garbles, drops or is full on command |
//! | [`FaultyObjects`] | an object store that does the same, one kind of call at a time |
//! | [`conformance`] | the suite that every store passes; run it on your own back-end |
//!
//! A double is a real store with a script in front of it: it makes no fault by itself and none by chance. The in-memory
//! store ([`epitome_runtime::store::MemoryStore`]) and the scripted model ([`epitome_runtime::model::Scripted`]) are not here,
//! because configuration can choose them; the mock provider is `epitome-mock`. No product build depends on this crate.

pub mod conformance;
mod faulty_objects;
mod faulty_store;

pub use faulty_objects::{FaultyObjects, ObjectCall, ObjectFault};
pub use faulty_store::{FaultyStore, StoreFault};
