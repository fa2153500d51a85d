-- The full-text index of what was compacted. Beside its terms a passage has a lexeme that names its thread, so that the
-- index itself keeps a search within the thread.

CREATE TABLE passages (
    thread     bigint   NOT NULL REFERENCES threads (no),
    place      bigint   NOT NULL,
    passage    bigint   NOT NULL,
    first_line bigint   NOT NULL,
    last_line  bigint   NOT NULL,
    terms      tsvector NOT NULL,
    PRIMARY KEY (thread, place, passage)
);

CREATE INDEX passages_terms ON passages USING gin (terms);
