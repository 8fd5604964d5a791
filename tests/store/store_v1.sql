-- Instants are epoch seconds; NULL is "not yet" or "never". JSON is text. A row of `jobs` is an active job; an ended
-- one has a row of `history` instead, for ever.

CREATE TABLE facts (
    seq      INTEGER PRIMARY KEY,  -- 1, 2, ... without gaps until compaction takes some out; never used again
    step     INTEGER NOT NULL,     -- the facts of one call of the Controller: what came in, then its decisions
    decided  INTEGER NOT NULL,     -- 1: a decision of ours; 0: came from outside
    at       REAL NOT NULL,
    kind     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    job      INTEGER,              -- whom it is about
    body     TEXT NOT NULL
);
CREATE INDEX facts_of_job ON facts (job, seq) WHERE job IS NOT NULL;

CREATE TABLE jobs (
    id                INTEGER PRIMARY KEY,
    place             INTEGER NOT NULL,  -- the order of submission
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
    body  TEXT NOT NULL  -- all that the user asked for: command, environment, directory; the manager's business
);

CREATE TABLE notes (
    job   INTEGER PRIMARY KEY,
    body  TEXT NOT NULL  -- what the manager wants to know of the job after a restart, beyond the core's State
);

CREATE TABLE runs (
    id           INTEGER PRIMARY KEY,
    job          INTEGER NOT NULL,
    number       INTEGER NOT NULL,  -- the job's first run is 1
    allocation   TEXT NOT NULL,     -- [[node position, bit mask of slots], ...]
    granted_at   REAL NOT NULL,
    started_at   REAL,
    revoked_at   REAL,              -- told to stop, by a plan or because its job was cancelled
    exited_at    REAL,
    progress_s   REAL NOT NULL,
    progress_at  REAL NOT NULL,
    speed        REAL NOT NULL,
    cause        TEXT,              -- core.facts.ExitCause
    exit         TEXT,              -- the manager's exit record
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
    ended_seq         INTEGER PRIMARY KEY,  -- the fact that ended it
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
    record            TEXT  -- what the manager keeps of it: exit code, reason
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
    memory          TEXT NOT NULL  -- as Policy.save gives it
);

-- The State after fact `seq`, whole: replay begins at the oldest.
CREATE TABLE bases (
    seq   INTEGER PRIMARY KEY,
    at    REAL,
    body  TEXT NOT NULL
);

-- After which fact a manager was started anew: its Controller worked out every rank from the State there.
CREATE TABLE restarts (
    seq  INTEGER NOT NULL,
    at   REAL
);

CREATE TABLE submission_keys (
    key     TEXT PRIMARY KEY,
    jobs    TEXT NOT NULL,
    digest  TEXT NOT NULL,  -- of the request, to tell a repetition from another use of the key
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
