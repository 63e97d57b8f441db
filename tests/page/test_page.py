"""What people see and do on the page; the main path on both kinds of database."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.databases import on_each
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings

sync_api = pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright")
expect, Page = sync_api.expect, sync_api.Page

pytestmark = pytest.mark.page


def key_of(served: httpx.Client) -> str:
    key: str = served.get("/api/v1/base-dirs").json()["base_dirs"][0]["key"]
    return key


def row(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has_text=name)


@on_each
def test_jobs_are_filtered_sorted_and_opened(page: Any) -> None:
    page.goto("/")
    expect(page.get_by_role("status").filter(has_text="10 jobs")).to_be_visible()
    expect(page.get_by_text("● live")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("optimizer=Ad")
    expect(page.get_by_role("option", name="Adam")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="5 jobs")).to_be_visible()
    page.get_by_role("columnheader", name="accuracy").get_by_role("button").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("sweep_9")
    page.get_by_role("link", name="sweep_9").click()
    expect(page.get_by_role("heading", name="sweep_9")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("status").filter(has_text="5 jobs")).to_be_visible()


def test_a_wrong_condition_is_told_where_it_stands(page: Any) -> None:
    page.goto("/jobs?where=metric/acuracy>0.5")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean metric/accuracy?")


def test_a_brush_in_the_link_picks_jobs_and_escape_clears_it(page: Any) -> None:
    page.goto("/jobs?brush=metric/accuracy~0.65~1")
    expect(page.get_by_role("status").filter(has_text="3 of 10 jobs")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("status").filter(has_text="10 jobs")).to_be_visible()


def test_a_brush_over_words_stays_with_them_when_a_job_brings_a_new_word(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    page.goto("/jobs?axes=optimizer,epoch")
    page.get_by_role("button", name="Ranges").click()
    page.get_by_role("dialog", name="Ranges").get_by_label("Momentum").check()
    expect(page.get_by_role("status").filter(has_text="1 of 10 jobs")).to_be_visible()
    Log().train(network="LeNet5", optimizer="AdaGrad").write_lineage(base_dir / "newcomer")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    expect(page.get_by_role("status").filter(has_text="1 of 11 jobs")).to_be_visible()
    page.reload()
    expect(page.get_by_role("row").nth(1)).to_contain_text("Momentum")


def test_a_brush_on_what_is_not_shown_counts_all_the_same(page: Any) -> None:
    page.goto("/jobs?cols=network&axes=network,optimizer&brush=metric/accuracy~0.65~1")
    expect(page.get_by_role("status").filter(has_text="3 of 10 jobs")).to_be_visible()


@pytest.mark.parametrize("box", ["Keys", "Columns", "Ranges"])
def test_escape_closes_a_box_alone_and_gives_the_keys_back(page: Any, box: str) -> None:
    page.goto("/jobs?brush=metric/accuracy~0.65~1")
    opener = page.get_by_role("button", name=box, exact=True)
    opener.click()
    expect(page.locator("dialog :focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="3 of 10 jobs")).to_be_visible()


def test_who_comes_back_to_the_table_finds_the_place_again(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto("/jobs")
    table = page.get_by_role("table", name="Jobs")
    expect(page.get_by_role("link", name="sweep_3")).to_be_attached()
    table.evaluate(
        "table => new Promise((ended) => { table.addEventListener('scrollend', ended); table.scrollTo(0, 40); })"
    )
    page.get_by_role("link", name="sweep_3").click()
    expect(page).to_have_title("sweep_3 · lineage_store")
    page.go_back()
    expect(page).to_have_title("jobs · lineage_store")
    expect(page.get_by_role("link", name="sweep_3")).to_be_attached()
    assert table.evaluate("table => table.scrollTop") == 40


def test_jobs_are_chosen_and_opened_by_keys_wherever_the_table_was_clicked(page: Any) -> None:
    page.goto("/jobs?sort=-epoch")
    page.get_by_role("row").nth(3).get_by_role("cell").nth(3).click()
    for key in ("j", "x", "j", "k"):
        page.keyboard.press(key)
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Select sweep_9")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="sweep_9")).to_be_visible()


def test_a_key_counts_from_the_moment_the_table_is_there(page: Any) -> None:
    page.add_init_script("""
        new MutationObserver((_, observer) => {
            if (document.querySelectorAll("[role=row]").length < 2) return;
            observer.disconnect();
            for (const key of ["j", "x"])
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        }).observe(document, { childList: true, subtree: true });
    """)
    page.goto("/jobs?sort=-train_id")
    expect(page.get_by_role("checkbox", name="Select sweep_9")).to_be_checked()


def test_the_keys_stay_with_their_job_when_another_comes_above_it(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    page.goto("/jobs?cols=network&sort=-train_id")
    expect(page.get_by_role("row").nth(1)).to_contain_text("sweep_9")
    page.keyboard.press("j")
    page.keyboard.press("j")
    Log().train(network="LeNet5").write_lineage(base_dir / "zebra")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    expect(page.get_by_role("row").nth(1)).to_contain_text("zebra")
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", name="Select sweep_8")).to_be_checked()


def test_what_others_write_on_a_job_is_shown_beside_what_was_written_here(
    page: Any, served: httpx.Client
) -> None:
    page.goto("/jobs?cols=label")
    expect(page.get_by_text("● live")).to_be_visible()
    with page.expect_response("**/sweep_3/annotation"):
        row(page, "sweep_3").get_by_role("combobox").select_option("4")
    expect(row(page, "sweep_3").get_by_role("combobox")).to_have_value("4")
    served.put(f"/api/v1/jobs/{key_of(served)}/sweep_3/annotation", json={"tag": 9}).raise_for_status()
    expect(row(page, "sweep_3").get_by_role("combobox")).to_have_value("9")


def test_a_label_of_others_stays_though_the_answer_to_an_older_one_comes_late(
    page: Any, served: httpx.Client
) -> None:
    held: list[tuple[Any, Any]] = []

    def store_but_do_not_answer(route: Any) -> None:
        held.append((route, route.fetch()))
        served.put(f"/api/v1/jobs/{key_of(served)}/sweep_3/annotation", json={"tag": 9}).raise_for_status()

    page.route("**/sweep_3/annotation", store_but_do_not_answer)
    page.goto("/jobs?cols=label")
    expect(page.get_by_text("● live")).to_be_visible()
    row(page, "sweep_3").get_by_role("combobox").select_option("4")
    expect(row(page, "sweep_3").get_by_role("combobox")).to_have_value("9")
    ((route, answer),) = held
    with page.expect_response("**/sweep_3/annotation"):
        route.fulfill(response=answer)
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 100)))")
    assert row(page, "sweep_3").get_by_role("combobox").input_value() == "9"


def test_a_pinned_column_stays_in_view(page: Any) -> None:
    page.goto("/jobs")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Pin metric/accuracy").click()
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("columnheader").nth(2)).to_contain_text("accuracy")
    page.set_viewport_size({"width": 800, "height": 860})
    page.get_by_role("table", name="Jobs").evaluate("table => table.scrollTo(9999, 0)")
    expect(page.get_by_role("columnheader", name="accuracy")).to_be_in_viewport(ratio=1)


def test_any_two_fields_are_scattered_and_all_hyper_parameters_ranked(page: Any) -> None:
    page.goto("/jobs?cols=network&axes=network,optimizer")
    page.get_by_label("Scatter x").select_option("optimizer")
    page.locator("label", has_text=re.compile("^y ")).get_by_role("combobox").select_option(
        "user_defined/size"
    )
    expect(page.get_by_role("img", name="size over optimizer")).to_be_visible()
    page.get_by_label("What goes with").select_option("metric/accuracy")
    ranked = page.get_by_role("region", name="What goes with accuracy")
    expect(ranked).to_contain_text("size")
    expect(ranked).to_contain_text("learning_rate")
    expect(ranked.get_by_role("row").filter(has_text="loss")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_is_reached_below_all_that_stands_above_it(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/jobs?group=optimizer&ranking=metric/accuracy&scatter=learning_rate,metric/accuracy")
    expect(page.get_by_role("link", name="sweep_1")).to_be_attached()
    page.mouse.move(width / 2, 300)
    page.mouse.wheel(0, 9999)
    expect(page.get_by_role("link", name="sweep_1")).to_be_in_viewport(ratio=1)


@on_each
def test_remarks_and_labels_are_kept(page: Any, served: httpx.Client) -> None:
    page.goto("/jobs?cols=remark,label")
    row(page, "sweep_3").get_by_role("button").click()
    page.keyboard.type("good <b>one</b>")
    page.keyboard.press("Enter")
    row(page, "sweep_3").get_by_role("combobox").select_option("4")
    expect(row(page, "sweep_3")).to_contain_text("good <b>one</b>")
    page.reload()
    expect(row(page, "sweep_3")).to_contain_text("good <b>one</b>")
    expect(row(page, "sweep_3").get_by_role("combobox")).to_have_value("4")


def test_a_remark_is_written_to_its_end_while_jobs_change(page: Any, served: httpx.Client) -> None:
    page.goto("/jobs?cols=remark,label")
    expect(page.get_by_text("● live")).to_be_visible()
    row(page, "sweep_4").get_by_role("button").click()
    page.keyboard.type("half ")
    with page.expect_response(lambda response: "/api/v1/jobs?" in response.url) as reloaded:
        served.put(f"/api/v1/jobs/{key_of(served)}/sweep_6/annotation", json={"tag": 7}).raise_for_status()
    reloaded.value.finished()
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    page.keyboard.type("and half")
    page.keyboard.press("Enter")
    expect(row(page, "sweep_4")).to_contain_text("half and half")
    expect(row(page, "sweep_6").get_by_role("combobox")).to_have_value("7")


def test_what_is_shown_is_downloaded_exactly_and_safe_for_spreadsheets(
    page: Any, served: httpx.Client, tmp_path: Path
) -> None:
    note = {"tag": 7, "remark": "good"}
    served.put(f"/api/v1/jobs/{key_of(served)}/sweep_8/annotation", json=note).raise_for_status()
    page.goto("/jobs?cols=learning_rate,user_defined/owner&where=metric/accuracy>=0.8")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "jobs.csv")
    rows = list(csv.reader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert rows[0] == ["train_id", "learning_rate", "user_defined/owner", "label", "remark"]
    assert sorted(rows[1:]) == [
        ["./sweep_8", "0.0001", "'=1+1", "7", "good"],
        ["./sweep_9", "0.00001", "'=1+1", "", ""],
    ]


def test_the_best_of_a_metric_and_the_outcome_are_columns_and_conditions(page: Any) -> None:
    page.goto("/jobs?cols=outcome,metric_best/accuracy&where=metric_best/accuracy>=0.8")
    expect(page.get_by_role("status").filter(has_text="2 jobs")).to_be_visible()
    expect(page.get_by_role("columnheader", name="outcome")).to_be_visible()
    expect(row(page, "sweep_9")).to_contain_text("0.9")
    condition = page.get_by_role("combobox", name="Condition")
    offered = page.get_by_role("listbox", name="Completions").get_by_role("option")
    condition.fill("outc")
    expect(offered).to_contain_text(["outcome"])
    condition.fill("metric_first/a")
    expect(offered).to_contain_text(["metric_first/accuracy"])


@on_each
def test_selected_jobs_are_compared(page: Any) -> None:
    page.goto("/jobs")
    for name in ("sweep_1", "sweep_2"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("link", name="Compare 2 jobs").click()
    expect(page.get_by_role("heading", name="2 jobs")).to_be_visible()
    expect(page.get_by_role("img", name="loss of 2 jobs")).to_be_visible()
    expect(page.get_by_text("2 NaN")).to_be_visible()
    page.get_by_label("differences").check()
    differing = page.get_by_role("region", name="Differences")
    expect(differing.get_by_role("row").filter(has_text="optimizer")).to_contain_text("Momentum")
    expect(differing.get_by_role("row").filter(has_text="network")).to_have_count(0)


def test_a_zoom_by_time_asks_for_its_steps_and_is_in_the_link(page: Any, served: httpx.Client) -> None:
    page.goto(f"/compare?jobs={key_of(served)}%2Fsweep_1&x=relative")
    chart = page.get_by_role("img", name="loss of 1 jobs")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    with page.expect_request(lambda request: request.url.endswith("/series")) as asked:
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 80)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 80, steps=5)
        page.mouse.up()
    question = asked.value.post_data_json
    assert 0 < question["start"] < question["stop"]
    assert "span=" in page.url
    page.reload()
    page.get_by_role("button", name="All steps").click()
    expect(page.get_by_role("button", name="All steps")).to_have_count(0)
    assert "span=" not in page.url
    assert "range=" not in page.url


TABS = {
    "overview": "owner",
    "curves": "loss",
    "evaluations": "accuracy",
    "images": "step 1",
    "histograms": "Not drawn: 1 NaN, 1 infinite",
    "tensors": "not finite 1",
    "graph": "Default (3)",
    "landscape": "The line is the way of the training, 3 points",
    "files": "summary",
}


@pytest.mark.parametrize("tab", TABS)
def test_every_part_of_a_job_is_shown(page: Any, served: httpx.Client, tab: str) -> None:
    page.goto(f"/job/{key_of(served)}/sweep_0/{tab}")
    expect(page.get_by_role("main")).to_contain_text(TABS[tab])
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("tab", ["images", "histograms", "tensors", "graph", "landscape"])
def test_a_log_file_that_is_gone_is_named_by_what_was_in_it(
    page: Any, served: httpx.Client, base_dir: Path, tab: str
) -> None:
    (path,) = (base_dir / "sweep_0").glob("*_MS")
    path.unlink()
    page.goto(f"/job/{key_of(served)}/sweep_0/{tab}")
    expect(page.get_by_role("alert")).to_contain_text(path.name)


def test_a_node_of_the_graph_tells_what_goes_in_and_comes_out(page: Any, served: httpx.Client) -> None:
    page.goto(f"/job/{key_of(served)}/sweep_0/graph")
    page.get_by_label("Search nodes").fill("conv2d")
    page.get_by_role("button", name="Default/Conv2D-op1 Conv2D").click()
    chosen = page.get_by_role("region", name="Chosen node")
    expect(chosen).to_contain_text("1 parameter or constantx")
    chosen.get_by_role("button", name="Default/ReLU-op2").click()
    expect(chosen).to_contain_text("1 input")
    expect(chosen.get_by_role("button", name="Default/Conv2D-op1")).to_be_visible()


def test_a_node_that_was_searched_for_is_in_view(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    Log().version().graph(*["ReLU"] * 60).write_summary(base_dir / "deep")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/deep/graph")
    page.get_by_label("Search nodes").fill("op60")
    page.get_by_role("button", name="Default/ReLU-op60 ReLU").click()
    expect(page.get_by_role("button", name="ReLU-op60 ReLU", exact=True)).to_be_in_viewport()


def test_another_tag_is_shown_whole_whatever_was_shown_of_the_one_before(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    log = Log().tensor(1, "cube", [[[1.0, 2.0]]]).tensor(2, "number", [3.0])
    log.write_summary(base_dir / "sweep_0", timestamp=1_700_001_000)
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/sweep_0/tensors?tag=cube&part=0,0,0")
    expect(page.get_by_role("main")).to_contain_text("numbers 1")
    failed: list[str] = []
    page.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
    page.get_by_role("combobox", name="tag").select_option("number")
    expect(page.get_by_role("main")).to_contain_text("mean 3 ")
    assert failed == []


def test_a_job_that_is_the_base_dir_itself_has_a_name_and_opens(
    page: Any, served: httpx.Client, database_url: str, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    Log().train(network="LeNet5").write_lineage(alone)
    Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 2.0).write_summary(alone)
    with LineageStore(database_url) as store:
        store.ingest(alone)
    page.goto("/jobs?cols=network")
    page.get_by_role("link", name="./", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("./")
    expect(page.get_by_role("heading", name="In Python")).to_be_visible()
    page.get_by_role("link", name="Curves").click()
    expect(page.get_by_role("img", name="loss of 1 jobs")).to_be_visible()
    expect(page).to_have_title("./ · curves · lineage_store")
    (key,) = (
        each["key"]
        for each in served.get("/api/v1/base-dirs").json()["base_dirs"]
        if each["path"] == str(alone)
    )
    page.goto(f"/compare?jobs={key}%2F")
    page.get_by_role("link", name="./", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("./")


@pytest.mark.parametrize("word", ["tags", "lineage", "evaluations", "files"])
def test_a_job_whose_name_ends_in_a_word_of_the_api_is_shown(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path, word: str
) -> None:
    for path in (base_dir / "team", base_dir / "team" / word):
        Log().version().scalar(1, "loss", 1.0).write_summary(path)
    with LineageStore(database_url, settings=Settings(recursive=True)) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/team%2F{word}")
    facts = page.get_by_role("main")
    expect(row(facts, "train id").first).to_contain_text(f"./team/{word}")
    page.get_by_role("link", name="Files").click()
    expect(row(page, "summary").first).to_be_visible()
    page.goto(f"/compare?jobs={key_of(served)}%2Fteam,{key_of(served)}%2Fteam%2F{word}")
    expect(page.get_by_role("img", name="loss of 2 jobs")).to_be_visible()


def test_what_is_not_finite_is_told_of_a_job(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    about = Log().train(network="LeNet5", loss=float("nan"), learning_rate=0.5)
    about.evaluation({"accuracy": float("nan"), "margin": float("inf"), "good": True, "note": "NaN?"})
    about.write_lineage(base_dir / "diverged")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/diverged")
    told = {"accuracy": "NaN", "margin": "∞", "good": "yes", "note": "NaN?", "loss": "NaN"}
    for name, value in {**told, "learning rate": "0.5"}.items():
        fact = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        expect(fact.get_by_role("cell")).to_have_text(value)
    expect(page.get_by_role("rowheader", name="kind")).to_have_count(0)
    page.get_by_role("link", name="Evaluations").click()
    expect(row(page, "accuracy")).to_contain_text("NaN")


def test_what_users_named_is_shown_as_it_is(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    given = {"epoch_time": 3600.5, "hit_at": 0.75, "seed_bytes": 7, "my_key_s": 90}
    about = Log().train(network="LeNet5").user_info(**given).evaluation({"fid_s": 61.5})
    about.dataset_graph({"op_type": "Batch", "rest_at": 0.25}).write_lineage(base_dir / "own")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/own")
    told = {"epoch_time": "3,600.5", "hit_at": "0.75", "seed_bytes": "7", "my_key_s": "90", "fid_s": "61.5"}
    for name, value in told.items():
        fact = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        expect(fact.get_by_role("cell")).to_have_text(value)
    page.goto(f"/job/{key_of(served)}/own/dataset?node=0/Batch")
    expect(page.get_by_role("region", name="Chosen operation")).to_contain_text("rest_at0.25")


@pytest.mark.parametrize("tab", ["images", "tensors", "histograms"])
def test_what_several_devices_recorded_is_shown_of_the_one_that_is_chosen(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path, tab: str
) -> None:
    for device in (0, 3):
        log = Log().version()
        for step in (1, 2):
            log.image(step, "input", [[[device, 0, 0]]]).tensor(step, "t", [float(device)])
            log.histogram(step, "w", [float("nan")] * device + [1.0])
        log.write_summary(base_dir / "two_devices", device=device)
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/two_devices/{tab}?step=1")
    chosen = page.get_by_role("combobox", name="device")
    expect(chosen.get_by_role("option")).to_have_text(["0", "3"])
    main, of_third = page.get_by_role("main"), {"tensors": "mean 3 ", "histograms": "Not drawn: 6 NaN"}
    expect(main).not_to_contain_text(of_third.get(tab, "device 3"))
    chosen.select_option("3")
    expect(main).to_contain_text(of_third.get(tab, "device 3"))
    if tab == "images":
        page.wait_for_function("document.querySelector('main img').src.includes('device=3')")
    assert "device=3" in page.url
    page.goto(f"/job/{key_of(served)}/sweep_0/{tab}?device=3")
    expect(page.get_by_role("combobox", name="tag")).to_be_visible()
    expect(main).not_to_contain_text("Loading")
    expect(chosen).to_have_count(0)


def test_jobs_that_come_are_compared_and_those_that_are_not_there_told(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    key = key_of(served)
    page.goto(f"/compare?jobs={key}%2Fsweep_1,{key}%2Fnewcomer")
    expect(page.get_by_text("1 more are not in the store")).to_be_visible()
    Log().train(network="LeNet5", optimizer="AdaGrad").write_lineage(base_dir / "newcomer")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    expect(page.get_by_role("heading", name="2 jobs")).to_be_visible()


def test_jobs_of_the_same_name_are_told_apart_by_their_base_dirs(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path, tmp_path: Path
) -> None:
    Log().train(network="LeNet5").write_lineage(tmp_path / "other" / "sweep_1")
    with LineageStore(database_url) as store:
        store.ingest(tmp_path / "other")
    page.goto("/jobs?group=base_dir")
    expect(page.get_by_role("region", name="Groups")).to_contain_text(str(tmp_path / "other"))
    expect(row(page, str(tmp_path / "other")).last).to_contain_text("sweep_1")
    for box in page.get_by_role("checkbox", name="Select sweep_1").all():
        box.check()
    page.get_by_role("link", name="Compare 2 jobs").click()
    for path in (base_dir, tmp_path / "other"):
        expect(page.get_by_role("link", name=f"sweep_1 in {path}")).to_be_visible()


def test_evaluations_are_drawn_by_what_their_log_file_tells(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    about = Log().train(network="LeNet5")
    about.evaluation({"accuracy": 0.5}, step=100, epoch=1).evaluation({"accuracy": 0.75}, step=200, epoch=2)
    about.write_lineage(base_dir / "evaluated")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/evaluated/evaluations")
    expect(page.get_by_role("img", name="accuracy by step of 1 jobs")).to_be_visible()


@on_each
def test_a_job_that_starts_appears_and_its_curve_grows(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    page.goto("/jobs?cols=network")
    expect(page.get_by_text("● live")).to_be_visible()
    Log().train(network="LeNet5").write_lineage(base_dir / "newcomer")
    Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", float("nan")).write_summary(
        base_dir / "newcomer"
    )
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
        expect(page.get_by_role("link", name="newcomer")).to_be_visible()
        page.get_by_role("link", name="newcomer").click()
        page.get_by_role("link", name="Curves").click()
        expect(page.get_by_text("1 NaN")).to_be_visible()
        (path,) = (base_dir / "newcomer").glob("*_MS")
        path.chmod(0o600)
        with path.open("ab") as stream:
            stream.write(Log().scalar(3, "loss", float("nan")).content)
        store.ingest(base_dir)
        expect(page.get_by_text("2 NaN")).to_be_visible()


def test_a_job_of_which_only_curves_are_there_is_shown_and_compared(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    page.goto("/jobs?cols=network")
    expect(page.get_by_role("link", name="sweep_1")).to_be_visible()
    Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 2.0).write_summary(base_dir / "only_curves")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    for name in ("only_curves", "sweep_1"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("link", name="Compare 2 jobs").click()
    expect(page.get_by_role("heading", name="2 jobs")).to_be_visible()
    expect(page.get_by_role("img", name="loss of 2 jobs")).to_be_visible()
    page.get_by_label("differences").check()
    differing = page.get_by_role("region", name="Differences").get_by_role("row")
    expect(differing.filter(has_text="optimizer")).to_contain_text("SGD")
    cells = differing.evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent))"
    )
    assert all(any(re.search(r"\w", cell) for cell in each) for each in cells[1:])


def test_health_tells_of_every_base_dir(page: Any, base_dir: Path) -> None:
    page.goto("/health")
    expect(page.get_by_text(str(base_dir)).first).to_be_visible()


AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(page: Any, served: httpx.Client, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    key = key_of(served)
    of_job = [f"/job/{key}/sweep_0/{tab}" for tab in (*TABS, "dataset")]
    compared = f"/compare?jobs={key}%2Fsweep_0,{key}%2Fsweep_1&diff=1&pipelines=1"
    more = "group=optimizer&ranking=metric/accuracy&scatter=learning_rate,metric/accuracy"
    for path in ("/jobs", f"/jobs?{more}", compared, "/health", *of_job):
        page.goto(path)
        expect(page.get_by_role("main")).not_to_contain_text("Loading")
        page.evaluate(AXE.read_text())  # a script tag would be refused by the page's policy
        found = page.evaluate(
            "axe.run().then(({violations}) => violations.map(v => [v.id, v.nodes[0].html]))"
        )
        assert found == [], path


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_hangs_over_the_side(page: Any, served: httpx.Client, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    key = key_of(served)
    for path in (
        "/jobs",
        "/jobs?group=optimizer&scatter=optimizer,metric/accuracy",
        f"/compare?jobs={key}%2Fsweep_0,{key}%2Fsweep_1&diff=1",
        "/health",
        *(f"/job/{key}/sweep_0/{tab}" for tab in TABS),
    ):
        page.goto(path)
        expect(page.get_by_role("main")).not_to_contain_text("Loading")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.get_by_role("main").evaluate("main => main.scrollWidth") <= width, path


def test_known_values_are_those_of_all_jobs(page: Any) -> None:
    page.goto("/jobs?where=optimizer=SGD")
    condition = page.get_by_role("combobox", name="Condition")
    offered = page.get_by_role("listbox", name="Completions").get_by_role("option")
    condition.fill("optimizer=")
    expect(offered).to_have_text(["Adam 5 jobs", "SGD 4 jobs", "Momentum 1 job"])
    condition.fill("epoch>")
    expect(offered).to_have_count(10)


def test_what_is_typed_while_a_condition_is_applied_stays(page: Any) -> None:
    page.goto("/jobs")
    condition = page.get_by_role("combobox", name="Condition")
    condition.fill("optimizer=Adam")
    condition.evaluate(
        """input => {
            input.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
            setTimeout(() => {
                input.value = "epoch>";
                input.dispatchEvent(new InputEvent("input", {bubbles: true}));
            });
        }"""
    )
    expect(page.get_by_role("status").filter(has_text="5 jobs")).to_be_visible()
    expect(condition).to_have_value("epoch>")


def test_ranges_are_given_in_numbers_and_words(page: Any) -> None:
    page.goto("/jobs")
    page.get_by_role("button", name="Ranges").click()
    page.get_by_label("accuracy from").fill("0.65")
    page.get_by_label("accuracy from").press("Tab")
    expect(page.get_by_role("status").filter(has_text="3 of 10 jobs")).to_be_visible()
    page.get_by_role("dialog", name="Ranges").get_by_label("Adam").check()
    expect(page.get_by_role("status").filter(has_text="2 of 10 jobs")).to_be_visible()
    page.get_by_role("dialog", name="Ranges").get_by_label("SGD").check()
    expect(page.get_by_role("status").filter(has_text="3 of 10 jobs")).to_be_visible()


def test_lines_are_picked_while_an_axis_is_brushed(page: Any) -> None:
    page.goto("/jobs?axes=epoch,metric/accuracy")
    axis = page.locator(".axes .grip").last.bounding_box()
    assert axis is not None
    x, top, bottom = axis["x"] + axis["width"] / 2, axis["y"] + 2, axis["y"] + axis["height"] / 2
    page.mouse.move(x, top)
    page.mouse.down()
    page.mouse.move(x, bottom, steps=4)
    expect(page.get_by_role("img", name="5 jobs as lines")).to_be_attached()
    assert "brush" not in page.url
    page.mouse.up()
    expect(page.get_by_role("status").filter(has_text="5 of 10 jobs")).to_be_visible()


def test_a_narrow_screen_scrolls_the_axes(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/jobs")
    axes = page.get_by_role("region", name="Parallel coordinates")
    expect(axes).to_be_visible()
    assert axes.evaluate("each => each.scrollWidth / each.querySelectorAll('.grip').length") >= 90


def test_a_training_that_was_started_again_says_so(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    Log().version().scalar(30, "loss", 5.0).scalar(31, "loss", 4.0).write_summary(
        base_dir / "sweep_1", timestamp=1_700_001_000
    )
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.goto(f"/job/{key_of(served)}/sweep_1/curves")
    expect(page.get_by_text("1 restart · 1 NaN")).to_be_visible()


WRITES = """
    window.written = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        window.written.push(text);
        return fillText.call(this, text, ...where);
    };
