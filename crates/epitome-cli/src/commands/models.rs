//! `epitome models`: the window of each model and where it is from, and forgetting what was learned.
//!
//! What is learned belongs to a tenant, an upstream and a model. It expires by itself; a reset does not wait for that.

use std::path::Path;

use epitome::budget::{CountFactor, Model, Tokens, Window};
use epitome_runtime::config::StoreUrl;
use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::model::{LearnedWindow, ModelLesson};
use serde_json::{Value, json};

use crate::cli::{ModelsArgs, ModelsVerb, StoreArgs};
use crate::failure::{Answer, Exit, Failure, sentence};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::{headed, plural};
use crate::screen::Screen;
use crate::settings::{Configured, Flags};
use crate::table::{Side, table};

/// What was learned of a model, and by store_args requests.
struct Learned {
    tenant: TenantId,
    lesson: ModelLesson,
}

/// Lists models, or forgets what was learned of them.
pub fn run(args: &ModelsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    wait(async {
        match &args.verb {
            None => list(args, config, screen).await,
            Some(ModelsVerb::Reset { model }) => reset(args, model.as_deref(), config, screen).await,
        }
    })
}

async fn list(args: &ModelsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    let configured = Configured::load(config, Flags::default().with("store.url", args.store.as_ref()))?;
    let mut learned = Vec::new();
    // Windows are known without a store as well.
    if has_store(&configured) {
        let open_store = open(args, config).await?;
        for tenant in tenants(args, &open_store).await? {
            let book = open_store.engine.lessons(&tenant).await?;
            let of_tenant = book.iter().filter(|lesson| is_at(args, lesson)).cloned();
            learned.extend(of_tenant.map(|lesson| Learned { tenant: tenant.clone(), lesson }));
        }
    }
    let told = configured.config().model.name.clone().zip(configured.config().model.window);
    let now = Moment::now();
    let text = text(&learned, told.as_ref(), now, screen);
    let listed =
        Model::listed().map(|(name, model)| json!({"model": name, "window": model.max_input, "from": "listed"}));
    let configured = told.iter().map(|(name, window)| json!({"model": name, "window": window, "from": "configured"}));
    let learned = learned.iter().map(|learned| json_of(learned, now));
    let models: Vec<Value> = learned.chain(configured).chain(listed).collect();
    Ok(Answer::new(text, json!({"models": models})))
}

fn has_store(configured: &Configured) -> bool {
    match &configured.config().store.url {
        StoreUrl::Sqlite(path) => path.exists(),
        _ => true,
    }
}

async fn open(args: &ModelsArgs, config: Option<&Path>) -> Result<OpenStore, Failure> {
    let store_args = StoreArgs { store: args.store.clone(), tenant: None };
    OpenStore::open(config, &store_args, IfMissing::Fail).await
}

/// The tenant that was asked for, or all of them.
async fn tenants(args: &ModelsArgs, open_store: &OpenStore) -> Result<Vec<TenantId>, Failure> {
    match &args.tenant {
        Some(tenant) => Ok(vec![tenant.parse().map_err(|error| Failure::new(Exit::Usage, sentence(&error)))?]),
        None => Ok(open_store.log().store().tenants().await?),
    }
}

fn is_at(args: &ModelsArgs, lesson: &ModelLesson) -> bool {
    args.upstream.as_deref().is_none_or(|upstream| address(upstream) == lesson.upstream)
}

/// An upstream's address as lessons have it.
fn address(upstream: &str) -> &str {
    upstream.trim_end_matches('/')
}

async fn reset(
    args: &ModelsArgs,
    model: Option<&str>,
    config: Option<&Path>,
    screen: Screen,
) -> Result<Answer, Failure> {
    let open_store = open(args, config).await?;
    let mut forgotten = Vec::new();
    for tenant in tenants(args, &open_store).await? {
        let lessons = open_store.engine.forget_lessons(&tenant, model, args.upstream.as_deref().map(address)).await?;
        forgotten.extend(lessons.into_iter().map(|lesson| Learned { tenant: tenant.clone(), lesson }));
    }
    let now = Moment::now();
    let count = forgotten.len();
    let mut text = match count {
        0 => "Nothing was learned that fits; nothing was changed.\n".to_owned(),
        _ => format!("Forgot what was learned of {count} model{}:\n\n", plural(count)),
    };
    if count > 0 {
        text.push_str(&lessons_text(&forgotten, now, screen));
    }
    let json: Vec<Value> = forgotten.iter().map(|learned| json_of(learned, now)).collect();
    Ok(Answer::new(text, json!({"forgotten": json})))
}

fn text(learned: &[Learned], told: Option<&(String, Tokens)>, now: Moment, screen: Screen) -> String {
    let mut text = String::new();
    if !learned.is_empty() {
        text.push_str("Learned from answers and refusals:\n\n");
        text.push_str(&lessons_text(learned, now, screen));
        text.push_str("\n`epitome models reset MODEL` forgets it.\n\n");
    }
    let mut rows = vec![["model", "window", "from"].map(str::to_owned).to_vec()];
    let mut row = |name: &str, window: Tokens, from: &str| {
        rows.push(vec![name.to_owned(), window.to_string(), from.to_owned()]);
    };
    if let Some((name, window)) = told {
        row(name, *window, "configured");
    }
    for (name, model) in Model::listed() {
        row(name, model.max_input, "listed");
    }
    text.push_str(&headed(&table(&[Side::Left, Side::Right, Side::Left], &rows, screen), screen));
    text
}

fn lessons_text(learned: &[Learned], now: Moment, screen: Screen) -> String {
    let titles = ["model", "window", "from", "tenant", "upstream", "factor", "learned", "until"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(learned.iter().map(|Learned { tenant, lesson }| {
        let window = lesson.window_at(now);
        let moment = |of: fn(LearnedWindow) -> Moment| window.map_or_else(String::new, |window| of(window).to_string());
        vec![
            lesson.model.clone(),
            known(lesson, now).tokens().to_string(),
            from(lesson, now).to_owned(),
            tenant.to_string(),
            lesson.upstream.clone(),
            lesson.factor.map_or_else(String::new, |factor| format!("{:.2}", factor.get())),
            moment(|window| window.at),
            moment(|window| window.until),
        ]
    }));
    let mut sides = [Side::Left; 8];
    (sides[1], sides[5]) = (Side::Right, Side::Right);
    headed(&table(&sides, &rows, screen), screen)
}

fn known(lesson: &ModelLesson, now: Moment) -> Window {
    Window::of(&lesson.model, lesson.window_at(now).map(|window| window.tokens))
}

fn from(lesson: &ModelLesson, now: Moment) -> &'static str {
    match known(lesson, now) {
        Window::Learned(_) => "learned",
        Window::Listed(_) => "listed",
        Window::Fallback(_) => "assumed",
    }
}

fn json_of(Learned { tenant, lesson }: &Learned, now: Moment) -> Value {
    let window = lesson.window_at(now);
    json!({
        "model": lesson.model, "window": known(lesson, now).tokens(), "from": from(lesson, now), "tenant": tenant,
        "upstream": lesson.upstream, "factor": lesson.factor.map(CountFactor::get),
        "learned": window.map(|window| window.at.to_string()), "until": window.map(|window| window.until.to_string()),
    })
}
