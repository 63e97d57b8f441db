"""The followers of a daemon: one for each base dir and shard that the daemon is to follow.

In: base dirs and settings, again after every change. Out: followers that begin and leave. Promises: a follower whose
base dir and settings did not change works on; a base dir with new settings gets new followers once all old ones are
closed; settings that are refused change nothing. Does not know who calls the followers' `tick`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lineage_store.config import SETTING_FIELDS, Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.daemon.follower import Follower

log = logging.getLogger(__name__)

_NEED_A_RESTART = (
    *("database_url", "read_database_url", "allow_network_filesystem", "pool_size", "statement_timeout_s"),
    "metrics_port",
)
_OF_OTHERS = ("base_dirs", "log_", "serve_", "mindinsight_", "notify_", *_NEED_A_RESTART)
"""Beginnings of the names of settings that no follower uses."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The base dirs that a daemon follows, and its settings. Raises ConfigError when there is no base dir."""

    base_dirs: tuple[Path, ...]
    settings: Settings

    def __post_init__(self) -> None:
        if not self.base_dirs:
            raise ConfigError(
                "There is no base dir to follow.",
                hint="Name one (lineage-store daemon /path/to/summary_base), or set base_dirs in lineage_store.toml.",
            )


class Crew:
    """The followers of a daemon.

    Args:
        follow: makes the follower of a base dir's shard.
    """

    def __init__(self, follow: Callable[[Path, int, Settings], Follower]) -> None:
        self._follow = follow
        self.followers: list[Follower] = []

    def adapt(self, wanted: Wanted) -> bool:
        """Make followers that are no longer wanted leave, and begin those that are missing.

        Return whether some followers are still leaving. A base dir may be divided at any time: its new shards get
        followers too.
        """
        for follower in self.followers:
            if follower.named not in wanted.base_dirs or follower.settings != wanted.settings:
                follower.leave()
        self.followers = [follower for follower in self.followers if not follower.is_closed]
        for base_dir, shard in list(self._not_followed(wanted)):
            self.followers.append(self._follow(base_dir, shard, wanted.settings))
        return any(follower.leaves for follower in self.followers)

    def _not_followed(self, wanted: Wanted) -> Iterator[tuple[Path, int]]:
        for base_dir in dict.fromkeys(wanted.base_dirs):
            mine = [follower for follower in self.followers if follower.named == base_dir]
            if not any(follower.leaves for follower in mine):
                shards = mine[0].shards if mine else 1
                yield from ((base_dir, shard) for shard in range(len(mine), shards))


def reloaded(before: Wanted, reload: Callable[[], Wanted]) -> Wanted:
    """Return what `reload` gives; `before`, when it refuses the new settings. Log what changed."""
    try:
        after = reload()
    except ConfigError as error:
        log.error("settings refused", extra={"reason": error.message, "remedy": error.hint})
        return before
    old, new = before.settings, after.settings
    names = [each.name for each in SETTING_FIELDS if getattr(old, each.name) != getattr(new, each.name)]
    fields = {"changed": names, "base_dirs": [str(base_dir) for base_dir in after.base_dirs]}
    log.info("settings read again", extra=fields)
    if waiting := [name for name in names if name in _NEED_A_RESTART]:
        log.warning("settings wait for a restart", extra={"settings": waiting})
    if all(name.startswith(_OF_OTHERS) for name in names):
        return replace(after, settings=old)
    return after
