//! The verbs, one file each. A verb takes what was typed and answers; only `compact` and `branch` write.

mod branch;
mod check;
mod compact;
mod count;
mod diff;
mod plan;
mod policy;
mod read;
mod show;

use crate::cli::Verb;
use crate::failure::{Answer, Failure};
use crate::paint::Paint;
use crate::progress::Progress;

/// Does what was asked.
pub fn run(verb: &Verb, paint: Paint) -> Result<Answer, Failure> {
    let _progress = subject(verb).map(|file| Progress::of(format!("Reading {}", file.display())));
    match verb {
        Verb::Compact(args) => compact::run(args, paint),
        Verb::Show(args) => show::run(args, paint),
        Verb::Plan(args) => plan::run(args, paint),
        Verb::Diff(args) => diff::run(args, paint),
        Verb::Read(args) => read::run(args),
        Verb::Branch(args) => branch::run(args),
        Verb::Check(args) => check::run(args, paint),
        Verb::Count(args) => count::run(args, paint),
        Verb::Policy(args) => policy::run(args, paint),
    }
}

/// The file that a verb is about.
fn subject(verb: &Verb) -> Option<&std::path::Path> {
    match verb {
        Verb::Compact(args) => Some(&args.planned.input.file),
        Verb::Show(args) => Some(&args.input.file),
        Verb::Plan(args) => Some(&args.input.file),
        Verb::Diff(args) => Some(&args.planned.input.file),
        Verb::Read(args) => Some(&args.input.file),
        Verb::Branch(args) => Some(&args.input.file),
        Verb::Check(args) => args.file.as_deref(),
        Verb::Count(args) => Some(&args.input.file),
        Verb::Policy(_) => None,
    }
}
