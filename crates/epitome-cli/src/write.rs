//! Replacing a file whole or not at all.
//!
//! The new content goes to a temporary file in the same folder, is flushed to the disk and takes the old one's place by
//! one rename. Permissions are kept and symbolic links followed; a read-only file is refused. Whatever goes wrong, the
//! file is as it was.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::{Exit, Failure, words};

/// What a file was like when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    len: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    /// What a file is like now.
    pub fn of(path: &Path) -> io::Result<Seen> {
        let meta = fs::metadata(path)?;
        Ok(Seen { len: meta.len(), modified: meta.modified().ok() })
    }
}

/// Puts these pieces, one after the other, in the place of a file. With `seen`, only if the file is still like that.
pub fn replace(path: &Path, pieces: &[&str], seen: Option<Seen>) -> Result<(), Failure> {
    let fails = |error: &io::Error| Failure::unwritable(path, words(error));
    let target = resolve(path);
    match fs::metadata(&target) {
        Ok(meta) if meta.is_dir() => return Err(Failure::unwritable(path, "it is a folder")),
        Ok(meta) if !meta.is_file() => return write_through(&target, pieces).map_err(|error| fails(&error)),
        // A rename asks the folder only; root may open anything, but the one who took the write bits away meant it.
        Ok(meta) if meta.permissions().readonly() => return Err(Failure::unwritable(path, "it is read-only")),
        Ok(_) => OpenOptions::new().write(true).open(&target).map(drop).map_err(|error| fails(&error))?,
        Err(_) => {}
    }
    let temporary = Temporary::beside(&target);
    temporary.fill(&target, pieces).map_err(|error| fails(&error))?;
    if let Some(seen) = seen
        && Seen::of(&target).ok() != Some(seen)
    {
        return Err(Failure::new(
            Exit::CannotWrite,
            format!("{} was changed while it was being worked on.", path.display()),
        )
        .hint("Nothing was written. Stop the agent that writes to it, or write elsewhere with `-o`."));
    }
    temporary.take_place_of(&target).map_err(|error| fails(&error))
}

/// Whether two paths lead to the same file; `-` leads to what standard input comes from.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(if path == Path::new("-") { Path::new("/dev/stdin") } else { path });
    one == other || matches!((real(one), real(other)), (Ok(one), Ok(other)) if one == other)
}

/// Where a path leads.
fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Devices and pipes cannot be replaced, only written to.
fn write_through(path: &Path, pieces: &[&str]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))
}

/// A file that is removed again unless it takes another's place.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(target: &Path) -> Self {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Temporary(target.with_file_name(format!(".{name}.epitome-{}", std::process::id())))
    }

    fn fill(&self, target: &Path, pieces: &[&str]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.0)?;
        if let Ok(meta) = fs::metadata(target) {
            fs::set_permissions(&self.0, meta.permissions())?;
        }
        pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))?;
        file.sync_all()
    }

    fn take_place_of(&self, target: &Path) -> io::Result<()> {
        // The rename leaves nothing for `drop` to remove.
        fs::rename(&self.0, target)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(folder)?.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
