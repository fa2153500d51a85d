-- Whose conversations a thread is looked for among, and messages by their ids.

ALTER TABLE threads ADD COLUMN scope text COLLATE "C" NOT NULL DEFAULT '';

CREATE INDEX messages_by_id ON messages (id);
