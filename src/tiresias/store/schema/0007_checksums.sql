-- Each row has a checksum of its values, so that a bit that flipped on the disk is found. Triggers keep it right: a
-- column that is added later must be added to the two triggers of its table, and the checksums computed again.
-- An insertion that brings its checksum along is stored as it is.
-- `row_crc` is a function of the program (store/checksums.py), so that no other program can change a row.

DROP TRIGGER one_exit_for_ever;

ALTER TABLE facts ADD COLUMN crc INTEGER;
UPDATE facts SET crc = row_crc('facts', seq, step, decided, at, kind, version, job, body);
CREATE TRIGGER facts_inserted AFTER INSERT ON facts WHEN NEW.crc IS NULL BEGIN
    UPDATE facts SET crc = row_crc('facts', NEW.seq, NEW.step, NEW.decided, NEW.at, NEW.kind, NEW.version, NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER facts_updated AFTER UPDATE OF seq, step, decided, at, kind, version, job, body ON facts BEGIN
    UPDATE facts SET crc = row_crc('facts', NEW.seq, NEW.step, NEW.decided, NEW.at, NEW.kind, NEW.version, NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;

ALTER TABLE jobs ADD COLUMN crc INTEGER;
UPDATE jobs SET crc = row_crc('jobs', id, submitted_seq, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since, executed_s, service_gpu_s, progress_s, on_hold, deferred, deferred_until);
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs WHEN NEW.crc IS NULL BEGIN
    UPDATE jobs SET crc = row_crc('jobs', NEW.id, NEW.submitted_seq, NEW.job, NEW.phase, NEW.cancelled, NEW.runs, NEW.preemptions, NEW.first_started_at, NEW.last_preempted_at, NEW.waiting_since, NEW.executed_s, NEW.service_gpu_s, NEW.progress_s, NEW.on_hold, NEW.deferred, NEW.deferred_until) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER jobs_updated AFTER UPDATE OF id, submitted_seq, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since, executed_s, service_gpu_s, progress_s, on_hold, deferred, deferred_until ON jobs BEGIN
    UPDATE jobs SET crc = row_crc('jobs', NEW.id, NEW.submitted_seq, NEW.job, NEW.phase, NEW.cancelled, NEW.runs, NEW.preemptions, NEW.first_started_at, NEW.last_preempted_at, NEW.waiting_since, NEW.executed_s, NEW.service_gpu_s, NEW.progress_s, NEW.on_hold, NEW.deferred, NEW.deferred_until) WHERE rowid = NEW.rowid;
END;

ALTER TABLE submissions ADD COLUMN crc INTEGER;
UPDATE submissions SET crc = row_crc('submissions', job, body);
CREATE TRIGGER submissions_inserted AFTER INSERT ON submissions WHEN NEW.crc IS NULL BEGIN
    UPDATE submissions SET crc = row_crc('submissions', NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER submissions_updated AFTER UPDATE OF job, body ON submissions BEGIN
    UPDATE submissions SET crc = row_crc('submissions', NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;

ALTER TABLE managed ADD COLUMN crc INTEGER;
UPDATE managed SET crc = row_crc('managed', job, body);
CREATE TRIGGER managed_inserted AFTER INSERT ON managed WHEN NEW.crc IS NULL BEGIN
    UPDATE managed SET crc = row_crc('managed', NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER managed_updated AFTER UPDATE OF job, body ON managed BEGIN
    UPDATE managed SET crc = row_crc('managed', NEW.job, NEW.body) WHERE rowid = NEW.rowid;
END;

ALTER TABLE runs ADD COLUMN crc INTEGER;
UPDATE runs SET crc = row_crc('runs', id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at, speed, cause, exit);
CREATE TRIGGER runs_inserted AFTER INSERT ON runs WHEN NEW.crc IS NULL BEGIN
    UPDATE runs SET crc = row_crc('runs', NEW.id, NEW.job, NEW.number, NEW.allocation, NEW.granted_at, NEW.started_at, NEW.revoked_at, NEW.exited_at, NEW.progress_s, NEW.progress_at, NEW.speed, NEW.cause, NEW.exit) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER runs_updated AFTER UPDATE OF id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at, speed, cause, exit ON runs BEGIN
    UPDATE runs SET crc = row_crc('runs', NEW.id, NEW.job, NEW.number, NEW.allocation, NEW.granted_at, NEW.started_at, NEW.revoked_at, NEW.exited_at, NEW.progress_s, NEW.progress_at, NEW.speed, NEW.cause, NEW.exit) WHERE rowid = NEW.rowid;
END;

ALTER TABLE nodes ADD COLUMN crc INTEGER;
UPDATE nodes SET crc = row_crc('nodes', position, name, node, in_service, out_slots);
CREATE TRIGGER nodes_inserted AFTER INSERT ON nodes WHEN NEW.crc IS NULL BEGIN
    UPDATE nodes SET crc = row_crc('nodes', NEW.position, NEW.name, NEW.node, NEW.in_service, NEW.out_slots) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER nodes_updated AFTER UPDATE OF position, name, node, in_service, out_slots ON nodes BEGIN
    UPDATE nodes SET crc = row_crc('nodes', NEW.position, NEW.name, NEW.node, NEW.in_service, NEW.out_slots) WHERE rowid = NEW.rowid;
END;

ALTER TABLE history ADD COLUMN crc INTEGER;
UPDATE history SET crc = row_crc('history', ended_seq, id, job, user, tenant, name, gpus, phase, submitted_at, first_started_at, ended_at, runs, preemptions, executed_s, service_gpu_s, progress_s, ending);
CREATE TRIGGER history_inserted AFTER INSERT ON history WHEN NEW.crc IS NULL BEGIN
    UPDATE history SET crc = row_crc('history', NEW.ended_seq, NEW.id, NEW.job, NEW.user, NEW.tenant, NEW.name, NEW.gpus, NEW.phase, NEW.submitted_at, NEW.first_started_at, NEW.ended_at, NEW.runs, NEW.preemptions, NEW.executed_s, NEW.service_gpu_s, NEW.progress_s, NEW.ending) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER history_updated AFTER UPDATE OF ended_seq, id, job, user, tenant, name, gpus, phase, submitted_at, first_started_at, ended_at, runs, preemptions, executed_s, service_gpu_s, progress_s, ending ON history BEGIN
    UPDATE history SET crc = row_crc('history', NEW.ended_seq, NEW.id, NEW.job, NEW.user, NEW.tenant, NEW.name, NEW.gpus, NEW.phase, NEW.submitted_at, NEW.first_started_at, NEW.ended_at, NEW.runs, NEW.preemptions, NEW.executed_s, NEW.service_gpu_s, NEW.progress_s, NEW.ending) WHERE rowid = NEW.rowid;
END;

ALTER TABLE meta ADD COLUMN crc INTEGER;
UPDATE meta SET crc = row_crc('meta', one, at, last_seq, last_step, next_run_id, next_job_id, commits);
CREATE TRIGGER meta_inserted AFTER INSERT ON meta WHEN NEW.crc IS NULL BEGIN
    UPDATE meta SET crc = row_crc('meta', NEW.one, NEW.at, NEW.last_seq, NEW.last_step, NEW.next_run_id, NEW.next_job_id, NEW.commits) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER meta_updated AFTER UPDATE OF one, at, last_seq, last_step, next_run_id, next_job_id, commits ON meta BEGIN
    UPDATE meta SET crc = row_crc('meta', NEW.one, NEW.at, NEW.last_seq, NEW.last_step, NEW.next_run_id, NEW.next_job_id, NEW.commits) WHERE rowid = NEW.rowid;
END;

ALTER TABLE policy ADD COLUMN crc INTEGER;
UPDATE policy SET crc = row_crc('policy', one, name, options, placer, placer_options, memory);
CREATE TRIGGER policy_inserted AFTER INSERT ON policy WHEN NEW.crc IS NULL BEGIN
    UPDATE policy SET crc = row_crc('policy', NEW.one, NEW.name, NEW.options, NEW.placer, NEW.placer_options, NEW.memory) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER policy_updated AFTER UPDATE OF one, name, options, placer, placer_options, memory ON policy BEGIN
    UPDATE policy SET crc = row_crc('policy', NEW.one, NEW.name, NEW.options, NEW.placer, NEW.placer_options, NEW.memory) WHERE rowid = NEW.rowid;
END;

ALTER TABLE bases ADD COLUMN crc INTEGER;
UPDATE bases SET crc = row_crc('bases', seq, at, body);
CREATE TRIGGER bases_inserted AFTER INSERT ON bases WHEN NEW.crc IS NULL BEGIN
    UPDATE bases SET crc = row_crc('bases', NEW.seq, NEW.at, NEW.body) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER bases_updated AFTER UPDATE OF seq, at, body ON bases BEGIN
    UPDATE bases SET crc = row_crc('bases', NEW.seq, NEW.at, NEW.body) WHERE rowid = NEW.rowid;
END;

ALTER TABLE restarts ADD COLUMN crc INTEGER;
UPDATE restarts SET crc = row_crc('restarts', seq, at);
CREATE TRIGGER restarts_inserted AFTER INSERT ON restarts WHEN NEW.crc IS NULL BEGIN
    UPDATE restarts SET crc = row_crc('restarts', NEW.seq, NEW.at) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER restarts_updated AFTER UPDATE OF seq, at ON restarts BEGIN
    UPDATE restarts SET crc = row_crc('restarts', NEW.seq, NEW.at) WHERE rowid = NEW.rowid;
END;

ALTER TABLE submission_keys ADD COLUMN crc INTEGER;
UPDATE submission_keys SET crc = row_crc('submission_keys', key, jobs, digest, at);
CREATE TRIGGER submission_keys_inserted AFTER INSERT ON submission_keys WHEN NEW.crc IS NULL BEGIN
    UPDATE submission_keys SET crc = row_crc('submission_keys', NEW.key, NEW.jobs, NEW.digest, NEW.at) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER submission_keys_updated AFTER UPDATE OF key, jobs, digest, at ON submission_keys BEGIN
    UPDATE submission_keys SET crc = row_crc('submission_keys', NEW.key, NEW.jobs, NEW.digest, NEW.at) WHERE rowid = NEW.rowid;
END;

ALTER TABLE tokens ADD COLUMN crc INTEGER;
UPDATE tokens SET crc = row_crc('tokens', hash, name, user, role, created_at);
CREATE TRIGGER tokens_inserted AFTER INSERT ON tokens WHEN NEW.crc IS NULL BEGIN
    UPDATE tokens SET crc = row_crc('tokens', NEW.hash, NEW.name, NEW.user, NEW.role, NEW.created_at) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER tokens_updated AFTER UPDATE OF hash, name, user, role, created_at ON tokens BEGIN
    UPDATE tokens SET crc = row_crc('tokens', NEW.hash, NEW.name, NEW.user, NEW.role, NEW.created_at) WHERE rowid = NEW.rowid;
END;

ALTER TABLE settings ADD COLUMN crc INTEGER;
UPDATE settings SET crc = row_crc('settings', key, value);
CREATE TRIGGER settings_inserted AFTER INSERT ON settings WHEN NEW.crc IS NULL BEGIN
    UPDATE settings SET crc = row_crc('settings', NEW.key, NEW.value) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER settings_updated AFTER UPDATE OF key, value ON settings BEGIN
    UPDATE settings SET crc = row_crc('settings', NEW.key, NEW.value) WHERE rowid = NEW.rowid;
END;

ALTER TABLE journal_ids ADD COLUMN crc INTEGER;
UPDATE journal_ids SET crc = row_crc('journal_ids', first_run_id, id);
CREATE TRIGGER journal_ids_inserted AFTER INSERT ON journal_ids WHEN NEW.crc IS NULL BEGIN
    UPDATE journal_ids SET crc = row_crc('journal_ids', NEW.first_run_id, NEW.id) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER journal_ids_updated AFTER UPDATE OF first_run_id, id ON journal_ids BEGIN
    UPDATE journal_ids SET crc = row_crc('journal_ids', NEW.first_run_id, NEW.id) WHERE rowid = NEW.rowid;
END;

CREATE TRIGGER one_exit_for_ever BEFORE UPDATE OF id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at, speed, cause, exit ON runs
WHEN OLD.exited_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a run has one exit record, for ever');
END;
