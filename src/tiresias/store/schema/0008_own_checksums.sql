-- Checksums are computed in another way, which is several times as fast; all of them are computed again here.
-- An update that brings its checksum along is stored as it is, as insertions are: commits compute the checksums of
-- whole rows before any SQL, because a second update by the trigger costs as much as the first.

UPDATE facts SET crc = row_crc('facts', seq, step, decided, at, kind, version, job, body);
UPDATE jobs SET crc = row_crc('jobs', id, submitted_seq, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since, executed_s, service_gpu_s, progress_s, on_hold, deferred, deferred_until);
UPDATE submissions SET crc = row_crc('submissions', job, body);
UPDATE managed SET crc = row_crc('managed', job, body);
UPDATE runs SET crc = row_crc('runs', id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at, speed, cause, exit);
UPDATE nodes SET crc = row_crc('nodes', position, name, node, in_service, out_slots);
UPDATE history SET crc = row_crc('history', ended_seq, id, job, user, tenant, name, gpus, phase, submitted_at, first_started_at, ended_at, runs, preemptions, executed_s, service_gpu_s, progress_s, ending);
UPDATE meta SET crc = row_crc('meta', one, at, last_seq, last_step, next_run_id, next_job_id, commits);
UPDATE policy SET crc = row_crc('policy', one, name, options, placer, placer_options, memory);
UPDATE bases SET crc = row_crc('bases', seq, at, body);
UPDATE restarts SET crc = row_crc('restarts', seq, at);
UPDATE submission_keys SET crc = row_crc('submission_keys', key, jobs, digest, at);
UPDATE tokens SET crc = row_crc('tokens', hash, name, user, role, created_at);
UPDATE settings SET crc = row_crc('settings', key, value);
UPDATE journal_ids SET crc = row_crc('journal_ids', first_run_id, id);

DROP TRIGGER jobs_updated;
CREATE TRIGGER jobs_updated AFTER UPDATE OF id, submitted_seq, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since, executed_s, service_gpu_s, progress_s, on_hold, deferred, deferred_until ON jobs WHEN NEW.crc IS OLD.crc BEGIN
    UPDATE jobs SET crc = row_crc('jobs', NEW.id, NEW.submitted_seq, NEW.job, NEW.phase, NEW.cancelled, NEW.runs, NEW.preemptions, NEW.first_started_at, NEW.last_preempted_at, NEW.waiting_since, NEW.executed_s, NEW.service_gpu_s, NEW.progress_s, NEW.on_hold, NEW.deferred, NEW.deferred_until) WHERE rowid = NEW.rowid;
END;

DROP TRIGGER runs_updated;
CREATE TRIGGER runs_updated AFTER UPDATE OF id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at, speed, cause, exit ON runs WHEN NEW.crc IS OLD.crc BEGIN
    UPDATE runs SET crc = row_crc('runs', NEW.id, NEW.job, NEW.number, NEW.allocation, NEW.granted_at, NEW.started_at, NEW.revoked_at, NEW.exited_at, NEW.progress_s, NEW.progress_at, NEW.speed, NEW.cause, NEW.exit) WHERE rowid = NEW.rowid;
END;

DROP TRIGGER meta_updated;
CREATE TRIGGER meta_updated AFTER UPDATE OF one, at, last_seq, last_step, next_run_id, next_job_id, commits ON meta WHEN NEW.crc IS OLD.crc BEGIN
    UPDATE meta SET crc = row_crc('meta', NEW.one, NEW.at, NEW.last_seq, NEW.last_step, NEW.next_run_id, NEW.next_job_id, NEW.commits) WHERE rowid = NEW.rowid;
END;
