"""The changes of a store, for readers who follow them from token to token.

In: the token of an earlier answer. Out: pages of changes, each with the token of the next page. Promises: a reader gets
every change exactly once, whichever of reader, ingest and database restarts, and with any number of writers; no
transaction is open between two pages.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.opened import OpenedStore, all_asked_again

if TYPE_CHECKING:
    from lineage_store.query.changes import Changes, CommitWatch


NOW = "now"
MOST_CHANGES = 10_000


@all_asked_again
class Following(OpenedStore):
    """A store whose changes can be followed."""

    def changes(
        self,
        since: str | None = None,
        *,
        until: str | None = None,
        condition: Mapping[str, Any] | None = None,
        limit: int = 1000,
    ) -> Changes:
        """Return what has changed since an earlier answer: jobs that are new, changed or removed.

        A job that changed several times is reported once, in its present state. A new label, remark or problem is a
        change of the job. A base dir that was forgotten is one change; if it is there again, its jobs follow.

        Args:
            since: the `since` of an earlier answer, or of one of its changes; None: report everything in the store;
                "now": report nothing yet, and return the token with which to go on.
            until: a token at which to stop, for a reader who takes over from another one.
            condition: a search_condition; existing jobs that do not match it now are left out.
            limit: the most changes of one answer, 1 to 10,000; its `more` says whether further changes are waiting.

        Raises:
            LineageParamTypeError, LineageParamValueError: `limit` is no whole number or out of bounds, `since` or
                `until` is no token.
            LineageSearchConditionParamError: the condition is refused.
        """
        from lineage_store.query import changes
        from lineage_store.query.changes import decode
        from lineage_store.query.condition_dict import parse
        from lineage_store.store.database.db import check_count

        check_count("limit", limit, most=MOST_CHANGES)
        wanted = None if condition is None else parse(condition)
        begin = {} if since in (None, NOW) else decode(since or "")
        end = None if until is None else decode(until, "until")
        engine = self.read_engine
        with self._reading(engine) as session:
            if since == NOW:
                answer = changes.Changes((), changes.current(session), more=False)
            else:
                answer = changes.read_changes(session, begin, until=end, condition=wanted, limit=limit)
        if engine is not self._followed:
            self.see_latest()  # a standby that is behind this token would report base dirs as forgotten
        return answer

    def now(self) -> Now:
        """Return an object that gives the present token whenever it is asked; close it when done."""
        return Now(self)

    def follow(self, since: str | None = NOW, *, condition: Mapping[str, Any] | None = None) -> Follower:
        """Return an object that looks for changes whenever it is asked; close it, best by `with`.

        Arguments as for `changes`. Raises LineageSearchConditionParamError when the condition is refused; a token that
        is invalid raises in `look`.
        """
        from lineage_store.query.condition_dict import parse

        parse(condition)
        return Follower(self, since, condition)


class Now:
    """Gives the token of `changes("now")`, at almost no cost while nothing changes. Threads may share it."""

    def __init__(self, store: Following) -> None:
        self._store, self._watch = store, _watch(store)
        self._asking, self._since = threading.Lock(), ""

    def since(self) -> str:
        """Return the token behind everything that was committed before this call. Raises as `changes` does."""
        with self._asking:
            known, self._since = self._since, ""
            with suppress(DatabaseUnavailableError):  # `changes` below raises what is wrong
                changed = self._watch.may_have_changed() or not self._store.answers_as_followed()
                self._since = "" if changed else known
            self._since = self._since or self._store.changes(NOW).since
            return self._since

    def close(self) -> None:
        """Close its connection."""
        with self._asking:
            self._watch.close()


class Follower:
    """Looks for changes whenever `look` is called. Threads must not share it."""

    def __init__(
        self, store: Following, since: str | None, condition: Mapping[str, Any] | None = None
    ) -> None:
        self._store, self._condition, self._watch = store, condition, _watch(store)
        self.since = store.changes(NOW).since if since == NOW else since
        """The token behind the last page that `look` yielded."""

    def look(self) -> Iterator[Changes]:
        """Yield what has changed since the last look, page by page; nothing if nothing has changed.

        Raises DatabaseUnavailableError or LineageQuerySummaryDataError when the database fails: look again later,
        nothing is lost. Raises LineageParamValueError when the first token is invalid.
        """
        if not self._watch.may_have_changed():
            return
        complete = False
        try:
            while not complete:
                answer = self._store.changes(self.since, condition=self._condition)
                self.since = answer.since
                if answer.changes:
                    yield answer
                complete = not answer.more
        finally:
            if not complete:
                self._watch.forget()

    def close(self) -> None:
        """Close its connection."""
        self._watch.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _watch(store: Following) -> CommitWatch:
    from lineage_store.query.changes import SIGN, CommitWatch

    unsafe = store.settings.allow_network_filesystem
    return CommitWatch(store._followed, SIGN, allow_network_filesystem=unsafe)