"""


def written(page: Any, *texts: str) -> list[str]:
    """What is written on the page's canvases, as soon as these texts are."""
    page.wait_for_function("texts => texts.every(text => window.written.includes(text))", arg=list(texts))
    found: list[str] = page.evaluate("window.written")
    return found


def test_ticks_tell_apart_what_lies_close_together(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    log = Log().version()
    for step in range(12340, 12361):
        log.scalars(
            step, {"near/one": 0.999 + (step - 12340) * 0.000045, "near/large": 1234.4 + step % 2 / 5}
        )
    log.write_summary(base_dir / "close")
    about = (
        Log().train(network="LeNet5").evaluation({"huge": 1e250}, step=1).evaluation({"huge": 3e250}, step=2)
    )
    about.write_lineage(base_dir / "close")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.add_init_script(WRITES)
    job = f"/job/{key_of(served)}/close"
    page.goto(f"{job}/curves?range=12345~12350")
    found = written(page, "0.99925", "0.9993", "1,234.4", "1,234.5", "12,345", "12,346", "12,349")
    assert {"0.999", "1,230", "12,350"}.isdisjoint(found)
    page.goto(f"{job}/curves?range=12345~12350&log=1")
    written(page, "0.99925", "0.9993", "1,234.45", "1,234.5", "12,345")
    page.goto(f"{job}/evaluations")
    written(page, "1e250", "1.5e250", "2e250", "1", "2")


def test_jobs_that_differ_by_rounding_alone_are_shown_on_axes_and_plots(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    for number, accuracy in enumerate((0.9, sum([0.1] * 9))):
        about = Log().train(network="LeNet5", epoch=number).evaluation({"close": accuracy})
        about.write_lineage(base_dir / f"rounded_{number}")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    page.add_init_script(WRITES)
    page.goto("/jobs?where=metric/close>0&axes=epoch,metric/close&scatter=epoch,metric/close")
    ticks = page.get_by_role("region", name="Parallel coordinates").locator("title")
    expect(ticks.filter(has_text=re.compile(r"^0\.(9|89+)$"))).to_have_count(2)
    written(page, "0.9", "0.89999999999…")


def test_a_curve_of_which_samples_were_thinned_out_says_so(
    page: Any, served: httpx.Client, database_url: str, base_dir: Path
) -> None:
    log = Log().version()
    for step in range(500):
        log.scalar(step, "loss", step % 7)
    log.write_summary(base_dir / "old").chmod(0o400)
    thinning = Settings(keep_every_step_days=90, keep_thinned_buckets=10)
    with LineageStore(database_url, settings=thinning) as store:
        store.ingest(base_dir)
        gone = store.removal.thin().samples
    page.goto(f"/job/{key_of(served)}/old/curves")
    expect(page.get_by_text(f"thinned: {gone} more samples were written")).to_be_visible()
