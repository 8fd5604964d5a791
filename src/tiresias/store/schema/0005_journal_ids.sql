-- A random id, by which run directories and exit records name the journal that their run belongs to. A restored
-- journal gets another one, because the runs that it will grant are not those that the journal before it granted.
-- A journal of an earlier version keeps the empty id for the runs that it has granted, whose files name no journal.

CREATE TABLE journal_ids (
    first_run_id  INTEGER PRIMARY KEY,  -- runs from this id on have `id`, up to the next row
    id            TEXT NOT NULL
);
INSERT INTO journal_ids SELECT 0, '' FROM meta;
INSERT INTO journal_ids SELECT coalesce((SELECT next_run_id FROM meta), 1), lower(hex(randomblob(16)));
