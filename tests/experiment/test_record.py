"""The record of a run: frozen, validated, the same after a trip through its file, and readable for
files of older versions. Records come from runs; `older/` holds files that format 2 wrote."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tacit.core.types import EnginePath
from tacit.data.split import BY_LABELS
from tacit.errors import TacitError
from tacit.experiment.folder import RunFolder
from tacit.experiment.record import RunRecord, schema_text
from tacit.experiment.record_format import RECORD_FORMAT
from tacit.experiment.record_parts import Privacy
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.sealed import DamagedError
from tacit.privacy.guarantee import Guarantee

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
OLDER = sorted((HERE / "older").glob("*.json"))
KINDS: dict[str, dict[str, Any]] = {
    "composed": {"method": "fedmf", "rounds": 2},
    "custom": {"method": "fcf_als", "rounds": 1, "sets": ["dim=4"]},
    "central": {"method": "ease"},
    "cold": {"method": "pfedrec", "plugins": ["mdifffr"], "rounds": 2, "sets": ["backbone.dim=8"]},
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A finished run of every kind on the planted dataset."""
    place = tmp_path_factory.mktemp("records")
    for kind, arguments in KINDS.items():
        run(resolve(**arguments), place / kind)
    return {kind: RunFolder(place / kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_the_same_after_a_trip(folders: dict[str, RunFolder], kind: str) -> None:
    record = folders[kind].record()
    assert record.json_text == folders[kind].result_file.read_text(encoding="utf-8")
    assert RunRecord.of_json(record.json_text.encode()) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.deepcopy(record) == record
    assert hash(record.engine) == hash(copy.deepcopy(record.engine))


def test_facts_are_fields(folders: dict[str, RunFolder]) -> None:
    records = {kind: folder.record() for kind, folder in folders.items()}
    assert [one.kind for one in records.values()] == ["composed", "custom", "central", "composed"]
    assert [one.unit for one in records.values()] == ["round", "round", "setting", "round"]
    engines = [(one.engine.path, one.engine.kernel) for one in records.values()]
    assert engines == [
        ("fused", "linear"),
        ("custom", "ragged"),
        ("central", None),
        ("fused", "linear"),
    ]
    for kind, record in records.items():
        assert record.format == RECORD_FORMAT
        assert record.device == "cpu"
        assert not record.privacy.guaranteed
        assert (record.privacy.epsilon, record.privacy.delta, record.privacy.view) == (None,) * 3
        assert record.cautions == ()
        assert (record.cold is not None) == (kind == "cold")
        assert record.data is not None
        assert record.data.n_users == record.counts.users


def test_nothing_in_a_record_can_be_changed(folders: dict[str, RunFolder]) -> None:
    record = folders["composed"].record()
    with pytest.raises(ValidationError, match="frozen"):
        record.seed = 1
    with pytest.raises(ValidationError, match="frozen"):
        record.cost.bytes_up = 0
    with pytest.raises(TypeError, match="does not support item assignment"):
        record.metrics.full["HR@10"] = 1.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        record.engine.path = "loop"  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_on_a_screen(folders: dict[str, RunFolder], kind: str) -> None:
    record = folders[kind].record()
    short = record.model_copy(update={"run": "runs/one"})  # folders of tests have long names
    lines = str(short).splitlines()
    assert len(lines) < 10
    assert max(map(len, lines)) <= 100
    assert len(repr(record)) <= 100
    assert record.label in repr(record)


def test_without_a_guarantee_there_are_no_numbers_of_one() -> None:
    reads = ("nothing leaves the device",)
    for number in ({"epsilon": 1.0}, {"delta": 1e-5}, {"view": "local"}, {"releases": 3}):
        with pytest.raises(ValidationError, match="belongs to a guarantee"):
            Privacy(server_reads=reads, **number)  # type: ignore[arg-type]
    stated = Privacy.of(Guarantee.laplace("local", 1.0, 4.0, 10), reads)
    assert (stated.epsilon, stated.delta, stated.view) == (5.0, 0.0, "local")
    assert stated.text.startswith("user-level ε = 5, δ = 0 over 10 releases, against a server")


# Files of older versions.


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.stem)
def test_files_of_format_2_are_read(path: Path) -> None:
    """Every value that the file has is still there under its name; the rest is filled in."""
    old = json.loads(path.read_text(encoding="utf-8"))
    assert old["format"] == 2
    record = RunRecord.of_json(path.read_bytes())
    now = json.loads(record.json_text)
    sentence, privacy = old.pop("engine"), old.pop("privacy")
    assert {key: now[key] for key in old} == old | {"format": RECORD_FORMAT}
    assert now["engine"]["text"] == sentence
    assert {key: now["privacy"][key] for key in privacy} == privacy
    assert {now["privacy"][key] for key in now["privacy"].keys() - privacy.keys()} == {None}
    added = {"kind", "device", "cautions", "engine", "privacy", "order", "ledger"}
    assert now.keys() == old.keys() | added


def test_older_engines_are_told_by_their_sentences() -> None:
    records = {path.stem: RunRecord.of_json(path.read_bytes()) for path in OLDER}
    assert {name: (one.kind, one.device) for name, one in records.items()} == {
        "ease": ("central", "cpu"),
        "fcf_als": ("custom", "cpu"),
        "fedmf": ("composed", "cpu"),
        "pfedrec": ("composed", "cpu"),
    }
    assert records["fcf_als"].engine.kernel == "ragged"
    assert records["fedmf"].engine.kernel == "linear"
    assert records["fedmf"].engine.scoring is None
    found = json.loads(OLDER[0].read_bytes())
    blocks = "cohort: blocks of 1024 clients on cuda (a reason (of two)); scores: linear kernel"
    record = RunRecord.of_json(json.dumps({**found, "engine": blocks}).encode())
    assert record.device == "cuda"
    expected = EnginePath("cohort", blocks, None, "a reason (of two)", scoring="linear")
    assert record.engine == expected


def test_files_of_format_4_have_no_guarantee(folders: dict[str, RunFolder]) -> None:
    found = json.loads(folders["composed"].result_file.read_bytes())
    known = ("guarantee", "epsilon", "delta", "view", "server_reads")
    found["privacy"] = {key: found["privacy"][key] for key in known}
    record = RunRecord.of_json(json.dumps({**found, "format": 4}).encode())
    assert record == folders["composed"].record()
    assert record.privacy.text == "no guarantee"


def test_files_of_format_3_say_nothing_of_order(folders: dict[str, RunFolder]) -> None:
    found = json.loads(folders["composed"].result_file.read_bytes())
    assert found.pop("order") == {
        "by": "time",
        "tied": 0,
        "latest_of_tied": "first_row",
        "read": False,
    }
    record = RunRecord.of_json(json.dumps({**found, "format": 3}).encode())
    assert record.order is None
    expected = folders["composed"].record().model_dump() | {"order": None}
    assert record.model_dump() == expected


def test_files_of_format_1_have_no_data_and_no_unit() -> None:
    found = json.loads((HERE / "older" / "fedmf.json").read_bytes())
    for key in ("format", "data", "unit"):
        del found[key]
    record = RunRecord.of_json(json.dumps(found).encode())
    assert record.data is None
    assert record.unit == "round"


def test_cautions_of_older_files_are_found_in_them() -> None:
    found = json.loads((HERE / "older" / "fedmf.json").read_bytes())
    found["notes"].append(BY_LABELS)
    found["counts"]["evaluated_users"] = 3
    record = RunRecord.of_json(json.dumps(found).encode())
    assert record.cautions[0] == BY_LABELS
    assert record.cautions[1].startswith("Only 3 people can be evaluated on the test")
    assert len(record.cautions) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 6}, "it is of format 6, which a newer version of tacit wrote"),
        ({"format": "two"}, "format: input should be a valid integer"),
        ({"seed": "0"}, "seed: input should be a valid integer"),
        ({"surprise": 1}, "surprise: extra inputs are not permitted"),
        ({"engine": "warp: nine"}, "engine: 'warp' is no path that is known"),
        ({"seconds": float("nan")}, "seconds: input should be a finite number"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(
    folders: dict[str, RunFolder], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    whole = json.loads(folders["composed"].result_file.read_bytes())
    older = json.loads((HERE / "older" / "fedmf.json").read_bytes())
    found = older if "engine" in change else whole
    content = json.dumps(found | change).encode()
    with pytest.raises(DamagedError) as caught:
        RunRecord.of_json(content)
    assert str(caught.value) == said
    # in a folder without checksums, as the oldest have none
    folder = RunFolder(tmp_path)
    folder.experiment_file.write_bytes(folders["composed"].experiment_file.read_bytes())
    folder.result_file.write_bytes(content)
    with pytest.raises(TacitError) as refused:
        folder.record()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["kind", "engine", "privacy", "metrics", "data", "cautions"])
def test_a_record_of_today_lacks_nothing(folders: dict[str, RunFolder], key: str) -> None:
    found = json.loads(folders["composed"].result_file.read_bytes())
    del found[key]
    with pytest.raises(DamagedError, match=f"{key}: field required"):
        RunRecord.of_json(json.dumps(found).encode())


# The schema and the page in the docs.


def test_the_schema_in_the_docs_is_up_to_date() -> None:
    written = (DOCS / "run-record.schema.json").read_text(encoding="utf-8")
    assert written == schema_text(), (
        "run `python -m tacit.experiment.record docs/run-record.schema.json`"
    )


def misfits(value: Any, schema: dict[str, Any], defs: dict[str, Any], place: str) -> list[str]:
    """Where a value does not fit a schema, for the few words that our schema has."""
    if "$ref" in schema:
        return misfits(value, defs[schema["$ref"].rpartition("/")[2]], defs, place)
    if "anyOf" in schema:
        several = [misfits(value, one, defs, place) for one in schema["anyOf"]]
        return [] if [] in several else several[0]
    types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    types |= {"number": (int, float), "null": type(None)}
    if "type" in schema and not isinstance(value, types[schema["type"]]):  # type: ignore[arg-type]
        return [f"{place} is no {schema['type']}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return [f"{place} is {value!r}"]
    found = []
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place} lacks {key}" for key in schema.get("required", ()) if key not in value]
        found += [f"{place}.{key}" for key in value if key not in known and rest is False]
        for key, inner in value.items():
            here = known.get(key, rest if isinstance(rest, dict) else {})
            found += misfits(inner, here, defs, f"{place}.{key}")
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for inner in value:
            found += misfits(inner, schema["items"], defs, place)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_writes_fits_the_schema(folders: dict[str, RunFolder], kind: str) -> None:
    schema = json.loads((DOCS / "run-record.schema.json").read_bytes())
    found = json.loads(folders[kind].result_file.read_bytes())
    assert misfits(found, schema, schema["$defs"], "record") == []
    found["cost"]["bytes_up"], found["surprise"] = "many", 1
    assert set(misfits(found, schema, schema["$defs"], "record")) == {
        "record.surprise",
        "record.cost.bytes_up is no integer",
    }


def test_the_docs_explain_every_field() -> None:
    page = (DOCS / "record.md").read_text(encoding="utf-8")
    missing = [name for name in RunRecord.model_fields if f"`{name}`" not in page]
    assert missing == []


def test_the_file_is_read_through_the_record_alone() -> None:
    """Who else opens `run.json` would read it by keys of its own."""
    source = DOCS.parent / "src" / "tacit"
    opens = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"\.result_file\b|\"run\.json\"", path.read_text(encoding="utf-8"))
    }
    assert opens == {"experiment/folder.py", "experiment/run.py", "experiment/report.py"}
