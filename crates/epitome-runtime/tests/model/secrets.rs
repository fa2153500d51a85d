//! A key is sent and seen nowhere else.

use epitome::wire::Dialect;
use epitome_runtime::model::{Endpoint, HttpModel, ModelError};
use serde_json::json;

use crate::server::{Reply, Server};
use crate::{SPOKEN, WAYS, ask, endpoint, prompt};

const KEY: &str = "sk-hidden-4711";
const TOKEN: &str = "token-hidden-0815";

fn keyed(url: &str, dialect: Dialect) -> HttpModel {
    let headers = vec![("x-gateway-token".to_owned(), TOKEN.into())];
    HttpModel::new(Endpoint { key: Some(KEY.into()), headers, ..endpoint(url, dialect) }).unwrap()
}

#[tokio::test]
async fn a_key_is_sent_where_its_protocol_wants_it() {
    let server = Server::start([Reply::json(500, "")]).await;
    for dialect in SPOKEN {
        let _ = ask(&keyed(&server.url, dialect), &prompt(dialect, "hello", false)).await;
    }
    let heads: Vec<String> =
        server.asked().iter().map(|text| text.split("\r\n\r\n").next().unwrap_or_default().to_lowercase()).collect();
    for (head, path, header) in [
        (&heads[0], "post /v1/chat/completions ", "authorization: bearer sk-hidden-4711"),
        (&heads[1], "post /v1/responses ", "authorization: bearer sk-hidden-4711"),
        (&heads[2], "post /v1/messages ", "x-api-key: sk-hidden-4711"),
    ] {
        assert!(head.starts_with(path) && head.contains(header) && head.contains(TOKEN), "{head}");
    }
    assert!(heads[2].contains("anthropic-version: 2023-06-01"));
}

/// Replies that repeat the key in every way an error can.
fn telltales() -> Vec<Reply> {
    let words = format!("Incorrect API key provided: {KEY}, token {TOKEN}.");
    let error = json!({"error": {"message": words, "type": "invalid_request_error"}}).to_string();
    let overflow =
        json!({"error": {"message": format!("{words} prompt is too long"), "code": "context_length_exceeded"}});
    let statuses = [400, 401, 403, 404, 413, 422, 429, 500, 503, 529];
    let mut replies: Vec<Reply> = statuses.iter().map(|status| Reply::json(*status, &error)).collect();
    replies.push(Reply::json(400, &overflow.to_string()));
    replies.push(Reply::json(502, &format!("<html>{words}</html>")));
    replies.push(Reply::json(200, &error));
    replies.push(Reply::json(200, &words));
    replies.push(Reply::json(200, "{}").and_break());
    replies.push(Reply::json(302, "").header(&format!("location: http://127.0.0.1:1/{KEY}")));
    replies.push(Reply::events(&format!("event: error\ndata: {error}\n\n")));
    replies.push(Reply::events(&format!("data: {words}\n\n")));
    replies.push(Reply::events("data: {\"type\":\"x\"}\n\n"));
    replies
}

#[tokio::test]
async fn no_error_shows_a_key_even_where_the_provider_repeats_it() {
    let mut kinds = std::collections::BTreeSet::new();
    for dialect in SPOKEN {
        for stream in WAYS {
            for reply in telltales() {
                let server = Server::start([reply]).await;
                let model = keyed(&server.url, dialect);
                let error = ask(&model, &prompt(dialect, "hello", stream)).await.0.unwrap_err();
                let seen = format!("{error} {error:?} {model:?}");
                assert!(!seen.contains(KEY) && !seen.contains(TOKEN), "{seen}");
                kinds.insert(format!("{error:?}").split([' ', '(']).next().unwrap_or_default().to_owned());
            }
        }
    }
    let all = ["Failed", "Garbled", "Overflow", "Refused", "Throttled", "Unreachable"];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all);
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_a_key() {
    let other = Server::start([Reply::json(200, "{}")]).await;
    let server = Server::start([Reply::json(307, "").header(&format!("location: {}/v1/messages", other.url))]).await;
    let error = ask(&keyed(&server.url, Dialect::Anthropic), &prompt(Dialect::Anthropic, "hello", false)).await.0;
    assert!(matches!(error, Err(ModelError::Refused(307, _))));
    assert_eq!(other.asked().len(), 0);
}
