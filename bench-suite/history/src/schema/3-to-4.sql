-- Rows had a checksum, and series and sessions counted their points.
ALTER TABLE sessions DROP COLUMN seal;
ALTER TABLE sessions DROP COLUMN run_count;
ALTER TABLE sessions DROP COLUMN point_count;
ALTER TABLE cells DROP COLUMN seal;
ALTER TABLE series DROP COLUMN seal;
ALTER TABLE series DROP COLUMN point_count;
ALTER TABLE series DROP COLUMN oldest;
ALTER TABLE series DROP COLUMN newest;
ALTER TABLE revisions DROP COLUMN seal;
ALTER TABLE runs DROP COLUMN seal;
ALTER TABLE points DROP COLUMN seal;
ALTER TABLE points DROP COLUMN block;

ALTER TABLE sessions ADD COLUMN branch TEXT;
ALTER TABLE sessions ADD COLUMN folder TEXT;
UPDATE sessions SET branch = (SELECT branch FROM branches WHERE session_id = sessions.id);
DROP TABLE branches;

CREATE TABLE named (
    name       TEXT PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id)
) STRICT;
INSERT INTO named SELECT name, session_id FROM baselines;
DROP TABLE baselines;
ALTER TABLE named RENAME TO baselines;

ALTER TABLE cells_in_sessions DROP COLUMN seal;
ALTER TABLE cells_in_sessions RENAME COLUMN card TO gpu;
ALTER TABLE cells_in_sessions RENAME COLUMN margins TO thresholds;
ALTER TABLE cells_in_sessions RENAME TO cell_metadata;

-- Metrics that have another name since.
UPDATE series SET metric = 'run_gpu_energy_joules' WHERE metric = 'card_energy_joules';
UPDATE series SET metric = 'run_gpu_mean_power_watts' WHERE metric = 'card_mean_power_watts';
UPDATE series SET metric = 'cpu_seconds' WHERE metric = 'processor_seconds';
UPDATE series SET metric = 'run_cpu_seconds' WHERE metric = 'run_processor_seconds';
UPDATE series SET metric = 'run_host_peak_resident_bytes' WHERE metric = 'host_peak_resident_bytes';
UPDATE cell_metadata SET thresholds =
    replace(thresholds, '"host_peak_resident_bytes"', '"run_host_peak_resident_bytes"');
-- And those whose name stands for something else: the peaks were of no one window.
UPDATE series SET metric = 'former_' || metric
    WHERE metric IN ('process_peak_bytes', 'container_peak_bytes', 'activation_bytes');
