"""Experiments as TOML: the short form that people write, the saved form, and their mistakes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.data.protocol import FEDRKG
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, loads, read_config


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(TacitError) as caught:
        read_config(path)
    return str(caught.value)


def test_the_saved_form_spells_defaults_out() -> None:
    plain = tomllib.loads(dumps(resolve("fedmf", seed=4)))
    assert plain["seed"] == 4
    assert plain["method"]["part"] == "federated"
    assert plain["method"]["local"]["items"] == {
        "part": "sgd",
        "rate": 0.1,
        "per_item": 80.0,
        "decay": 1.0,
        "weight_decay": 0.0,
    }
    assert plain["protocol"]["split"]["ties"] == "first_row"
    assert plain["participation"] == {"ratio": 1.0, "availability": 1.0, "dropout": 0.0}


def test_a_thoroughly_changed_experiment_comes_back() -> None:
    experiment = replace(
        resolve(
            "pfedrec",
            plugins=["clip:bound=0.25,order=1", "laplace:scale=1e-7"],
            sets=["local.gradient_clip=3", "local.model.decay=0.99", "evaluate_every=5"],
            columns={"user": "who", "item": "what it is"},
            min_user=7,
        ),
        protocol=replace(FEDRKG, patience=3),
        participation=Participation(0.1, 0.9, 0.05),
        precision="float64",
    )
    assert loads(dumps(experiment)) == experiment


@pytest.mark.parametrize(
    "name",
    [
        "C:\\data\\new\\x.csv",
        'a "quoted" name',
        "line\nbreak\ttab\rreturn",
        "größe/名前/😀.csv",
        "\x00\x01\x1f\x7f\x85\u2028",
        "# [not] = a comment",
        "",
    ],
)
def test_special_characters_in_paths_come_back(name: str) -> None:
    experiment = resolve("fedmf", data=name, columns={"user": name, "item": "x"})
    assert loads(dumps(experiment)) == experiment


@pytest.mark.parametrize("rate", [1e-300, 1e16, 1e22, 0.1 + 0.2, 5.0])
def test_floats_come_back_bit_for_bit(rate: float) -> None:
    experiment = resolve("fedmf", sets=[f"local.model.rate={rate!r}"])
    assert loads(dumps(experiment)).method.local.model.rate == rate


def test_reading_the_saved_form_gives_the_experiment(tmp_path: Path) -> None:
    experiment = resolve("pfedrec", preset="released", rounds=3)
    assert read_config(written(tmp_path, dumps(experiment))) == experiment


def test_the_saved_form_is_checked(tmp_path: Path) -> None:
    text = dumps(resolve("fedmf", rounds=3)).replace("rounds = 3", "rounds = 0")
    assert refusal(written(tmp_path, text)) == "rounds is 0; it must be at least 1."
    leaky = dumps(resolve("fedmf")).replace(
        'negatives_exclude = "train"', 'negatives_exclude = "all"'
    )
    assert refusal(written(tmp_path, leaky)).startswith("This protocol is named 'clean' but hides")


def test_the_short_form_means_what_flags_mean(tmp_path: Path) -> None:
    text = """
        method = "pfedrec"
        data = "some file.csv"
        protocol = "paper"
        preset = "released"
        plugins = ["clip:bound=2", {name = "laplace", scale = 0.5}, {name = "clip"}]
        rounds = 7
        seed = 3
        split = "random"
        columns = {user = "who"}
        min_user = 4
        duplicates = "earliest"
        participation = 0.5
        engine = "loop"
        device = "cpu"
        [set]
        evaluate_every = 2
        sampling.redraw = "epoch"
        [set.local]
        items.rate = 0.05
        gradient_clip = 1.5
    """
    arguments = read_config(written(tmp_path, text))
    assert isinstance(arguments, dict)
    assert arguments["plugins"] == ["clip:bound=2", "laplace:scale=0.5", "clip"]
    arguments["plugins"] = arguments["plugins"][:2]
    found = resolve(**arguments)
    expected = resolve(
        "pfedrec",
        data="some file.csv",
        protocol="paper",
        preset="released",
        plugins=["clip:bound=2", "laplace:scale=0.5"],
        rounds=7,
        seed=3,
        split="random",
        columns={"user": "who"},
        min_user=4,
        duplicates="earliest",
        participation=0.5,
        engine="loop",
        sets=[
            "evaluate_every=2",
            "sampling.redraw=epoch",
            "local.items.rate=0.05",
            "local.gradient_clip=1.5",
        ],
    )
    assert found == expected
    assert found.method.local.items.rate == 0.05


def test_a_setting_with_special_characters(tmp_path: Path) -> None:
    text = 'method = "fedmf"\n[set]\ndata.name = "a \\"b\\" \\\\ = [c].csv"\n'
    arguments = read_config(written(tmp_path, text))
    assert isinstance(arguments, dict)
    assert resolve(**arguments).data.name == 'a "b" \\ = [c].csv'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('methd = "fedmf"', "Unknown key 'methd' in {path!r}; did you mean 'method'?"),
        ('method = "fedmf"\nround = 3', "Unknown key 'round' in {path!r}; did you mean 'rounds'?"),
        ("method = 3", "method in {path!r} is 3: input should be a valid string."),
        ('method = "fedmf"\nrounds = "3"', "rounds in {path!r} is '3': input should be a valid "),
        ('method = "fedmf"\nrounds = 3.0', "rounds in {path!r} is 3.0: input should be a valid "),
        ('method = "fedmf"\nseed = true', "seed in {path!r} is True: input should be a valid "),
        ('method = "fedmf"\nplugins = "clip"', "plugins in {path!r} is 'clip': input should be a"),
        ('method = "fedmf"\nplugins = [{bound = 1}]', "A plug-in in {path!r} must be a name or "),
        ('method = "fedmf"\ncolumns = {user = 3}', "columns in {path!r} is "),
        ('method = "fedmf"\nset = 3', "set in {path!r} is 3: input should be a valid dictionary."),
        ("method = ", "{path!r} is not TOML: "),
    ],
)
def test_mistakes_in_the_short_form(tmp_path: Path, text: str, sentence: str) -> None:
    path = written(tmp_path, text)
    assert refusal(path).startswith(sentence.format(path=str(path)))


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert refusal(missing) == f"No file at {str(missing)!r}; check the path after --config."
    assert refusal(tmp_path).startswith("No file at ")
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(path).startswith(f"{str(path)!r} is not TOML: ")


def broken(old: str, new: str) -> str:
    text = dumps(resolve("fedmf"))
    assert text.count(old) >= 1
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (broken("seed = 0", "sede = 0"), "Unknown key 'sede'; did you mean 'seed'?"),
        (broken("seed = 0", 'seed = "x"'), "seed is 'x': input should be a valid integer"),
        (broken('part = "replace"', 'part = "dot"'), "Unknown key 'method.sync.keep';"),
        (broken('part = "replace"\nkeep = false', 'part = "dot"'), "method.sync cannot be 'dot'"),
        (broken('part = "federated"', "x = 1"), "method is a table; add the key 'part'"),
        (broken('part = "dot"\ndim = 32', 'part = "dot"\ndim = "x"'), "method.backbone.dim is 'x'"),
        (broken('name = "fedmf"\n', ""), "The configuration is incomplete: "),
        (broken('engine = "auto"', 'engine = "fast"'), "engine is 'fast': input should be 'auto',"),
    ],
)
def test_mistakes_in_the_saved_form(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(written(tmp_path, text)).startswith(sentence)


def test_a_part_given_as_a_scalar(tmp_path: Path) -> None:
    plain: Any = dumps(resolve("fedmf")).replace('channel = [{part = "dense"}]', "channel = 5")
    assert refusal(written(tmp_path, plain)) == (
        "method.channel is 5, but it must be a part: set one of its fields."
    )


def test_an_experiment_is_plain_data() -> None:
    """The same value, spelled in Python, is equal and hashes equal."""
    one, two = resolve("ease"), loads(dumps(resolve("ease")))
    assert isinstance(one, Experiment)
    assert hash(one) == hash(two)
