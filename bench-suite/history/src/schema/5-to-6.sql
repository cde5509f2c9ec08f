-- The settings of a method, a JSON object, by the fingerprint that stands in the keys of cells. Those
-- of sessions that were added before are read by `history rebuild`.
CREATE TABLE methods (
    fingerprint TEXT PRIMARY KEY,
    settings    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
