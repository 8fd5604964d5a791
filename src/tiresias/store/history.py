"""The jobs that have ended, as the journal keeps them: pages, look-ups by name, and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from tiresias.core.model import JobId
from tiresias.store import stored as s
from tiresias.store.rows import Row
from tiresias.store.stored import StoredEnding, StoredJob


class History:
    """Reads ended jobs; `Reader.history` is one. `rows` executes a query and returns its rows."""

    def __init__(self, rows: Callable[..., list[Row]]):
        self._all = rows

    def page(
        self,
        limit: int = 100,
        cursor: int | None = None,
        user: str | None = None,
        tenant: str | None = None,
        phases: Collection[str] = (),
        search: str = "",
    ) -> tuple[list[StoredJob], int | None]:
        """A page of ended jobs, the latest first, and the cursor of the next page (None after the last).

        `search` is a part of the name, the user or the tenant in any case, or the id.
        """
        rows = self._all(
            f"SELECT {s.ENDED} FROM history WHERE (?2 IS NULL OR ended_seq < ?2)"
            " AND (?3 IS NULL OR user = ?3) AND (?4 IS NULL OR tenant = ?4)"
            " AND (?5 = '[]' OR phase IN (SELECT value FROM json_each(?5)))"
            " AND (?6 = '' OR id = ?6 OR instr(lower(name), ?6) OR instr(lower(user), ?6)"
            " OR instr(lower(tenant), ?6)) ORDER BY ended_seq DESC LIMIT ?1",
            limit,
            cursor,
            user,
            tenant,
            json.dumps([str(phase) for phase in phases]),
            search.lower(),
        )
        page = [s.job_of(row) for row in rows]
        return page, page[-1].ended_seq if len(page) == limit else None

    def latest_endings(self, latest: int) -> list[StoredEnding]:
        """How the jobs that ended last have ended, the latest last; a restart reads no more of them."""
        rows = self._all(
            "SELECT id, phase, user, name, gpus, ending FROM history ORDER BY ended_seq DESC LIMIT ?", latest
        )
        return [s.ending_of(row) for row in reversed(rows)]

    def latest_of_name(self, name: str, user: str | None = None) -> JobId | None:
        """The job with this name, of this user or of any user, that ended last."""
        of_user = "" if user is None else "AND user = ?2"
        values = (name,) if user is None else (name, user)
        rows = self._all(
            f"SELECT id FROM history WHERE name = ?1 {of_user} ORDER BY ended_seq DESC LIMIT 1", *values
        )
        return JobId(rows[0][0]) if rows else None

    def of_group(self, group: str, user: str | None, latest: int) -> list[JobId]:
        """The jobs of a group, of this user or of any user, among those that ended last."""
        rows = self._all(
            "SELECT id FROM (SELECT id, user, job FROM history ORDER BY ended_seq DESC LIMIT ?1)"
            " WHERE json_extract(job, '$.group') = ?2 AND (?3 IS NULL OR user = ?3)",
            latest,
            group,
            user,
        )
        return [JobId(row[0]) for row in rows]

    def of_name_in_group(self, name: str, group: str, latest: int) -> list[JobId]:
        """The jobs of a group that have this name, those that ended last."""
        rows = self._all(
            "SELECT id FROM history WHERE name = ?1 AND json_extract(job, '$.group') = ?2"
            " ORDER BY ended_seq DESC LIMIT ?3",
            name,
            group,
            latest,
        )
        return [JobId(row[0]) for row in rows]

    def of_pattern(self, pattern: str, user: str, latest: int) -> list[JobId]:
        """The jobs of a user whose names match a pattern of the shell, among those that ended last."""
        rows = self._all(
            "SELECT id FROM (SELECT id, user, name FROM history ORDER BY ended_seq DESC LIMIT ?1)"
            " WHERE user = ?2 AND name GLOB ?3",
            latest,
            user,
            pattern.replace("[!", "[^"),
        )
        return [JobId(row[0]) for row in rows]

    def latest_durations(self, latest: int) -> list[float]:
        """For how many seconds the jobs that ended last held slots, of those that ran."""
        rows = self._all(
            "SELECT executed_s FROM history WHERE runs > 0 ORDER BY ended_seq DESC LIMIT ?", latest
        )
        return [row[0] for row in rows]

    def counts(self) -> dict[str, int]:
        """The number of ended jobs by phase."""
        return dict(self._all("SELECT phase, count(*) FROM history GROUP BY phase"))

    def usage(self, by: str, since: float, short_s: float) -> list[Row]:
        """Usage by user or tenant, of jobs that ended at `since` or later.

        The columns: user or tenant, number of jobs, GPU-seconds of service, mean seconds until the first
        start, number of jobs that ran for less than `short_s` seconds, number of jobs that repeat another,
        GPU-seconds of work that was lost because it was not saved.
        """
        assert by in ("user", "tenant"), by
        return self._all(
            f"SELECT {by}, count(*), sum(service_gpu_s), avg(first_started_at - submitted_at),"
            " sum(executed_s < ?2),"
            " count(*) - count(DISTINCT coalesce(json_extract(ending, '$.fingerprint'), id)),"
            " total(json_extract(ending, '$.lost_gpu_s'))"
            f" FROM history WHERE ended_at >= ?1 GROUP BY {by}",
            since,
            short_s,
        )
