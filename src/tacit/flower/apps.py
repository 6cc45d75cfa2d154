"""The two apps that Flower starts: a ClientApp beside each node, a ServerApp beside the server.

A ClientApp opens the node in the folder that its SuperNode names (`--node-config folder=...`) and
passes requests on to `Node.answer`. It keeps nothing: Flower starts a new process for every
message. `key=...` names the file with the node's key, where the environment has none. With
`copies=...` the owner of a node gets a copy of every message that leaves it.

A ServerApp runs what the owner of the deployment hands it, over the Grid. Where that is, is said by
the environment of the SuperLink, so that no path and no secret is part of the app that Flower sends
to nodes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.files import make_folder, whole_file
from tacit.flower.records import flower, from_records, to_records
from tacit.node.device import Node
from tacit.node.store import HEADER, read_key
from tacit.wire.messages import Answer, Letter, Refused, from_letter, to_letter

LOG = logging.getLogger("tacit.flower")
# What the settings of a SuperNode are called; all three are paths.
FOLDER, KEY, COPIES = "folder", "key", "copies"
UNREADABLE = "The request cannot be read by this version of tacit."
LEFT = "There is no node here, or none any more."
NO_NODE = "There is no node to answer; its own log says why."

Play = Callable[[Any, Any], None]  # what a ServerApp does with its Grid and its Context


def open_node(folder: Path, key_file: Path | None) -> Node:
    """The node in a folder, with the key in a file or else in the environment."""
    return Node.open(folder, None if key_file is None else read_key(key_file))


OpenNode = Callable[[Path, Path | None], Node]


def make_client_app(opened: OpenNode = open_node) -> Any:
    """The ClientApp of a node."""
    app = flower("flwr.clientapp").ClientApp()

    def handle(message: Any, context: Any) -> Any:
        letter = answer_letter(message, context.node_config, opened)
        records = to_records(letter)
        copies = context.node_config.get(COPIES)
        if copies:
            _keep_copy(Path(str(copies)), records)
        return flower().Message(records, reply_to=message)

    for category in (app.train, app.evaluate, app.query):
        category()(handle)
    return app


def answer_letter(message: Any, settings: Any, opened: OpenNode) -> Letter:
    """A node's answer to a message of Flower. It never raises: what an exception says would travel
    to the server."""
    try:
        request = from_letter(from_records(message.content))
    except (TacitError, ValueError) as error:
        LOG.warning("a request cannot be read: %s", error)
        return to_letter(Refused("unreadable", UNREADABLE))
    if FOLDER not in settings:
        LOG.error("the SuperNode names no folder: give --node-config 'folder=\"...\"'")
        return to_letter(Refused("failed", NO_NODE))
    folder = Path(str(settings[FOLDER]))
    if not (folder / HEADER).is_file():  # leaving deletes it, and this process is a new one
        LOG.error("there is no node at %s: its owner has left, or the path is another", folder)
        return to_letter(Refused("left", LEFT))
    answer: Answer
    try:
        key = Path(str(settings[KEY])) if KEY in settings else None
        answer = opened(folder, key).answer(request)  # type: ignore[arg-type]
    except Exception as error:
        LOG.error("the node cannot be opened: %s", error)
        answer = Refused("failed", NO_NODE)
    return to_letter(answer)


def make_server_app(play: Play) -> Any:
    """The ServerApp of a deployment; `play` is called with the Grid and the Context of a run."""
    app = flower("flwr.serverapp").ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        play(grid, context)

    return app


# Copies for the owner of a node.


def _keep_copy(folder: Path, records: Any) -> None:
    packed = flower("flwr.common.serde").recorddict_to_proto(records).SerializeToString()
    make_folder(folder)
    with whole_file(folder / f"{time.time_ns()}.sent") as part:
        part.write_bytes(packed)


def read_copies(folder: Path) -> list[Letter]:
    """What a node has sent, from the copies that its owner kept, in their order."""
    serde = flower("flwr.common.serde")
    packed = type(serde.recorddict_to_proto(flower().RecordDict()))
    return [
        from_records(serde.recorddict_from_proto(packed.FromString(file.read_bytes())))
        for file in sorted(folder.glob("*.sent"))
    ]
