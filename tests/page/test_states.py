"""What the page says when there is nothing, not yet, no more, or not now; and that it recovers by itself."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from helpers import faults
from helpers.databases import on_each
from helpers.log_writer import Log
from helpers.served import server_process, serving
from lineage_store import LineageStore
from lineage_store.store.database.db import writing
from lineage_store.store.schema import tables

sync_api = pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright")
expect = sync_api.expect

pytestmark = pytest.mark.page


def live(page: Any) -> Any:
    return page.get_by_text("● live")


def add_job(url: str, base_dir: Path, name: str) -> None:
    Log().train(network="LeNet5").write_lineage(base_dir / name)
    with LineageStore(url) as store:
        store.ingest(base_dir)


def streams(served: httpx.Client) -> int:
    """How many streams of changes the server has."""
    lines = served.get("/metrics").text.splitlines()
    return int(
        float(next(line for line in lines if line.startswith("lineage_store_event_streams ")).split()[-1])
    )


@on_each
def test_a_database_that_is_away_is_told_and_what_changed_meanwhile_comes(
    page: Any, database_url: str, base_dir: Path
) -> None:
    page.goto("/jobs?cols=network")
    expect(live(page)).to_be_visible()
    expect(page.get_by_role("link", name="sweep_3")).to_be_visible()
    with LineageStore(database_url) as store, faults.down(store.engine):
        expect(page.get_by_role("alert")).to_contain_text("What you see is not the latest.")
        expect(page.get_by_role("link", name="sweep_3")).to_be_visible()
        page.get_by_role("link", name="sweep_3").click()
        expect(page.get_by_role("alert").last).not_to_be_empty()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("link", name="Overview")).to_be_visible()
    page.go_back()
    add_job(database_url, base_dir, "newcomer")
    expect(page.get_by_role("link", name="newcomer")).to_be_visible()


def test_a_server_that_ends_is_told_and_found_again(page: Any, database_url: str, base_dir: Path) -> None:
    with server_process(database_url) as (_, client):
        address = client.base_url
        page.goto(f"{address}/jobs?cols=network")
        expect(live(page)).to_be_visible()
        expect(page.get_by_role("link", name="sweep_3")).to_be_visible()
    expect(page.get_by_text("connection lost, trying again")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    expect(page.get_by_role("link", name="sweep_3")).to_be_visible()
    add_job(database_url, base_dir, "newcomer")
    with server_process(database_url, address.port or 0):
        expect(live(page)).to_be_visible()
        expect(page.get_by_role("link", name="newcomer")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_all_tabs_of_a_browser_share_one_stream(page: Any, served: httpx.Client) -> None:
    pages = [page, *(page.context.new_page() for _ in range(6))]
    for each in pages:
        each.goto("/jobs?cols=network")
        expect(live(each)).to_be_visible()
        expect(each.get_by_role("link", name="sweep_3")).to_be_visible()
    assert streams(served) == 1


def test_a_browser_without_shared_workers_has_a_stream_a_tab(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    page.add_init_script("delete window.SharedWorker")
    page.goto("/jobs?cols=network")
    expect(live(page)).to_be_visible()
    add_job(database_url, base_dir, "newcomer")
    expect(page.get_by_role("link", name="newcomer")).to_be_visible()


def test_no_match_names_the_term_that_excludes_most(page: Any) -> None:
    page.goto("/jobs?where=optimizer=Adam and epoch>100 and network=LeNet5")
    told = page.get_by_role("status").filter(has_text="No job matches")
    expect(told).to_contain_text("epoch>100 excludes most")
    told.get_by_role("button", name="Without it there are 5 jobs").click()
    expect(page.get_by_role("status").filter(has_text="5 jobs")).to_be_visible()


@on_each
def test_no_match_counts_what_the_table_would_show(page: Any, database_url: str, base_dir: Path) -> None:
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "bare")  # without lineage
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto("/jobs?where=summary_dir like ./bare% and epoch>100")
    page.get_by_role("button", name="Without it there is 1 job").click()
    expect(page.get_by_role("link", name="bare")).to_be_visible()
    page.get_by_role("link", name="Compare these").click()
    expect(page.get_by_role("main").get_by_role("link", name="bare")).to_be_visible()
    expect(page.get_by_role("img", name="loss of 1 jobs")).to_be_visible()


def test_jobs_of_one_name_in_several_base_dirs_are_compared_as_what_they_are(
    page: Any, served: httpx.Client, database_url: str, tmp_path: Path
) -> None:
    with LineageStore(database_url) as store:
        for number, place in enumerate(("first", "second", "third")):
            for name in range(40):
                Log().train(epoch=100 * number + name).write_lineage(tmp_path / place / f"same_{name}")
            store.ingest(tmp_path / place)
    keys = {each["path"]: each["key"] for each in served.get("/api/v1/base-dirs").json()["base_dirs"]}
    jobs = ",".join(f"{keys[str(tmp_path / 'first')]}/same_{name}" for name in range(40))
    page.goto(f"/compare?diff=1&jobs={jobs}")
    epochs = page.get_by_role("region", name="Differences").get_by_role("row").filter(has_text="epoch")
    expect(epochs.get_by_role("cell")).to_have_text([str(name) for name in range(40)])


def test_a_server_that_takes_no_remarks_says_so_where_they_are_written(page: Any, database_url: str) -> None:
    with serving(database_url) as client:
        page.goto(f"{client.base_url}/jobs?cols=remark,label")
        expect(live(page)).to_be_visible()
        job = page.get_by_role("row").filter(has_text="sweep_3")
        job.get_by_role("combobox").select_option("4")
        expect(page.get_by_role("alert")).to_contain_text("sweep_3 is not kept")
        expect(page.get_by_role("alert")).to_contain_text("--allow-remarks")
        expect(job.get_by_role("combobox")).to_have_value("0")
        job.get_by_role("button").click()
        page.keyboard.type("good")
        page.keyboard.press("Enter")
        expect(job.get_by_role("textbox")).to_have_value("good")
        expect(job.get_by_role("textbox")).to_have_attribute("aria-invalid", "true")
        page.keyboard.press("Escape")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_an_empty_store_says_how_it_is_filled(page: Any, empty_served: httpx.Client) -> None:
    page.goto(f"{empty_served.base_url}/jobs")
    expect(page.get_by_text("lineage-store ingest BASE_DIR")).to_be_visible()


@pytest.fixture
def empty_served(sqlite_template: Path, tmp_path: Path) -> Any:
    path = tmp_path / "nothing.sqlite3"
    shutil.copy(sqlite_template, path)
    with serving(f"sqlite:///{path}") as client:
        yield client


def test_what_is_under_way_is_told(page: Any) -> None:
    held: list[Any] = []
    waiting = True
    page.route("**/api/v1/jobs?**", lambda route: held.append(route) if waiting else route.continue_())
    page.goto("/jobs")
    expect(page.get_by_text("Loading …")).to_be_visible()
    waiting = False
    for route in held:
        route.continue_()
    expect(page.get_by_role("link", name="sweep_3")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/job/{key}/nobody/curves", "nobody"),
        ("/job/000000000000/sweep_1", "no base dir with the key"),
        ("/compare?where=metric/acuracy>1", "Did you mean metric/accuracy?"),
        ("/job/%zz/x", "no base dir with the key"),
    ],
)
def test_what_is_not_there_is_told(page: Any, served: httpx.Client, path: str, told: str) -> None:
    key = served.get("/api/v1/base-dirs").json()["base_dirs"][0]["key"]
    page.goto(path.format(key=key))
    expect(page.get_by_role("main")).to_contain_text(told)


def test_a_store_that_nobody_brings_up_to_date_says_so(page: Any, database_url: str, base_dir: Path) -> None:
    with LineageStore(database_url) as store, writing(store.engine) as session:
        session.change(update(tables.base_dir).values(discovered_at=datetime(2020, 1, 1, tzinfo=UTC)))
    page.goto("/jobs")
    banner = page.get_by_role("status", name="Age of what is shown")
    expect(banner).to_contain_text(str(base_dir))
    banner.get_by_role("link", name="What to do").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()


def test_a_pipeline_is_shown_beside_jobs_of_which_none_was_recorded(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    about = Log().train(network="LeNet5").dataset_graph({"op_type": "Batch", "batch_size": 32})
    about.write_lineage(base_dir / "piped")
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "only_curves")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    key = served.get("/api/v1/base-dirs").json()["base_dirs"][0]["key"]
    jobs = ",".join(f"{key}%2F{name}" for name in ("piped", "only_curves", "sweep_1"))
    page.goto(f"/compare?jobs={jobs}&pipelines=1")
    pipelines = page.get_by_role("region", name="Dataset pipelines")
    cells = pipelines.get_by_role("row").filter(has_text="batch_size").get_by_role("cell")
    expect(cells).to_have_text(["32", *["\N{EN DASH}"] * 2])
    for name in ("only_curves", "sweep_1"):
        page.goto(f"/job/{key}/{name}/dataset")
        expect(page.get_by_text("No dataset pipeline was recorded.")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("Dataset pipeline", exact=True)).to_have_count(0)


ODD = [
    "<script>alert(1)</script>".replace("/", "_"),
    "\"quoted\" 'twice' `too`",
    "a%2Fb 100% #1 ?x=1&y=2",
    "comma, tilde~ and",
    "مرحبا שלום",
    "😀 e\u0301 \u202eright-to-left",
    "long " * 30 + "end",
    "\\x41 \udcff",
]


@pytest.fixture
def odd_served(database_url: str, tmp_path: Path) -> Any:
    """Jobs, tags, networks and metrics with every kind of character in their names."""
    for name in ODD:
        text = name.encode("utf-8", "replace").decode()
        about = Log().train(network=text, loss=0.5).evaluation({text: 1.0}).user_info(name=text)
        about.write_lineage(tmp_path / "odd" / name)
        Log().version().scalar(1, f"group/{text}", 1.0).scalar(2, f"group/{text}", 2.0).write_summary(
            tmp_path / "odd" / name
        )
    with LineageStore(database_url) as store:
        store.ingest(tmp_path / "odd")
    with serving(database_url) as client:
        yield client


def test_names_of_every_kind_are_shown_and_lead_where_they_say(page: Any, odd_served: httpx.Client) -> None:
    page.goto(f"{odd_served.base_url}/jobs?cols=network&where=user_defined/name is not null")
    links = page.get_by_role("table", name="Jobs").get_by_role("link")
    expect(links).to_have_count(len(ODD))
    names = links.all_text_contents()
    assert set(ODD[:-1]) < set(names)
    for name in names:
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        page.get_by_role("link", name="Curves").click()
        expect(page.get_by_role("img")).to_have_count(1)
        page.go_back()
        page.go_back()
    expect(links).to_have_count(len(ODD))
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name=f"Compare {len(ODD)} jobs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{len(ODD)} jobs")
    expect(page.get_by_role("img").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_known_value_of_any_kind_finds_its_jobs(page: Any, odd_served: httpx.Client) -> None:
    page.goto(f"{odd_served.base_url}/jobs")
    condition = page.get_by_role("combobox", name="Condition")
    for name in ODD[:-1]:
        condition.fill("network=")
        offered = page.get_by_role("listbox", name="Completions").get_by_role("option")
        offered.filter(has_text=name.strip()).first.click()
        condition.press("Enter")
        expect(page.get_by_role("status").filter(has_text="1 job")).to_be_visible()
        expect(page.get_by_role("link", name=name.strip(), exact=True)).to_be_visible()
