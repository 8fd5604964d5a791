BEGIN TRANSACTION;
CREATE TABLE bases (
    seq   INTEGER PRIMARY KEY,
    at    REAL,
    body  TEXT NOT NULL
);
INSERT INTO "bases" VALUES(0,NULL,'[null, 1, [[0, "{\"name\":\"box\",\"gpus\":4,\"rack\":\"\",\"gpu_type\":\"\",\"cpus\":0,\"memory_bytes\":0,\"sockets\":[],\"speed\":1.0,\"cpus_per_slot\":8}", 1, "[]"]], [], [], ["tiresias-l", "{\"queues\":\"3600\"}", "profile", "{\"moves\":\"2\"}", "{\"ladder\":[3600.0],\"table\":null,\"seen\":[],\"refit_at\":1,\"promoted\":[]}"], []]');
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
INSERT INTO "facts" VALUES(1,1,0,1700000000.0,'TimerFired',1,NULL,'{"at":1700000000.0}');
INSERT INTO "facts" VALUES(2,2,0,1700000000.0,'JobSubmitted',1,1,'{"at":1700000000.0,"job":{"id":1,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000000.0,"user":"ann","tenant":"","name":"done","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(3,2,0,1700000000.0,'JobSubmitted',1,2,'{"at":1700000000.0,"job":{"id":2,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000000.0,"user":"ann","tenant":"","name":"fails","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(4,2,1,1700000000.0,'RunGranted',1,1,'{"at":1700000000.0,"run_id":1,"job_id":1,"allocation":[[0,1]]}');
INSERT INTO "facts" VALUES(5,2,1,1700000000.0,'RunGranted',1,2,'{"at":1700000000.0,"run_id":2,"job_id":2,"allocation":[[0,2]]}');
INSERT INTO "facts" VALUES(6,3,0,1700000001.0,'RunStarted',1,1,'{"at":1700000001.0,"run_id":1,"speed":1.0}');
INSERT INTO "facts" VALUES(7,4,0,1700000001.0,'RunStarted',1,2,'{"at":1700000001.0,"run_id":2,"speed":1.0}');
INSERT INTO "facts" VALUES(8,5,0,1700000006.0,'RunExited',1,1,'{"at":1700000006.0,"run_id":1,"cause":"finished","progress_s":5.0}');
INSERT INTO "facts" VALUES(9,6,0,1700000007.0,'RunExited',1,2,'{"at":1700000007.0,"run_id":2,"cause":"retried","progress_s":6.0}');
INSERT INTO "facts" VALUES(10,6,0,1700000007.0,'JobDeferred',1,2,'{"at":1700000007.0,"job_id":2,"reason":"BackoffAfterFailure","until":1700000017.0}');
INSERT INTO "facts" VALUES(11,7,0,1700000017.0,'TimerFired',1,NULL,'{"at":1700000017.0}');
INSERT INTO "facts" VALUES(12,7,1,1700000017.0,'JobCleared',1,2,'{"at":1700000017.0,"job_id":2}');
INSERT INTO "facts" VALUES(13,7,1,1700000017.0,'RunGranted',1,2,'{"at":1700000017.0,"run_id":3,"job_id":2,"allocation":[[0,1]]}');
INSERT INTO "facts" VALUES(14,8,0,1700000037.0,'RunStarted',1,2,'{"at":1700000037.0,"run_id":3,"speed":1.0}');
INSERT INTO "facts" VALUES(15,9,0,1700000037.0,'JobSubmitted',1,3,'{"at":1700000037.0,"job":{"id":3,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000037.0,"user":"ann","tenant":"vision","name":"running","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(16,9,0,1700000037.0,'JobSubmitted',1,4,'{"at":1700000037.0,"job":{"id":4,"demand":{"gpus":4,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000037.0,"user":"ann","tenant":"","name":"low","group":"","priority":"low","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(17,9,1,1700000037.0,'RunGranted',1,3,'{"at":1700000037.0,"run_id":4,"job_id":3,"allocation":[[0,6]]}');
INSERT INTO "facts" VALUES(18,10,0,1700000038.0,'RunStarted',1,3,'{"at":1700000038.0,"run_id":4,"speed":1.0}');
INSERT INTO "facts" VALUES(19,11,0,1700000038.0,'JobSubmitted',1,5,'{"at":1700000038.0,"job":{"id":5,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"after","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(20,11,0,1700000038.0,'JobDeferred',1,5,'{"at":1700000038.0,"job_id":5,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(21,11,0,1700000038.0,'JobSubmitted',1,6,'{"at":1700000038.0,"job":{"id":6,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"begins","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(22,11,0,1700000038.0,'JobDeferred',1,6,'{"at":1700000038.0,"job_id":6,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(23,11,0,1700000038.0,'JobSubmitted',1,8,'{"at":1700000038.0,"job":{"id":8,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"tried (preflight)","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(24,11,0,1700000038.0,'JobSubmitted',1,7,'{"at":1700000038.0,"job":{"id":7,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"tried","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(25,11,0,1700000038.0,'JobDeferred',1,7,'{"at":1700000038.0,"job_id":7,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(26,11,1,1700000038.0,'RunGranted',1,8,'{"at":1700000038.0,"run_id":5,"job_id":8,"allocation":[[0,8]]}');
INSERT INTO "facts" VALUES(27,12,0,1700000038.0,'JobDeferred',1,5,'{"at":1700000038.0,"job_id":5,"reason":"Dependency","until":null}');
INSERT INTO "facts" VALUES(28,12,0,1700000038.0,'JobDeferred',1,6,'{"at":1700000038.0,"job_id":6,"reason":"BeginTime","until":null}');
INSERT INTO "facts" VALUES(29,12,0,1700000038.0,'JobDeferred',1,7,'{"at":1700000038.0,"job_id":7,"reason":"Preflight","until":null}');
INSERT INTO "facts" VALUES(30,13,0,1700000039.0,'RunStarted',1,8,'{"at":1700000039.0,"run_id":5,"speed":1.0}');
INSERT INTO "facts" VALUES(31,14,0,1700000039.0,'JobSubmitted',1,9,'{"at":1700000039.0,"job":{"id":9,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(32,14,0,1700000039.0,'JobDeferred',1,9,'{"at":1700000039.0,"job_id":9,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(33,14,0,1700000039.0,'JobSubmitted',1,10,'{"at":1700000039.0,"job":{"id":10,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(34,14,0,1700000039.0,'JobDeferred',1,10,'{"at":1700000039.0,"job_id":10,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(35,14,0,1700000039.0,'JobSubmitted',1,11,'{"at":1700000039.0,"job":{"id":11,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(36,14,0,1700000039.0,'JobDeferred',1,11,'{"at":1700000039.0,"job_id":11,"reason":"NotYetEvaluated","until":null}');
INSERT INTO "facts" VALUES(37,15,0,1700000039.0,'JobCleared',1,9,'{"at":1700000039.0,"job_id":9}');
INSERT INTO "facts" VALUES(38,15,0,1700000039.0,'JobDeferred',1,10,'{"at":1700000039.0,"job_id":10,"reason":"ArrayLimit","until":null}');
INSERT INTO "facts" VALUES(39,15,0,1700000039.0,'JobDeferred',1,11,'{"at":1700000039.0,"job_id":11,"reason":"ArrayLimit","until":null}');
INSERT INTO "facts" VALUES(40,16,0,1700000040.0,'JobSubmitted',1,12,'{"at":1700000040.0,"job":{"id":12,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000040.0,"user":"ann","tenant":"","name":"held","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(41,17,0,1700000041.0,'JobHeld',1,12,'{"at":1700000041.0,"job_id":12}');
INSERT INTO "facts" VALUES(42,18,0,1700000042.0,'JobSubmitted',1,13,'{"at":1700000042.0,"job":{"id":13,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000042.0,"user":"ann","tenant":"","name":"cancelled","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}}');
INSERT INTO "facts" VALUES(43,19,0,1700000043.0,'JobCancelled',1,13,'{"at":1700000043.0,"job_id":13}');
INSERT INTO "facts" VALUES(44,20,0,1700000045.0,'SlotDrained',1,NULL,'{"at":1700000045.0,"node":"box","index":3}');
INSERT INTO "facts" VALUES(45,21,0,1700000146.0,'JobRequeued',1,8,'{"at":1700000146.0,"job_id":8}');
INSERT INTO "facts" VALUES(46,22,0,1700000146.0,'RunExited',1,8,'{"at":1700000146.0,"run_id":5,"cause":"finished","progress_s":107.0}');
INSERT INTO "facts" VALUES(47,23,0,1700000146.0,'JobCleared',1,7,'{"at":1700000146.0,"job_id":7}');
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
INSERT INTO "history" VALUES(8,1,'{"id":1,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000000.0,"user":"ann","tenant":"","name":"done","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','ann','','done',1,'SUCCEEDED',1700000000.0,1700000000.0,1700000006.0,1,0,6.0,6.0,5.0,'{"reason":"Finished","sentence":"It finished.","evidence":"","exit_code":0,"is_deterministic":false,"fingerprint":"b9473273bccfdac3","progress":null,"ready_at":null}');
INSERT INTO "history" VALUES(43,13,'{"id":13,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000042.0,"user":"ann","tenant":"","name":"cancelled","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','ann','','cancelled',1,'CANCELLED',1700000042.0,NULL,1700000043.0,0,0,0.0,0.0,0.0,'{"reason":"Cancelled","sentence":"It was cancelled.","fingerprint":"e38bf73709e3489b","progress":null,"ready_at":null}');
INSERT INTO "history" VALUES(46,8,'{"id":8,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"tried (preflight)","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','bob','','tried (preflight)',1,'SUCCEEDED',1700000038.0,1700000038.0,1700000146.0,1,0,108.0,108.0,107.0,'{"reason":"Finished","sentence":"It ran well for long enough.","evidence":"","exit_code":75,"is_deterministic":false,"fingerprint":"5ac225d997fe24bd","progress":null,"ready_at":null}');
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
, held INTEGER NOT NULL DEFAULT 0, deferred TEXT NOT NULL DEFAULT '', deferred_until REAL);
INSERT INTO "jobs" VALUES(2,3,'{"id":2,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000000.0,"user":"ann","tenant":"","name":"fails","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','RUNNING',0,2,0,1700000000.0,NULL,1700000007.0,7.0,7.0,6.0,0,'',NULL);
INSERT INTO "jobs" VALUES(3,15,'{"id":3,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000037.0,"user":"ann","tenant":"vision","name":"running","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','RUNNING',0,1,0,1700000037.0,NULL,1700000037.0,0.0,0.0,0.0,0,'',NULL);
INSERT INTO "jobs" VALUES(4,16,'{"id":4,"demand":{"gpus":4,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000037.0,"user":"ann","tenant":"","name":"low","group":"","priority":"low","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000037.0,0.0,0.0,0.0,0,'',NULL);
INSERT INTO "jobs" VALUES(5,19,'{"id":5,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"after","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000038.0,0.0,0.0,0.0,0,'Dependency',NULL);
INSERT INTO "jobs" VALUES(6,21,'{"id":6,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"begins","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000038.0,0.0,0.0,0.0,0,'BeginTime',NULL);
INSERT INTO "jobs" VALUES(7,24,'{"id":7,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000038.0,"user":"bob","tenant":"","name":"tried","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000038.0,0.0,0.0,0.0,0,'',NULL);
INSERT INTO "jobs" VALUES(9,31,'{"id":9,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000039.0,0.0,0.0,0.0,0,'',NULL);
INSERT INTO "jobs" VALUES(10,33,'{"id":10,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000039.0,0.0,0.0,0.0,0,'ArrayLimit',NULL);
INSERT INTO "jobs" VALUES(11,35,'{"id":11,"demand":{"gpus":2,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000039.0,"user":"bob","tenant":"","name":"a","group":"arr","priority":"normal","preemptible":true,"model":"vgg16","duration_s":null,"preemption_cost_s":null}','PENDING',0,0,0,NULL,NULL,1700000039.0,0.0,0.0,0.0,0,'ArrayLimit',NULL);
INSERT INTO "jobs" VALUES(12,40,'{"id":12,"demand":{"gpus":1,"max_gpus":null,"gpu_type":null,"cpus":null,"memory_bytes":null,"cpu_speed":null},"submitted_at":1700000040.0,"user":"ann","tenant":"","name":"held","group":"","priority":"normal","preemptible":true,"model":"","duration_s":null,"preemption_cost_s":null}','HELD',0,0,0,NULL,NULL,1700000040.0,0.0,0.0,0.0,1,'',NULL);
CREATE TABLE meta (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    at           REAL,
    last_seq     INTEGER NOT NULL,
    last_step    INTEGER NOT NULL,
    next_run_id  INTEGER NOT NULL,
    next_job_id  INTEGER NOT NULL
);
INSERT INTO "meta" VALUES(1,1700000146.0,47,23,6,14);
CREATE TABLE nodes (
    position    INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    node        TEXT NOT NULL,  -- core.model.Node
    in_service  INTEGER NOT NULL
, out_slots TEXT NOT NULL DEFAULT '[]');
INSERT INTO "nodes" VALUES(0,'box','{"name":"box","gpus":4,"rack":"","gpu_type":"","cpus":0,"memory_bytes":0,"sockets":[],"speed":1.0,"cpus_per_slot":8}',1,'[3]');
CREATE TABLE notes (
    job   INTEGER PRIMARY KEY,
    body  TEXT NOT NULL  -- what the manager wants to know of the job after a restart, beyond the core's State
);
INSERT INTO "notes" VALUES(1,'{"light":{"command":["python","done.py"],"cwd":"/data","env":{},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"done","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(2,'{"light":{"command":["python","fails.py"],"cwd":"/data","env":{},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"fails","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":1,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":1,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{"reason":"Network","sentence":"Workers lost each other or the network failed.","evidence":"ConnectionError: no route to host"},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(3,'{"light":{"command":["python","running.py"],"cwd":"/data","env":{},"user":"ann","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"running","tenant":"vision","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":86400.0,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(4,'{"light":{"command":["python","low.py"],"cwd":"/data","env":{},"user":"ann","gpus":4,"nodes":null,"workers":1,"launcher":"plain","name":"low","tenant":"","model":"","profile":null,"priority":"low","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(5,'{"light":{"command":["python","after.py"],"cwd":"/data","env":{},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"after","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[3],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(6,'{"light":{"command":["python","begins.py"],"cwd":"/data","env":{},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"begins","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":1700100000.0,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(7,'{"light":{"command":["python","tried.py"],"cwd":"/data","env":{},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"tried","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":true,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":8,"is_tried":false,"failure":{},"progress":null,"ready_at":1700000146.0}');
INSERT INTO "notes" VALUES(8,'{"light":{"command":["python","tried.py"],"cwd":"/data","env":{},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"tried (preflight)","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":0,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":7,"preflight_job":null,"is_tried":true,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(9,'{"light":{"command":["python","a.py"],"cwd":"/data","env":{},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":0,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":1700000039.0}');
INSERT INTO "notes" VALUES(10,'{"light":{"command":["python","a.py"],"cwd":"/data","env":{},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":1,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(11,'{"light":{"command":["python","a.py"],"cwd":"/data","env":{},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":2,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(12,'{"light":{"command":["python","held.py"],"cwd":"/data","env":{},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"held","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
INSERT INTO "notes" VALUES(13,'{"light":{"command":["python","cancelled.py"],"cwd":"/data","env":{},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"cancelled","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null},"retries_used":0,"lost_runs":0,"quick_requeues":0,"is_expired":false,"preflight_of":null,"preflight_job":null,"is_tried":false,"failure":{},"progress":null,"ready_at":null}');
CREATE TABLE policy (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    name            TEXT NOT NULL,
    options         TEXT NOT NULL,
    placer          TEXT NOT NULL,
    placer_options  TEXT NOT NULL,
    memory          TEXT NOT NULL  -- as Policy.save gives it
);
INSERT INTO "policy" VALUES(1,'tiresias-l','{"queues":"3600"}','profile','{"moves":"2"}','{"ladder":[3600.0],"table":null,"seen":[[29,1],[75,1]],"refit_at":3,"promoted":[]}');
CREATE TABLE restarts (
    seq  INTEGER NOT NULL,
    at   REAL
);
INSERT INTO "restarts" VALUES(0,NULL);
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
INSERT INTO "runs" VALUES(1,1,1,'[[0,1]]',1700000000.0,1700000001.0,NULL,1700000006.0,5.0,1700000006.0,0.0,'finished','{"code":0,"reason":"Finished","sentence":"It finished.","evidence":"","workers":[[0,null,false]],"killed":false,"escaped":0,"lost":false,"told":null}');
INSERT INTO "runs" VALUES(2,2,1,'[[0,2]]',1700000000.0,1700000001.0,NULL,1700000007.0,6.0,1700000007.0,0.0,'retried','{"code":1,"reason":"Network","sentence":"Workers lost each other or the network failed.","evidence":"ConnectionError: no route to host","workers":[[1,null,false]],"killed":false,"escaped":0,"lost":false,"told":null}');
INSERT INTO "runs" VALUES(3,2,2,'[[0,1]]',1700000017.0,1700000037.0,NULL,NULL,6.0,1700000037.0,1.0,NULL,NULL);
INSERT INTO "runs" VALUES(4,3,1,'[[0,6]]',1700000037.0,1700000038.0,NULL,NULL,0.0,1700000038.0,1.0,NULL,NULL);
INSERT INTO "runs" VALUES(5,8,1,'[[0,8]]',1700000038.0,1700000039.0,1700000146.0,1700000146.0,107.0,1700000146.0,0.0,'finished','{"code":75,"reason":"Finished","sentence":"It ran well for long enough.","evidence":"","workers":[[75,null,true]],"killed":false,"escaped":0,"lost":false,"told":null}');
CREATE TABLE settings (
    key    TEXT PRIMARY KEY,
    value  TEXT NOT NULL
);
INSERT INTO "settings" VALUES('placer_given','{"moves":"2"}');
INSERT INTO "settings" VALUES('limits','{"bob":{"max_running_gpus":4,"max_active_jobs":null}}');
INSERT INTO "settings" VALUES('out_of_service','{"box:3":"fan"}');
INSERT INTO "settings" VALUES('gpu_faults','{}');
CREATE TABLE submission_keys (
    key     TEXT PRIMARY KEY,
    jobs    TEXT NOT NULL,
    digest  TEXT NOT NULL,  -- of the request, to tell a repetition from another use of the key
    at      REAL NOT NULL
);
INSERT INTO "submission_keys" VALUES('ann/k1','[1,2]','d',1700000000.0);
CREATE TABLE submissions (
    job   INTEGER PRIMARY KEY,
    body  TEXT NOT NULL  -- all that the user asked for: command, environment, directory; the manager's business
);
INSERT INTO "submissions" VALUES(1,'{"command":["python","done.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"done","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(2,'{"command":["python","fails.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"fails","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":1,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(3,'{"command":["python","running.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"running","tenant":"vision","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":86400.0,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(4,'{"command":["python","low.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":4,"nodes":null,"workers":1,"launcher":"plain","name":"low","tenant":"","model":"","profile":null,"priority":"low","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(5,'{"command":["python","after.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"after","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[3],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(6,'{"command":["python","begins.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"begins","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":1700100000.0,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(7,'{"command":["python","tried.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"tried","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":true,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(8,'{"command":["python","tried.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"tried (preflight)","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":0,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(9,'{"command":["python","a.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":0,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(10,'{"command":["python","a.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":1,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(11,'{"command":["python","a.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"bob","gpus":2,"nodes":null,"workers":1,"launcher":"plain","name":"a","tenant":"","model":"vgg16","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"arr","array_index":2,"array_limit":1,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(12,'{"command":["python","held.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"held","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
INSERT INTO "submissions" VALUES(13,'{"command":["python","cancelled.py"],"cwd":"/data","env":{"PATH":"/usr/bin","SECRET":"x"},"user":"ann","gpus":1,"nodes":null,"workers":1,"launcher":"plain","name":"cancelled","tenant":"","model":"","profile":null,"priority":"normal","preemptible":true,"checkpoint_dir":"","grace_s":60.0,"retries":3,"time_limit_s":null,"after":[],"begin_at":null,"array":"","array_index":null,"array_limit":null,"preflight":false,"preflight_limit_s":60.0,"snapshot":"","force":false,"identity":null}');
CREATE TABLE tokens (
    hash        TEXT PRIMARY KEY,  -- SHA-256 of the token; the token itself is stored nowhere
    name        TEXT NOT NULL UNIQUE,
    user        TEXT NOT NULL,
    role        TEXT NOT NULL,
    created_at  REAL NOT NULL
);
INSERT INTO "tokens" VALUES('930bbdc51b6aed5c2a5678fd6e28dee7a05e8a4b643cfc0b4427c3efb86c0d94','ci','ann','user',1700000146.0);
CREATE INDEX facts_of_job ON facts (job, seq) WHERE job IS NOT NULL;
CREATE INDEX open_runs ON runs (id) WHERE exited_at IS NULL;
CREATE TRIGGER one_exit_for_ever BEFORE UPDATE ON runs WHEN OLD.exited_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a run has one exit record, for ever');
END;
CREATE INDEX history_by_end ON history (ended_at);
CREATE INDEX history_by_user ON history (user, ended_at);
CREATE INDEX submission_keys_by_age ON submission_keys (at);
CREATE INDEX history_by_name ON history (name, ended_seq);
CREATE INDEX history_by_phase ON history (phase);
COMMIT;
PRAGMA user_version = 3;
PRAGMA application_id = 1416196709;
