//! Files, as a conversation tells of them: which function a line belongs to, what a call changes, how a file stands now.
//!
//! ```text
//! m12 read src/cart.rs       seen whole    ─┐
//! m41 edit src/cart.rs       -old +new      ├─► FileHistory ─► its edits, the file as it stands after m57
//! m57 apply_patch …          hunks         ─┘
//! ```
//!
//! Everything is read from calls and their results; no file is opened. What a conversation does not show of a file is told as
//! unknown, and never filled in.

mod call_text;
mod edit;
mod history;
mod home;
mod printed;

pub use call_text::call_text;
pub use edit::{FileChange, FileEdit, Replacement};
pub(crate) use edit::{is_replaced_text, replacement_diff};
pub use history::{FileAction, FileEvent, FileHistory, FileNow, FilePiece};
pub use home::home_of;
pub(crate) use home::{definition_name, is_definition};
pub use printed::{FileView, is_path_of, without_gutter};
pub(crate) use printed::{gutter, printed_file};
