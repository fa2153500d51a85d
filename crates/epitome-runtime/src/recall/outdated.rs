//! Lines of a file that were found and are not in the file any more, because a later call changed it.

use std::collections::BTreeSet;

use epitome::files::{FileHistory, is_path_of, without_gutter};
use epitome::policy::Tools;

use super::entries::Entries;
use super::found::{FileLines, Found};
use super::hit::{OutdatedLines, RecallHit};
use super::{blinded, terms};
use crate::log::{Result, searched};
use crate::store::SearchOrder;

/// The most messages that are looked up for changes of one file, and the last ones of the thread, which no index has.
const MENTIONS_MAX: usize = 256;
const LAST_MESSAGES: u64 = 200;
/// So many messages behind a call its result is looked for.
const RESULT_WITHIN: u64 = 4;
/// Shorter lines, such as brackets, stand in every version of a file.
const LINE_BYTES_MIN: usize = 4;

/// Marks the lines of hits that a later message took out of their file.
pub(super) async fn mark(
    hits: &mut [RecallHit],
    found: &[Found],
    entries: &mut Entries<'_>,
    tools: &Tools,
) -> Result<()> {
    for hit in hits {
        let one = found.iter().find(|one| one.place == hit.place && one.lines_are != FileLines::No);
        let Some((file, lines_are)) = one.and_then(|one| Some((one.file()?, one.lines_are))) else { continue };
        read_changes(file, hit.place, entries).await?;
        let mut history = FileHistory::new(file, tools);
        for entry in entries.after(hit.place) {
            history.push(entry.message.number.unwrap_or_default(), &entry.message.parts);
        }
        // A history that names the file differently says nothing of these lines.
        if history.paths().iter().any(|path| is_path_of(path, file)) {
            hit.outdated = outdated_lines(hit, lines_are, &history);
        }
    }
    Ok(())
}

/// Reads the messages behind a place that may change a file.
async fn read_changes(file: &str, place: u64, entries: &mut Entries<'_>) -> Result<()> {
    let (log, row) = (entries.log, entries.row);
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    // The whole name is the last of its terms: of `auth_middleware`, not `auth`.
    let wanted: BTreeSet<String> = terms(stem).pop().into_iter().collect();
    let names = blinded(log.vault(), &row.key.tenant, &wanted);
    let (tenant, segments) = (&row.key.tenant, searched(row));
    let mentions = log.store().search(tenant, &segments, &names, SearchOrder::Newest, MENTIONS_MAX).await?;
    let mentions = mentions.iter().map(|candidate| candidate.place).filter(|mention| *mention > place);
    let with_results = mentions.flat_map(|mention| mention..=mention + RESULT_WITHIN);
    let last = row.length.saturating_sub(LAST_MESSAGES).max(place + 1)..row.length;
    entries.read(with_results.chain(last).collect::<Vec<_>>()).await
}

fn outdated_lines(hit: &RecallHit, lines_are: FileLines, history: &FileHistory<'_>) -> Vec<OutdatedLines> {
    let mut all: Vec<OutdatedLines> = Vec::new();
    for (number, line) in (*hit.lines.start()..).zip(hit.text.lines()) {
        let line = match lines_are {
            // What a diff takes out was never meant to stand.
            FileLines::Diff if !line.starts_with(['+', ' ']) => continue,
            FileLines::Diff => &line[1..],
            _ => without_gutter(line),
        };
        if line.trim().len() < LINE_BYTES_MIN {
            continue;
        }
        let after = usize::try_from(hit.place + 1).unwrap_or(usize::MAX);
        let Some(by) = history.outdated_by(after, line) else { continue };
        let by = format!("m{by}");
        match all.last_mut() {
            Some(last) if last.by == by && last.lines.end() + 1 == number => last.lines = *last.lines.start()..=number,
            _ => all.push(OutdatedLines { lines: number..=number, by }),
        }
    }
    all
}
