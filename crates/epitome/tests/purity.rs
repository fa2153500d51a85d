//! The core is pure: no crate of its dependency tree does I/O, waits, reads a clock or draws a random number, and its own
//! source names nothing that would.

#![allow(missing_docs, reason = "this is a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that do what the core must not.
const FORBIDDEN_CRATES: [&str; 40] = [
    "async-io", "async-std", "aws-lc-rs", "chrono", "crossbeam-channel", "fastrand", "filetime", "futures", "getrandom", "hyper", "hyper-util", "instant",
    "isahc", "jiff", "memmap2", "mio", "native-tls", "notify", "object_store", "openssl", "polling", "rand", "rand_core", "rayon",
    "reqwest", "rusqlite", "rustls", "smol", "socket2", "sqlx", "surf", "tempfile", "time", "tokio", "tokio-util", "ureq", "uuid",
    "walkdir", "web-time", "zstd-sys",
];

/// Paths that the core's source must not name.
const FORBIDDEN_PATHS: [&str; 16] = [
    "std::fs", "std::net", "std::process", "std::env", "std::io", "std::time::Instant", "std::time::SystemTime", "std::os", "tokio", "async fn",
    "rand::", "SystemTime", "Instant::now", "println!", "eprintln!", "RandomState",
];

#[test]
fn no_crate_the_core_depends_on_does_io_waits_reads_a_clock_or_draws_random_numbers() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "epitome", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names are text");
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"serde_json"), "this is not the tree: {tree}");
    let found: Vec<&&str> = names.iter().filter(|name| FORBIDDEN_CRATES.contains(name)).collect();
    assert!(found.is_empty(), "the core depends on {found:?}");
}

#[test]
fn the_cores_source_names_no_file_socket_process_clock_or_random_number() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 50, "only {} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        // Tests of the core may read fixtures; what ships may not.
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (at, line) in shipped.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let named = FORBIDDEN_PATHS.iter().find(|path| line.contains(**path));
            assert!(named.is_none(), "{}:{} names {}", file.display(), at + 1, named.unwrap_or(&""));
        }
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            rust_files(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}
