"""States on disk: safetensors for the numbers, a sealed JSON sidecar with their checksum.

A checkpoint is a pair of files; the sidecar names the tensor file and is renamed into place last,
so a kill at any moment leaves either the old pair or the new one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tacit.core.types import Params
from tacit.engines.state import State
from tacit.engines.tuned import TunedRows
from tacit.errors import TacitError, argument
from tacit.experiment.data_record import DataRecord
from tacit.experiment.folder import RunFolder
from tacit.experiment.sealed import (
    SEAL,
    DamagedError,
    content_of,
    file_checksum,
    object_in,
    opened,
    require_checksum,
    write_sealed,
)
from tacit.files import make_folder, whole_file


class _Sidecar(BaseModel):
    """What stands beside the tensors; `note` is the run's own."""

    model_config = ConfigDict(extra="ignore", strict=True)

    file: str
    checksum: str
    round: int
    loss: float
    note: dict[str, Any]


def save_state(folder: Path, state: State, note: dict[str, Any]) -> None:
    """Write a state and a note beside it; older tensor files go away once the new pair stands."""
    make_folder(folder)
    tensors = {f"shared.{name}": parameter for name, parameter in state.shared.items()}
    tensors |= {f"private.{name}": parameter for name, parameter in state.private.items()}
    tensors |= {f"moments.{name}": parameter for name, parameter in state.optimizer.items()}
    tensors |= {f"server.{name}": parameter for name, parameter in state.server.items()}
    tensors["fresh"] = torch.from_numpy(state.fresh_U)
    if state.broadcast is not None:
        tensors["broadcast"] = state.broadcast
    if state.tuned is not None:
        tensors["tuned.room"] = torch.from_numpy(state.tuned.room_U)
        tensors["tuned.first"] = torch.from_numpy(state.tuned.start_U)
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
    write_sealed(folder / "state.json", sidecar)
    for old in folder.glob("state-*.safetensors*"):
        if old.name != name:
            old.unlink()


def write_tensors(file: Path, tensors: Params) -> None:
    """The whole file or nothing, also on a disk that has no room for it."""
    with whole_file(file, library_errors=(SafetensorError,)) as temporary:
        save_file(tensors, temporary)


def load_state(folder: Path) -> tuple[State, dict[str, Any]] | None:
    """The saved state and its note; None if there is none; TacitError if it is damaged."""
    if not (folder / "state.json").exists():
        return None
    try:
        sidecar = read_sidecar(folder)
        path = folder / Path(sidecar.file).name
        require_checksum(path, sidecar.checksum)
        return _state_of(sidecar, load_file(path)), sidecar.note
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TacitError(
            f"The checkpoint in {str(folder)!r} is damaged ({why}); remove that folder to begin "
            "the run anew."
        ) from error


def read_sidecar(folder: Path) -> _Sidecar:
    """What stands beside the tensors of a folder; DamagedError where it is anything else.

    A sidecar without format and seal is one of an older version.
    """
    found = object_in(content_of(folder / "state.json"))
    if "format" in found or SEAL in found:
        found = opened(found)
    try:
        return _Sidecar.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedError(f"{place}: {first['msg'].lower()}") from error


def load_model(folder: RunFolder) -> State:
    """The model of a finished run, once it is found to be the one that was written."""
    sidecar = folder.model_dir / "state.json"
    if not sidecar.exists():
        raise TacitError(f"The run at {str(folder.path)!r} has lost its model folder; train again.")
    folder.verified(sidecar)
    saved = load_state(folder.model_dir)
    assert saved is not None
    state, note = saved
    record = DataRecord.read(folder)
    if record is not None and note.get("data") != record.digest.value:
        raise TacitError(
            f"The model in {str(folder.model_dir)!r} was trained on other data than "
            f"data/digest.json says; train again into another {argument('out')}."
        )
    return state


def load_pair(
    folder: Path, expected: dict[str, tuple[int, ...]]
) -> tuple[State, State | None, dict[str, Any]] | None:
    """The last state, the selected one and the note of a run whose parameters have these shapes."""
    saved = load_state(folder / "last")
    best = load_state(folder / "best")
    if saved is None:
        return None
    state, note = saved
    if note.get("selected_round") and best is None:
        raise TacitError(
            f"The checkpoint in {str(folder)!r} has lost its best round; remove that folder to "
            "begin the run anew."
        )
    if best is not None and any(best[1].get(k) != note.get(k) for k in ("data", "experiment")):
        raise TacitError(
            f"The checkpoint in {str(folder)!r} is damaged (its best round is one of another run); "
            "remove that folder to begin the run anew."
        )
    if best is not None and note.get("rounds_done"):
        # one that is newer than the last state was saved just before a kill, and comes again
        chosen, done = best[0].round_number, note["rounds_done"]
        if chosen <= done and chosen != note["selected_round"]:
            raise TacitError(
                f"The checkpoint in {str(folder)!r} is damaged (its best round is {chosen}, and "
                f"should be {note['selected_round']}); remove that folder to begin the run anew."
            )
    parameters = {**state.shared, **state.private}
    found = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    if expected != found:
        raise TacitError(
            f"The checkpoint in {str(folder)!r} belongs to another experiment: its parameters are "
            f"{found}, this one has {expected}; remove that folder to begin anew."
        )
    return state, None if best is None else best[0], note


def _state_of(sidecar: _Sidecar, tensors: Params) -> State:
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
        if "tuned.room" in tensors:
            room_U, start_U = tensors["tuned.room"].numpy(), tensors["tuned.first"].numpy()
        else:  # an older version gave everybody room, one after another
            start_U1 = tensors["tuned.start"].numpy()
            room_U, start_U = np.diff(start_U1), start_U1[:-1].copy()
        tuned = TunedRows(
            room_U,
            start_U,
            tensors["tuned.count"].numpy(),
            tensors["tuned.item"].numpy(),
            tensors["tuned.value"],
        )
    return State(
        group["shared"],
        group["private"],
        round_number=sidecar.round,
        broadcast=tensors.get("broadcast"),
        tuned=tuned,
        fresh_U=np.array(tensors["fresh"].numpy(), dtype=bool),
        optimizer=group["moments"],
        server=group["server"],
        loss=sidecar.loss,
    )
