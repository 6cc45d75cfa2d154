"""The report of made-up runs: right numbers, whole HTML, nothing from outside."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import TacitError
from tacit.experiment.charts import Series, line_chart, ticks
from tacit.experiment.reading import about_oracle, against_popularity, reading
from tacit.experiment.report import write_report

VOID = {"meta", "line", "circle", "polyline", "br", "link"}
SETTINGS = 'name = "pfedrec"\n\n[protocol]\nname = "{name}"\nnegatives_exclude = "{pool}"\n'


def at_cutoffs(hit: float, gain: float) -> dict[str, float]:
    values: dict[str, float] = {}
    for place, k in enumerate((5, 10, 20, 50, 100)):
        scale = 0.6 + 0.4 * place
        values |= {f"HR@{k}": hit * scale, f"Recall@{k}": hit * scale, f"NDCG@{k}": gain * scale}
    return values


def made_up_run(**changes: Any) -> dict[str, Any]:
    before = {"users": 943, "items": 1682, "interactions": 100000}
    after = {"users": 940, "items": 1680, "interactions": 99876}
    run = {
        "method": "pfedrec",
        "plugins": [],
        "dataset": "ml-100k",
        "protocol": "clean",
        "clean": True,
        "preset": "paper",
        "seed": 7,
        "rounds": 100,
        "rounds_run": 100,
        "selected_round": 62,
        "selection": "full-ranking validation NDCG@10, last of equals",
        "engine": "fused CPU kernel: dot product over ids, alternate local steps",
        "run": "somewhere/else/run-one",
        "seconds": 41.27,
        "cpu_seconds": 80.5,
        "threads": 2,
        "metrics": {"full": at_cutoffs(0.10234, 0.05123), "sampled99": at_cutoffs(0.4512, 0.2511)},
        "reference": {
            "full": {
                "popularity": at_cutoffs(0.0781, 0.0389),
                "chance": at_cutoffs(0.0063, 0.0029),
                "never_sampled": at_cutoffs(0.0071, 0.0031),
            },
            "sampled99": {
                "popularity": at_cutoffs(0.3811, 0.2099),
                "chance": at_cutoffs(0.1, 0.0454),
                "never_sampled": at_cutoffs(0.1034, 0.0467),
            },
        },
        "breakdown": {
            "warm": {"users": 936, "full": {"HR@10": 0.1031, "NDCG@10": 0.0516}},
            "unseen": {"users": 4, "full": {"HR@10": 0.0, "NDCG@10": 0.0}},
        },
        "beyond": {"coverage@10": 0.2134, "mean_popularity@10": 187.42},
        "privacy": {
            "guarantee": "none",
            "epsilon": None,
            "delta": None,
            "server_reads": ["Which items a client touched: untouched rows are exactly zero."],
        },
        "cost": {
            "bytes_up": 215296,
            "bytes_down": 215296,
            "exchanges": 62,
            "bytes_total_to_selected_round": 25171977216,
            "client_bytes": 4132,
        },
        "counts": {
            "users": 943,
            "items": 1682,
            "train": 98114,
            "valid": 943,
            "test": 943,
            "evaluated_users": 940,
            "users_too_short": 3,
            "unseen_test_items": 4,
        },
        "steps": [
            {"rule": "keep the earliest of repeated pairs", "before": before, "after": after}
        ],
        "notes": ["Scores are logits."],
        "versions": {"tacit": "0.1.0", "torch": "2.6.0", "numpy": "1.26.4", "python": "3.11.9"},
        "test_released": {"round": 62, "metric_value_valid": 0.06123},
    }
    return run | changes


def made_up_history(rounds: int = 100, every: int = 1) -> list[dict[str, Any]]:
    lines = []
    for number in range(1, rounds + 1):
        line: dict[str, Any] = {"round": number, "loss": 0.35 + 0.34 / number**0.5}
        if number % every == 0:
            hit = 0.12 * (1 - 0.9**number) * (1 - number / 800)
            full = {"HR@10": hit, "NDCG@10": hit / 2}
            line["valid"] = {"full": full, "sampled99": {k: 4 * v for k, v in full.items()}}
        lines.append(line)
    return lines


def made_up_folder(
    folder: Path, run: dict[str, Any], history: list[dict[str, Any]], settings: str | None = None
) -> Path:
    pool = "train" if run["clean"] else "all"
    settings = settings or SETTINGS.format(name=run["protocol"], pool=pool)
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    lines = "".join(json.dumps(line) + "\n" for line in history)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    (folder / "experiment.toml").write_text(settings, encoding="utf-8")
    return folder


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


def test_a_clean_run(tmp_path: Path) -> None:
    folder = made_up_folder(tmp_path, made_up_run(), made_up_history())
    path = write_report(folder)
    assert path == tmp_path / "report.html"
    html, text, tags = read(path)
    assert "pfedrec on ml-100k protocol clean seed 7" in text
    assert "Not comparable" not in text
    # The method's row: HR@10, NDCG@10, HR@20, NDCG@20, then the two sampled columns.
    assert "pfedrec 0.1023 0.0512 0.1433 0.0717 0.4512 0.2511 Popularity 0.0781" in text
    assert "Chance 0.0063" in text
    assert "Never-sampled oracle 0.0071" in text
    assert "Beats popularity by a factor of 1.31 in HR@10 (0.1023 against 0.0781)" in text
    assert "Warm 936 0.1031 0.0516 Unseen 4 0.0000 0.0000" in text
    assert "Adds to" not in text  # results of earlier versions do not say it
    assert "own training and validation data" in text
    assert "21.3 %" in text
    assert "215.3 kB" in text
    assert "25.2 GB" in text
    assert "No guarantee" in text
    assert "untouched rows are exactly zero" in text
    assert "keep the earliest of repeated pairs 943 1,682 100,000 940 1,680 99,876" in text
    assert "Test ranks were opened once: round 62" in text
    assert "torch 2.6.0" in text
    assert 'negatives_exclude = "train"' in text
    assert "run-one" in text
    assert "somewhere" not in html
    assert [tag for tag, _ in tags].count("svg") == 3
    assert html.count('class="selected"') == 6  # a line and a word in each chart
    assert not list(tmp_path.glob("*.part"))


def test_an_unclean_run_is_marked(tmp_path: Path) -> None:
    run = made_up_run(clean=False, protocol="pfedrec")
    run["reference"]["full"]["never_sampled"] = at_cutoffs(0.96, 0.9)
    _, text, tags = read(write_report(made_up_folder(tmp_path, run, made_up_history())))
    assert "Not comparable with clean numbers: negatives never include held-out items" in text
    assert [attrs for _, attrs in tags if attrs.get("class") == "mark"]
    assert "the whole result can be explained" in text


def test_an_unclean_run_of_unknown_rules_is_marked_too(tmp_path: Path) -> None:
    run = made_up_run(clean=False, protocol="custom")
    folder = made_up_folder(tmp_path, run, [], settings="not = [toml")
    _, text, _ = read(write_report(folder))
    assert "Not comparable with clean numbers: protocol 'custom' has other rules" in text


def test_a_run_selected_at_fifty_is_read_at_fifty(tmp_path: Path) -> None:
    run = made_up_run(clean=False, protocol="fedmr", select_metric="HR@50")
    run["metrics"]["full"] = at_cutoffs(0.3, 0.1)
    full = at_cutoffs(0.5, 0.2)
    run["breakdown"] = {
        "warm": {"users": 640, "held_out": 640, "full": full, "adds": {"HR@50": 0.12}},
        "unseen": {"users": 300, "held_out": 300, "full": full, "adds": {"HR@50": 0.42}},
    }
    history = made_up_history()
    for line in history:
        line["valid"]["full"] |= {"HR@50": 0.3, "NDCG@50": 0.1}
    settings = (
        '[protocol]\nname = "fedmr"\nnegatives_exclude = "unseen"\ntest_mask = "train"\n'
        'duplicates = "keep"\n'
    )
    _, text, _ = read(write_report(made_up_folder(tmp_path, run, history, settings)))
    # HR and NDCG at 10, 20 and 50 (1.8 times the values of at_cutoffs), then the sampled columns.
    assert "pfedrec 0.3000 0.1000 0.4200 0.1400 0.5400 0.1800 0.4512 0.2511" in text
    assert "Adds to HR@50" in text
    assert "Unseen 300 0.5000 0.2000 0.7000 0.2800 0.9000 0.3600 0.4200" in text
    assert "300 of 940 test items are in nobody's train: they give 0.4200 of the HR@50 of" in text
    assert "in HR@50 (0.5400 against" in text
    assert "Round 62: HR@50 0.3000, NDCG@50 0.1000" in text
    assert "negatives never include items that are in nobody's train" in text
    assert "validation items stay in the test ranking" in text
    assert "all items outside the person's own training data." in text


def test_names_are_escaped(tmp_path: Path) -> None:
    odd = "<b>\"Ä & 'co'</b>"
    run = made_up_run(method=odd, dataset=odd, plugins=[odd], notes=[odd], engine=odd)
    run["steps"][0]["rule"] = odd
    run["privacy"]["server_reads"] = [odd]
    folder = made_up_folder(tmp_path, run, made_up_history(3), settings=f"name = '{odd}'\n")
    html, text, _ = read(write_report(folder))
    assert '<b>"' not in html
    assert text.count(odd) >= 8


def test_rounds_without_evaluation(tmp_path: Path) -> None:
    folder = made_up_folder(tmp_path, made_up_run(selected_round=60), made_up_history(100, 20))
    _, text, tags = read(write_report(folder))
    lines = [attrs["points"] or "" for tag, attrs in tags if tag == "polyline"]
    assert [len(points.split()) for points in lines] == [100, 5, 5, 5, 5]
    assert "nan" not in text.lower().split()
    assert "Round 60: HR@10 0.1108, NDCG@10 0.0554" in text  # 0.12 * (1 - 0.9^60) * (1 - 60 / 800)


def test_closed_form_settings_without_loss(tmp_path: Path) -> None:
    history = [line | {"loss": None} for line in made_up_history(8)]
    run = made_up_run(method="ease", selected_round=3, rounds=8, rounds_run=8)
    del run["reference"]["full"]["never_sampled"], run["reference"]["sampled99"]["never_sampled"]
    _, text, tags = read(write_report(made_up_folder(tmp_path, run, history)))
    assert "Setting 3 of 8 was selected" in text
    assert "Training loss" not in text
    assert "Never-sampled" not in text
    assert [tag for tag, _ in tags].count("svg") == 2


@pytest.mark.parametrize("history", [[], [{"round": 1, "loss": None}], [{"round": 1, "loss": 0.5}]])
def test_too_few_rounds_for_a_curve(tmp_path: Path, history: list[dict[str, Any]]) -> None:
    _, text, tags = read(write_report(made_up_folder(tmp_path, made_up_run(), history)))
    assert "no curve to draw" in text
    assert "svg" not in {tag for tag, _ in tags}


def test_empty_breakdown_and_diverged_training(tmp_path: Path) -> None:
    run = made_up_run()
    run["breakdown"]["unseen"] = {"users": 0, "full": {}}
    history = made_up_history(10)
    history[5]["loss"] = float("nan")
    history[6]["loss"] = float("inf")
    _, text, tags = read(write_report(made_up_folder(tmp_path, run, history)))
    assert "Unseen 0 – –" in text
    lines = [attrs["points"] or "" for tag, attrs in tags if tag == "polyline"]
    assert len(lines[0].split()) == 8


def test_a_guarantee_is_stated_with_its_numbers(tmp_path: Path) -> None:
    privacy = {"guarantee": "user-level differential privacy", "epsilon": 4.5, "delta": 1e-5}
    folder = made_up_folder(tmp_path, made_up_run(privacy=privacy), made_up_history(3))
    _, text, _ = read(write_report(folder))
    assert "user-level differential privacy, ε = 4.5, δ = 1e-05." in text
    assert "No guarantee" not in text


def test_bad_folders_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match=r"No result at .*run\.json"):
        write_report(tmp_path)
    folder = made_up_folder(tmp_path, made_up_run(), made_up_history(2))
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"round": 3, "lo')
    with pytest.raises(TacitError, match=r"line 3 of .*metrics\.jsonl.* is not JSON"):
        write_report(folder)
    (folder / "run.json").write_text('{"method": "fedmf"}')
    with pytest.raises(TacitError, match="lacks 'dataset'"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_reading_of_a_method_below_popularity() -> None:
    run = made_up_run()
    run["metrics"]["full"] = {"HR@10": 0.05, "NDCG@10": 0.045}
    first = reading(run)[0]
    assert first.startswith("Does not beat popularity: HR@10 is 0.0500 against 0.0781")
    assert "though NDCG@10 is higher (0.0450 against 0.0389)" in first


def test_reading_within_and_outside_of_noise() -> None:
    values, counted = {"HR@10": 0.10, "NDCG@10": 0.06}, {"HR@10": 0.09, "NDCG@10": 0.05}
    # 2 * sqrt(0.1 * 0.9 / 900) = 0.02, twice the difference; a hundredfold of users settles it.
    assert "under two standard errors (0.0200 with 900 users)" in against_popularity(
        values, counted, 900
    )
    assert "standard errors" not in against_popularity(values, counted, 90000)


def test_reading_at_chance() -> None:
    run = made_up_run()
    run["metrics"]["full"] = {"HR@10": 0.007, "NDCG@10": 0.003}
    assert "Does not stand clear of chance (HR@10 0.0063)" in reading(run)[1]


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
