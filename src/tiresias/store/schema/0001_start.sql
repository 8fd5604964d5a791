-- The schema of version 1; later files change it. Instants are epoch seconds; NULL stands for "not yet" or "never".
-- JSON is stored as text. An active job has a row in `jobs`, an ended job has a row in `history` instead, for ever.

CREATE TABLE facts (
    seq      INTEGER PRIMARY KEY,  -- 1, 2, ... without gaps until compaction deletes some; never reused
    step     INTEGER NOT NULL,     -- one call of the Controller: the facts that it handled, then its decisions
    decided  INTEGER NOT NULL,     -- 1: a decision of the Controller; 0: a fact from outside
    at       REAL NOT NULL,
    kind     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    job      INTEGER,              -- the job that the fact is about
    body     TEXT NOT NULL
);
CREATE INDEX facts_of_job ON facts (job, seq) WHERE job IS NOT NULL;

CREATE TABLE jobs (
    id                INTEGER PRIMARY KEY,
    place             INTEGER NOT NULL,  -- the number of the JobSubmitted, which gives the order of submission
    job               TEXT NOT NULL,     -- core.model.Job
    phase             TEXT NOT NULL,
    cancelled         INTEGER NOT NULL,
    runs              INTEGER NOT NULL,
    preemptions       INTEGER NOT NULL,
    first_started_at  REAL,
    last_preempted_at REAL,
    waiting_since     REAL NOT NULL,
    held_s            REAL NOT NULL,
    service_gpu_s     REAL NOT NULL,
    progress_s        REAL NOT NULL
);

CREATE TABLE submissions (
    job   INTEGER PRIMARY KEY,
    body  TEXT NOT NULL  -- the job specification: command, environment, directory; only the manager reads it
);

CREATE TABLE notes (
    job   INTEGER PRIMARY KEY,
    body  TEXT NOT NULL  -- what the manager must know of the job after a restart, beyond the State of the core
);

CREATE TABLE runs (
    id           INTEGER PRIMARY KEY,
    job          INTEGER NOT NULL,
    number       INTEGER NOT NULL,  -- the first run of a job is 1
    allocation   TEXT NOT NULL,     -- [[node position, bit mask of slots], ...]
    granted_at   REAL NOT NULL,
    started_at   REAL,
    revoked_at   REAL,              -- when it had to stop: by a decision, or because its job was cancelled, held or requeued
    exited_at    REAL,
    progress_s   REAL NOT NULL,
    progress_at  REAL NOT NULL,
    speed        REAL NOT NULL,
    cause        TEXT,              -- core.facts.ExitCause
    exit         TEXT,              -- the exit record, as the manager writes it
    UNIQUE (job, number)
);
CREATE INDEX open_runs ON runs (id) WHERE exited_at IS NULL;
CREATE TRIGGER one_exit_for_ever BEFORE UPDATE ON runs WHEN OLD.exited_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a run has one exit record, for ever');
END;

CREATE TABLE nodes (
    position    INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    node        TEXT NOT NULL,  -- core.model.Node
    in_service  INTEGER NOT NULL
);

CREATE TABLE history (
    ended_seq         INTEGER PRIMARY KEY,  -- the number of the last fact about the job
    id                INTEGER NOT NULL UNIQUE,
    job               TEXT NOT NULL,
    user              TEXT NOT NULL,
    tenant            TEXT NOT NULL,
    name              TEXT NOT NULL,
    gpus              INTEGER NOT NULL,
    phase             TEXT NOT NULL,
    submitted_at      REAL NOT NULL,
    first_started_at  REAL,
    ended_at          REAL NOT NULL,
    runs              INTEGER NOT NULL,
    preemptions       INTEGER NOT NULL,
    held_s            REAL NOT NULL,
    service_gpu_s     REAL NOT NULL,
    progress_s        REAL NOT NULL,
    record            TEXT  -- why and how it ended, as the manager writes it
);
CREATE INDEX history_by_end ON history (ended_at);
CREATE INDEX history_by_user ON history (user, ended_at);

-- One row.
CREATE TABLE meta (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    at           REAL,
    last_seq     INTEGER NOT NULL,
    last_step    INTEGER NOT NULL,
    next_run_id  INTEGER NOT NULL,
    next_job_id  INTEGER NOT NULL
);

-- One row.
CREATE TABLE policy (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    name            TEXT NOT NULL,
    options         TEXT NOT NULL,
    placer          TEXT NOT NULL,
    placer_options  TEXT NOT NULL,
    memory          TEXT NOT NULL  -- what Policy.save returns
);

-- The whole State after fact `seq`. A replay starts from the oldest one.
CREATE TABLE bases (
    seq   INTEGER PRIMARY KEY,
    at    REAL,
    body  TEXT NOT NULL
);

-- The last fact before each restart of the manager, after which its Controller computed every rank from the State.
CREATE TABLE restarts (
    seq  INTEGER NOT NULL,
    at   REAL
);

CREATE TABLE submission_keys (
    key     TEXT PRIMARY KEY,
    jobs    TEXT NOT NULL,
    digest  TEXT NOT NULL,  -- of the request, to recognise the use of the key for another request
    at      REAL NOT NULL
);
CREATE INDEX submission_keys_by_age ON submission_keys (at);

CREATE TABLE tokens (
    hash        TEXT PRIMARY KEY,  -- SHA-256 of the token; the token itself is stored nowhere
    name        TEXT NOT NULL UNIQUE,
    user        TEXT NOT NULL,
    role        TEXT NOT NULL,
    created_at  REAL NOT NULL
);

CREATE TABLE settings (
    key    TEXT PRIMARY KEY,
    value  TEXT NOT NULL
);
