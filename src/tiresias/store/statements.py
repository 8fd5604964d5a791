"""The SQL that a commit is made of."""

from __future__ import annotations

from tiresias.store.rows import JOB_COLUMNS

INSERT_FACT = "INSERT INTO facts (seq, step, decided, at, kind, version, job, body) VALUES (?,?,?,?,?,?,?,?)"

_UPDATED = [name.strip() for name in JOB_COLUMNS.split(",")][1:]
UPSERT_JOB = (
    f"INSERT INTO jobs (place, {JOB_COLUMNS}) VALUES (?{',?' * (len(_UPDATED) + 1)})"
    f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _UPDATED)}"
)
DELETE_JOB = "DELETE FROM jobs WHERE id = ?"
INSERT_HISTORY = f"INSERT INTO history VALUES ({','.join('?' * 17)})"
SEEN_BEFORE = "SELECT 1 FROM jobs WHERE id = ?1 UNION ALL SELECT 1 FROM history WHERE id = ?1"

INSERT_RUN = (
    "INSERT INTO runs (id, job, number, allocation, granted_at, progress_at, progress_s, speed)"
    " VALUES (?,?,?,?,?,?,0.0,0.0)"
)
MOVE_RUN = "UPDATE runs SET started_at = ?, progress_s = ?, progress_at = ?, speed = ? WHERE id = ?"
REVOKE_RUN = "UPDATE runs SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?"
START_RUN = "UPDATE runs SET started_at = ? WHERE id = ?"
EXIT_RUN = (
    "UPDATE runs SET exited_at = ?, cause = ?, progress_s = ?, progress_at = ?, speed = 0.0, exit = ?"
    " WHERE id = ?"
)

REPLACE_NODE = "INSERT OR REPLACE INTO nodes (position, name, node, in_service, out_slots) VALUES (?,?,?,?,?)"
REPLACE_META = (
    "INSERT OR REPLACE INTO meta (one, at, last_seq, last_step, next_run_id, next_job_id)"
    " VALUES (1,?,?,?,?,?)"
)
INSERT_POLICY = "INSERT INTO policy (one, name, options, placer, placer_options, memory) VALUES (1,?,?,?,?,?)"
UPDATE_POLICY = "UPDATE policy SET name = ?, options = ?, placer = ?, placer_options = ?"
FIND_KEY = "SELECT jobs FROM submission_keys WHERE key = ?"
UPDATE_MEMORY = "UPDATE policy SET memory = ?"
REPLACE_SUBMISSION = "INSERT OR REPLACE INTO submissions (job, body) VALUES (?,?)"
REPLACE_NOTE = "INSERT OR REPLACE INTO notes (job, body) VALUES (?,?)"
INSERT_KEY = "INSERT INTO submission_keys (key, jobs, digest, at) VALUES (?,?,?,?)"
INSERT_BASE = "INSERT OR REPLACE INTO bases (seq, at, body) VALUES (?,?,?)"
INSERT_RESTART = "INSERT INTO restarts (seq, at) VALUES (?,?)"
REPLACE_SETTING = "INSERT OR REPLACE INTO settings (key, value) VALUES (?,?)"
