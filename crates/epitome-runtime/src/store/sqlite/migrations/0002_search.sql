-- The full-text index of what was compacted. A thread that has passages has a lane; the rowid of a passage is its lane,
-- its message's place and its number side by side, so that a thread's passages up to a place are one range of rowids.

CREATE TABLE lanes (
    lane   INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL UNIQUE REFERENCES threads (no)
);

CREATE TABLE passages (
    slot       INTEGER PRIMARY KEY,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL
);

CREATE VIRTUAL TABLE search USING fts5 (
    terms,
    content = '',
    contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* Co'"
);
