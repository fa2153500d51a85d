//! What artifacts promise: across tenants, about refusals, in every place, when things fail, and when looked after.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod faults;
mod house;
mod log;
mod places;
mod refusals;
mod tenants;
mod upkeep;
