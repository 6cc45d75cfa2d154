"""`tacit recommend`: lists for one person from a finished run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show
from tacit.cli.settings import ready_to_compute

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
        bool,
        typer.Option(
            "--explain",
            help="Say what carried each item: views and inputs, or items of the history.",
        ),
    ] = False,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """The best items for a person who has not had them yet."""
    from tacit.engines.explain import fused
    from tacit.experiment.data_record import OLD
    from tacit.experiment.folder import RunFolder
    from tacit.experiment.recommend import recommend as recommend_items

    ready_to_compute()
    best = recommend_items(run, user=user, history=history, k=k, explain=explain)
    is_fused = explain and fused(RunFolder(run).experiment().method) is not None
    nothing = explain and not is_fused and all(line.reason is None for line in best)
    if as_json:
        items = [_fields(line, explain) for line in best]
        said = {"note": NOTHING} if nothing else {}
        said |= {"data_note": OLD} if RunFolder(run).is_old else {}
        say_json({"run": str(run), "user": user, "items": items, **said})
        return
    from tacit.cli.output import plain_table

    columns = ["rank", "item", "title", "score"]
    rows = [[str(line.rank), line.item, line.title or "", f"{line.score:.4f}"] for line in best]
    if any(line.new for line in best):
        columns.insert(3, "joined")
        for line, row in zip(best, rows, strict=True):
            row.insert(3, "new" if line.new else "")
    show(plain_table(None, columns, rows, numbers=1))
    if RunFolder(run).is_old:
        say(f"note      {OLD}")
    if nothing:
        say(f"note      {NOTHING}")
    elif explain:
        for line in best:
            reason = NO_REASON if line.reason is None else line.reason.text()
            say(f"{line.rank:<9} {line.item}: {reason}")
        say(f"note      {LIFTS if is_fused else SHARES}")


NOTHING = "This run reads nothing of an item but its id, so there is nothing else to explain."
NO_REASON = "did not exist in training; its row was made from its content."
LIFTS = (
    "All numbers are logits against the mean item of the catalogue: what a view or an input brings "
    "to every item alike moves none."
)
SHARES = "Percentages are of all that the items of the history move an item by, up or down."


def _fields(line: Recommendation, explain: bool) -> dict[str, Any]:
    fields = asdict(line)
    if line.reason is not None:
        fields["reason"] = line.reason.fields()
    elif not explain:
        del fields["reason"]
    return fields
