"""`tacit node`: one person's device, or a household's: its history, its model, what it sent."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import plain_table, say, say_json, show, warn
from tacit.errors import TacitError, shown

if TYPE_CHECKING:
    from tacit.node.device import Node

app = typer.Typer(help="A device: its own history, private state and recommendations.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the node.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="The file with the node's key; else TACIT_NODE_KEY, or the file of `node init`."
    ),
]
User = Annotated[str | None, typer.Option(help="Whose it is, where a node has several people.")]


@app.callback()
def node() -> None:
    """A device: its own history, private state and recommendations."""


@app.command("init")
def init(
    folder: Folder,
    catalogue: Annotated[
        Path,
        typer.Option(help="Items: one id a line, a CSV with item and title, or a JSON."),
    ],
    key_file: Annotated[
        Path | None, typer.Option(help="The file of the node's key; a new one is made.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option(help="A person of this node; give it once for each.")
    ] = None,
    deployment: Annotated[
        str, typer.Option(help="The deployment that it belongs to; else the first that asks.")
    ] = "",
    most_epsilon: Annotated[
        float | None, typer.Option(help="Take part only in runs that promise at most that.")
    ] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="Send no more once all runs together have spent that.")
    ] = None,
    most_delta: Annotated[
        float, typer.Option(help="The largest delta at which these epsilons may be promised.")
    ] = 1e-5,
    only_secure: Annotated[
        bool, typer.Option("--only-secure", help="Send uploads under masks only.")
    ] = False,
    allow_tables: Annotated[
        bool,
        typer.Option("--allow-tables", help="Send whole tables to servers that read single ones."),
    ] = False,
    number: Annotated[int, typer.Option(help="The node's number in secure sums.")] = 0,
    directory: Annotated[
        Path | None,
        typer.Option(help="A JSON of all nodes' public keys by number, for secure sums."),
    ] = None,
) -> None:
    """Make a node: an encrypted folder with its people and the catalogue."""
    from tacit.node.agreement import Agreement
    from tacit.node.catalogue import read_catalogue_file
    from tacit.node.device import Node
    from tacit.node.store import make_key, read_key

    items = read_catalogue_file(catalogue)
    agreement = Agreement(
        most_epsilon,
        only_secure,
        allow_tables=allow_tables,
        total_epsilon=total_epsilon,
        most_delta=most_delta,
    )
    known = {} if directory is None else _read_directory(directory)
    made = key_file is not None and not key_file.exists()
    key = make_key(key_file) if made and key_file is not None else read_key(key_file)
    try:
        found = Node.init(
            folder,
            key,
            items,
            users=user or (),
            deployment=deployment,
            agreement=agreement,
            number=number,
            directory=known,
            key_file=key_file,
        )
    except BaseException:
        if made and key_file is not None:
            key_file.unlink(missing_ok=True)
        raise
    say(f"node      {folder} for {', '.join(found.people)}")
    say(f"catalogue {len(items):,} items")
    if key_file is not None:
        made_or_read = "made" if made else "read"
        say(f"key       {made_or_read} in {key_file}: without it nobody reads the node")


def _read_directory(path: Path) -> dict[int, bytes]:
    from tacit.files import reading

    with reading(path, "give a JSON of public keys by number"):
        text = path.read_text(encoding="utf-8")
    try:
        return {int(number): bytes.fromhex(key) for number, key in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TacitError(
            f"{str(path)!r} is no directory of keys; it is a JSON of hexadecimal keys by number."
        ) from error


@app.command("record")
def record(
    folder: Folder,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The id of the item.")],
    time: Annotated[
        float | None, typer.Option(help="When, in seconds since 1970; else now.")
    ] = None,
    user: User = None,
    key_file: KeyFile = None,
) -> None:
    """Write down that a person touched an item. It counts from the next round on."""
    opened = _open(folder, key_file)
    when = int(time) if time is not None and time.is_integer() else time
    again = any(
        one == item and who == (user or opened.people[0]) for who, one, _ in opened.history()
    )
    opened.record(item, when, user)
    if again:
        warn("note      this item was recorded before; by default its earliest time counts")


@app.command("recommend")
def recommend(
    folder: Folder,
    user: User = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    key_file: KeyFile = None,
    as_json: options.Json = False,
) -> None:
    """The best items that a person does not have yet, from what lies on this device alone."""
    from tacit.node.ranking import Ranking

    opened = _open(folder, key_file)
    ranking = Ranking.read(opened.store)
    best = opened.recommend(k, user, ranking)
    if as_json:
        about = None if ranking is None else ranking.about
        items = [asdict(line) for line in best]
        say_json({"node": str(folder), "user": user, "model": about, "items": items})
        return
    rows = [[str(line.rank), line.item, line.title or "", f"{line.score:.4f}"] for line in best]
    show(plain_table(None, ["rank", "item", "title", "score"], rows, numbers=1))


@app.command("inspect")
def inspect(folder: Folder, key_file: KeyFile = None, as_json: options.Json = False) -> None:
    """What a node holds, what it ever sent, and the epsilon that was spent."""
    from tacit.node.owner import facts, inspection

    opened = _open(folder, key_file)
    if as_json:
        say_json(facts(opened))
        return
    for line in inspection(opened):
        say(line)


@app.command("export")
def export(
    folder: Folder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder.")],
    key_file: KeyFile = None,
) -> None:
    """The owner's own data as plain files: history, what was sent, scores, the scorer as ONNX."""
    from tacit.node.owner import export as write

    names = write(_open(folder, key_file), out)
    say(f"exported  {', '.join(names)} to {out}")
    warn("note      these files are not encrypted; keep or delete them with care")


@app.command("leave")
def leave(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all that a node holds, and stop taking part."""
    from tacit.node.store import Store, read_header

    header = read_header(folder)
    if not yes:
        if not sys.stdin.isatty():
            raise TacitError("This deletes all that the node holds; say --yes if you mean it.")
        if not typer.confirm(f"Delete all that the node at {shown(str(folder))} holds?"):
            raise TacitError("Nothing was deleted.")
    Store.delete_at(folder)
    say(f"left      {folder} is deleted, and sends nothing any more")
    if header.key_file is not None and os.path.exists(header.key_file):
        say(f"key       {header.key_file} opens nothing now; delete it")


def _open(folder: Path, key_file: Path | None) -> Node:
    from tacit.node.device import Node
    from tacit.node.store import read_key

    return Node.open(folder, None if key_file is None else read_key(key_file))
