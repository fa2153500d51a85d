//! `epitome models`: the window of each model and where it is from; `reset` forgets what was learned.
//!
//! A window is learned for one tenant, one upstream and one model. It expires by itself; a reset does not wait for that.

use std::path::Path;

use epitome::budget::{CountFactor, Model, Window};
use epitome_runtime::config::StoreUrl;
use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::model::ModelLesson;
use epitome_runtime::sentence;
use serde_json::{Value, json};

use crate::cli::{ModelsArgs, ModelsVerb, StoreOptions};
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Answer, Exit, Failure, Result};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::count;
use crate::screen::Screen;
use crate::table::Table;

/// A lesson, and the tenant whose requests taught it.
type TenantLesson = (TenantId, ModelLesson);

pub fn run(args: &ModelsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    wait(async {
        match &args.verb {
            None => list(args, config, screen).await,
            Some(ModelsVerb::Reset { model }) => reset(args, model.as_deref(), config, screen).await,
        }
    })
}

async fn list(args: &ModelsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    let loaded = CliConfig::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
    let mut lessons: Vec<TenantLesson> = Vec::new();
    // Windows are known without a store as well.
    if !matches!(&loaded.values().store.url, StoreUrl::Sqlite(path) if !path.exists()) {
        let store = open(args, config).await?;
        for tenant in tenants(args, &store).await? {
            let book = store.engine.lessons(&tenant).await?;
            let wanted = book.iter().filter(|lesson| upstream(args).is_none_or(|url| url == lesson.upstream));
            lessons.extend(wanted.cloned().map(|lesson| (tenant.clone(), lesson)));
        }
    }
    let now = Moment::now();
    let mut models: Vec<Value> = lessons.iter().map(|lesson| lesson_json(lesson, now)).collect();
    let mut table = Table::with_heads("lrl", ["model", "window", "from"]);
    let configured = &loaded.values().model;
    let configured =
        configured.name.as_deref().zip(configured.window).map(|(name, window)| (name, window, "configured"));
    let listed = Model::listed().map(|(name, model)| (name, model.max_input, "listed"));
    for (name, window, from) in configured.into_iter().chain(listed) {
        table.row(&[&name, &window, &from]);
        models.push(json!({"model": name, "window": window, "from": from}));
    }
    let mut text = String::new();
    if !lessons.is_empty() {
        let learned = lessons_text(&lessons, now, screen);
        text = format!("Learned from answers and refusals:\n\n{learned}\n`epitome models reset MODEL` forgets it.\n\n");
    }
    Ok(Answer::new(text + &table.text(screen), json!({"models": models})))
}

async fn open(args: &ModelsArgs, config: Option<&Path>) -> Result<OpenStore> {
    OpenStore::open(config, &StoreOptions { store: args.store.clone(), tenant: None }, IfMissing::Fail).await
}

/// Returns the tenant that was asked for, or all of them.
async fn tenants(args: &ModelsArgs, store: &OpenStore) -> Result<Vec<TenantId>> {
    match &args.tenant {
        Some(tenant) => Ok(vec![tenant.parse().map_err(|error| Failure::new(Exit::Usage, sentence(&error)))?]),
        None => Ok(store.log().store().tenants().await?),
    }
}

/// Returns the upstream that was asked for, written as lessons have it.
fn upstream(args: &ModelsArgs) -> Option<&str> {
    args.upstream.as_deref().map(|url| url.trim_end_matches('/'))
}

async fn reset(args: &ModelsArgs, model: Option<&str>, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    let store = open(args, config).await?;
    let mut forgotten: Vec<TenantLesson> = Vec::new();
    for tenant in tenants(args, &store).await? {
        let lessons = store.engine.forget_lessons(&tenant, model, upstream(args)).await?;
        forgotten.extend(lessons.into_iter().map(|lesson| (tenant.clone(), lesson)));
    }
    let now = Moment::now();
    let text = if forgotten.is_empty() {
        "Nothing was learned that matches; nothing was changed.\n".to_owned()
    } else {
        let models = count(forgotten.len(), "model");
        format!("Forgot what was learned about {models}:\n\n{}", lessons_text(&forgotten, now, screen))
    };
    let json: Vec<Value> = forgotten.iter().map(|lesson| lesson_json(lesson, now)).collect();
    Ok(Answer::new(text, json!({"forgotten": json})))
}

fn lessons_text(lessons: &[TenantLesson], now: Moment, screen: Screen) -> String {
    let heads = ["model", "window", "from", "tenant", "upstream", "factor", "learned", "until"];
    let mut table = Table::with_heads("lrlllrll", heads);
    for (tenant, lesson) in lessons {
        let (window, from) = known_window(lesson, now);
        let factor = lesson.factor.map_or_else(String::new, |factor| format!("{:.2}", factor.get()));
        let learned = lesson.window_at(now);
        let [at, until] = [learned.map(|window| window.at), learned.map(|window| window.until)]
            .map(|moment| moment.map_or_else(String::new, |moment| moment.to_string()));
        table.row(&[&lesson.model, &window.tokens(), &from, tenant, &lesson.upstream, &factor, &at, &until]);
    }
    table.text(screen)
}

/// Returns the window that counts for a model, and where it is from.
fn known_window(lesson: &ModelLesson, now: Moment) -> (Window, &'static str) {
    let window = Window::of(&lesson.model, lesson.window_at(now).map(|window| window.tokens));
    let from = match window {
        Window::Learned(_) => "learned",
        Window::Listed(_) => "listed",
        Window::Fallback(_) => "assumed",
    };
    (window, from)
}

fn lesson_json((tenant, lesson): &TenantLesson, now: Moment) -> Value {
    let (window, from) = known_window(lesson, now);
    let learned = lesson.window_at(now);
    json!({
        "model": lesson.model, "window": window.tokens(), "from": from, "tenant": tenant,
        "upstream": lesson.upstream, "factor": lesson.factor.map(CountFactor::get),
        "learned": learned.map(|window| window.at.to_string()), "until": learned.map(|window| window.until.to_string()),
    })
}
