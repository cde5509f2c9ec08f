-- Image and driver were parts of a cell's key and are attributes now. `moved` has the new track of
-- every old cell in every session, 0 for imported ones.
ALTER TABLE moved ADD COLUMN cell INTEGER;
INSERT INTO sessions SELECT id, name, started, ended, complete, machine, driver, tool_version,
    revision, branch, folder, '{}' FROM old_sessions;
INSERT INTO baselines SELECT * FROM old_baselines;
INSERT INTO revisions SELECT * FROM old_revisions;
INSERT OR IGNORE INTO cells (machine, device, track, suite, scenario, variant, method)
    SELECT machine, device, moved.track, suite, scenario, variant, ''
    FROM moved JOIN old_cells ON old_cells.id = old ORDER BY old;
UPDATE moved SET cell = (
    SELECT cells.id FROM cells JOIN old_cells USING (machine, device, suite, scenario, variant)
    WHERE old_cells.id = old AND cells.track = moved.track);
INSERT INTO runs SELECT id, session_id, cell, name, attempt, block, started, point_count, image_id,
    reason, stage, message FROM old_runs JOIN moved ON old = cell_id AND session = session_id;
INSERT OR IGNORE INTO cell_metadata
    SELECT cell, session, json_patch('{}', json_object(
        'driver', nullif(old_cells.driver, 'none'), 'gpu', gpu, 'image', image,
        'image_id', (SELECT max(image_id) FROM old_runs WHERE cell_id = old AND session_id = session)
    )), thresholds
    FROM moved JOIN old_cells ON old_cells.id = old
    LEFT JOIN old_cell_metadata ON cell_id = old AND session_id = session WHERE session > 0;
INSERT OR IGNORE INTO series (cell_id, metric, unit, direction, kind)
    SELECT cell, metric, unit, direction, kind FROM old_series JOIN moved ON old = cell_id
    ORDER BY old_series.id;
INSERT INTO points SELECT series.id, timestamp, ordinal, session_id, revision_id, value
    FROM old_points JOIN old_series ON old_series.id = series_id
    JOIN moved ON old = old_series.cell_id AND session = coalesce(session_id, 0)
    JOIN series ON series.cell_id = cell AND series.metric = old_series.metric;
DELETE FROM series WHERE id NOT IN (SELECT series_id FROM points);
DROP TABLE moved;
DROP TABLE old_points;
DROP TABLE old_runs;
DROP TABLE old_cell_metadata;
DROP TABLE old_series;
DROP TABLE old_baselines;
DROP TABLE old_cells;
DROP TABLE old_sessions;
DROP TABLE old_revisions;
