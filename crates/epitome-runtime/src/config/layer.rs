//! Layers: the values that file, environment and flags give to settings, before their types read them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, nearest};
use super::setting::{Guard, Key, WrittenValue};
use super::trust::TrustedFiles;

/// Everything that a configuration is made of, as values.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that was named on purpose; it has to exist.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The working folder.
    pub folder: PathBuf,
    /// Settings given with the command, by their names.
    pub flags: Vec<(String, String)>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody said otherwise.
    Default,
    /// The file.
    File(PathBuf, usize),
    /// A variable.
    Environment(String),
    /// The command.
    Flag,
}

impl Origin {
    /// How close to the program it is: the closer one counts.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File(..) => 1,
            Origin::Environment(_) => 2,
            Origin::Flag => 3,
        }
    }

    /// Whether both are in one file, or both outside of any.
    pub(super) fn is_same_place(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::File(path, _), Origin::File(its, _)) => path == its,
            _ => self.rank() == other.rank(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Origin::Environment(name) => write!(f, "the environment variable {name}"),
            Origin::Flag => f.write_str("the command line"),
        }
    }
}

/// The name of a configuration file in a working folder.
pub const FOLDER_FILE: &str = "epitome.toml";

/// Variables that begin like settings and are none.
const OTHERS: [&str; 5] = ["EPITOME_CONFIG", "EPITOME_FULL", "EPITOME_BLESS", "EPITOME_SEED", "EPITOME_CASES"];
const OTHERS_PREFIX: &str = "EPITOME_TEST_";

/// The written values by setting; of several, the one closest to the program.
#[derive(Debug)]
pub(super) struct Layers {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// The settings in it that do not count, because nobody trusted it.
    pub refused: Vec<&'static str>,
    keys: Vec<&'static Key>,
    values: BTreeMap<&'static str, (WrittenValue, Origin)>,
}

/// A configuration file, and who answers for it.
enum FileSource {
    /// The user's own: named on purpose, or in their own settings folder.
    Own(PathBuf),
    /// The working folder's.
    Folder(PathBuf),
}

/// Which settings of a file count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    Free,
}

impl Layers {
    /// Layers without a file, variables or flags.
    pub fn empty(keys: Vec<&'static Key>) -> Self {
        Layers { file: None, refused: Vec::new(), keys, values: BTreeMap::new() }
    }

    pub fn read(sources: &Sources, keys: Vec<&'static Key>) -> Result<Self, ConfigError> {
        let mut layers = Layers::empty(keys);
        match find(sources) {
            Some(FileSource::Own(path)) => layers.read_file(&path, &read_text(&path)?, Extent::All)?,
            Some(FileSource::Folder(path)) => layers.read_folder_file(&path, sources)?,
            None => {}
        }
        layers.read_environment(&sources.environment)?;
        layers.read_flags(&sources.flags)?;
        Ok(layers)
    }

