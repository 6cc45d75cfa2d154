"""States on disk: there and back bit for bit, and damage of any kind in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tacit.core.method import Method
from tacit.core.optim import Adam
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.cohort import CohortEngine
from tacit.engines.participation import Participation
from tacit.engines.participation import everybody as everybody_of
from tacit.engines.state import State
from tacit.errors import TacitError
from tacit.experiment.checkpoint import load_state, save_state
from tacit.experiment.sealed import SEAL, file_checksum, write_sealed
from tacit.methods import local_only, pfedrec
from tacit.testing.play import algorithm_for, trace
from tacit.testing.synthetic import ragged

TRAIN = split_dataset(ragged(), CLEAN).train


def rich_method() -> Method:
    method = pfedrec(dim=4)
    return replace(method, local=replace(method.local, model=Adam(lifetime="persistent")))


def rich_state() -> State:
    """A state with everything: tuned rows, persistent optimizer state, people who sat out."""
    state = trace(rich_method(), TRAIN, CohortEngine(fused="never"), rounds=2).state
    assert state.optimizer
    assert state.tuned is not None
    assert 0 < state.fresh_U.sum() < len(state.fresh_U)
    return state


def assert_same(one: State, two: State) -> None:
    for group in ("shared", "private", "optimizer"):
        here, there = getattr(one, group), getattr(two, group)
        assert here.keys() == there.keys()
        for name, value in here.items():
            assert value.dtype == there[name].dtype
            assert torch.equal(value, there[name]), name
    assert one.round_number == two.round_number
    assert one.loss == two.loss
    assert np.array_equal(one.fresh_U, two.fresh_U)
    assert (one.broadcast is None) == (two.broadcast is None)
    if one.broadcast is not None and two.broadcast is not None:
        assert torch.equal(one.broadcast, two.broadcast)
    assert (one.tuned is None) == (two.tuned is None)
    if one.tuned is not None and two.tuned is not None:
        assert np.array_equal(one.tuned.start_U, two.tuned.start_U)
        assert np.array_equal(one.tuned.count_U, two.tuned.count_U)
        assert np.array_equal(one.tuned.item_C, two.tuned.item_C)
        assert one.tuned.item_C.dtype == two.tuned.item_C.dtype
        assert torch.equal(one.tuned.value_CD, two.tuned.value_CD)


def test_there_and_back_bit_for_bit(tmp_path: Path) -> None:
    state, note = rich_state(), {"selected_round": 2, "selected_value": 0.1 + 0.2}
    save_state(tmp_path / "last", state, note)
    loaded = load_state(tmp_path / "last")
    assert loaded is not None
    assert_same(loaded[0], state)
    assert loaded[1] == note


def test_rows_of_an_older_version_had_room_for_everybody(tmp_path: Path) -> None:
    state = rich_state()
    assert state.tuned is not None
    everybody = np.flatnonzero(state.tuned.room_U)
    state.tuned.make_room(everybody)
    start_U1 = np.concatenate([[0], np.cumsum(state.tuned.room_U)])
    item_C, value_CD = np.zeros(start_U1[-1], np.int32), torch.zeros(int(start_U1[-1]), 4)
    for user, start in enumerate(start_U1[:-1].tolist()):
        item_R, row_RD = state.tuned.of(user)
        item_C[start : start + len(item_R)] = item_R
        value_CD[start : start + len(item_R)] = row_RD
    save_state(tmp_path, state, {})
    [file] = tmp_path.glob("*.safetensors")
    tensors = load_file(file)
    del tensors["tuned.room"], tensors["tuned.first"]
    tensors |= {"tuned.start": torch.from_numpy(start_U1), "tuned.value": value_CD}
    save_file(tensors | {"tuned.item": torch.from_numpy(item_C)}, file)
    sidecar = json.loads((tmp_path / "state.json").read_text())
    sidecar["checksum"] = file_checksum(file)
    write_sealed(tmp_path / "state.json", {k: v for k, v in sidecar.items() if k != SEAL})
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded[0].tuned is not None
    for user in range(TRAIN.n_users):
        (item_R, row_RD), (found_R, found_RD) = state.tuned.of(user), loaded[0].tuned.of(user)
        assert np.array_equal(item_R, found_R)
        assert torch.equal(row_RD, found_RD)
    algorithm = algorithm_for(rich_method(), TRAIN)
    for one in (state, loaded[0]):
        CohortEngine().round(algorithm, TRAIN, one, everybody_of(TRAIN), 0)
    assert torch.equal(state.shared["items"], loaded[0].shared["items"])


def test_a_state_in_double_precision_and_without_shared_parameters(tmp_path: Path) -> None:
    state = trace(local_only(dim=3), TRAIN, CohortEngine(torch.float64), rounds=1).state
    save_state(tmp_path, state, {})
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded[0].shared == {}
    assert_same(loaded[0], state)


def test_a_loaded_state_plays_on_as_if_it_had_never_left(tmp_path: Path) -> None:
    """Engines write into states in place, so what was read must be writable memory."""
    method = pfedrec(dim=4)
    for engine in (CohortEngine(fused="always"), CohortEngine(fused="never")):
        state = trace(method, TRAIN, engine, rounds=2).state
        save_state(tmp_path, state, {})
        loaded = load_state(tmp_path)
        assert loaded is not None
        for one in (state, loaded[0]):
            who = Participation(ratio=0.7).draw(TRAIN, 0, 3)
            engine.round(algorithm_for(method, TRAIN), TRAIN, one, who, 0)
        assert_same(state, loaded[0])


def test_nothing_saved_is_nothing_found(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    assert load_state(tmp_path / "none") is None


def test_an_older_pair_goes_away_once_the_new_one_stands(tmp_path: Path) -> None:
    state = rich_state()
    save_state(tmp_path, state, {})
    (tmp_path / "state-000009.safetensors.part").write_bytes(b"half")  # a kill left it behind
    state.round_number = 3
    save_state(tmp_path, state, {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["state-000003.safetensors", "state.json"]


def test_no_room_on_the_disk_is_one_sentence_and_the_older_pair_stands(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of files are set otherwise there")
    state = rich_state()
    save_state(tmp_path, state, {"best": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # files longer than this are refused
    try:
        with pytest.raises(TacitError, match=r"could not be written .* make room") as caught:
            save_state(tmp_path, replace(state, round_number=7), {"best": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "state-000007.safetensors" in str(caught.value)
    found = load_state(tmp_path)
    assert found is not None
    assert found[1] == {"best": 1}
    assert len(list(tmp_path.iterdir())) == 2


def damaged(folder: Path) -> str:
    with pytest.raises(TacitError) as caught:
        load_state(folder)
    message = str(caught.value)
    assert message.startswith(f"The checkpoint in {str(folder)!r} is damaged (")
    assert message.endswith("; remove that folder to begin the run anew.")
    return message


def saved(folder: Path) -> Path:
    save_state(folder, rich_state(), {"selected_round": 1})
    return folder / "state-000002.safetensors"


def test_a_flipped_byte(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert "its checksum does not match" in damaged(tmp_path)


def test_a_file_cut_short_and_one_that_is_gone(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    assert "its checksum does not match" in damaged(tmp_path)
    path.unlink()
    damaged(tmp_path)


def _change(folder: Path, **changes: object) -> None:
    sidecar = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**sidecar, **changes}))


def _digest(path: Path) -> str:
    from hashlib import blake2b

    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


def test_a_wrong_checksum(tmp_path: Path) -> None:
    saved(tmp_path)
    _change(tmp_path, checksum="0" * 32)
    assert "its checksum does not match" in damaged(tmp_path)


def test_a_file_that_is_no_safetensors_at_all(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(b"not tensors")
    _change(tmp_path, checksum=_digest(path))
    damaged(tmp_path)


def test_a_tensor_file_without_what_a_state_needs(tmp_path: Path) -> None:
    path = saved(tmp_path)
    save_file({"shared.items": torch.zeros(2)}, path)
    _change(tmp_path, checksum=_digest(path))
    damaged(tmp_path)


@pytest.mark.parametrize(
    "junk", ["", "{", "[]", "null", "3", '"text"', "{}", '{"file": 3}', '{"file": "state.json"}']
)
def test_junk_beside_the_tensors(tmp_path: Path, junk: str) -> None:
    saved(tmp_path)
    (tmp_path / "state.json").write_text(junk)
    damaged(tmp_path)


@pytest.mark.parametrize("key", ["file", "checksum", "round", "loss", "note"])
def test_a_sidecar_that_lacks_a_key(tmp_path: Path, key: str) -> None:
    saved(tmp_path)
    sidecar = json.loads((tmp_path / "state.json").read_text())
    del sidecar[key]
    (tmp_path / "state.json").write_text(json.dumps(sidecar))
    damaged(tmp_path)


def test_bytes_beside_the_tensors(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "state.json").write_bytes(b"\xff\x00")
    damaged(tmp_path)
