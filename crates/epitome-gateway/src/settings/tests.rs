use epitome_runtime::config::{Config, ConfigError, Guard, Key, Loaded, Sections, Sources};
use http::HeaderMap;

use super::*;

type Both = Loaded<(Config, GatewayConfig)>;

fn load(flags: &[(&str, &str)]) -> Result<Both, ConfigError> {
    let flags = [("store.url", "memory:")].iter().chain(flags);
    let flags = flags.map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    Both::load(&Sources { flags, folder: PathBuf::from("/no/such/folder"), ..Sources::default() })
}

fn settings(flags: &[(&str, &str)]) -> Result<Settings, String> {
    let (config, gateway) = load(flags).expect("a configuration").config;
    let environment = [("KEY".to_owned(), "sk-hidden".to_owned())].into();
    Settings::new(gateway.serve, config.tenant.id, &environment).map_err(|error| error.to_string())
}

#[test]
fn without_a_word_it_listens_here_and_knows_three_providers() {
    let settings = settings(&[]).expect("settings");
    assert!(settings.serve.listen.ip().is_loopback());
    let urls: Vec<String> = settings.upstreams.iter().map(|upstream| upstream.url.to_string()).collect();
    assert_eq!(urls, Provider::ALL.map(|provider| provider.address().to_string()));
    assert_eq!(settings.serve, Serve::default());
}

#[test]
fn a_mistake_in_the_section_is_an_error_with_what_is_allowed() {
    let cases = [
        (
            "serve.listen",
            "8788",
            "`serve.listen = \"8788\"` is invalid; expected an IP address and a port, such as 127.0.0.1:8788 or [::1]:8788",
        ),
        (
            "serve.upstreams",
            "opnai=https://a.test",
            "`serve.upstreams = [\"opnai=https://a.test\"]` is invalid; expected a list, each item WHAT=URL, where WHAT is openai, anthropic, gemini, a path such as /groq, or a model such as gpt-5 or claude-*, and URL an address that begins with http:// or https:// and has no name or password in it",
        ),
        (
            "serve.tools_for",
            "codex=yes",
            "`serve.tools_for = [\"codex=yes\"]` is invalid; expected a list, each item CLIENT=on or CLIENT=off",
        ),
        ("serve.body_mb_max", "0", "`serve.body_mb_max = 0` is invalid; expected a whole number from 1 to 4096"),
        ("serve.request_max", "5", "there is no setting `serve.request_max`; did you mean `serve.requests_max`?"),
    ];
    for (key, text, expected) in cases {
        assert_eq!(load(&[(key, text)]).expect_err(expected).to_string(), format!("the command line: {expected}"));
    }
    let secrets = [
        ("serve.keys", "=hunter2"),
        ("serve.upstream_keys", "opnai=hunter2"),
        ("serve.upstreams", "openai=https://ann:hunter2@a.test"),
    ];
    for secret in secrets {
        let mistake = load(&[secret]).expect_err("a mistake").to_string();
        assert!(!mistake.contains("hunter2"), "{mistake}");
    }
}

#[test]
fn every_setting_of_the_gateway_can_be_given_as_a_variable() {
    let sample = |key: &Key| match key.name {
        "serve.listen" => "127.0.0.1:9",
        "serve.upstreams" => "/groq=https://example.test/v1",
        "serve.upstream_keys" => "openai=env:KEY",
        "serve.keys" => "acme=env:KEY",
        "serve.tools" => "on",
        "serve.tools_for" => "codex=on",
        "serve.keys_required" => "true",
        "serve.persist" => "after-answer",
        "serve.log" => "json",
        name if name.starts_with("serve.tls") => "/some/file.pem",
        "serve.budget" => "700",
        _ => "9",
    };
    for key in GatewayConfig::keys() {
        let environment = [(key.variable(), sample(key).to_owned())].into();
        let loaded = Loaded::<GatewayConfig>::load(&Sources { environment, ..Sources::default() });
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        let setting = loaded.explained.iter().find(|setting| setting.key.name == key.name).expect("a setting");
        assert_eq!(setting.value, sample(key), "{}", key.name);
    }
}

