"""New items in finished runs: rows as the generator makes them, old items as they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from tacit import streams
from tacit.content.recipes import Given
from tacit.data.planted import planted_dataset
from tacit.errors import TacitError
from tacit.experiment.add_items import Added, add_items, load_cold_model
from tacit.experiment.catalogue import read_catalogue
from tacit.experiment.folder import RunFolder
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.sealed import SEAL, write_sealed

SYNTHETIC = planted_dataset()
SMALL = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
RUNS = {
    "ridge": ("pfedrec", ["ridge:modalities=text+image"], ()),
    "diffusion": ("pfedrec", ["mdifffr"], ("backbone.dim=8",)),
    "map": ("ipfedrec", [], ("backbone.dim=8",)),
    "content alone": ("cs_fcf", [], ()),
    "views": ("fcf", ["fedmr", "ridge"], SMALL),
}
USER = "user-3"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind on a cold split, one round."""
    place = tmp_path_factory.mktemp("trained")
    for number, (method, plugins, sets) in enumerate(RUNS.values()):
        run(
            resolve(method, plugins=plugins, rounds=1, sets=sets, split="cold"), place / f"{number}"
        )
    return {name: place / f"{number}" for number, name in enumerate(RUNS)}


def copy(trained: dict[str, Path], name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained[name], tmp_path / "one"))


def write_items(place: Path, codes: list[int], prefix: str = "copy of ") -> tuple[Path, Path]:
    """Items with the content of some items of the dataset, under other ids."""
    ids = [f"{prefix}{SYNTHETIC.interactions.items[code]}" for code in codes]
    texts = {name: [said[code] for code in codes] for name, said in SYNTHETIC.texts.items()}
    pl.DataFrame({"item_id": ids, **texts}).write_csv(place / "new.csv")
    (place / "pictures").mkdir(exist_ok=True)
    for name, code in zip(ids, codes, strict=True):
        picture = Image.fromarray(SYNTHETIC.truth["image_IHWC"][code])
        picture.save(place / "pictures" / f"{name}.png")
    return place / "new.csv", place / "pictures"


def add(folder: Path, codes: list[int], prefix: str = "copy of ") -> Added:
    file, pictures = write_items(folder.parent, codes, prefix)
    return add_items(folder, file, Given(text=("title", "description"), images=pictures))


def scores(folder: Path, user: str = USER) -> dict[str, float]:
    return {line.item: line.score for line in recommend(folder, user=user, k=1000)}


def unknown_cold(folder: Path) -> list[int]:
    """Cold items of the split that the user does not have."""
    rows = SYNTHETIC.interactions
    own = rows.item_N[rows.user_N == rows.users.index(USER)]
    return np.setdiff1d(load_cold_model(folder).server.cold_C, own)[:6].tolist()


@pytest.mark.parametrize("name", ["ridge", "map", "content alone", "views"])
def test_an_item_with_the_content_of_a_cold_one_scores_as_that(
    name: str, trained: dict[str, Path], tmp_path: Path
) -> None:
    """Encoders, scaling, generator and scorer together: nothing of the way differs."""
    folder = copy(trained, name, tmp_path)
    before, codes = scores(folder), unknown_cold(folder)
    added = add(folder, codes)
    after = scores(folder)
    assert (added.version, added.without) == (1, ())
    for code in codes:
        item = SYNTHETIC.interactions.items[code]
        assert after[f"copy of {item}"] == pytest.approx(after[item], rel=1e-4, abs=1e-5)
    assert {item: after[item] for item in before} == before  # bit for bit
    assert len(after) == len(before) + len(codes)


def test_noise_is_that_of_the_id(trained: dict[str, Path], tmp_path: Path) -> None:
    """Two items of one content differ by their noise alone, and an item's is its own."""
    folder = copy(trained, "diffusion", tmp_path)
    code = unknown_cold(folder)[0]
    add(folder, [code, code + 1])
    new, model = read_catalogue(RunFolder(folder)), load_cold_model(folder)
    key_N = np.array([streams.name_of(name) for name in new.ids], np.uint64)
    feature_NF = model.server.feature_IF[[code, code + 1]]
    expected_ND = model.server.made(model.state, feature_NF, key_N)
    assert torch.allclose(new.row_ND, expected_ND, atol=1e-5)
    assert not torch.allclose(new.row_ND, torch.from_numpy(model.rows(np.array([code, code + 1]))))
    alone = tmp_path / "alone"
    alone.mkdir()
    add(Path(shutil.copytree(trained["diffusion"], alone / "one")), [code + 1])
    again = read_catalogue(RunFolder(alone / "one"))
    assert torch.allclose(again.row_ND[0], new.row_ND[1], atol=1e-6)


