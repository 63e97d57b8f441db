"""config/lineage_store.toml lists every setting as config.py has it; the service's store is where it may write."""

from __future__ import annotations

import tomllib
from pathlib import Path

from helpers.base_dirs import ROOT
from lineage_store.config import SETTING_FIELDS, flattened, load
from lineage_store.store.database.db import sqlite_path

FILE = ROOT / "config" / "lineage_store.toml"
SERVICE = ROOT / "config" / "lineage-store.service"


def test_every_setting_stands_there_with_its_default_and_its_meaning() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    values = flattened(tomllib.loads("\n".join(lines)))
    assert list(values) == [setting.name for setting in SETTING_FIELDS]
    for setting in SETTING_FIELDS:
        value = values[setting.name]
        assert (tuple(value) if isinstance(value, list) else value) == setting.default
        place = next(
            index
            for index, line in enumerate(lines)
            if line.startswith(f"{setting.name.removeprefix('notify_').removeprefix('keep_')} =")
        )
        assert lines[place - 1].startswith(f"# {setting.metadata['meaning']}")
        assert all(choice in lines[place - 1] for choice in setting.metadata["choices"])


def test_the_file_can_be_used_as_it_is() -> None:
    loaded = load(config_file=FILE, environment={})
    assert set(loaded.origins.values()) == {f"file {FILE}"}


def test_the_store_of_the_service_is_in_the_directory_that_systemd_makes_for_it() -> None:
    lines = [line.partition("=")[::2] for line in SERVICE.read_text(encoding="utf-8").splitlines()]
    given = dict(value.split("=", 1) for name, value in lines if name == "Environment")
    url = load(config_file=FILE, environment=given).settings.database_url
    assert ("ProtectSystem", "strict") in lines
    assert sqlite_path(url) == Path("/var/lib") / dict(lines)["StateDirectory"] / "store.db"
