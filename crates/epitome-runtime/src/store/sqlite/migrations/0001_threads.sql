-- Threads with their messages, plans and events; documents, artifacts and jobs.
--
-- The rowid of a message, a plan or an event is its thread's number times 2^32 plus its own place, version or number:
-- one tree each, in the order it is read in, and an append costs one insert wherever the thread stands.

CREATE TABLE threads (
    no      INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    thread  TEXT    NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    base    INTEGER NOT NULL,
    length  INTEGER NOT NULL,
    tip     BLOB    NOT NULL,
    turn    INTEGER NOT NULL,
    tokens  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    dialect TEXT    NOT NULL,
    counter TEXT    NOT NULL,
    shared  TEXT    NOT NULL,
    labels  BLOB    NOT NULL,
    UNIQUE (tenant, thread)
);

CREATE TABLE messages (
    slot  INTEGER PRIMARY KEY,
    id    BLOB    NOT NULL,
    turn  INTEGER NOT NULL,
    parts TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    body  BLOB    NOT NULL
);

CREATE TABLE plans (
    slot      INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    covers    INTEGER NOT NULL,
    live_from INTEGER NOT NULL,
    policy    TEXT    NOT NULL,
    before    INTEGER NOT NULL,
    after     INTEGER NOT NULL,
    compacted TEXT    NOT NULL,
    body      BLOB    NOT NULL
);

CREATE TABLE events (
    slot INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    kind TEXT    NOT NULL,
    body BLOB    NOT NULL
);

CREATE TABLE documents (
    tenant  TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    expires INTEGER,
    body    BLOB    NOT NULL,
    PRIMARY KEY (tenant, kind, name)
);

CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;

CREATE TABLE artifacts (
    id          TEXT    NOT NULL PRIMARY KEY,
    tenant      TEXT    NOT NULL,
    thread      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    expires     INTEGER,
    key_id      TEXT,
    sensitivity TEXT    NOT NULL,
    bytes       INTEGER NOT NULL,
    tokens      INTEGER NOT NULL
);

CREATE INDEX artifacts_of_tenant ON artifacts (tenant, id);

CREATE TABLE jobs (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    thread       TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    attempts     INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    due          INTEGER NOT NULL,
    queued       INTEGER NOT NULL,
    worker       TEXT,
    token        BLOB,
    lease_until  INTEGER,
    payload      TEXT    NOT NULL,
    error        TEXT
);

CREATE UNIQUE INDEX jobs_pending ON jobs (tenant, thread, kind) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_to_claim ON jobs (kind, queued, id) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_of_thread ON jobs (tenant, thread, kind, queued);
CREATE INDEX jobs_finished ON jobs (queued) WHERE state IN ('done', 'dead');
