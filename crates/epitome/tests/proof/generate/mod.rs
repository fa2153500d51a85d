//! Generated threads: conversations in abstract form, and how each dialect writes them.
//!
//! A [`Script`] knows nothing of a dialect; [`encode`] writes the same script in any of the four, in any [`Style`]. The
//! same encoders turn recordings into the dialects they were not recorded in.

mod encode;
mod script;
mod style;

pub use encode::{document, messages};
pub use script::{Answer, Bit, Call, Entry, Script, finished, oddity, script, tidy};
pub use style::{Style, plain, style};
