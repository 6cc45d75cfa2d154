"""States on disk: safetensors for the numbers, a JSON sidecar with their checksum.

A checkpoint is a pair of files; the sidecar names the tensor file and is renamed into place last,
so a kill at any moment leaves either the old pair or the new one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tacit.core.types import Params
from tacit.engines.state import State
from tacit.engines.tuned import TunedRows
from tacit.errors import TacitError
from tacit.files import whole_file, write_text


def save_state(folder: Path, state: State, note: dict[str, Any]) -> None:
    """Write a state and a note beside it; older tensor files go away once the new pair stands."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"shared.{name}": leaf for name, leaf in state.shared.items()}
    tensors |= {f"private.{name}": leaf for name, leaf in state.private.items()}
    tensors |= {f"moments.{name}": leaf for name, leaf in state.moments.items()}
    tensors |= {f"server.{name}": leaf for name, leaf in state.server.items()}
    tensors["fresh"] = torch.from_numpy(state.fresh_U)
    if state.broadcast is not None:
        tensors["broadcast"] = state.broadcast
    if state.tuned is not None:
        tensors["tuned.start"] = torch.from_numpy(state.tuned.start_U1)
        tensors["tuned.count"] = torch.from_numpy(state.tuned.count_U)
        tensors["tuned.item"] = torch.from_numpy(state.tuned.item_C)
        tensors["tuned.value"] = state.tuned.value_CD
    name = f"state-{state.round_number:06d}.safetensors"
    write_tensors(folder / name, {key: value.contiguous() for key, value in tensors.items()})
    sidecar = {
        "file": name,
        "checksum": file_checksum(folder / name),
        "round": state.round_number,
        "loss": state.loss,
        "note": note,
    }
    write_text(folder / "state.json", json.dumps(sidecar))
    for old in folder.glob("state-*.safetensors*"):
        if old.name != name:
            old.unlink()


def write_tensors(file: Path, tensors: Params) -> None:
    """The whole file or nothing, also on a disk that has no room for it."""
    with whole_file(file, library_errors=(SafetensorError,)) as temporary:
        save_file(tensors, temporary)


def load_state(folder: Path) -> tuple[State, dict[str, Any]] | None:
    """The saved state and its note; None if there is none; TacitError if it is damaged."""
    sidecar_file = folder / "state.json"
    if not sidecar_file.is_file():
        return None
    try:
        sidecar = json.loads(sidecar_file.read_text(encoding="utf-8"))
        path = folder / sidecar["file"]
        if file_checksum(path) != sidecar["checksum"]:
            raise ValueError("its checksum does not match")
        return _state_of(sidecar, load_file(path)), sidecar["note"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TacitError(
            f"The checkpoint in {str(folder)!r} is damaged ({error}); remove that folder to begin "
            "the run anew."
        ) from error


def load_pair(
    folder: Path, expected: dict[str, tuple[int, ...]]
) -> tuple[State, State | None, dict[str, Any]] | None:
    """The last state, the selected one and the note of a run whose leaves have these shapes."""
    saved = load_state(folder / "last")
    best = load_state(folder / "best")
    if saved is None:
        return None
    state, note = saved
    if note["selected_round"] and best is None:
        raise TacitError(
            f"The checkpoint in {str(folder)!r} has lost its best round; remove that folder to "
            "begin the run anew."
        )
    leaves = {**state.shared, **state.private}
    found = {name: tuple(leaf.shape) for name, leaf in leaves.items()}
    if expected != found:
        raise TacitError(
            f"The checkpoint in {str(folder)!r} belongs to another experiment: its leaves are "
            f"{found}, this one has {expected}; remove that folder to begin anew."
        )
    return state, None if best is None else best[0], note


def _state_of(sidecar: dict[str, Any], tensors: Params) -> State:
    group = {
        kind: {
            key.removeprefix(kind + "."): value
            for key, value in tensors.items()
            if key.startswith(kind + ".")
        }
        for kind in ("shared", "private", "moments", "server")
    }
    tuned = None
    if "tuned.value" in tensors:
        tuned = TunedRows(
            tensors["tuned.start"].numpy(),
            tensors["tuned.count"].numpy(),
            tensors["tuned.item"].numpy(),
            tensors["tuned.value"],
        )
    return State(
        group["shared"],
        group["private"],
        round_number=sidecar["round"],
        broadcast=tensors.get("broadcast"),
        tuned=tuned,
        fresh_U=np.array(tensors["fresh"].numpy(), dtype=bool),
        moments=group["moments"],
        server=group["server"],
        loss=sidecar["loss"],
    )


def file_checksum(path: Path) -> str:
    """What tells a file from a damaged one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "one")
    ...     _ = path.write_bytes(b"one")
    ...     len(file_checksum(path))
    32
    """
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
