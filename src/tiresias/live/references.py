"""Which jobs a user means. One rule for all verbs, all endpoints and all pages:

- digits are the id of a job;
- a name is one job: of several with this name, one of the caller's own before those of others, and an active
  one before an ended one; of active ones that which was submitted last, of ended ones that which ended last;
- the id of an array, as `tir submit` and `tir show` print it, is all jobs of the array; so is a name that
  several jobs of the array have, because its name has no index;
- a pattern with `*`, `?` or `[…]` is all of the caller's own jobs whose names match, an admin's own as well.

What is exactly a name or the id of an array is not taken for a pattern. Verbs for one job refuse arrays and
patterns.
"""

from __future__ import annotations

from fnmatch import translate
from re import compile as compiled

from tiresias.core.model import JobId
from tiresias.live.errors import Invalid, NotFound
from tiresias.live.journal import Journal
from tiresias.live.submission import Caller

LONGEST_ID = 16  # digits
MOST_FOUND = 10_000
LATEST = 20_000  # ended jobs among which arrays and patterns are looked for, so that it takes a moment only
WILD = frozenset("*?[")


class References:
    """Finds jobs by what users call them."""

    def __init__(self, journal: Journal):
        self._journal = journal

    def one(self, caller: Caller, text: str) -> JobId:
        """The one job that is meant."""
        if is_id(text):
            return JobId(int(text))
        if (found := self._named(caller, text)) is not None:
            many = self._of_same_name(found, text, active=False)
            if len(many) == 1:
                return found
        else:
            many = self._of_array(caller, text, active=False)
        if many:
            raise Invalid(
                f"{text!r} is an array of {len(many)} jobs, and this is about one job; name it by its id,"
                f" for example {many[0]}"
            )
        if is_pattern(text):
            raise Invalid(f"{text!r} is a pattern, and this is about one job; name it by its id or name")
        raise NotFound(f"there is no job named {text!r}; `tir ls --all` lists all of them")

    def several(self, caller: Caller, text: str, *, active: bool) -> list[JobId]:
        """All jobs that are meant, in the order of their ids; `active` leaves ended ones of a group out."""
        if is_id(text):
            return [JobId(int(text))]
        if (found := self._named(caller, text)) is not None:
            return self._of_same_name(found, text, active=active)
        if many := self._of_array(caller, text, active=active):
            return many
        if not is_pattern(text):
            raise NotFound(f"there is no job or array named {text!r}; `tir ls --all` lists all jobs")
        if many := self._matching(caller, text, active=active):
            return many
        kind = "active job" if active else "job"
        raise NotFound(f"no {kind} of {caller.user} matches {text!r}; `tir ls --all` lists all jobs")

    def _named(self, caller: Caller, name: str) -> JobId | None:
        managed = self._journal.managed
        own = (id for id in managed.named(name) if caller.may_touch(managed[id].spec.user))
        found = next(own, None)
        if found is None and not caller.is_admin:
            found = self._ended_of_name(name, caller.user)
        if found is None:
            found = next(managed.named(name), None) or self._ended_of_name(name)
        return found

    def _ended_of_name(self, name: str, user: str | None = None) -> JobId | None:
        for record in self._journal.uncommitted_endings():
            if record.job.name == name and user in (None, record.job.user):
                return record.id
        return self._journal.store.history.latest_of_name(name, user)

    def _of_same_name(self, named: JobId, name: str, *, active: bool) -> list[JobId]:
        """The job of this name, and the other jobs of its array that have the name, too."""
        managed = self._journal.managed
        found = {named}
        if named in managed:
            array = managed[named].spec.array
        else:
            record = self._journal.job_record(named)
            array = "" if record is None else record.job.group
        if array:
            found.update(id for id in managed.named(name) if managed[id].spec.array == array)
        if array and not active:
            found.update(self._journal.store.history.of_name_in_group(name, array, LATEST))
            found.update(
                record.id
                for record in self._journal.uncommitted_endings()
                if record.job.group == array and record.job.name == name
            )
        return sorted(found)[:MOST_FOUND]

    def _of_array(self, caller: Caller, array: str, *, active: bool) -> list[JobId]:
        """The jobs of an array; of another user's none, because its id contains a name."""
        managed = self._journal.managed
        found = {
            id for id, job in managed.items() if job.spec.array == array and caller.may_touch(job.spec.user)
        }
        if not active and array:
            user = None if caller.is_admin else caller.user
            found.update(self._journal.store.history.of_group(array, user, LATEST))
            found.update(
                record.id
                for record in self._journal.uncommitted_endings()
                if record.job.group == array and caller.may_touch(record.job.user)
            )
        return sorted(found)[:MOST_FOUND]

    def _matching(self, caller: Caller, pattern: str, *, active: bool) -> list[JobId]:
        matches = compiled(translate(pattern)).match
        found = {
            id
            for id, job in self._journal.managed.items()
            if job.spec.user == caller.user and matches(job.spec.name)
        }
        if not active:
            found.update(self._journal.store.history.of_pattern(pattern, caller.user, LATEST))
            found.update(
                record.id
                for record in self._journal.uncommitted_endings()
                if record.job.user == caller.user and matches(record.job.name)
            )
        return sorted(found)[:MOST_FOUND]


def is_id(text: str) -> bool:
    return text.isdecimal() and len(text) < LONGEST_ID


def is_pattern(text: str) -> bool:
    return not WILD.isdisjoint(text)
