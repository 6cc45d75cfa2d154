"""`tacit demo`: the main job on a synthetic dataset, in one go."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.output import say, show
from tacit.cli.settings import cores, ready_to_compute
from tacit.errors import TacitError

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.study.compare import Comparison

FOLDER = Path("runs", "demo")
# What each shown method is; the order is that of the table.
KINDS = {
    "popularity": "control: knows nobody",
    "fedmf": "federated: devices send item updates",
    "pfedrec": "federated: devices send item updates",
    "ease": "central baseline: the server sees every history",
}
FEDERATED = ("fedmf", "pfedrec")
WRITTEN = {"compare.json", "compare.md"}


def demo() -> None:
    """Train and compare a few methods on the planted dataset; needs no files and no network."""
    from tacit.cli.progress import Bar
    from tacit.experiment.folder import RunFolder
    from tacit.study.compare import compare

    clear(FOLDER)
    ready_to_compute()
    say("300 made-up people and 240 made-up items; which item did each person choose last?")
    comparison = compare(
        list(KINDS), FOLDER, seeds=1, against="popularity", threads=cores(), callbacks=Bar()
    )
    show(demo_table(comparison))
    say("Shares of people whose last item is among the first 10, of all items or of 99 others and")
    say("itself. Protocol clean: negatives come from all items that a device has not trained on.")
    runs = [RunFolder(FOLDER / name / "seed0") for name in FEDERATED]
    best = max(runs, key=lambda run: run.record().test_released.validation_value)
    privacy = best.record().privacy
    reads = "; ".join(privacy.server_reads)
    say(f"Privacy of the federated rows: {privacy.text}: {reads}.")
    say()
    _one_person(best.path)
    say()
    say(f"report    {best.report_file}")


def demo_table(comparison: Comparison) -> Table:
    """The methods, then chance: full ranking, sampled ranking, bytes, and what each one is."""
    from tacit.cli.output import plain_table
    from tacit.experiment.amounts import DASH, bytes_text, metric_text

    def numbers(values: object) -> list[str]:
        full, sampled = values["full"], values["sampled99"]  # type: ignore[index]
        return [*map(metric_text, (full["HR@10"], full["NDCG@10"], sampled["HR@10"]))]

    rows = []
    for row in comparison.rows:
        often = "a round" if row.name in FEDERATED else "once"
        cost = f"{bytes_text(row.cost['bytes_up'])} {often}"
        rows.append([row.name, KINDS[row.name], *numbers(row.metrics), cost])
    chance = numbers(comparison.reference["chance"])
    rows.append(["chance", "a random order", *chance, DASH])
    columns = ["method", "what it is", "HR@10", "NDCG@10", "HR@10 vs 99", "a client sends"]
    return plain_table("planted, protocol clean, seed 0", columns, rows, numbers=4)


def _one_person(folder: Path) -> None:
    """What one person chose, and what the model would show them next."""
    import numpy as np

    from tacit.experiment.folder import RunFolder
    from tacit.experiment.prepare import prepare
    from tacit.experiment.recommend import recommend

    dataset = prepare(RunFolder(folder).experiment()).dataset  # made up, so it is what it was
    rows, titles = dataset.interactions, dataset.texts["title"]
    person = min(rows.users)
    own_N = np.flatnonzero(rows.user_N == rows.users.index(person))
    assert rows.time_N is not None
    latest = own_N[np.argsort(-rows.time_N[own_N], kind="stable")][:3]
    say(f"{person} liked: {', '.join(titles[code] for code in rows.item_N[latest])}")
    best = recommend(folder, user=person, k=3)
    say(f"shown next: {', '.join(line.title or line.item for line in best)}")


def clear(folder: Path) -> None:
    """Remove what an earlier demo left; refuse if anything else lies there."""
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir() or not all(map(_ours, folder.iterdir())):
        raise TacitError(
            f"{str(folder)!r} holds something that the demo did not write; move it away, or run "
            "the demo in another folder."
        )
    shutil.rmtree(folder)


def _ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if path.is_file():
        return path.name in WRITTEN
    inside = list(path.iterdir())
    return path.name in KINDS and all(
        run.name == "seed0" and (run / "experiment.toml").is_file() for run in inside
    )
