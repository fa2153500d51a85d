-- Threads with their messages, plans and events; documents, artifacts and jobs.
-- Names are compared byte by byte, so that lists have the same order in every database.

CREATE TABLE threads (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text   COLLATE "C" NOT NULL,
    thread  text   COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    base    bigint NOT NULL,
    length  bigint NOT NULL,
    tip     bytea  NOT NULL,
    turn    bigint NOT NULL,
    tokens  bigint NOT NULL,
    version bigint NOT NULL,
    events  bigint NOT NULL DEFAULT 0,
    dialect text   NOT NULL,
    counter text   NOT NULL,
    shared  text   NOT NULL,
    labels  bytea  NOT NULL,
    UNIQUE (tenant, thread)
) WITH (fillfactor = 70);

CREATE TABLE messages (
    thread bigint NOT NULL REFERENCES threads (no),
    place  bigint NOT NULL,
    id     bytea  NOT NULL,
    turn   bigint NOT NULL,
    parts  text   NOT NULL,
    at     bigint NOT NULL,
    body   bytea  NOT NULL,
    PRIMARY KEY (thread, place)
);

CREATE TABLE plans (
    thread    bigint NOT NULL REFERENCES threads (no),
    version   bigint NOT NULL,
    at        bigint NOT NULL,
    covers    bigint NOT NULL,
    live_from bigint NOT NULL,
    policy    text   NOT NULL,
    before    bigint NOT NULL,
    after     bigint NOT NULL,
    compacted text   NOT NULL,
    body      bytea  NOT NULL,
    PRIMARY KEY (thread, version)
);

CREATE TABLE events (
    thread bigint NOT NULL REFERENCES threads (no),
    number bigint NOT NULL,
    at     bigint NOT NULL,
    kind   text   NOT NULL,
    body   bytea  NOT NULL,
    PRIMARY KEY (thread, number)
);

CREATE TABLE documents (
    tenant  text   COLLATE "C" NOT NULL,
    kind    text   COLLATE "C" NOT NULL,
    name    text   COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    at      bigint NOT NULL,
    expires bigint,
    body    bytea  NOT NULL,
    PRIMARY KEY (tenant, kind, name)
);

CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;

CREATE TABLE artifacts (
    id          text     COLLATE "C" PRIMARY KEY,
    tenant      text     COLLATE "C" NOT NULL,
    thread      text     COLLATE "C" NOT NULL,
    at          bigint   NOT NULL,
    expires     bigint,
    key_id      text,
    sensitivity smallint NOT NULL,
    bytes       bigint   NOT NULL,
    tokens      bigint   NOT NULL
);

CREATE INDEX artifacts_of_tenant ON artifacts (tenant, id);

CREATE TABLE jobs (
    id           bytea  PRIMARY KEY,
    tenant       text   COLLATE "C" NOT NULL,
    thread       text   COLLATE "C" NOT NULL,
    kind         text   COLLATE "C" NOT NULL,
    state        text   COLLATE "C" NOT NULL,
    attempts     bigint NOT NULL,
    attempts_max bigint NOT NULL,
    due          bigint NOT NULL,
    queued       bigint NOT NULL,
    worker       text,
    token        bytea,
    lease_until  bigint,
    payload      text   NOT NULL,
    error        text
);

CREATE UNIQUE INDEX jobs_pending ON jobs (tenant, thread, kind) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_to_claim ON jobs (kind, queued, id) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_of_thread ON jobs (tenant, thread, kind, queued);
CREATE INDEX jobs_finished ON jobs (queued) WHERE state IN ('done', 'dead');
