"""Answers that are cached until something changes."""

from __future__ import annotations

from pathlib import Path

from helpers.log_writer import Log
from helpers.served import serving
from lineage_store import LineageStore
from lineage_store.server.decoding import Content
from lineage_store.server.mindinsight import protocol
from lineage_store.server.mindinsight.protocol import KeptAnswers

BEGIN = "/v1/mindinsight"


def test_the_answers_used_last_are_kept_within_their_bound() -> None:
    answers, large = KeptAnswers(), Content(bytes(protocol._MOST_OF_ONE))
    number = protocol._MOST_BYTES // protocol._MOST_OF_ONE
    for asked in range(number):
        answers.keep(asked, large)
    assert answers.get(0) is large
    answers.keep(number, large)
    assert answers.get(1) is None
    assert answers.get(0) is answers.get(number) is large
    answers.keep("larger", Content(bytes(protocol._MOST_OF_ONE + 1)))
    assert answers.get("larger") is None


def test_what_has_changed_is_seen_at_once(database_url: str, tmp_path: Path) -> None:
    log = Log().scalar(1, "loss", 0.5)
    log.write_summary(tmp_path / "a")
    Log().train(network="A").write_lineage(tmp_path / "a")
    with LineageStore(database_url) as store, serving(database_url, allow_remarks=True) as client:
        store.ingest(tmp_path)

        def asked() -> list[object]:
            curve = client.get(f"{BEGIN}/datavisual/scalar/metadata?train_id=./a&tag=loss/scalar").json()
            total = client.get(f"{BEGIN}/datavisual/train-jobs").json()["total"]
            lineage = client.post(f"{BEGIN}/lineagemgr/lineages").json()["object"][0]
            return [len(curve["metadatas"]), total, lineage["added_info"].get("remark")]

        assert asked() == asked() == [1, 1, None]
        client.put(f"{BEGIN}/lineagemgr/lineages?train_id=./a", json={"remark": "good"})
        assert asked() == [1, 1, "good"]
        log.scalar(2, "loss", 0.25).write_summary(tmp_path / "a")
        store.ingest(tmp_path)
        assert asked() == [2, 1, "good"]
        Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "b")
        store.ingest(tmp_path)
        assert asked() == [2, 2, "good"]
