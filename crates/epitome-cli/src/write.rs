//! Replacing a file whole or not at all.
//!
//! The new content goes to a temporary file in the same folder, is flushed to disk, and replaces the old file by one rename.
//! Permissions are kept, or copied from the source; symbolic links are followed; a read-only file is refused. On any error
//! the file is as it was.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::{Exit, Failure, words};

/// Precedes the process id in a temporary file's name.
const MARK: &str = ".epitome-";

/// A file's size and time of change: another version means that somebody else wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    len: u64,
    modified: Option<SystemTime>,
}

impl FileVersion {
    pub fn of(path: &Path) -> io::Result<FileVersion> {
        let meta = fs::metadata(path)?;
        Ok(FileVersion { len: meta.len(), modified: meta.modified().ok() })
    }
}

/// The file that new content was made of.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    Nothing,
    /// Another file, whose permissions a new file gets.
    Other(&'a Path),
    /// The file itself, which must still be the version that was read.
    Itself(FileVersion),
}

/// Replaces a file's content with these pieces, one after the other.
pub fn replace(path: &Path, pieces: &[&str], origin: Origin<'_>) -> Result<(), Failure> {
    let fails = |error: &io::Error| Failure::unwritable(path, words(error));
    let target = resolve(path);
    if fs::metadata(&target).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return write_through(&target, pieces).map_err(|error| fails(&error));
    }
    may_replace(path)?;
    // The artifact folder, where many files are written, is swept once by its own code.
    if !matches!(origin, Origin::Nothing) {
        sweep(folder_of(&target), |name| target.file_name().is_some_and(|own| own == name));
    }
    let temporary = TemporaryFile::beside(&target);
    temporary.fill(permissions(&target, origin), pieces).map_err(|error| fails(&error))?;
    if let Origin::Itself(version) = origin
        && FileVersion::of(&target).ok() != Some(version)
    {
        return Err(Failure::new(
            Exit::CannotWrite,
            format!("{} was changed by another program meanwhile.", path.display()),
        )
        .hint("Nothing was written. Stop the agent that writes to it, or write elsewhere with `-o`."));
    }
    temporary.rename_to(&target).map_err(|error| fails(&error))
}

/// Refuses to overwrite a file that exists, unless that was asked for. Standard output, devices, pipes and empty files have
/// nothing to lose.
pub fn may_create(path: &Path, overwrite: bool) -> Result<(), Failure> {
    let is_taken = || fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    if overwrite || path == Path::new("-") || !is_taken() {
        return Ok(());
    }
    Err(Failure::new(Exit::CannotWrite, format!("{} exists already.", path.display()))
        .hint("Nothing was changed. Name another file with `-o`, or add `--overwrite` to replace this one."))
}

/// Refuses folders and read-only files. A rename alone would only need a writable folder, and root can open anything, but a
/// file without write permission is meant to stay.
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

/// Returns the permissions that a file keeps or gets; `None` for the default ones.
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

/// Adds write permission: a file made from a read-only one can be made again.
#[cfg(unix)]
fn writable(permissions: Permissions) -> Permissions {
    Permissions::from_mode(permissions.mode() | 0o200)
}

#[cfg(not(unix))]
fn writable(mut permissions: Permissions) -> Permissions {
    permissions.set_readonly(false);
    permissions
}

/// Returns whether two paths lead to the same file; `-` is the file that standard input comes from.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(if path == Path::new("-") { Path::new("/dev/stdin") } else { path });
    one == other || matches!((real(one), real(other)), (Ok(one), Ok(other)) if one == other)
}

fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes to a device or a pipe, which cannot be replaced.
fn write_through(path: &Path, pieces: &[&str]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece.as_bytes()))
}

/// Removes the temporary files that killed runs left in a folder, for targets whose names match.
pub fn sweep(folder: &Path, matches: impl Fn(&str) -> bool) {
    let is_left =
        |name: &str| TemporaryFile::parse(name).is_some_and(|(target, process)| matches(target) && has_ended(process));
    // A leftover that cannot be listed or removed does no harm.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a process has certainly ended. Without `/proc` that is never certain.
fn has_ended(process: u32) -> bool {
    let known = Path::new("/proc");
    known.join("self").exists() && !known.join(process.to_string()).exists()
}

/// A file that is removed on drop, unless it replaced its target.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn beside(target: &Path) -> Self {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        TemporaryFile(target.with_file_name(format!(".{name}{MARK}{}", std::process::id())))
    }

    /// Splits a temporary file's name into the target's name and the process id.
    fn parse(name: &str) -> Option<(&str, u32)> {
        let (target, process) = name.strip_prefix('.')?.rsplit_once(MARK)?;
        Some((target, process.parse().ok()?))
    }

    fn fill(&self, permissions: Option<Permissions>, pieces: &[&str]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        if let Some(permissions) = &permissions {
            // Set at creation: there must be no moment in which others can open it.
            options.mode(permissions.mode());
        }
        let file = options.open(&self.0)?;
        if let Some(permissions) = permissions {
            fs::set_permissions(&self.0, permissions)?;
        }
        let mut out = io::BufWriter::new(&file);
        pieces.iter().try_for_each(|piece| out.write_all(piece.as_bytes()))?;
        out.flush()?;
        drop(out);
        file.sync_all()
    }

    fn rename_to(&self, target: &Path) -> io::Result<()> {
        // The rename leaves nothing for `drop` to remove.
        fs::rename(&self.0, target)?;
        fs::File::open(folder_of(target))?.sync_all()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
