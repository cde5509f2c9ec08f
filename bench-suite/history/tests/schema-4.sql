-- A history of version 4.
PRAGMA application_id = 0x546f7263;
PRAGMA user_version = 4;
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
    branch       TEXT,
    folder       TEXT
) STRICT;

CREATE TABLE baselines (
    name       TEXT PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id)
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
    UNIQUE (machine, device, driver, image, suite, scenario, variant)
) STRICT;

-- What a session says of a cell: the UUID of the GPU that it ran on, and the noise thresholds that
-- the suite sets, as a JSON object from metric to threshold. NULL where nothing is known or set.
CREATE TABLE cell_metadata (
    cell_id    INTEGER NOT NULL REFERENCES cells (id),
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    gpu        TEXT,
    thresholds TEXT,
    PRIMARY KEY (cell_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
    id        INTEGER PRIMARY KEY,
    cell_id   INTEGER NOT NULL REFERENCES cells (id),
    metric    TEXT NOT NULL,
    unit      TEXT NOT NULL,
    direction TEXT NOT NULL,
    kind      TEXT NOT NULL,
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

INSERT INTO sessions VALUES
    (1, 'a', 100, 110, 1, 'gpu-1', '570.86', '0.1.0', 'r1', 'main', '/gone/a'),
    (2, 'b', 200, 210, 1, 'gpu-1', '580.12', '0.1.0', 'r2', 'main', '/gone/b'),
    (3, 'c', 300, 310, 1, 'gpu-1', '580.12', '0.1.0', 'r3', NULL, '/gone/c'),
    (4, 'd', 400, 410, 1, 'gpu-1', '580.12', '0.1.0', 'r4', NULL, '/gone/d');
INSERT INTO baselines VALUES ('release', 1);
INSERT INTO revisions VALUES (1, 'r1'), (2, 'r2'), (3, 'r3'), (4, 'r4');
INSERT INTO cells VALUES
    (1, 'gpu-1', 'NVIDIA H200', '570.86', 'torch-2.9.1-cu128', 'smoke', 'vit', 'fp32'),
    (2, 'gpu-1', 'NVIDIA H200', '580.12', 'torch-2.9.1-cu128', 'smoke', 'vit', 'fp32'),
    (3, 'gpu-1', 'NVIDIA H200', '580.12', 'torch-2.11.0-cu130', 'smoke', 'vit', 'fp32'),
    (4, 'imported', '', '', '', '', 'startup', '');
INSERT INTO series VALUES
    (1, 1, 'throughput_samples_per_second', 'samples/s', 'higher-is-better', 'time-like'),
    (2, 2, 'throughput_samples_per_second', 'samples/s', 'higher-is-better', 'time-like'),
    (3, 3, 'throughput_samples_per_second', 'samples/s', 'higher-is-better', 'time-like'),
    (4, 4, 'value', 's', 'lower-is-better', 'time-like');
INSERT INTO cell_metadata VALUES
    (1, 1, 'GPU-1', '{"throughput_samples_per_second":0.02}'),
    (2, 2, 'GPU-1', NULL), (3, 3, NULL, NULL), (2, 4, 'GPU-1', NULL), (3, 4, 'GPU-1', NULL);
INSERT INTO runs VALUES
    (1, 1, 1, 'r', 1, 0, 100, 1, 'sha256:a', NULL, NULL, NULL),
    (2, 2, 2, 'r', 1, 0, 200, 1, 'sha256:a', NULL, NULL, NULL),
    (3, 3, 3, 'r', 1, 0, 300, 1, 'sha256:c', NULL, NULL, NULL),
    (4, 4, 2, 'r', 1, 0, 400, 1, 'sha256:a', NULL, NULL, NULL),
    (5, 4, 3, 's', 1, 0, 401, 1, 'sha256:c', NULL, NULL, NULL),
    (6, 4, 3, 't', 1, 0, 402, 0, 'sha256:c', 'out-of-memory', 'warmup', 'no');
INSERT INTO points VALUES
    (1, 100, 1, 1, 1, 100), (2, 200, 2, 2, 2, 99), (3, 300, 3, 3, 3, 98),
    (2, 400, 4, 4, 4, 99), (3, 401, 5, 4, 4, 98), (4, 5, 0, NULL, 1, 1.5), (4, 6, 1, NULL, 1, 1.25);
