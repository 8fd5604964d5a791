-- The number of commits, which is also in the file `journal.db.mark`, so that lost commits are noticed at a start.

ALTER TABLE meta ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
