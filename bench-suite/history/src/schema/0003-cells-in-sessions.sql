-- What a session says of a cell beside its figures. Every cell that a session has a run of has a
-- row, so that a lost one is noticed; those of sessions from before this version are filled in
-- by src/beside.rs, with nothing said.
-- `card` is the UUID of the card that the cell ran on; `margins` are those that the session's
-- suite sets, as a JSON object from metric to margin. NULL where nothing is known or set.

CREATE TABLE cells_in_sessions (
    cell_id    INTEGER NOT NULL REFERENCES cells (id),
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    card       TEXT,
    margins    TEXT,
    seal       INTEGER NOT NULL,
    PRIMARY KEY (cell_id, session_id)
) STRICT, WITHOUT ROWID;
