-- The latest job of a name, and how many jobs ended in which way, without reading all that ever ended.

CREATE INDEX history_by_name ON history (name, ended_seq);
CREATE INDEX history_by_phase ON history (phase);
