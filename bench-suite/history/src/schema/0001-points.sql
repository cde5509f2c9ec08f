-- Sessions, runs and the points of every series.
-- `seal` is a checksum over the table's name and the other columns of the row (src/seal.rs).
-- Times are seconds since 1970-01-01 UTC.

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
    run_count    INTEGER NOT NULL,
    point_count  INTEGER NOT NULL,
    seal         INTEGER NOT NULL
) STRICT;

CREATE TABLE cells (
    id       INTEGER PRIMARY KEY,
    machine  TEXT NOT NULL,
    device   TEXT NOT NULL,
    driver   TEXT NOT NULL,
    image    TEXT NOT NULL,
    suite    TEXT NOT NULL,
    scenario TEXT NOT NULL,
    variant  TEXT NOT NULL,
    seal     INTEGER NOT NULL,
    UNIQUE (machine, device, driver, image, suite, scenario, variant)
) STRICT;

CREATE TABLE series (
    id          INTEGER PRIMARY KEY,
    cell_id     INTEGER NOT NULL REFERENCES cells (id),
    metric      TEXT NOT NULL,
    unit        TEXT NOT NULL,
    direction   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    point_count INTEGER NOT NULL,
    oldest      REAL,
    newest      REAL,
    seal        INTEGER NOT NULL,
    UNIQUE (cell_id, metric)
) STRICT;

CREATE TABLE revisions (
    id       INTEGER PRIMARY KEY,
    revision TEXT NOT NULL UNIQUE,
    seal     INTEGER NOT NULL
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
    seal        INTEGER NOT NULL,
    UNIQUE (session_id, name, attempt)
) STRICT;

-- Values of runs that went well, and imported ones; failed runs have none.
-- `ordinal` is runs.id, or a number below 0 that rises in the order of import for imported
-- points, which have no session and no block.
-- No foreign keys here: checking three of them a row doubles the time of an import, and the
-- counts in `series` and `sessions` with the seals guard more than they would.
CREATE TABLE points (
    series_id   INTEGER NOT NULL,
    timestamp   REAL NOT NULL,
    ordinal     INTEGER NOT NULL,
    session_id  INTEGER,
    block       INTEGER,
    revision_id INTEGER NOT NULL,
    value       REAL NOT NULL,
    seal        INTEGER NOT NULL,
    PRIMARY KEY (series_id, timestamp, ordinal)
) STRICT, WITHOUT ROWID;
