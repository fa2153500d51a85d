//! Connecting: a pool whose connections all have the schema in their path, and the schema brought up to date.
//!
//! TLS as the address's `sslmode` says, with the certificates that the system trusts (or those in `SSL_CERT_FILE`).

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::Fault;
use crate::store::rule::refused;
use crate::store::{Result, StoreError};

/// All steps of the schema, oldest first.
pub(super) const STEPS: [&str; 4] = [
    include_str!("migrations/0001_threads.sql"),
    include_str!("migrations/0002_search.sql"),
    include_str!("migrations/0003_scope.sql"),
    include_str!("migrations/0004_vectors.sql"),
];

/// The settings of a Postgres store. Parameters in the address take precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// The schema that the tables are in; it is made when it is not there. Letters, digits and `_`.
    pub schema: String,
    /// The most open connections.
    pub connections_max: usize,
    /// The timeout of a connection.
    pub connect_timeout: Duration,
    /// The timeout of a statement.
    pub statement_timeout: Duration,
    /// After how long without a word the other side is asked whether it is still there.
    pub keepalive: Duration,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings {
            schema: "epitome".into(),
            connections_max: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
        }
    }
}

/// The schema that pgvector is in, where the database has it.
pub(super) const VECTOR_SCHEMA: &str = "SELECT n.nspname::text FROM pg_extension e \
     JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'";

/// A pool of connections to an up-to-date schema.
pub(super) async fn pool(url: &str, settings: &PostgresSettings) -> Result<Pool, Fault> {
    let pool = connections(url, settings)?;
    answers(&pool, settings.connect_timeout).await?;
    migrate(&pool, &settings.schema).await?;
    Ok(pool)
}

/// Tells whether a database says anything at all: one that takes connections and is silent is waited for no longer than one that
/// takes none.
async fn answers(pool: &Pool, limit: Duration) -> Result<(), Fault> {
    let client = pool.get().await?;
    match tokio::time::timeout(limit, client.query_one("SELECT 1", &[])).await {
        Ok(answer) => Ok(answer.map(drop)?),
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {limit:?}")).into()),
    }
}

/// The number of the newest step that was made; 0 before the first.
pub(super) async fn schema(url: &str, settings: &PostgresSettings) -> Result<u64, Fault> {
    let client = connections(url, settings)?.get().await?;
    let is_there = client.query_one("SELECT to_regclass('migrations') IS NOT NULL", &[]).await?;
    if !is_there.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client.query_one("SELECT coalesce(max(number), 0) FROM migrations", &[]).await?;
    Ok(row.get::<_, i64>(0).cast_unsigned())
}

fn connections(url: &str, settings: &PostgresSettings) -> Result<Pool, Fault> {
    let config = config(url, settings)?;
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let wait = Some(settings.connect_timeout);
    let pool = Pool::builder(Manager::from_config(config, tls()?, recycling))
        .max_size(settings.connections_max.max(1))
        .timeouts(Timeouts { wait, create: wait, recycle: wait })
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Refused(error.to_string()))?;
    Ok(pool)
}

fn tls() -> Result<MakeRustlsConnect> {
    crate::tls::install_provider();
    let config = rustls::ClientConfig::with_platform_verifier();
    let config = config.map_err(|error| StoreError::Refused(format!("TLS cannot be set up: {error}")))?;
    Ok(MakeRustlsConnect::new(config))
}

pub(super) fn config(url: &str, settings: &PostgresSettings) -> Result<Config> {
    let parsed = url.parse::<Config>();
    let mut config = parsed.map_err(|error| StoreError::Refused(format!("the address is wrong: {error}")))?;
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if settings.schema.is_empty() || !settings.schema.chars().all(named) {
        return refused(format!("{:?} is not a schema's name: letters, digits and _ are", settings.schema));
    }
    config.options(options(&config, settings));
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(settings.connect_timeout);
    }
    if config.get_application_name().is_none() {
        config.application_name("epitome");
    }
    config.keepalives_idle(settings.keepalive).keepalives_interval(settings.keepalive / 3).keepalives_retries(3);
    Ok(config)
}

/// The address's own options come last, so that they win.
fn options(config: &Config, settings: &PostgresSettings) -> String {
    let (schema, timeout) = (&settings.schema, settings.statement_timeout.as_millis());
    let own = config.get_options().unwrap_or_default();
    format!("-c search_path=\"{schema}\" -c statement_timeout={timeout} {own}")
}

/// Brings the schema up to date, one process at a time.
async fn migrate(pool: &Pool, schema: &str) -> Result<(), Fault> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('epitome schema ' || $1, 0))";
    transaction.execute(lock, &[&schema]).await?;
    let ledger = format!(
        "CREATE SCHEMA IF NOT EXISTS \"{schema}\"; \
         CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
    );
    transaction.batch_execute(&ledger).await?;
    let row = transaction.query_one("SELECT coalesce(max(number), 0) FROM migrations", &[]).await?;
    let (found, known) = (row.get::<_, i64>(0).cast_unsigned(), STEPS.len() as u64);
    if found > known {
        return Err(StoreError::Newer { found, known }.into());
    }
    for (step, number) in STEPS.iter().zip(1_i64..).skip(found as usize) {
        transaction.batch_execute(step).await?;
        transaction.execute("INSERT INTO migrations (number) VALUES ($1)", &[&number]).await?;
    }
    Ok(transaction.commit().await?)
}
