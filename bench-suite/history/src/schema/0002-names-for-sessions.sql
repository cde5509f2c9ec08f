-- What users call sessions: the branch they were measured on, and baselines.

CREATE TABLE branches (
    session_id INTEGER PRIMARY KEY REFERENCES sessions (id),
    branch     TEXT NOT NULL,
    seal       INTEGER NOT NULL
) STRICT;

CREATE TABLE baselines (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    seal       INTEGER NOT NULL
) STRICT;
