//! The ledger: what each request cost, and what it would have cost without the gateway.
//!
//! ```text
//! request + provider's usage ──► Charge ──► Entry { paid, without, saved }
//!                                  ▲
//!            Previous: what the client sent before, and when
//! ```
//!
//! [`Charge::entry`] is a pure function. What was paid is the provider's own usage at the price list, with every call that the
//! gateway made besides. What it would have been without the gateway is a model of the other world, told in
//! `docs/cost.md`, and in doubt it is the cheaper one: the cache of the other world never fails. A loss is written down as
//! a loss.
//!
//! It refuses to guess a currency: a model without a known price is told in input tokens.

mod book;
mod day;
mod entry;
mod previous;
mod price;
mod reading;
mod totals;

pub use book::Ledger;
pub use day::Day;
pub use entry::{Charge, Entry, Extra, ExtraKind, Request};
pub use previous::{Original, Previous};
pub use price::{Marks, Price, PriceError, PriceList, Unit};
pub use reading::{Page, entries, totals};
pub use totals::{DayTotals, Sums, Totals};
