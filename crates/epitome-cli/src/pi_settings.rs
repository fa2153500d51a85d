//! pi's own settings for compaction: three values of `settings.json`, read where pi reads them.
//!
//! They are numbers and a switch, and nothing else is taken from these files: neither an address nor a command, whoever wrote them.

use std::path::{Path, PathBuf};

use epitome::budget::{Threshold, Tokens};
use epitome::policy::{Policy, Preset};
use epitome::session::{Format, Session};
use epitome_runtime::config::Environment;
use serde::Deserialize;
use serde_json::{Value, json};

/// The policy that stands for pi's own.
const PRESET: &str = "pi";
/// A larger file is none of pi's.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The share of its reserve that pi lets a summary take.
const SUMMARY_SHARE: f64 = 0.8;

/// A value, with the file that it is from.
type Sourced<T> = Option<(T, PathBuf)>;

/// What pi's settings say of compaction.
#[derive(Debug, Default)]
pub struct PiSettings {
    enabled: Sourced<bool>,
    reserve: Sourced<u64>,
    keep_recent: Sourced<u64>,
    /// Files that are no JSON, or hold other kinds of values.
    unreadable: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct SettingsFile {
    #[serde(default)]
    compaction: CompactionSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CompactionSettings {
    enabled: Option<bool>,
    reserve_tokens: Option<u64>,
    keep_recent_tokens: Option<u64>,
}

impl PiSettings {
    /// Reads the settings that hold for a session of pi under pi's own policy; `None` for every other session or policy.
    pub fn of(session: &Session, policy: &Policy, environment: &Environment) -> Option<PiSettings> {
        let is_pi = matches!(session.format(), Format::PiTree | Format::PiEvents);
        let own = Preset::ALL.iter().find(|preset| preset.name == PRESET)?.policy();
        (is_pi && *policy == own).then(|| PiSettings::read(&files(session, environment)))
    }

    /// Reads files of which a later one wins, value by value.
    fn read(files: &[PathBuf]) -> PiSettings {
        let mut settings = PiSettings::default();
        for file in files {
            let is_small = std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_BYTES_MAX);
            let Some(text) = is_small.then(|| std::fs::read_to_string(file).ok()).flatten() else { continue };
            match serde_json::from_str::<SettingsFile>(&text) {
                Ok(SettingsFile { compaction: own }) => {
                    settings.enabled = own.enabled.map(|on| (on, file.clone())).or(settings.enabled.take());
                    settings.reserve = own.reserve_tokens.map(|most| (most, file.clone())).or(settings.reserve.take());
                    let keep = own.keep_recent_tokens.map(|most| (most, file.clone()));
                    settings.keep_recent = keep.or(settings.keep_recent.take());
                }
                Err(_) => settings.unreadable.push(file.clone()),
            }
        }
        settings
    }

    /// Puts them into the policy.
    pub fn apply(&self, policy: &mut Policy) {
        if let Some((reserve, _)) = self.reserve {
            policy.trigger.at = Threshold::Remaining(Tokens::new(reserve));
            let most = Tokens::new(reserve).share(SUMMARY_SHARE).max(Tokens::new(1));
            (policy.summarize.tokens_max, policy.summarize.answer_max) = (most, most);
        }
        if let Some((keep, _)) = self.keep_recent {
            policy.protect.recent_tokens = Tokens::new(keep);
        }
    }

    /// Returns the file that turns automatic compaction off, if one does.
    pub fn turned_off_by(&self) -> Option<&Path> {
        self.enabled.as_ref().filter(|(on, _)| !on).map(|(_, file)| file.as_path())
    }

    /// Names each value with its file, a line for each; nothing where no file says anything.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .values()
            .into_iter()
            .map(|(name, value, file)| format!("pi's setting compaction.{name} = {value}, from {}\n", file.display()))
            .collect();
        let unreadable = self.unreadable.iter();
        lines.extend(
            unreadable.map(|file| format!("pi's settings in {} cannot be read and do not count\n", file.display())),
        );
        lines.concat()
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let entry = |(name, value, file): (&str, Value, &Path)| {
            (name.to_owned(), json!({"value": value, "from": file.display().to_string()}))
        };
        self.values().into_iter().map(entry).collect()
    }

    fn values(&self) -> Vec<(&'static str, Value, &Path)> {
        let numbers = [("reserveTokens", &self.reserve), ("keepRecentTokens", &self.keep_recent)];
        let enabled = self.enabled.as_ref().map(|(on, file)| ("enabled", json!(on), file.as_path()));
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, value)| value.as_ref().map(|(number, file)| (name, json!(number), file.as_path())));
        enabled.into_iter().chain(numbers).collect()
    }
}

/// The files that pi reads, the one that wins last: the user's own, and the project's in the folder where the session was held.
fn files(session: &Session, environment: &Environment) -> Vec<PathBuf> {
    let home = || environment.get("HOME").map(|home| Path::new(home).join(".pi").join("agent"));
    let own = environment.get("PI_CODING_AGENT_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    let header = session.source().as_str().lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let folder = header.and_then(|header| Some(PathBuf::from(header.get("cwd")?.as_str()?)));
    let folder = folder.filter(|folder| folder.is_absolute());
    let files = [own, folder.map(|folder| folder.join(".pi"))];
    files.into_iter().flatten().map(|dir| dir.join("settings.json")).collect()
}
