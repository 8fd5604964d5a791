-- Indexes to find the latest job with a name, and to count ended jobs by phase, without reading the whole table.

CREATE INDEX history_by_name ON history (name, ended_seq);
CREATE INDEX history_by_phase ON history (phase);