def test_versions_add_up_and_change_nothing(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "ridge", tmp_path)
    add(folder, [1, 2], "first ")
    files = sorted((folder / "catalogue").iterdir())
    bytes_before, before = [file.read_bytes() for file in files], scores(folder)
    assert add(folder, [2, 3, 4], "second ").version == 2
    assert [file.read_bytes() for file in files] == bytes_before
    after = scores(folder)
    assert {item: after[item] for item in before} == pytest.approx(before, abs=1e-6)
    assert read_catalogue(RunFolder(folder)).ids == tuple(
        f"{prefix} {SYNTHETIC.interactions.items[code]}"
        for prefix, code in [
            ("first", 1),
            ("first", 2),
            ("second", 2),
            ("second", 3),
            ("second", 4),
        ]
    )
    assert [file.name for file in sorted((folder / "catalogue").iterdir())] == [
        "version-0001.json",
        "version-0001.safetensors",
        "version-0002.json",
        "version-0002.safetensors",
    ]


def test_ids_are_taken_once(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "ridge", tmp_path)
    file = tmp_path / "new.csv"

    def refusal(ids: list[str]) -> str:
        pl.DataFrame({"item_id": ids, "title": ["a"] * len(ids)}).write_csv(file)
        with pytest.raises(TacitError) as caught:
            add_items(folder, file)
        return str(caught.value)

    taken = SYNTHETIC.interactions.items[7]
    assert f"Item {taken!r} is in the run's training catalogue" in refusal(["x", taken])
    assert "Item 'x' stands twice" in refusal(["x", "y", "x"])
    assert not (folder / "catalogue").exists()
    pl.DataFrame({"item_id": ["x"], "title": ["a"]}).write_csv(file)
    add_items(folder, file)
    assert "Item 'x' has joined this run already" in refusal(["y", "x"])
    assert read_catalogue(RunFolder(folder)).ids == ("x",)


def test_no_content_is_the_mean_item(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "ridge", tmp_path)
    Path(tmp_path, "new.csv").write_text("item_id,title\nx,\ny,The Quiet Harbour\n")
    added = add_items(folder, tmp_path / "new.csv")
    assert added.without == ("x",)
    assert added.tables["text"]["without"] == ["x"]
    assert added.tables["image"] == {
        "encoder": "nothing",
        "columns": [],
        "width": 256,
        "without": ["x", "y"],
    }
    new, model = read_catalogue(RunFolder(folder)), load_cold_model(folder)
    # ridge gives the mean item the mean row of the table
    table_WD = model.state.shared["items"][torch.from_numpy(model.server.learnt_L)]
    assert torch.allclose(new.row_ND[0], table_WD.mean(0), atol=1e-5)
    assert not torch.allclose(new.row_ND[1], table_WD.mean(0), atol=1e-3)


def test_newcomers_see_new_items_too(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "ridge", tmp_path)
    model = load_cold_model(folder)
    items, warm, cold = SYNTHETIC.interactions.items, model.server.warm_W, model.server.cold_C
    history = tmp_path / "mine.txt"
    history.write_text("\n".join(items[code] for code in warm[:5]) + "\n")
    before = {line.item: line.score for line in recommend(folder, history=history, k=1000)}
    assert len(before) == len(items) - 5
    assert not any(line.new for line in recommend(folder, history=history, k=1000))
    add(folder, [int(cold[0])])
    best = recommend(folder, history=history, k=1000)
    after = {line.item: line.score for line in best}
    assert {item: after[item] for item in before} == before
    name = f"copy of {items[cold[0]]}"
    assert [line.item for line in best if line.new] == [name]
    assert after[name] == pytest.approx(after[items[cold[0]]], abs=1e-5)
    # what did not exist in training says nothing about a person yet
    for unknown in (name, items[cold[0]]):
        history.write_text(f"{unknown}\n")
        with pytest.raises(TacitError, match="is not in the catalogue"):
            recommend(folder, history=history)


