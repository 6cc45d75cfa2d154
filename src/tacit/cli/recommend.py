"""`tacit recommend`: lists for one person from a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.machine import one_torch_thread
from tacit.cli.output import say, say_json, show

if TYPE_CHECKING:
    from tacit.experiment.recommend import Recommendation


def recommend(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    user: Annotated[str | None, typer.Option(help="A user id of the training data.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="A file with one item id a line: a new person.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which view and which input carried each item.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """The best items for a person who has not had them yet."""
    from tacit.experiment.recommend import recommend as recommend_items

    one_torch_thread()
    best = recommend_items(run, user=user, history=history, k=k, explain=explain)
    if as_json:
        items = [_fields(line, explain) for line in best]
        said = {"note": NOTHING} if explain and not _explained(best) else {}
        say_json({"run": str(run), "user": user, "items": items, **said})
        return
    from tacit.cli.tables import plain_table

    rows = [[str(line.rank), line.item, line.title or "", f"{line.score:.4f}"] for line in best]
    show(plain_table(None, ["rank", "item", "title", "score"], rows, numbers=1))
    if explain and not _explained(best):
        say(f"note      {NOTHING}")
    elif explain:
        for line in best:
            assert line.reason is not None
            say(f"{line.rank:<9} {line.item}: {line.reason.says()}")
        say(f"note      {LIFTS}")


NOTHING = "This run reads nothing of an item but its id, so there is nothing else to explain."
LIFTS = (
    "All numbers are logits against the mean item of the catalogue: what a view or an input brings "
    "to every item alike moves none."
)


def _explained(best: Sequence[Recommendation]) -> bool:
    return any(line.reason is not None for line in best)


def _fields(line: Recommendation, explain: bool) -> dict[str, Any]:
    fields = asdict(line)
    if line.reason is not None:
        reason = line.reason
        fields["reason"] |= {
            "view_shares": reason.view_shares,
            "carried_by": reason.carried_by,
            "rests_on": reason.rests_on,
            "sentence": reason.says(),
        }
    elif not explain:
        del fields["reason"]
    return fields
