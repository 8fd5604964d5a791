-- Tables and columns get the names of the glossary. The rows stay as they are.

ALTER TABLE notes RENAME TO managed;
ALTER TABLE history RENAME COLUMN record TO ending;
ALTER TABLE history RENAME COLUMN held_s TO executed_s;
ALTER TABLE jobs RENAME COLUMN held_s TO executed_s;
ALTER TABLE jobs RENAME COLUMN held TO on_hold;
ALTER TABLE jobs RENAME COLUMN place TO submitted_seq;