def test_reasons_are_for_items_that_existed(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "views", tmp_path)
    add(folder, [5, 6])
    existing = {
        SYNTHETIC.interactions.items[code] for code in load_cold_model(folder).server.warm_W
    }
    best = recommend(folder, user=USER, k=1000, explain=True)
    assert all((line.reason is not None) == (line.item in existing) for line in best)
    assert sum(line.new for line in best) == 2


def test_a_split_of_interactions(tmp_path: Path) -> None:
    """All items exist in training: old ones are scored as ever, tuned copies included."""
    run(resolve("pfedrec", plugins=["ridge"], rounds=1, split="time"), tmp_path / "one")
    before = scores(tmp_path / "one")
    Path(tmp_path, "new.csv").write_text("item_id,title\nx,The Quiet Harbour\n")
    added = add_items(tmp_path / "one", tmp_path / "new.csv", Given(images=tmp_path))
    assert added.unused == ("--images",)  # this run reads text alone
    after = scores(tmp_path / "one")
    assert np.isfinite(after.pop("x"))
    assert after == before


def test_rows_without_content_at_all(tmp_path: Path) -> None:
    run(resolve("fedmf", plugins=["random_rows"], rounds=1), tmp_path / "one")
    Path(tmp_path, "new.csv").write_text("item_id\nx\n")
    added = add_items(tmp_path / "one", tmp_path / "new.csv")
    assert (added.tables, added.without) == ({}, ())
    assert "x" in scores(tmp_path / "one")


def test_controls_are_refused(tmp_path: Path) -> None:
    run(resolve("pfedrec", plugins=["ridge:kind=random"], rounds=1), tmp_path / "one")
    Path(tmp_path, "new.csv").write_text("item_id,title\nx,Reef\n")
    with pytest.raises(TacitError, match="is a control"):
        add_items(tmp_path / "one", tmp_path / "new.csv")


def test_runs_that_cannot(tmp_path: Path) -> None:
    Path(tmp_path, "new.csv").write_text("item_id,title\nx,Reef\n")
    for name in ("fedmf", "popularity"):
        run(resolve(name, rounds=1), tmp_path / name)
        with pytest.raises(TacitError, match="makes no rows for new items"):
            add_items(tmp_path / name, tmp_path / "new.csv")
    with pytest.raises(TacitError, match="No run at"):
        add_items(tmp_path / "none", tmp_path / "new.csv")


def test_damaged_versions_are_named(trained: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(trained, "ridge", tmp_path)
    add(folder, [1])
    sidecar, file = (
        folder / "catalogue" / f"version-0001.{end}" for end in ("json", "safetensors")
    )
    whole, said = file.read_bytes(), sidecar.read_text()

    def refusal() -> str:
        with pytest.raises(TacitError) as caught:
            recommend(folder, user=USER)
        return str(caught.value)

    file.write_bytes(whole[:-4] + b"abcd")
    assert "checksum does not match" in refusal()
    file.write_bytes(whole)
    sidecar.write_text(json.dumps({**json.loads(said), "titles": []}))
    assert "checksum does not match" in refusal()
    written = {key: value for key, value in json.loads(said).items() if key != SEAL}
    write_sealed(sidecar, {**written, "model": "0"})
    assert "belongs to another model" in refusal()
    write_sealed(sidecar, {**written, "titles": []})
    assert "not as many rows as items" in refusal()
    write_sealed(sidecar, {**written, "ids": 3})
    assert "ids: input should be a valid list" in refusal()
    sidecar.write_text("{")
    assert "version-0001.json' is damaged" in refusal()
    sidecar.unlink()
    assert "version-0001.json' is lost" in refusal()
    # killed before the last step: it does not exist, and its name is free
    sidecar.with_name(sidecar.name + ".part").touch()
    assert "copy of item" not in " ".join(scores(folder))
    assert add(folder, [2]).version == 1
