-- Vectors of passages: each has the rowid of its passage. The numbers stand in the open, or the body is sealed.

CREATE TABLE vectors (
    slot   INTEGER PRIMARY KEY,
    space  TEXT    NOT NULL,
    sealed INTEGER NOT NULL,
    body   BLOB    NOT NULL
);
