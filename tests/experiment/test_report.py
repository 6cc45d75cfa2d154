"""The report of real runs, one of every kind: right numbers, whole HTML, nothing from outside.

No record is made up: where a case is rare, one value of a real record is changed, and only a name
that real records have can be.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.output import lines_of_result, result_table
from tacit.errors import TacitError
from tacit.experiment.amounts import metric_text as m4
from tacit.experiment.charts import Series, line_chart, ticks
from tacit.experiment.interpretation import (
    COLD_COLUMNS,
    about_oracle,
    against_popularity,
    interpret,
    main_columns,
)
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Privacy
from tacit.experiment.report import write_report
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.privacy.guarantee import Guarantee
from tacit.testing.synthetic import ragged

VOID = {"meta", "line", "circle", "polyline", "br", "link"}
NARROW = ["backbone.dim=8"]
# Every kind of run that there is; data is the planted dataset unless it is `few`.
KINDS: dict[str, dict[str, Any]] = {
    "composed": {"method": "fedmf", "rounds": 3},
    "custom": {"method": "fcf_als", "rounds": 2, "sets": ["dim=4"]},
    "central": {"method": "ease"},
    "one setting": {"method": "popularity"},
    "trained central": {"method": "mf", "rounds": 2, "sets": ["dim=4"]},
    "generator": {"method": "pfedrec", "plugins": ["mdifffr"], "rounds": 3, "sets": NARROW},
    "generator among all": {
        **{"method": "pfedrec", "plugins": ["ridge"], "rounds": 2, "sets": NARROW},
        "split": "cold_together",
    },
    "central on untouched items": {"method": "popularity", "split": "cold"},
    "paper": {"method": "pfedrec", "protocol": "paper", "rounds": 3, "sets": NARROW},
    "at fifty": {"method": "fedmf", "protocol": "fedmr", "rounds": 3, "few": True},
    "several cut-offs": {
        **{"method": "fedmf", "rounds": 2},
        "sets": ["protocol.select_metric=HR@15+30"],
    },
    "several held out": {"method": "popularity", "split": "ratio"},
    "own rules": {"method": "popularity", "sets": ["protocol.name=mine"]},
    "seldom validated": {"method": "fedmf", "rounds": 7, "sets": ["evaluate_every=3"]},
    "one round": {"method": "fedmf", "rounds": 1},
    "noise": {"method": "fedmf", "plugins": ["clip:bound=1", "laplace:scale=0.1"], "rounds": 2},
}
COLD = ("generator", "generator among all", "central on untouched items")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ragged()` with a name that HTML has to escape; some test items are in nobody's train."""
    rows = ragged().interactions
    assert rows.time_N is not None
    lines = [
        f"person {rows.users[user]},film {rows.items[item]},{time}"
        for user, item, time in zip(rows.user_N, rows.item_N, rows.time_N, strict=True)
    ]
    last = rows.time_N.max()
    lines += [f"person {rows.users[user]},film of {user} alone,{last + 1}" for user in range(9)]
    path = tmp_path_factory.mktemp("odd") / "<b>\"Ä & 'co'.csv"
    path.write_text("user,item,time\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, few: Path) -> dict[str, Path]:
    """The folder of a finished run of every kind."""
    place = tmp_path_factory.mktemp("runs")
    folders = {}
    for kind, arguments in KINDS.items():
        given = dict(arguments)
        if given.pop("few", False):
            given["data"] = str(few)
        folders[kind] = place / kind.replace(" ", "-")
        run(resolve(**given), folders[kind])
    return folders


def record_of(folder: Path) -> RunRecord:
    return RunRecord.of_json((folder / "run.json").read_bytes())


def changed(record: RunRecord, *path: str, to: object) -> RunRecord:
    """A real record with one other value; a name that it does not have cannot be made up."""
    found = json.loads(record.json_text)
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    assert path[-1] in inner
    inner[path[-1]] = to
    return RunRecord.of_json(json.dumps(found).encode())


def copied(folder: Path, place: Path, record: RunRecord | None = None) -> Path:
    """A run's folder to change, without its report; with another record where one is given."""
    shutil.copytree(folder, place)
    (place / "report.html").unlink()
    if record is not None:
        (place / "run.json").write_text(record.json_text, encoding="utf-8")
    return place


class Reader(HTMLParser):
    """Fails on a tag that is closed out of order or never, and keeps the visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag
        if tag in {"td", "th", "dt", "dd"}:
            self.text += " "

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.text += data


def read(path: Path) -> tuple[str, str, list[tuple[str, dict[str, str | None]]]]:
    """The page, its visible text on one line, and its tags; checks what holds for every report."""
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    outside = re.sub(r'xmlns(:\w+)?="[^"]*"', "", html)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "@import" not in html
    assert "url(" not in html
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in reader.tags}
    return html, " ".join(reader.text.split()), reader.tags


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run(runs: dict[str, Path], kind: str) -> None:
    """The page shows the result's own numbers, and its words speak of what its table shows."""
    record = record_of(runs[kind])
    html, text, _ = read(runs[kind] / "report.html")
    name = record.label
    assert f"{name} on {record.dataset} protocol {record.protocol} seed 0" in text
    assert f"{record.counts.evaluated_users} evaluated users" in text
    columns = main_columns(record)
    own = [
        m4(record.metrics.of(ranking)[metric])
        for ranking, shown in columns.items()
        for metric in shown
    ]
    assert f"{name} {' '.join(own)} " in text
    for key, title in (("popularity", "Popularity"), ("chance", "Chance")):
        first = record.reference.full.of(key)[columns["full"][0]]
        assert f"{title} {m4(first)} " in text
    said = interpret(record)
    assert said
    for sentence in said:
        assert sentence in text
        assert set(re.findall(r"\b[A-Z]\w+@\d+", sentence)) <= set(columns["full"])
    released = record.test_released
    assert (
        f"Test ranks were opened once: {record.unit} {released.round}, selected at a "
        f"validation value of {m4(released.validation_value)}." in text
    )
    assert "privacy: no guarantee" in text
    for sentence in record.privacy.server_reads:
        assert sentence in text
    assert f"{record.rounds} asked, {record.rounds_run} run" in text
    assert f"torch {record.versions['torch']}" in text
    assert str(runs[kind].parent) not in html
    assert not list(runs[kind].glob("*.part"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_shows_every_kind_of_run(runs: dict[str, Path], kind: str) -> None:
    record = record_of(runs[kind])
    assert result_table(record).row_count == 4
    lines = lines_of_result(record)
    selected = f"selected  {record.unit} {record.selected_round} of {record.rounds_run} "
    assert any(line.startswith(selected) for line in lines)
    assert any(line.startswith("privacy   no guarantee: ") for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_what_validation_chose_from_is_drawn(runs: dict[str, Path], kind: str) -> None:
    """Whatever was validated twice has its curves, whose captions name the chosen round's."""
    record = record_of(runs[kind])
    _, text, tags = read(runs[kind] / "report.html")
    records = [json.loads(line) for line in (runs[kind] / "metrics.jsonl").read_text().splitlines()]
    validated = [record for record in records if "valid" in record]
    losses = [record["loss"] for record in records if record["loss"] is not None]
    panels = (len(losses) > 1) + 2 * (len(validated) > 1)
    assert [tag for tag, _ in tags].count("svg") == panels
    assert ("no curve to draw" in text) == (panels == 0)
    if len(validated) > 1:
        full = records[record.selected_round - 1]["valid"]["full"]
        caption = f"{record.unit.capitalize()} {record.selected_round}: "
        shown = re.findall(re.escape(caption) + r"([^:]*?\d)(?= [A-Z]|$)", text)
        assert all(f"{name} {m4(full[name])}" in text for name in re.findall(r"\w+@\d+", shown[-2]))
        assert re.findall(r"\w+@\d+", shown[-2])


def test_rounds_and_settings_are_called_by_their_names(runs: dict[str, Path]) -> None:
    """Federated methods in closed form have no loss, and rounds all the same."""
    for kind in ("custom", "composed", "trained central"):
        _, text, _ = read(runs[kind] / "report.html")
        assert re.search(r"Round \d of \d was selected", text)
        assert "fitted in one go" not in text
    _, text, tags = read(runs["central"] / "report.html")
    assert re.search(r"Setting \d of 8 was selected", text)
    assert "fitted in one go" in text
    assert "Training loss" not in text
    assert [tag for tag, _ in tags].count("svg") == 2


@pytest.mark.parametrize("kind", COLD)
def test_untouched_items_are_judged_by_what_is_shown_of_them(
    runs: dict[str, Path], kind: str
) -> None:
    record = record_of(runs[kind])
    _, text, _ = read(runs[kind] / "report.html")
    cold = record.cold
    same = " ".join(m4(cold.same_for_all[name]) for name in COLD_COLUMNS)
    assert f"One list for everybody {same} – –" in text
    assert f"Precision@20 (one list for everybody) {m4(cold.metrics['Precision@20'])}" in text
    assert f"not comparable {m4(cold.ndcg_index_order['NDCG@20'])}" in text
    assert ("draws of noise" in text) == (cold.draws is not None)
    assert "HR@20" not in text
    assert "Beats popularity" not in text
    assert "look for a leak" not in text
    assert "Warm items occur" not in text  # all test items are untouched: nothing to tell apart
    alone = "among the untouched items of the test part alone"
    assert (alone in text) == (kind != "generator among all")


def test_the_verdict_on_untouched_items_follows_from_the_numbers(runs: dict[str, Path]) -> None:
    record, name = record_of(runs["generator"]), COLD_COLUMNS[0]
    chance = record.reference.full.chance[name]

    def verdict(value: float, same: float) -> list[str]:
        other = changed(record, "metrics", "full", name, to=value)
        return interpret(changed(other, "cold", "same_for_all", name, to=same))

    high = verdict(3 * chance, chance)
    assert high[0] == f"Recall@20 is 3.00 times that of a random order ({m4(chance)})."
    assert high[1].endswith(f"; knowing people gives {m4(2 * chance)} more.")
    low = verdict(chance, chance)
    assert low[0].startswith(f"Does not stand clear of chance (Recall@20 {m4(chance)})")
    assert low[1].endswith("as much as the method: nothing here comes from knowing people.")
    near = verdict(3 * chance, 3 * chance - 0.001)
    assert "does not show that it knows people" in near[1]
    below = verdict(0.1, 0.6)
    assert below[1].endswith("0.5000 more than the method.")


def test_an_unclean_run_is_marked(runs: dict[str, Path], tmp_path: Path) -> None:
    _, text, tags = read(runs["paper"] / "report.html")
    assert "Not comparable with clean numbers: negatives never include held-out items" in text
    assert [attrs for _, attrs in tags if attrs.get("class") == "mark"]
    leaky = changed(
        record_of(runs["paper"]), "reference", "full", "never_sampled", "HR@10", to=0.96
    )
    _, text, _ = read(write_report(copied(runs["paper"], tmp_path / "leaky", leaky)))
    assert "the whole result can be explained" in text
    _, text, tags = read(runs["composed"] / "report.html")
    assert "Not comparable" not in text


def test_an_unclean_run_of_unknown_rules_is_marked_too(runs: dict[str, Path]) -> None:
    _, text, _ = read(runs["own rules"] / "report.html")
    assert "Not comparable with clean numbers: protocol 'mine' has other rules" in text


def test_a_run_selected_at_fifty_is_read_at_fifty(runs: dict[str, Path]) -> None:
    record = record_of(runs["at fifty"])
    _, text, _ = read(runs["at fifty"] / "report.html")
    full, unseen = record.metrics.full, record.breakdown.unseen
    assert unseen.held_out > 0
    assert "Adds to HR@50" in text
    own = " ".join(m4(unseen.full[name]) for name in main_columns(record)["full"])
    assert f"Unseen {unseen.users} {own} {m4(unseen.adds['HR@50'])}" in text
    assert (
        f"{unseen.held_out} of {record.counts.test} test items are in nobody's train: "
        f"they give {m4(unseen.adds['HR@50'])} of the HR@50 of {m4(full['HR@50'])}." in text
    )
    assert "negatives never include items that are in nobody's train" in text
    assert "validation items stay in the test ranking" in text
    assert "all items outside the person's own training data." in text


def test_names_are_escaped(runs: dict[str, Path], few: Path, tmp_path: Path) -> None:
    html, text, _ = read(runs["at fifty"] / "report.html")
    assert '<b>"' not in html
    assert f"on {few}" in text
    odd = "<b>\"Ä & 'co'</b>"
    record = changed(record_of(runs["noise"]), "plugins", to=[odd])
    for key, value in (("method", odd), ("notes", [odd])):
        record = changed(record, key, to=value)
    record = changed(record, "engine", "text", to=odd)
    record = changed(record, "privacy", "server_reads", to=[odd])
    html, text, _ = read(write_report(copied(runs["noise"], tmp_path / "odd", record)))
    assert '<b>"' not in html
    assert text.count(odd) >= 6


def test_rounds_without_evaluation(runs: dict[str, Path]) -> None:
    _, text, tags = read(runs["seldom validated"] / "report.html")
    lines = [attrs["points"] or "" for tag, attrs in tags if tag == "polyline"]
    assert [len(points.split()) for points in lines] == [7, 3, 3, 3, 3]
    assert "nan" not in text.lower().split()


def test_kinds_of_items_that_nobody_has_and_diverged_training(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    _, text, _ = read(runs["composed"] / "report.html")
    assert "Unseen 0 – – – – 0.0000" in text
    _, text, _ = read(runs["several held out"] / "report.html")
    assert "Adds to" not in text
    folder = copied(runs["seldom validated"], tmp_path / "one")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    records[3]["loss"], records[4]["loss"] = float("nan"), float("inf")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    _, _, tags = read(write_report(folder))
    lines = [attrs["points"] or "" for tag, attrs in tags if tag == "polyline"]
    assert len(lines[0].split()) == 5


def test_a_guarantee_is_stated_with_its_numbers(runs: dict[str, Path], tmp_path: Path) -> None:
    stated = Guarantee.gaussian("secure_sum", bound=1.0, noise=2.0, releases=50, delta=1e-5)
    told = Privacy.of(stated, record_of(runs["noise"]).privacy.server_reads)
    record = changed(record_of(runs["noise"]), "privacy", to=json.loads(told.json_text))
    _, text, _ = read(write_report(copied(runs["noise"], tmp_path / "one", record)))
    assert f"{stated.text}." in text
    assert "user-level ε = 20.68, δ = 1e-05 over 50 releases" in text
    for fact in (
        "View secure sum",
        "Neighbours one user's contributions, or nothing in their place",
        "Mechanism gaussian",
        "One user adds at most (norm 2) 1",
        "Sensitivity 1",
        "Noise 2",
        "Releases of one user, at most 50",
        "ε of one release 1.993",
        "ε of all, at δ = 1e-05 20.68",
        *(told.assumes or ()),
    ):
        assert fact in text
    assert "no guarantee" not in text.lower()


def test_bad_folders_say_what_is_wrong(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(TacitError, match=r"No result at .*run\.json"):
        write_report(tmp_path)
    folder = copied(runs["composed"], tmp_path / "one")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"round": 3, "lo')
    with pytest.raises(TacitError, match=r"line 4 of .*metrics\.jsonl.*: it is not JSON"):
        write_report(folder)
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(TacitError, match=r"Cannot read .*metrics\.jsonl"):
        write_report(folder)
    assert not (folder / "report.html").exists()


# What a page lists as it is, and what only some real results have.
LISTED = ("counts", "versions", "cold")


def made(folder: Path) -> tuple[str | None, str]:
    """The page, or the sentence that says why there is none."""
    try:
        return write_report(folder).read_text(encoding="utf-8"), ""
    except TacitError as error:
        return None, str(error)


@pytest.mark.parametrize("kind", ["composed", "generator", "at fifty"])
def test_a_key_that_is_missing_is_a_sentence_never_a_gap(
    runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Without any one key, or with a value of another kind there, the page is the same or none."""
    result = json.loads((runs[kind] / "run.json").read_text(encoding="utf-8"))
    folder = copied(runs[kind], tmp_path / "one")
    whole, refused = write_report(folder).read_text(encoding="utf-8"), set()
    paths = [(key,) for key in result]
    paths += [
        (key, inner) for key, value in result.items() if isinstance(value, dict) for inner in value
    ]
    for path in paths:
        for gone in (True, False):
            other: Any = copy.deepcopy(result)
            inner = other if len(path) == 1 else other[path[0]]
            if gone:
                del inner[path[-1]]
            else:
                inner[path[-1]] = ["of", "another kind"]
            (folder / "run.json").write_text(json.dumps(other), encoding="utf-8")
            (folder / "report.html").unlink(missing_ok=True)
            page, told = made(folder)
            if page is None:
                assert "another version" in told, path
                assert not (folder / "report.html").exists()
                refused |= {".".join(path)} if gone else set()
            else:
                assert not gone or page == whole or path[0] in LISTED, path
    assert {"method", "seed", "test_released", "test_released.validation_value"} <= refused
    assert {"metrics", "cost.bytes_up", "privacy.server_reads", "counts.evaluated_users"} <= refused


def test_reading_of_a_method_below_popularity(runs: dict[str, Path]) -> None:
    record = record_of(runs["composed"])
    counted = record.reference.full.popularity
    record = changed(record, "metrics", "full", "HR@10", to=0.05)
    record = changed(record, "metrics", "full", "NDCG@10", to=counted["NDCG@10"] + 0.01)
    first = interpret(record)[0]
    hits, gain = m4(counted["HR@10"]), m4(counted["NDCG@10"])
    assert first.startswith(f"Does not beat popularity: HR@10 is 0.0500 against {hits}")
    assert f"though NDCG@10 is higher ({m4(counted['NDCG@10'] + 0.01)} against {gain})" in first


def test_reading_within_and_outside_of_noise() -> None:
    values, counted = {"HR@10": 0.10, "NDCG@10": 0.06}, {"HR@10": 0.09, "NDCG@10": 0.05}
    # 2 * sqrt(0.1 * 0.9 / 900) = 0.02, twice the difference; a hundredfold of users settles it.
    assert "under two standard errors (0.0200 with 900 users)" in against_popularity(
        values, counted, 900
    )
    assert "standard errors" not in against_popularity(values, counted, 90000)


def test_reading_at_chance(runs: dict[str, Path]) -> None:
    record = record_of(runs["composed"])
    chance = record.reference.full.chance["HR@10"]
    record = changed(record, "metrics", "full", "HR@10", to=chance + 0.001)
    assert f"Does not stand clear of chance (HR@10 {m4(chance)})" in interpret(record)[1]


def test_reading_of_the_oracle() -> None:
    below = about_oracle(0.3, 0.2, 0.01, 1000, clean=False)
    assert "far above chance (0.0100)" in below
    assert "look for a leak" not in below
    assert "look for a leak" in about_oracle(0.3, 0.2, 0.01, 1000, clean=True)
    assert "no less than the method" in about_oracle(0.3, 0.4, 0.01, 1000, clean=False)
    assert "stays at chance" in about_oracle(0.3, 0.012, 0.01, 1000, clean=False)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.13), (0.31, 0.69), (5.0, 5.0), (0.0, 0.0), (-2, 900)]
)
def test_ticks_enclose_what_they_measure(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low <= high <= found[-1]
    assert 3 <= len(found) <= 7


def test_every_drawn_point_lies_inside_the_chart() -> None:
    series = [Series("a", ((1, -3.0), (2, 40.0), (50, 7.0))), Series("b", ((1, 0.1), (50, 0.2)))]
    svg = str(line_chart(series, label="two lines", selected=50))
    for points in re.findall(r'points="([^"]*)"', svg):
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 0 < x < 320
            assert 0 < y < 196
