use std::collections::BTreeMap;

use epitome::budget::Tokens;
use epitome::wire::Dialect;

use super::*;

/// A folder that goes with the test, with a configuration file in it.
struct Folder(PathBuf);

impl Folder {
    fn with(toml: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("epitome-config-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("epitome.toml"), toml).expect("a file");
        Folder(folder)
    }

    fn sources(&self, environment: &[(&str, &str)]) -> Sources {
        let environment = environment.iter().chain(&[("HOME", "/home/ann")]);
        Sources {
            environment: environment.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            folder: self.0.clone(),
            ..Sources::default()
        }
    }

    /// Loads the file as one that the user named.
    fn load(&self, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        Loaded::<Config>::load(&Sources { file: Some("epitome.toml".into()), ..self.sources(environment) })
    }

    /// The mistake, with the folder's name taken out of it.
    fn mistake(&self, environment: &[(&str, &str)]) -> String {
        let error = self.load(environment).expect_err("a mistake");
        error.to_string().replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nowhere(environment: &[(&str, &str)]) -> Sources {
    Sources {
        environment: environment.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
        folder: PathBuf::from("/no/such/folder"),
        ..Sources::default()
    }
}

fn explained<'a>(loaded: &'a Loaded, key: &str) -> (&'a str, &'a Origin) {
    let setting = loaded.explained.iter().find(|setting| setting.key.name == key).expect("a setting");
    (&setting.value, &setting.origin)
}

#[test]
fn without_a_file_everything_has_its_default_under_the_home_folder() {
    let loaded = Loaded::<Config>::load(&nowhere(&[("HOME", "/home/ann")])).expect("defaults");
    let config = &loaded.config;
    assert_eq!(config.store.url, StoreUrl::Sqlite("/home/ann/.local/share/epitome/epitome.db".into()));
    assert_eq!(config.artifacts.url, ArtifactsUrl::Folder("/home/ann/.local/share/epitome/artifacts".into()));
    assert_eq!(
        (config.jobs.concurrency, config.jobs.lease_s, config.jobs.attempts, config.jobs.backoff_s),
        (2, 300, 2, 3)
    );
    assert_eq!(config.policy.source(), PolicySource::Preset("ladder"));
    assert_eq!(config.summarizer.kind, SummarizerKind::Embedded);
    assert_eq!(config.tenant.id.as_str(), "local");
    assert_eq!(loaded.file, None);
    assert!(loaded.explained.iter().all(|setting| setting.origin == Origin::Default));
    assert_eq!(loaded.explained.len(), Config::keys().len());
}

#[test]
fn the_data_folder_is_the_one_that_the_platform_names() {
    let url = |environment: &[(&str, &str)]| {
        Loaded::<Config>::load(&nowhere(environment)).map(|loaded| loaded.config.store.url.to_string())
    };
    let named = url(&[("HOME", "/home/ann"), ("XDG_DATA_HOME", "/data")]);
    assert_eq!(named.as_deref(), Ok("sqlite:/data/epitome/epitome.db"));
    let relative = url(&[("HOME", "/home/ann"), ("XDG_DATA_HOME", "data")]);
    assert_eq!(relative.as_deref(), Ok("sqlite:/home/ann/.local/share/epitome/epitome.db"));
    assert_eq!(url(&[]), Err(ConfigError::Homeless("store.url")));
    let elsewhere = url(&[("EPITOME_STORE_URL", "memory:")]);
    assert_eq!(elsewhere.as_deref(), Ok("memory:"), "a folder that is not needed is not asked for");
}

#[test]
fn a_file_is_read_and_relative_paths_begin_beside_it() {
    let folder = Folder::with(
        r#"
[store]
url = "sqlite:data/e.db"
[keys]
current = "file:~/key"
older = ["env:OLD", "k0:c2VjcmV0"]
[policy]
path = "mine.toml"
[model]
url = "http://127.0.0.1:8080/v1"
dialect = "anthropic"
window = 200_000
[summarizer]
kind = "model-with-fallback"
[rehydrate]
enabled = false
"#,
    );
    let config = folder.load(&[]).expect("a configuration").config;
    assert_eq!(config.store.url, StoreUrl::Sqlite(folder.0.join("data/e.db")));
    assert_eq!(config.artifacts.url, ArtifactsUrl::Folder(folder.0.join("data/artifacts")), "beside the store");
    assert_eq!(config.keys.current, Some(SecretSource::File("/home/ann/key".into())));
    assert_eq!(config.keys.older.len(), 2);
    assert_eq!(config.policy.source(), PolicySource::File(&folder.0.join("mine.toml")));
    assert_eq!((config.model.dialect, config.model.window), (Dialect::Anthropic, Some(Tokens::new(200_000))));
    assert_eq!(config.summarizer.kind, SummarizerKind::ModelWithFallback);
    assert_eq!((config.rehydrate.enabled, config.rehydrate.total), (Some(false), None));
}

#[test]
fn the_closer_to_the_program_the_stronger_and_every_value_knows_where_it_is_from() {
    let folder = Folder::with("[jobs]\nlease_s = 60\nattempts = 5\n\nconcurrency = 9\n");
    let mut sources = folder.sources(&[
        ("EPITOME_JOBS_ATTEMPTS", "6"),
        ("EPITOME_JOBS_CONCURRENCY", "7"),
        ("EPITOME_JOBS_BACKOFF_S", ""),
    ]);
    sources.flags.push(("jobs.concurrency".to_owned(), "8".to_owned()));
    let loaded = Loaded::<Config>::load(&sources).expect("a configuration");
    let jobs = &loaded.config.jobs;
    assert_eq!((jobs.backoff_s, jobs.lease_s, jobs.attempts, jobs.concurrency), (3, 60, 6, 8));
    let path = folder.0.join("epitome.toml");
    assert_eq!(explained(&loaded, "jobs.lease_s"), ("60", &Origin::File(path, 2)));
    let variable = Origin::Environment("EPITOME_JOBS_ATTEMPTS".to_owned());
    assert_eq!(explained(&loaded, "jobs.attempts"), ("6", &variable));
    assert_eq!(explained(&loaded, "jobs.concurrency"), ("8", &Origin::Flag));
    assert_eq!(explained(&loaded, "jobs.backoff_s"), ("3", &Origin::Default), "an empty variable is none");
}

#[test]
fn every_setting_can_be_given_as_a_variable() {
    let sample = |key: &Key| match key.name {
        "store.url" | "artifacts.url" => "memory:",
        "artifacts.sensitivity" | "rehydrate.sensitivities" => "restricted",
        "artifacts.sensitivity_of" => "crm_*=confidential",
        "policy.name" => "pi",
        "policy.auto" => "overflow",
        "model.dialect" | "summarizer.dialect" => "responses",
        "summarizer.kind" => "model",
        name if name.ends_with(".url") || name == "events.otlp" => "https://example.test",
        "background.enabled" | "rehydrate.enabled" => "false",
        name if name.ends_with("name") || name.ends_with("path") || name.ends_with("id") => "some",
        "keys.current" | "keys.older" | "model.key" | "summarizer.key" | "embeddings.key" => "env:KEY",
        "events.json_lines" => "some",
        _ => "17",
    };
    for key in Config::keys() {
        let (variable, text) = (key.variable(), sample(key));
        let loaded = Loaded::<Config>::load(&nowhere(&[("HOME", "/h"), (&variable, text)])).expect(&variable);
        let (shown, origin) = explained(&loaded, key.name);
        assert_eq!(*origin, Origin::Environment(variable));
        assert!(shown.ends_with(text), "{}: {shown}", key.name);
    }
}

#[test]
fn a_file_is_looked_for_where_it_was_named_then_here_then_at_home() {
    let (here, home, named) =
        (Folder::with("[jobs]\nattempts = 1"), Folder::with(""), Folder::with("[jobs]\nattempts = 2"));
    let at_home = home.0.join("epitome");
    std::fs::create_dir_all(&at_home).expect("a folder");
    std::fs::write(at_home.join("config.toml"), "[jobs]\nattempts = 3").expect("a file");
    let named_file = named.0.join("epitome.toml");
    let attempts = |file: Option<&Path>, folder: &Path, variable: &str| {
        let xdg = home.0.display().to_string();
        let mut sources = nowhere(&[("HOME", "/h"), ("XDG_CONFIG_HOME", &xdg), ("EPITOME_CONFIG", variable)]);
        sources.folder = folder.to_owned();
        sources.file = file.map(Path::to_owned);
        Loaded::<Config>::load(&sources).map(|loaded| loaded.config.jobs.attempts)
    };
    let variable = named_file.display().to_string();
    assert_eq!(attempts(Some(&named_file), &here.0, ""), Ok(2));
    assert_eq!(attempts(None, &here.0, &variable), Ok(2));
    assert_eq!(attempts(None, &here.0, ""), Ok(1));
    assert_eq!(attempts(None, &named.0.join("empty"), ""), Ok(3));
    let missing = attempts(Some(Path::new("missing.toml")), &here.0, "").expect_err("it has to exist").to_string();
    assert!(missing.contains("missing.toml cannot be read"), "{missing}");
}

#[test]
fn a_folder_sets_what_is_guarded_only_while_it_is_trusted_as_it_is() {
    let home = Folder::with("");
    let state = home.0.display().to_string();
    let here = Folder::with("[store]\nurl = \"sqlite:e.db\"\n[jobs]\nattempts = 9\n[model]\nkey = \"env:K\"\n");
    let file = here.0.join("epitome.toml");
    let load = || Loaded::<Config>::load(&here.sources(&[("XDG_STATE_HOME", &state)])).expect("a configuration");
    let environment = here.sources(&[("XDG_STATE_HOME", &state)]).environment;
    let trusted = || TrustedFiles::load(&environment).expect("a list").expect("a home");
    let text = || std::fs::read_to_string(&file).expect("a file");

    let strange = load();
    let mut refused = strange.refused.clone();
    refused.sort_unstable();
    assert_eq!(refused, ["model.key", "store.url"]);
    assert_eq!((strange.config.jobs.attempts, strange.config.model.key.is_none()), (9, true));
    assert_eq!(strange.config.store.url.to_string(), "sqlite:/home/ann/.local/share/epitome/epitome.db");

    trusted().add(&file, &text()).expect("a list");
    let known = load();
    assert_eq!((known.refused.len(), known.config.model.key.is_some()), (0, true));
    assert_eq!(known.config.store.url, StoreUrl::Sqlite(here.0.join("e.db")));

    std::fs::write(&file, text() + "# one more line\n").expect("a file");
    assert_eq!(load().refused.len(), 2, "a file that changed has to be trusted again");
    trusted().add(&file, &text()).expect("a list");
    assert_eq!((load().refused.len(), trusted().files().len()), (0, 1));
    assert!(trusted().remove(&file).expect("a list") && !trusted().remove(&file).expect("a list"));
    assert_eq!(load().refused.len(), 2);
}

#[test]
fn a_strange_folder_does_not_unset_what_the_user_set() {
    let home = Folder::with("");
    std::fs::create_dir_all(home.0.join("epitome")).expect("a folder");
    let own = "[keys]\ncurrent = \"env:OWN\"\n[policy]\npath = \"mine.toml\"\n[jobs]\nattempts = 3\n";
    std::fs::write(home.0.join("epitome/config.toml"), own).expect("a file");
    let xdg = home.0.display().to_string();
    let load = |toml: &str| {
        let here = Folder::with(toml);
        Loaded::<Config>::load(&here.sources(&[("XDG_CONFIG_HOME", &xdg)])).expect("a configuration").config
    };
    let config = load("[jobs]\nlease_s = 5\n");
    assert_eq!((config.keys.current.is_some(), config.jobs.attempts, config.jobs.lease_s), (true, 3, 5));
    assert_eq!(config.policy.source(), PolicySource::File(&home.0.join("epitome/mine.toml")));
    assert_eq!(load("[policy]\nname = \"pi\"\n").policy.source(), PolicySource::Preset("pi"));
}

#[test]
fn what_names_a_place_a_secret_or_who_is_asked_is_guarded() {
    let guarded = |name: &str| Config::keys().iter().any(|key| key.name == name && key.guard == Guard::Guarded);
    for name in [
        "store.url",
        "artifacts.url",
        "keys.current",
        "keys.older",
        "policy.path",
        "model.url",
        "model.name",
        "model.key",
        "model.dialect",
        "summarizer.kind",
        "summarizer.url",
        "summarizer.name",
        "summarizer.key",
        "embeddings.url",
        "embeddings.name",
        "embeddings.key",
        "embeddings.dimensions",
        "events.json_lines",
        "events.otlp",
        "tenant.id",
    ] {
        assert!(guarded(name), "{name}");
    }
    assert!(!guarded("policy.name") && !guarded("model.window"));
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_was_meant() {
    let cases = [
        ("[stroe]\nurl = \"memory:\"", "epitome.toml, line 1: there is no setting `stroe`; did you mean `store`?"),
        (
            "[store]\nulr = \"memory:\"",
            "epitome.toml, line 2: there is no setting `store.ulr`; did you mean `store.url`?",
        ),
        (
            "\n\n[jobs]\nlease = 5",
            "epitome.toml, line 4: there is no setting `jobs.lease`; did you mean `jobs.lease_s`?",
        ),
        ("ttl_days = 5", "epitome.toml, line 1: there is no setting `ttl_days`; did you mean `artifacts.ttl_days`?"),
        (
            "[tenant]\nsomething_else_entirely = 5",
            "epitome.toml, line 2: there is no setting `tenant.something_else_entirely`",
        ),
        (
            "[jobs]\nlease_s = \"five\"",
            "epitome.toml, line 2: `jobs.lease_s = \"five\"` is invalid; expected a whole number from 1 to 86400",
        ),
        (
            "[jobs]\n\nattempts = -1",
            "epitome.toml, line 3: `jobs.attempts = -1` is invalid; expected a whole number from 1 to 100",
        ),
        (
            "[background]\nenabled = \"yes\"",
            "epitome.toml, line 2: `background.enabled = \"yes\"` is invalid; expected true or false",
        ),
        (
            "[summarizer]\nkind = \"gpt\"",
            "epitome.toml, line 2: `summarizer.kind = \"gpt\"` is invalid; expected embedded, model or model-with-fallback",
        ),
        (
            "[model]\ndialect = \"ai-sdk\"",
            "epitome.toml, line 2: `model.dialect = \"ai-sdk\"` is invalid; expected chat, responses or anthropic",
        ),
        (
            "[store]\nurl = \"mysql://x\"",
            "epitome.toml, line 2: `store.url = \"mysql://x\"` is invalid; expected sqlite:PATH, postgres://… or memory:",
        ),
        (
            "[keys]\nolder = \"env:A\"",
            "epitome.toml, line 2: `keys.older = ***` is invalid; expected a list, each item env:NAME, file:PATH, or the secret itself",
        ),
        ("store = 5", "epitome.toml, line 1: `store = …` is invalid; expected a table, written as [store]"),
        (
            "[policy]\nname = \"pi\"\npath = \"p.toml\"",
            "`policy.name` (epitome.toml, line 2) and `policy.path` (epitome.toml, line 3) are both set; keep one of them",
        ),
    ];
    for (toml, expected) in cases {
        assert_eq!(Folder::with(toml).mistake(&[]), expected);
    }
    let broken = Folder::with("[store]\nurl = \n").mistake(&[]);
    assert!(broken.starts_with("epitome.toml, line 2: "), "{broken}");
}

#[test]
fn a_misspelled_variable_is_a_mistake_and_those_of_tests_are_left_alone() {
    let folder = Folder::with("");
    assert_eq!(
        folder.mistake(&[("EPITOME_STROE_URL", "memory:")]),
        "the environment variable EPITOME_STROE_URL: there is no setting `EPITOME_STROE_URL`; did you mean `EPITOME_STORE_URL`?"
    );
    assert_eq!(
        folder.mistake(&[("EPITOME_JOBS_LEASE_S", "long")]),
        "the environment variable EPITOME_JOBS_LEASE_S: `jobs.lease_s = long` is invalid; expected a whole number from 1 to 86400"
    );
    let others = [("EPITOME_TEST_POSTGRES", "x"), ("EPITOME_FULL", "1"), ("EPITOME_BLESS", "1"), ("PATH", "/bin")];
    assert!(folder.load(&others).is_ok());
}

#[test]
fn a_name_in_the_environment_takes_the_place_of_a_policy_file() {
    let folder = Folder::with("[policy]\npath = \"p.toml\"");
    let loaded = folder.load(&[("EPITOME_POLICY_NAME", "pi")]).expect("a configuration");
    assert_eq!(loaded.config.policy.source(), PolicySource::Preset("pi"));
    let folder = Folder::with("[policy]\nname = \"pi\"");
    let loaded = folder.load(&[("EPITOME_POLICY_PATH", "/p.toml")]).expect("a configuration");
    assert_eq!(loaded.config.policy.source(), PolicySource::File(Path::new("/p.toml")));
}

#[test]
fn a_secret_is_shown_nowhere() {
    let secret = "hunter2";
    let folder = Folder::with(
        r#"
[store]
url = "postgres://ann:hunter2@db.test/epitome"
[keys]
current = "k1:hunter2"
older = ["k0:hunter2", "env:OLD"]
[model]
key = "hunter2"
"#,
    );
    let loaded = folder.load(&[("EPITOME_SUMMARIZER_KEY", "hunter2")]).expect("a configuration");
    let shown = format!("{:?} {:?}", loaded.explained, loaded);
    assert!(!shown.contains(secret), "{shown}");
    assert_eq!(explained(&loaded, "store.url").0, "postgres://ann:***@db.test/epitome");
    assert_eq!(explained(&loaded, "keys.current").0, "***");
    assert_eq!(explained(&loaded, "keys.older").0, "***, env:OLD");
    let mistakes = [
        "[store]\nurl = \"mysql://ann:hunter2@db.test/epitome\"",
        "[model]\nurl = \"https://ann:hunter2@api.test\"",
        "[artifacts]\nurl = \"s3://ann:hunter2@bucket\"",
        "[events]\notlp = \"ftp://ann:hunter2@c\"",
        "[keys]\ncurrent = [\"hunter2\"]",
        "store = \"postgres://ann:hunter2@db.test\"",
        "[keys]\ncurent = \"hunter2\"",
    ];
    for toml in mistakes {
        let mistake = Folder::with(toml).mistake(&[]);
        assert!(!mistake.contains(secret), "{mistake}");
    }
}

#[test]
fn a_secret_is_revealed_from_where_it_is() {
    let folder = Folder::with("");
    let file = folder.0.join("key");
    std::fs::write(&file, "from-file\n").expect("a file");
    let environment =
        BTreeMap::from([("KEY".to_owned(), " from-variable ".to_owned()), ("EMPTY".to_owned(), " ".to_owned())]);
    let revealed = |source: SecretSource| source.reveal(&environment).map_err(|error| error.to_string());
    assert_eq!(revealed(SecretSource::Environment("KEY".to_owned())).as_deref(), Ok("from-variable"));
    assert_eq!(revealed(SecretSource::File(file)).as_deref(), Ok("from-file"));
    assert_eq!(revealed(SecretSource::Literal("itself".to_owned())).as_deref(), Ok("itself"));
    for unset in ["EMPTY", "MISSING"] {
        let error = revealed(SecretSource::Environment(unset.to_owned())).expect_err("no secret");
        assert_eq!(error, format!("the environment variable {unset} holds no secret; set it, or name another one"));
    }
    assert!(revealed(SecretSource::File(folder.0.join("none"))).is_err());
}

#[test]
fn the_summarizer_asks_the_model_unless_told_otherwise_and_takes_no_key_elsewhere() {
    let asked = |toml: &str| {
        let loaded = Folder::with(toml).load(&[]).expect("a configuration");
        loaded.config.summarizer_model().map(|model| {
            let key = model.key.map(ToString::to_string);
            (model.url.to_string(), model.name.unwrap_or_default().to_owned(), model.dialect, key)
        })
    };
    let model = "[model]\nurl = \"https://a.test\"\nname = \"big\"\nkey = \"env:A\"\ndialect = \"anthropic\"\n";
    let expected = |url: &str, name: &str, dialect, key: Option<&str>| {
        Some((url.to_owned(), name.to_owned(), dialect, key.map(str::to_owned)))
    };
    assert_eq!(asked(""), None);
    assert_eq!(asked(model), expected("https://a.test", "big", Dialect::Anthropic, Some("env:A")));
    let small = format!("{model}[summarizer]\nname = \"small\"");
    assert_eq!(asked(&small), expected("https://a.test", "small", Dialect::Anthropic, Some("env:A")));
    let elsewhere = format!("{model}[summarizer]\nurl = \"https://b.test\"\ndialect = \"chat\"");
    assert_eq!(asked(&elsewhere), expected("https://b.test", "big", Dialect::Chat, None));
}
