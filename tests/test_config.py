"""Invalid settings are refused, with the name, the place and what to write instead."""

from __future__ import annotations

import grp
import os
import pwd
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lineage_store.config import MOST, SETTING_FIELDS, Settings, load
from lineage_store.errors import ConfigError
from lineage_store.store.database.db import sqlite_path

SECONDS = [setting.name for setting in SETTING_FIELDS if isinstance(setting.default, float)]


def from_environment(**values: str) -> Settings:
    return load(
        environment={f"LINEAGE_STORE_{name.upper()}": value for name, value in values.items()}
    ).settings


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file but those of a test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400"])
def test_a_time_without_end_is_refused(name: str, value: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"Setting {name} = '{value}' \(environment\) must be a finite number"
    ):
        from_environment(**{name: value})


@pytest.mark.parametrize("name", SECONDS)
def test_a_time_that_no_timer_holds_is_refused(name: str) -> None:
    assert getattr(from_environment(**{name: "1e9"}), name) == MOST[float]
    with pytest.raises(ConfigError, match=rf"{name} = '1e10' \(environment\) must be at most 1000000000\."):
        from_environment(**{name: "1e10"})


@pytest.mark.parametrize("value", ["inf", "nan", f"1{'0' * 400}"])
def test_a_number_of_a_file_that_is_none_is_refused(value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"lease_s = {value}\n")
    with pytest.raises(ConfigError, match=rf"Setting lease_s = .*\(file {file}\) must be a finite number"):
        load(config_file=file, environment={})


def test_a_count_that_no_database_holds_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"keep_store_bytes = '1000000000000000000000' \(environment\) must be at most"
    ):
        from_environment(keep_store_bytes=str(10**21))


def test_limits_are_no_settings_and_come_from_one_variable(tmp_path: Path) -> None:
    found = load(environment={"LINEAGE_STORE_LIMITS": "slow_reading_s=5, batch_rows=3"})
    assert (found.settings.slow_reading_s, found.settings.batch_rows) == (5.0, 3)
    assert "batch_rows" not in found.origins
    with pytest.raises(ConfigError, match="Unknown limit 'batch_row' in LINEAGE_STORE_LIMITS") as refused:
        load(environment={"LINEAGE_STORE_LIMITS": "batch_row=3"})
    assert "batch_rows" in (refused.value.hint or "")
    with pytest.raises(
        ConfigError, match=r"batch_rows = 'many' \(LINEAGE_STORE_LIMITS\) must be a whole number"
    ):
        load(environment={"LINEAGE_STORE_LIMITS": "batch_rows=many"})


def test_a_limit_given_as_a_setting_is_refused_with_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("batch_rows = 3\n")
    for given in (
        {"config_file": file, "environment": {}},
        {"environment": {"LINEAGE_STORE_BATCH_ROWS": "3"}},
    ):
        with pytest.raises(ConfigError, match="is no setting but a limit") as refused:
            load(**given)
        assert "LINEAGE_STORE_LIMITS=batch_rows=" in (refused.value.hint or "")


def test_there_are_no_more_settings_than_an_operator_reads() -> None:
    assert len(SETTING_FIELDS) <= 40


def test_in_a_table_the_whole_name_of_a_setting_is_told_as_that_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[keep]\nkeep_days = 90\n")
    with pytest.raises(ConfigError, match="Unknown setting") as refused:
        load(config_file=file, environment={})
    assert refused.value.hint == "In the table [keep] it is days."


