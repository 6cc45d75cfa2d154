"""For the owner of a node: what it holds and ever sent, in words, and all of it as plain files."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.files import whole_folder, writing
from tacit.node.device import Node
from tacit.node.ledger import Entry, spent, spent_by_all
from tacit.node.ranking import Ranking
from tacit.node.runs import PREFIX, SharedModel

MOST_NAMES = 10  # in the line of `inspect`; `--json` has all
HISTORY, SENT, ABOUT, SCORES = "history.csv", "sent.csv", "about.json", "scores.csv"


def facts(node: Node) -> dict[str, Any]:
    """What a node is, holds and ever sent, for programs."""
    touched, entries = node.history(), node.ledger.read()
    ranking, settings = Ranking.read(node.store), node.settings
    counts = Counter(person for person, _, _ in touched)
    budget = spent(entries)
    return {
        "people": {person: counts[person] for person in node.people},
        "catalogue": {"version": node.catalogue.version, "items": len(node.catalogue)},
        "deployment": settings.deployment or None,
        "agreement": asdict(settings.agreement),
        "runs": len([name for name in node.store.names() if name.startswith(PREFIX)]),
        "model": None if ranking is None else ranking.about,
        "sent": [{**asdict(entry), "bytes": entry.bytes} for entry in entries],
        "epsilon": budget,
        "epsilon_of_all_runs": spent_by_all(entries),
    }


def inspection(node: Node) -> list[str]:
    """The same in words, one line for each fact."""
    known, entries = facts(node), node.ledger.read()
    counts = known["people"]
    people = ", ".join(f"{name} ({count:,})" for name, count in list(counts.items())[:MOST_NAMES])
    if len(counts) > MOST_NAMES:
        people += f" and {len(counts) - MOST_NAMES:,} others, {sum(counts.values()):,} in all"
    agreed = node.settings.agreement
    asks = [
        *([f"epsilon at most {agreed.most_epsilon:g}"] if agreed.most_epsilon else []),
        *(
            [f"epsilon at most {agreed.total_epsilon:g} in all runs together"]
            if agreed.total_epsilon
            else []
        ),
        *([f"delta at most {agreed.most_delta:g}"] if agreed.asks_for_epsilon else []),
        *(["uploads under masks only"] if agreed.only_secure else []),
        *(["modules of this machine may be named"] if agreed.imports else []),
        *(["single tables may be sent"] if agreed.allow_tables else []),
    ]
    model = known["model"]
    lines = [
        f"people       with recorded interactions: {people}",
        f"catalogue    version {node.catalogue.version}, {len(node.catalogue):,} items",
        f"deployment   {node.settings.deployment or 'none yet: the first that sends a request'}",
        f"agreed to    {', '.join(asks) or 'any run of the deployment'}",
        f"runs         private state of {known['runs']}, encrypted, never sent as it is",
        "model        none yet"
        if model is None
        else f"model        of run {model['run']}, round {model['round']}"
        f"{', selected' if model['final'] else ''}{_other_round(model)}",
    ]
    return [*lines, *_sent_lines(entries, known)]


def _other_round(model: dict[str, Any]) -> str:
    if model["state_round"] == model["round"]:
        return ""
    return (
        f"; private state is of round {model['state_round']}: nobody told this node in time that "
        f"round {model['round']} was the best"
    )


def _sent_lines(entries: list[Entry], known: dict[str, Any]) -> list[str]:
    if not entries:
        return ["sent         nothing so far", "spent        no epsilon"]
    size = sum(entry.bytes for entry in entries)
    many = "1 message" if len(entries) == 1 else f"{len(entries):,} messages"
    lines = [f"sent         {many}, {size:,} bytes in all"]
    lines += [f"  {entry.text}" for entry in entries]
    for run, epsilon in known["epsilon"].items():
        told = "nothing was promised" if epsilon is None else f"epsilon {epsilon:.4g}"
        lines.append(f"spent        run {run}: {told}")
    if len(known["epsilon"]) > 1 and known["epsilon_of_all_runs"] is not None:
        lines.append(f"spent        all runs together: epsilon {known['epsilon_of_all_runs']:.4g}")
    return lines


def export(node: Node, out: Path) -> list[str]:
    """The owner's own data as plain files in a new folder; the names of the files."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TacitError(f"There is something at {str(out)!r} already; name a new folder.")
    with whole_folder(out) as place:
        if os.name == "posix":
            place.chmod(0o700)  # what lies here is no longer encrypted
        titles = node.catalogue
        rows = [
            (person, item, titles.title(titles.code_of[item]) or "", time)
            for person, item, time in node.history()
        ]
        _write_table(place / HISTORY, ("user", "item", "title", "time"), rows)
        sent = [
            (e.run, e.round_number, e.exchange, e.kind, one.name, list(one.shape), one.bytes)
            for e in node.ledger.read()
            for one in e.parameters
        ]
        columns = ("run", "round", "exchange", "kind", "parameter", "shape", "bytes")
        _write_table(place / SENT, columns, sent)
        _write_scores(node, place / SCORES)
        text = json.dumps(facts(node), indent=1, ensure_ascii=False)
        (place / ABOUT).write_text(text + "\n", encoding="utf-8")
        _write_scorers(node, place)
        return sorted(path.name for path in place.iterdir())


def _write_table(path: Path, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with writing(path), path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)


def _write_scores(node: Node, path: Path) -> None:
    ranking = Ranking.read(node.store)
    if ranking is None:
        return
    rows, histories = [], node.histories()
    for person, name in enumerate(node.people):
        score_I = ranking.scores(person, histories)
        rows += [
            (name, item, repr(float(s)))
            for item, s in zip(node.catalogue.ids, score_I, strict=False)
        ]
    _write_table(path, ("user", "item", "score"), rows)


def _write_scorers(node: Node, place: Path) -> None:
    """The scorer of each person as ONNX, where a model was delivered and the extra is there."""
    from importlib.util import find_spec

    there = all(find_spec(name) is not None for name in ("onnx", "onnxscript"))
    shared = SharedModel.read(node.store)
    model = None if shared is None else shared.delivered(node.store)
    # a model of an earlier catalogue has no rows for the items of this one
    if not there or model is None or model.plan.catalogue != node.catalogue.digest:
        return
    from tacit.node.scorers import write_scorers

    write_scorers(node, place)
