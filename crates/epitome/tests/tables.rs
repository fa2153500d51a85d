//! Every word table of every crate: well formed, without an entry that stands twice, and used.

#![allow(missing_docs, reason = "this is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use epitome::table;

/// The tables of all crates: the crate's folder, the file's name, and its text.
fn tables() -> Vec<(PathBuf, String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut tables = Vec::new();
    for own in fs::read_dir(crates).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let Ok(data) = fs::read_dir(own.join("data")) else { continue };
        for file in data.map(|entry| entry.expect("an entry").path()) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            tables.push((own.clone(), name, fs::read_to_string(&file).expect("a text")));
        }
    }
    assert!(tables.len() >= 8, "only {} tables", tables.len());
    tables
}

/// The text of all Rust files under a folder.
fn source(folder: &Path) -> String {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        if path.is_dir() {
            source(&path)
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            fs::read_to_string(&path).expect("a source file")
        } else {
            String::new()
        }
    };
    paths.map(read).collect()
}

/// Serde refuses a list that no field names and the compiler a field that no code reads, so an embedded table is used
/// whole.
#[test]
fn every_table_is_well_formed_repeats_nothing_and_is_embedded_by_its_crate() {
    for (own, name, text) in tables() {
        assert!(name.ends_with(".toml"), "{name}: a table is a TOML file");
        assert!(text.starts_with("# "), "{name}: a table says what it is for");
        table::check(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        let embeds = format!("embedded_table!(\"{name}\")");
        assert!(source(&own.join("src")).contains(&embeds), "{name}: no code of {} reads it", own.display());
    }
}