#[test]
fn whoever_is_let_in_and_wherever_requests_go_is_guarded() {
    let keys = GatewayConfig::keys();
    let guarded = |name: &&str| keys.iter().any(|key| key.name == *name && key.guard == Guard::Guarded);
    let names = ["listen", "upstreams", "upstream_keys", "keys", "keys_required", "tls_certificate", "tls_key"];
    for name in names.map(|name| format!("serve.{name}")) {
        assert!(guarded(&name.as_str()), "{name}");
    }
    assert!(!guarded(&"serve.budget"));
}

#[test]
fn a_key_is_shown_nowhere() {
    let keys = [("serve.keys", "acme=hunter2"), ("serve.upstream_keys", "openai=hunter2")];
    let loaded = load(&keys).expect("a configuration");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let shown =
        |name: &str| loaded.explained.iter().find(|setting| setting.key.name == name).map(|one| one.value.clone());
    assert_eq!(shown("serve.keys").as_deref(), Some("acme=***"));
    assert_eq!(shown("serve.upstream_keys").as_deref(), Some("openai=***"));
}

#[test]
fn an_upstream_is_for_a_provider_a_path_or_a_model_and_a_misspelled_provider_is_none_of_them() {
    let route = |text: &str| {
        let loaded = load(&[("serve.upstreams", &format!("{text}=https://a.test"))]);
        loaded.ok().map(|loaded| loaded.config.1.serve.upstreams[0].route.clone())
    };
    let path = |text: &str| Some(UpstreamRoute::Path(text.to_owned()));
    let model = |text: &str| Some(UpstreamRoute::Model(text.to_owned()));
    assert_eq!(route("openai"), Some(UpstreamRoute::Provider(Provider::OpenAi)));
    assert_eq!(route("gemini"), Some(UpstreamRoute::Provider(Provider::Gemini)));
    assert_eq!(route("/groq/"), path("/groq"));
    assert_eq!(route("/a/b"), path("/a/b"));
    assert_eq!(route("/apis"), path("/apis"));
    assert_eq!(route("claude-*"), model("claude-*"));
    assert_eq!(route("o3"), model("o3"));
    for wrong in ["opnai", "OpenAI", "/", "//a", "/api", "/metrics/", "/a/../b", "a b-c", ""] {
        assert_eq!(route(wrong), None, "{wrong}");
    }
}

/// The row of docs/configuration.md for a setting.
fn row(key: &Key) -> String {
    let default = match key.default {
        "" => "none".to_owned(),
        "$BESIDE" => "`artifacts` beside the store".to_owned(),
        text => format!("`{text}`"),
    };
    format!("| `{}` | {default} | {} |", key.name, key.about.trim())
}

#[test]
fn the_page_on_configuration_lists_every_setting_with_its_default_and_its_meaning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).expect("docs/configuration.md");
    let keys = <(Config, GatewayConfig)>::keys();
    let missing: Vec<String> =
        keys.iter().map(|key| row(key)).filter(|row| !text.lines().any(|line| line == row)).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks\n{}", missing.join("\n"));
    let rows = text.lines().filter(|line| line.starts_with("| `") && line.contains('.')).count();
    assert_eq!(rows, keys.len(), "docs/configuration.md lists a setting that does not exist");
}

#[test]
fn a_path_counts_before_a_model_and_a_model_before_a_provider() {
    let upstreams =
        "openai=http://o.test,claude-*=http://m.test,/a=http://a.test,gpt-5=http://e.test,/a/b=http://b.test";
    let settings = settings(&[("serve.upstreams", upstreams)]).expect("settings");
    let hosts: Vec<&str> = settings.upstreams.iter().filter_map(|upstream| upstream.url.host()).collect();
    let expected = ["b.test", "a.test", "e.test", "m.test", "o.test"];
    assert_eq!(hosts[..5], expected);
    assert_eq!(hosts[5..], ["api.anthropic.com", "generativelanguage.googleapis.com"]);
}

