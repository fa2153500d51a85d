//! Everything of epitome that touches the world: what lasts, who is asked, what runs in the background.
//!
//! The core decides, as data; this crate performs. A [`store`] keeps threads, plans and jobs; a [`model`] answers
//! requests for summaries; an [`event`] tells whoever listens.

pub mod config;
pub mod event;
pub mod ids;
pub mod model;
pub mod store;
