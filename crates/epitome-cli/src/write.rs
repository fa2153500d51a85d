//! Replacing a file whole or not at all.
//!
//! The new content goes to a temporary file in the same folder, is flushed to the disk and takes the old one's place by
//! one rename. Permissions are kept, or taken over from the source, and symbolic links followed; a read-only file is
//! refused. Whatever goes wrong, the file is as it was.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::{Exit, Failure, words};

/// What stands in a temporary file's name before the number of its process.
const MARK: &str = ".epitome-";

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

/// What a file's new content was made of.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// Of no file.
    Nothing,
    /// Of another file: a new one gets its permissions.
    Other(&'a Path),
    /// Of the file itself, which must still be as it was seen.
    Itself(Seen),
}

/// Puts these pieces, one after the other, in the place of a file.
pub fn replace(path: &Path, pieces: &[&str], origin: Origin<'_>) -> Result<(), Failure> {
    let fails = |error: &io::Error| Failure::unwritable(path, words(error));
    let target = resolve(path);
    if fs::metadata(&target).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return write_through(&target, pieces).map_err(|error| fails(&error));
    }
    may_replace(path)?;
    // The store writes many files to a folder and sweeps it once.
    if !matches!(origin, Origin::Nothing) {
        sweep(folder_of(&target), |name| target.file_name().is_some_and(|own| own == name));
    }
    let temporary = Temporary::beside(&target);
    temporary.fill(permissions(&target, origin), pieces).map_err(|error| fails(&error))?;
    if let Origin::Itself(seen) = origin
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

/// Refuses to replace a file that exists, unless that was asked for. Standard output, devices and pipes hold nothing, and
/// neither does an empty file.
pub fn may_create(path: &Path, overwrite: bool) -> Result<(), Failure> {
    let is_taken = || fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    if overwrite || path == Path::new("-") || !is_taken() {
        return Ok(());
    }
    Err(Failure::new(Exit::CannotWrite, format!("{} exists already.", path.display()))
        .hint("Nothing was changed. Name another file with `-o`, or add `--overwrite` to replace this one."))
}

/// Refuses a folder and a file that is read-only. A rename would ask the folder only; root may open anything, but
/// whoever took the write bits away meant it.
pub fn may_replace(path: &Path) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::unwritable(path, why));
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => refused("it is a folder"),
        Ok(meta) if meta.is_file() && meta.permissions().readonly() => refused("it is read-only"),
        Ok(meta) if meta.is_file() => {
            OpenOptions::new().write(true).open(path).map(drop).or_else(|error| refused(&words(&error)))
        }
        _ => Ok(()),
    }
}

/// The permissions that a file keeps, or that a new one takes over; the usual ones if `None`.
fn permissions(target: &Path, origin: Origin<'_>) -> Option<Permissions> {
    match (fs::metadata(target), origin) {
        (Ok(meta), _) => Some(meta.permissions()),
        (Err(_), Origin::Other(source)) => {
            let source = fs::metadata(source).ok().filter(Metadata::is_file)?;
            Some(writable(source.permissions()))
        }
        _ => None,
    }
}

/// What is made of a read-only file can be made again.
#[cfg(unix)]
fn writable(permissions: Permissions) -> Permissions {
    Permissions::from_mode(permissions.mode() | 0o200)
}

/// What is made of a read-only file can be made again.
#[cfg(not(unix))]
fn writable(mut permissions: Permissions) -> Permissions {
    permissions.set_readonly(false);
    permissions
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

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Devices and pipes cannot be replaced, only written to.
fn write_through(path: &Path, pieces: &[&str]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))
}

/// Removes the temporary files of killed runs from a folder, those for files of the names that are `meant`.
pub fn sweep(folder: &Path, meant: impl Fn(&str) -> bool) {
    let is_left =
        |name: &str| Temporary::parse(name).is_some_and(|(target, process)| meant(target) && has_ended(process));
    // What cannot be listed or removed does no harm.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a process is known to be no more; where there is no `/proc`, nothing is known.
fn has_ended(process: u32) -> bool {
    let known = Path::new("/proc");
    known.join("self").exists() && !known.join(process.to_string()).exists()
}

/// A file that is removed again unless it takes another's place.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(target: &Path) -> Self {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Temporary(target.with_file_name(format!(".{name}{MARK}{}", std::process::id())))
    }

    /// What a name says of a temporary file: the file it was to replace, and the process that filled it.
    fn parse(name: &str) -> Option<(&str, u32)> {
        let (target, process) = name.strip_prefix('.')?.rsplit_once(MARK)?;
        Some((target, process.parse().ok()?))
    }

    fn fill(&self, permissions: Option<Permissions>, pieces: &[&str]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        if let Some(permissions) = &permissions {
            // From its first moment on nobody can open it who may not.
            options.mode(permissions.mode());
        }
        let mut file = options.open(&self.0)?;
        if let Some(permissions) = permissions {
            fs::set_permissions(&self.0, permissions)?;
        }
        pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))?;
        file.sync_all()
    }

    fn take_place_of(&self, target: &Path) -> io::Result<()> {
        // The rename leaves nothing for `drop` to remove.
        fs::rename(&self.0, target)?;
        fs::File::open(folder_of(target))?.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
