"""How soon live jobs are looked at again."""

from __future__ import annotations

from lineage_store.ingest.daemon.follower import LONGEST, SHARE, next_look_s


def test_a_cheap_look_keeps_to_the_interval() -> None:
    assert next_look_s(1.0, 0.0) == 1.0
    assert next_look_s(1.0, 0.9 * SHARE) == 1.0


def test_a_dear_look_is_followed_later_so_that_looks_take_no_more_than_their_share() -> None:
    took_s = 1.5 * SHARE
    assert took_s / next_look_s(1.0, took_s) == SHARE


def test_a_backlog_does_not_keep_the_next_look_waiting() -> None:
    assert next_look_s(1.0, 3600.0) == LONGEST
    assert next_look_s(0.05, 3600.0) == LONGEST * 0.05