    pub fn value_of(&self, key: &Key) -> Option<&(WrittenValue, Origin)> {
        self.values.get(key.name)
    }

    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().copied().find(|key| key.name == name)
    }

    /// A folder's file that the user trusts takes the place of their own; of another one only the free settings count,
    /// over the user's own file. So a strange folder can neither set a guarded setting nor unset the user's.
    fn read_folder_file(&mut self, path: &Path, sources: &Sources) -> Result<(), ConfigError> {
        let text = read_text(path)?;
        // What is hashed is what is parsed: the file is read once.
        let is_trusted = TrustedFiles::load(&sources.environment)?.is_some_and(|files| files.holds(path, &text));
        if is_trusted {
            return self.read_file(path, &text, Extent::All);
        }
        if let Some(own) = own_file(sources) {
            self.read_file(&own, &read_text(&own)?, Extent::All)?;
        }
        self.read_file(path, &text, Extent::Free)
    }

    fn read_file(&mut self, path: &Path, text: &str, extent: Extent) -> Result<(), ConfigError> {
        let file = TomlFile { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let line = file.line(error.span().map_or(0, |span| span.start));
            ConfigError::Syntax { path: path.to_owned(), line, problem: error.message().trim().to_owned() }
        })?;
        for (section, value) in table.get_ref() {
            self.read_section(&file, section, value, extent)?;
        }
        self.file = Some(path.to_owned());
        Ok(())
    }

    fn read_section(
        &mut self,
        file: &TomlFile<'_>,
        section: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        extent: Extent,
    ) -> Result<(), ConfigError> {
        let (name, at) = (section.get_ref(), file.origin(section.span().start));
        if !self.keys.iter().any(|key| key.name.split('.').next() == Some(name)) {
            return Err(self.unknown(name, at));
        }
        let Some(table) = value.get_ref().as_table() else {
            return Err(ConfigError::Wrong {
                key: name.to_string(),
                written: "…".to_owned(),
                at,
                allowed: format!("a table, written as [{name}]"),
            });
        };
        for (field, value) in table {
            let (name, at) = (format!("{name}.{}", field.get_ref()), file.origin(field.span().start));
            let key = self.key(&name).ok_or_else(|| self.unknown(&name, at.clone()))?;
            if extent == Extent::Free && key.guard == Guard::Guarded {
                self.refused.push(key.name);
            } else {
                self.values.insert(key.name, (file.value(value), at));
            }
        }
        Ok(())
    }

    fn read_environment(&mut self, environment: &BTreeMap<String, String>) -> Result<(), ConfigError> {
        let ours = environment.iter().filter(|(name, text)| {
            let is_ours = name.starts_with("EPITOME_") && !name.starts_with(OTHERS_PREFIX);
            is_ours && !OTHERS.contains(&name.as_str()) && !text.is_empty()
        });
        for (name, text) in ours {
            let key = self.keys.iter().find(|key| key.variable() == *name);
            let key = key.ok_or_else(|| self.unknown_variable(name))?;
            let value = WrittenValue::from_text(key.shape, text);
            self.values.insert(key.name, (value, Origin::Environment(name.clone())));
        }
        Ok(())
    }

    fn read_flags(&mut self, flags: &[(String, String)]) -> Result<(), ConfigError> {
        for (name, text) in flags {
            let key = self.key(name).ok_or_else(|| self.unknown(name, Origin::Flag))?;
            self.values.insert(key.name, (WrittenValue::from_text(key.shape, text), Origin::Flag));
        }
        Ok(())
    }

    fn unknown_variable(&self, name: &str) -> ConfigError {
        let variables: Vec<String> = self.keys.iter().map(|key| key.variable()).collect();
        let nearest = nearest(name, variables.iter().map(String::as_str)).map(str::to_owned);
        ConfigError::Unknown { name: name.to_owned(), at: Origin::Environment(name.to_owned()), nearest }
    }

    /// Suggests a section for a misspelled section and a setting for a misspelled setting; a setting outside its section
    /// is recognized by its last word.
    fn unknown(&self, name: &str, at: Origin) -> ConfigError {
        let names = || self.keys.iter().map(|key| key.name);
        let in_a_section = names().find(|known| known.rsplit('.').next() == Some(name));
        let near = || match name.contains('.') {
            true => nearest(name, names()),
            false => nearest(name, names().filter_map(|known| known.split('.').next())),
        };
        let nearest = in_a_section.or_else(near).map(str::to_owned);
        ConfigError::Unknown { name: name.to_owned(), at, nearest }
    }
}

/// The file to read: one that was named, or the first that exists.
fn find(sources: &Sources) -> Option<FileSource> {
    let named = sources.file.clone().or_else(|| path_variable(sources, "EPITOME_CONFIG"));
    if let Some(named) = named {
        return Some(FileSource::Own(sources.folder.join(named)));
    }
    let here = sources.folder.join(FOLDER_FILE);
    if here.is_file() {
        return Some(FileSource::Folder(here));
    }
    own_file(sources).map(FileSource::Own)
}

/// The file in the user's own settings folder, where there is one.
fn own_file(sources: &Sources) -> Option<PathBuf> {
    let home = path_variable(sources, "HOME").map(|home| home.join(".config"));
    let settings = path_variable(sources, "XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or(home)?;
    Some(settings.join("epitome/config.toml")).filter(|path| path.is_file())
}

fn path_variable(sources: &Sources, name: &str) -> Option<PathBuf> {
    sources.environment.get(name).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |error: std::io::Error| ConfigError::Unreadable(path.to_owned(), error.to_string());
    std::fs::read_to_string(path).map_err(unreadable)
}

/// A file's text, to find lines in.
struct TomlFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl TomlFile<'_> {
    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File(self.path.to_owned(), self.line(offset))
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> WrittenValue {
        let other = || WrittenValue::Other(self.text[value.span()].to_owned());
        match value.get_ref() {
            DeValue::String(text) => WrittenValue::Text(text.to_string()),
            DeValue::Integer(number) => {
                u64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| other(), WrittenValue::Whole)
            }
            DeValue::Boolean(flag) => WrittenValue::Flag(*flag),
            DeValue::Array(list) => {
                let texts = list.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map_or_else(other, WrittenValue::List)
            }
            _ => other(),
        }
    }
}
