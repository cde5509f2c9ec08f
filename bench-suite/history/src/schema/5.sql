-- Times are seconds since 1970-01-01 UTC. `tracks` is a JSON object from image to track, of those
-- that the user named.

CREATE TABLE sessions (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    started      REAL NOT NULL,
    ended        REAL,
    complete     INTEGER NOT NULL,
    machine      TEXT NOT NULL,
    driver       TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    revision     TEXT,
    branch       TEXT,
    folder       TEXT,
    tracks       TEXT NOT NULL
) STRICT;

CREATE TABLE baselines (
    name       TEXT PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id)
) STRICT;

CREATE TABLE cells (
    id       INTEGER PRIMARY KEY,
    machine  TEXT NOT NULL,
    device   TEXT NOT NULL,
    track    TEXT NOT NULL,
    suite    TEXT NOT NULL,
    scenario TEXT NOT NULL,
    variant  TEXT NOT NULL,
    method   TEXT NOT NULL,
    UNIQUE (machine, device, track, suite, scenario, variant, method)
) STRICT;

-- What a session says of a cell, as JSON objects: what it was measured with, by attribute, and the
-- noise thresholds that the suite sets, by metric; NULL where it sets none.
CREATE TABLE cell_metadata (
    cell_id    INTEGER NOT NULL REFERENCES cells (id),
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    attributes TEXT NOT NULL,
    thresholds TEXT,
    PRIMARY KEY (cell_id, session_id)
) STRICT, WITHOUT ROWID;

-- `threshold` is that of an imported series; those of a suite stand with its sessions.
CREATE TABLE series (
    id        INTEGER PRIMARY KEY,
    cell_id   INTEGER NOT NULL REFERENCES cells (id),
    metric    TEXT NOT NULL,
    unit      TEXT NOT NULL,
    direction TEXT NOT NULL,
    kind      TEXT NOT NULL,
    threshold REAL,
    UNIQUE (cell_id, metric)
) STRICT;

CREATE TABLE revisions (
    id       INTEGER PRIMARY KEY,
    revision TEXT NOT NULL UNIQUE
) STRICT;

-- Every run, failed ones too. `reason` is NULL where the run went well.
CREATE TABLE runs (
    id          INTEGER PRIMARY KEY,
    session_id  INTEGER NOT NULL REFERENCES sessions (id),
    cell_id     INTEGER NOT NULL REFERENCES cells (id),
    name        TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    block       INTEGER NOT NULL,
    started     REAL NOT NULL,
    point_count INTEGER NOT NULL,
    image_id    TEXT,
    reason      TEXT,
    stage       TEXT,
    message     TEXT,
    UNIQUE (session_id, name, attempt)
) STRICT;

-- `ordinal` is runs.id, or rises in the order of import where the session is NULL.
-- No foreign keys: checking three of them a row doubles the time of an import.
CREATE TABLE points (
    series_id   INTEGER NOT NULL,
    timestamp   REAL NOT NULL,
    ordinal     INTEGER NOT NULL,
    session_id  INTEGER,
    revision_id INTEGER NOT NULL,
    value       REAL NOT NULL,
    PRIMARY KEY (series_id, timestamp, ordinal)
) STRICT, WITHOUT ROWID;