@pytest.mark.parametrize("value", ["false", "0", "5", '[""]'])
def test_base_dirs_that_are_no_list_of_paths_are_refused(value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"base_dirs = {value}\n")
    with pytest.raises(ConfigError, match="must be a list of paths"):
        load(config_file=file, environment={})


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LINEAGE_STORE_POLL_INTERVALL_S", "LINEAGE_STORE_POLL_INTERVAL_S"),
        ("LINEAGE_STORE_POLL_INTERVAL", "LINEAGE_STORE_POLL_INTERVAL_S"),
        ("LINEAGE_STORE_DB_URL", "LINEAGE_STORE_DATABASE_URL"),
        ("LINEAGE_STORE_CONFIG_FILE", "LINEAGE_STORE_CONFIG"),
        ("lineage_store_base_dirs", "LINEAGE_STORE_BASE_DIRS"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_is_meant(variable: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(environment={variable: "5"})
    assert str(refused.value) == f"Unknown setting {variable} (environment). Did you mean {meant}?"


def test_a_variable_like_none_that_is_known_is_refused_with_all_that_are() -> None:
    with pytest.raises(
        ConfigError, match=r"LINEAGE_STORE_X .*LINEAGE_STORE_BASE_DIRS, .*LINEAGE_STORE_CONFIG, "
    ):
        load(environment={"LINEAGE_STORE_X": "5"})


def test_a_misspelt_setting_of_a_file_is_refused_with_the_one_that_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("base_dir = []\n")
    with pytest.raises(
        ConfigError, match=rf"Unknown setting 'base_dir' \(file {file}\)\. Did you mean base_dirs\?"
    ):
        load(config_file=file, environment={})


@pytest.mark.parametrize(
    "variable",
    [
        "LINEAGE_STORE_TEST_POSTGRES_URL",
        "_LINEAGE_STORE_COMPLETE",
        # What Kubernetes tells of services named lineage-store and lineage-store-db.
        "LINEAGE_STORE_SERVICE_HOST",
        "LINEAGE_STORE_SERVICE_PORT_HTTP",
        "LINEAGE_STORE_PORT",
        "LINEAGE_STORE_DB_PORT_5432_TCP_ADDR",
    ],
)
def test_variables_of_others_are_let_be(variable: str) -> None:
    assert load(environment={variable: "tcp://10.0.0.1:5432"}).settings == Settings()


def test_a_relative_base_dir_counts_from_the_directory_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "project" / "lineage_store.toml"
    file.parent.mkdir()
    file.write_text('base_dirs = ["summaries", "/shared/summaries", "~/mine"]\n')
    expected = (str(file.parent / "summaries"), "/shared/summaries", str(Path.home() / "mine"))
    for named in (file, file.relative_to(tmp_path)):
        assert load(config_file=named, environment={}).settings.base_dirs == expected


def test_a_relative_base_dir_of_the_environment_counts_from_the_working_directory(tmp_path: Path) -> None:
    assert from_environment(base_dirs="summaries").base_dirs == (str(tmp_path / "summaries"),)


@pytest.mark.parametrize("name", ["serve_port", "metrics_port"])
def test_a_port_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} = '65536' \(environment\) must be at most 65535"):
        from_environment(**{name: "65536"})


def test_an_empty_variable_names_no_base_dir(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('base_dirs = ["summaries"]\n')
    environment = {"LINEAGE_STORE_BASE_DIRS": ""}
    assert load(config_file=file, environment=environment).settings.base_dirs == ()


def test_every_relative_path_of_a_file_counts_from_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "project" / "lineage_store.toml"
    file.parent.mkdir()
    file.write_text(
        'database_url = "sqlite:///store.db"\nserve_token_file = "token"\nmindinsight_ui = "ui/dist"\n'
    )
    settings = load(config_file=file, environment={}).settings
    assert sqlite_path(settings.database_url) == file.parent / "store.db"
    assert (settings.serve_token_file, settings.mindinsight_ui) == (
        str(file.parent / "token"),
        str(file.parent / "ui/dist"),
    )
    here = {"LINEAGE_STORE_DATABASE_URL": "sqlite:///store.db", "LINEAGE_STORE_SERVE_TOKEN_FILE": "token"}
    settings = load(config_file=file, environment=here).settings
    assert sqlite_path(settings.database_url) == Path.cwd() / "store.db"
    assert settings.serve_token_file == "token"


@pytest.mark.parametrize(
    "url",
    ["sqlite:////var/store.db", "sqlite:///:memory:", "sqlite://", "postgresql://u@host/db", "nonsense"],
)
def test_what_is_no_relative_path_stays_as_it_is(tmp_path: Path, url: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'database_url = "{url}"\nserve_token_file = "~/token"\n')
    settings = load(config_file=file, environment={}).settings
    assert (settings.database_url, settings.serve_token_file) == (url, "~/token")


HERE, OF_USER = Path("lineage_store.toml"), Path("none", "lineage-store", "lineage_store.toml")


def theirs(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 65534, -1)


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def open_to_a_team(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files to any group")
    os.chown(path, -1, 65534)
    path.chmod(0o664)


def open_to_a_user_by_an_access_list(path: Path) -> None:
    path.chmod(0o664)
    entries = [
        (1, 6, -1),
        (2, 6, 65534),
        (4, 4, -1),
        (16, 6, -1),
        (32, 4, -1),
    ]  # their rights are a named user's
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each[:2], each[2] % 2**32) for each in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("this filesystem has no access lists")


def a_link_of_theirs(path: Path) -> None:
    path.rename("elsewhere.toml")
    path.symlink_to("elsewhere.toml")
    if os.geteuid() != 0:
        pytest.skip("only root gives links away")
    os.chown(path, 65534, -1, follow_symlinks=False)


@pytest.mark.parametrize(
    "make", [theirs, open_to_all, open_to_a_team, open_to_a_user_by_an_access_list, a_link_of_theirs]
)
def test_a_settings_file_that_another_user_could_have_written_is_passed_over(
    make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    HERE.write_text('database_url = "postgresql://stranger/all"\n')
    OF_USER.parent.mkdir(parents=True)
    OF_USER.write_text('database_url = "sqlite:////mine.db"\n')
    assert load(environment={}).settings.database_url == "postgresql://stranger/all"
    make(HERE)
    assert load(environment={}).settings.database_url == "sqlite:////mine.db"
    assert f"{HERE.absolute()} is skipped: another user could have written it." in caplog.text
    assert load(config_file=HERE, environment={}).settings.database_url == "postgresql://stranger/all"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_settings_file_that_this_users_own_group_may_write_to_counts_wherever_it_lies(
    mode: int, tmp_path: Path
) -> None:
    user = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(user.pw_gid)
    if mode == 0o664 and (group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}):
        pytest.skip("this user has no group of their own")
    HERE.write_text("lease_s = 3.0\n")
    os.chown(HERE, -1, user.pw_gid)
    HERE.chmod(mode)
    tmp_path.chmod(0o2777)  # what others put there is theirs
    assert load(environment={}).settings.lease_s == 3


def test_a_settings_file_that_is_replaced_between_the_look_and_the_reading_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    HERE.write_text("lease_s = 3.0\n")
    may = os.access

    def replace_then(*arguments: Any) -> bool:
        open_to_all(HERE)
        return may(*arguments)

    monkeypatch.setattr(os, "access", replace_then)
    with pytest.raises(ConfigError, match="another user could have written it"):
        load(environment={})