#[test]
fn a_mistake_is_told_and_no_secret_is() {
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("serve.upstream_keys", "/grok=env:KEY")], "a key for `/grok`, and `serve.upstreams` has no such"),
        (&[("serve.upstreams", "/a=http://a.test,/a/=http://b.test")], "has `/a` twice"),
        (&[("serve.keys", "acme=env:NONE")], "`serve.keys`: the environment variable NONE"),
        (&[("serve.keys_required", "true")], "`serve.keys` is empty"),
        (&[("serve.tls_key", "k.pem")], "`serve.tls_certificate` is not"),
        (&[("serve.upstream_keys", "openai=env:NO")], "`serve.upstream_keys`: the environment variable NO"),
    ];
    for (flags, expected) in cases {
        let error = settings(flags).expect_err(expected);
        assert!(error.contains(expected) && !error.contains("sk-hidden"), "{error}");
    }
    let shown = format!("{:?}", settings(&[("serve.keys", "acme=env:KEY")]));
    assert!(!shown.contains("sk-hidden"), "{shown}");
}

#[test]
fn a_version_stands_once_in_an_address_whoever_wrote_it() {
    let cases = [
        ("openai", "https://h", "/v1/models?a=b", "/v1/models?a=b"),
        ("openai", "https://h/v1/", "/v1/models", "/v1/models"),
        ("openai", "https://h/api", "/v1/models", "/api/v1/models"),
        ("/groq", "https://h/openai/v1", "/groq/v1/chat/completions", "/openai/v1/chat/completions"),
        ("/groq", "https://h/openai/v1", "/groq/chat/completions", "/openai/v1/chat/completions"),
        ("/groq", "https://h", "/groq/v1/models", "/v1/models"),
        ("/groq", "https://h", "/groq", "/"),
        ("/groq", "https://h", "/groq?a=b", "/?a=b"),
        ("/z", "https://h/api/paas/v4", "/z/v1/chat/completions", "/api/paas/v4/chat/completions"),
        ("/g", "https://h/v1beta/openai/", "/g/v1/models", "/v1beta/openai/models"),
        ("gemini", "https://h/v1beta", "/v1beta/models/m:countTokens", "/v1beta/models/m:countTokens"),
        ("anthropic", "https://h/v1", "/v1/messages?beta=true", "/v1/messages?beta=true"),
    ];
    for (route, url, request, expected) in cases {
        let settings = settings(&[("serve.upstreams", &format!("{route}={url}"))]).expect("settings");
        let upstream = settings.upstreams.iter().find(|upstream| upstream.url.host() == Some("h")).expect("one");
        let path = upstream.path_of(&request.parse().expect("a path"));
        assert_eq!(path.as_str(), expected, "{route}={url}");
    }
}

#[test]
fn a_pattern_takes_the_models_it_stands_for() {
    let takes = |pattern: &str, name: &str| UpstreamRoute::Model(pattern.to_owned()).matches_model(name);
    assert!(takes("claude-*", "claude-sonnet-4-5") && takes("*-mini", "gpt-5-mini") && takes("a*c*e", "abcde"));
    assert!(takes("gpt-5", "gpt-5") && !takes("gpt-5", "gpt-5-mini") && !takes("claude-*", "anthropic/claude-x"));
    let path = UpstreamRoute::Path("/groq".to_owned());
    assert!(path.matches_path("/groq") && path.matches_path("/groq/v1") && !path.matches_path("/groquet"));
}

#[test]
fn whose_endpoint_it_is_is_seen_from_its_path_or_its_headers() {
    let none = HeaderMap::new();
    let mut versioned = HeaderMap::new();
    versioned.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
    assert_eq!(Provider::of("/v1/chat/completions", &none), Provider::OpenAi);
    assert_eq!(Provider::of("/v1/messages/count_tokens", &none), Provider::Anthropic);
    assert_eq!(Provider::of("/v1/models", &versioned), Provider::Anthropic);
    assert_eq!(Provider::of("/v1beta/models/g:generateContent", &none), Provider::Gemini);
}
