"""What changes in a store, told once to whoever goes on from token to token.

In: the token of an earlier answer. Out: pages of changes, each with the token to go on with. Promises: nothing is
missed and nothing told twice, over restarts of whoever asks, of ingest and of the database, and beside any number of
writers; no transaction is open between two pages.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lineage_store.api.opened import OpenedStore
from lineage_store.errors import DatabaseUnavailableError, LineageParamValueError
from lineage_store.store.database.conflicts import all_asked_again

if TYPE_CHECKING:
    from lineage_store.query.changes import Changes
    from lineage_store.store.database.commit_watch import CommitWatch

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
        """What has changed since an earlier answer: jobs that are new or changed, and those that were removed.

        A job that changed several times is told once, as it is now. Labels, remarks and problems of a job are
        changes of it. A base dir that was forgotten is told as a whole, and anew if it is there again.

        Args:
            since: the `since` of an earlier answer, or of one of its changes; None: everything there is; "now":
                nothing yet, only the token to go on with.
            until: no further than this token, for who takes over from another reader.
            condition: a search_condition; of the jobs that are there, only those that match now are told.
            limit: so many at most, up to 10,000; the answer says whether there are `more` already.

        Raises:
            LineageParamValueError: a token is none, or the limit is out of bounds.
            LineageSearchConditionParamError: the condition is refused.
        """
        from lineage_store.query import changes
        from lineage_store.query.change_cursor import decode
        from lineage_store.query.search.condition import parse

        if not 1 <= limit <= MOST_CHANGES:
            raise LineageParamValueError(f"limit = {limit} must be from 1 to {MOST_CHANGES}.")
        wanted = None if condition is None else parse(condition)
        begin = {} if since in (None, NOW) else decode(since or "")
        end = None if until is None else decode(until)
        engine = self.read_engine
        with self._reading(engine) as connection:
            if since == NOW:
                answer = changes.Changes((), changes.current(connection), more=False)
            else:
                answer = changes.read_changes(connection, begin, until=end, condition=wanted, limit=limit)
        if engine is not self._followed:
            self.see_latest()  # to a standby that is behind the token, the store would have gone back
        return answer

    def now(self) -> Now:
        """Somebody who is asked for the token of now again and again; close it."""
        return Now(self)

    def follow(self, since: str | None = NOW, *, condition: Mapping[str, Any] | None = None) -> Follower:
        """Somebody who looks again and again; close it, best by `with`. Arguments as for `changes`.

        Raises LineageSearchConditionParamError: the condition is refused; the rest is told by `look`.
        """
        from lineage_store.query.search.condition import parse

        parse(condition)
        return Follower(self, since, condition)


class Now:
    """Tells `changes("now").since` again and again, for next to nothing where nothing changed. Threads may share it."""

    def __init__(self, store: Following) -> None:
        self._store, self._watch = store, _watch(store)
        self._asking, self._since = threading.Lock(), ""

    def since(self) -> str:
        """The token behind all that was committed before it is asked for. Raises as `changes` does."""
        with self._asking:
            known, self._since = self._since, ""
            with suppress(DatabaseUnavailableError):  # the store tells what is wrong itself
                changed = self._watch.may_have_changed() or not self._store.answers_as_followed()
                self._since = "" if changed else known
            self._since = self._since or self._store.changes(NOW).since
            return self._since

    def close(self) -> None:
        """Close its connection."""
        with self._asking:
            self._watch.close()


class Follower:
    """Looks for changes as often as it is told to. Not for several threads."""

    def __init__(
        self, store: Following, since: str | None, condition: Mapping[str, Any] | None = None
    ) -> None:
        self._store, self._condition, self._watch = store, condition, _watch(store)
        self.since = store.changes(NOW).since if since == NOW else since
        """The token behind what was given last."""

    def look(self) -> Iterator[Changes]:
        """What has changed since the last look, page by page; nothing where nothing has.

        Raises DatabaseUnavailableError, LineageQuerySummaryDataError: look again later, nothing is lost.
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
    from lineage_store.query.changes import SIGN
    from lineage_store.store.database.commit_watch import CommitWatch

    return CommitWatch(
        store._followed, SIGN, allow_network_filesystem=store.settings.allow_network_filesystem
    )
