-- What a live manager needs beyond a simulation: running jobs that are put on hold, deferred jobs, and single slots
-- that are out of service.

ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN deferred TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN deferred_until REAL;
UPDATE jobs SET held = 1 WHERE phase = 'HELD';
ALTER TABLE nodes ADD COLUMN out_slots TEXT NOT NULL DEFAULT '[]';
