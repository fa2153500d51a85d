//! The folders of the library depend in one direction: each may use those before it in [`ORDER`], and none after it.

#![allow(missing_docs, reason = "this is a test")]

use std::path::{Path, PathBuf};

/// The folders and files of `src`, lowest first.
const ORDER: [&str; 15] = [
    "named_enum",
    "table",
    "message",
    "wire",
    "budget",
    "thread",
    "policy",
    "files",
    "summary",
    "plan",
    "render",
    "planner",
    "session",
    "conversation",
    "compactor",
];

#[test]
fn no_folder_uses_one_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 50, "only {} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let module = module_of(file.strip_prefix(&src).expect("a file of src"));
        let Some(own) = module.first().cloned() else { continue };
        for (line, used) in used_folders(&module, &text) {
            if rank(&used) > rank(&own) {
                wrong.push(format!("{}:{line}: `{own}` uses `{used}`, which is above it", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point up:\n{}", wrong.join("\n"));
}

#[test]
fn an_arrow_that_points_up_is_seen_however_it_is_written() {
    let render = vec!["render".to_owned(), "prompt".to_owned()];
    for (line, used) in [
        ("use crate::planner::Planner;", vec!["planner"]),
        ("use crate::{budget::Tokens, session::Session};", vec!["budget", "session"]),
        ("    let raw = crate::wire::decode_message(dialect);", vec!["wire"]),
        ("use super::super::session::Session;", vec!["session"]),
        ("use super::repair::Repair;", vec!["render"]),
        ("use crate::Conversation;", vec!["compactor"]),
        ("/// See [`crate::session::Session`].", vec![]),
        ("#[cfg(test)]\nmod tests {\n    use crate::session::Session;\n}", vec![]),
    ] {
        let found: Vec<String> = used_folders(&render, line).into_iter().map(|(_, used)| used).collect();
        assert_eq!(found, used, "{line}");
    }
}

fn rank(folder: &str) -> usize {
    ORDER.iter().position(|known| *known == folder).unwrap_or_else(|| panic!("`{folder}` is not in ORDER"))
}

/// Returns the path of the module that a file is: `render/prompt.rs` is `render::prompt`. The crate's root is empty.
fn module_of(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod" && name != "lib").collect()
}

/// Returns the folders that the shipped code of a module names, each with its line. Test code may point anywhere.
fn used_folders(module: &[String], text: &str) -> Vec<(usize, String)> {
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut used = Vec::new();
    for (at, line) in shipped.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        assert!(!line.ends_with("crate::{"), "{}:{}: write one `use` for each folder", module.join("/"), at + 1);
        for (start, _) in line.match_indices("crate::") {
            let names = first_names(&line[start + "crate::".len()..]);
            used.extend(names.into_iter().filter_map(|name| folder_of(&name)).map(|name| (at + 1, name)));
        }
        if let Some(start) = line.find("super::") {
            let ups = line[start..].split("::").take_while(|name| *name == "super").count();
            let kept = module.len().saturating_sub(ups);
            let rest = &line[start + ups * "super::".len()..];
            let names = if kept == 0 { first_names(rest) } else { vec![module[0].clone()] };
            used.extend(names.into_iter().filter_map(|name| folder_of(&name)).map(|name| (at + 1, name)));
        }
    }
    used
}

/// Returns the names that a path goes on with: one, or those of a list in braces.
fn first_names(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    match rest.strip_prefix('{') {
        Some(list) => list.split(',').map(|item| word(item.trim())).filter(|name| !name.is_empty()).collect(),
        None => vec![word(rest)],
    }
}

/// Returns the folder that a name at the crate's root stands for: types there are the compactor's, macros the tables'.
fn folder_of(name: &str) -> Option<String> {
    match name.chars().next()? {
        first if first.is_uppercase() => Some("compactor".to_owned()),
        _ if name == "embedded_table" => Some("table".to_owned()),
        _ => Some(name.to_owned()),
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            rust_files(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
            found.push(path);
        }
    }
}
