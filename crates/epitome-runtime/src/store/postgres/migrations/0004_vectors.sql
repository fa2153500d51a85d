-- Vectors of passages: the numbers in the open, or sealed. They are an array and not of pgvector's own type, so that the
-- schema is the same with and without that extension; where it is there, they are compared as vectors.

CREATE TABLE vectors (
    thread  bigint NOT NULL REFERENCES threads (no),
    place   bigint NOT NULL,
    passage bigint NOT NULL,
    space   text   COLLATE "C" NOT NULL,
    plain   real[],
    sealed  bytea,
    PRIMARY KEY (thread, place, passage)
);
