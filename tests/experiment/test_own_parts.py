"""Parts of somebody's own: registered they can be written and opened again; what cannot be written
is refused before anything is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tacit.core.codec import UnknownPartError, decode, encode
from tacit.core.optim import Sgd
from tacit.core.parts import Objective
from tacit.core.registry import PARTS, part_name, register
from tacit.errors import TacitError
from tacit.experiment.evaluate import evaluate
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, loads, require_writable
from tacit.methods import Popularity, fedneumf
from tacit.names import restored
from tacit.parts.backbones import DotProduct
from tacit.parts.channel import Clip, Dense
from tacit.parts.local import Joint
from tacit.parts.mixture import Mixture
from tacit.parts.objectives import BinaryCrossEntropy
from tacit.parts.sync import Replace


class Softer(BinaryCrossEntropy):
    """A subclass of a built-in part that has nothing of its own but a name."""


@dataclass(frozen=True)
class Weighed(BinaryCrossEntropy):
    by: Any = 2.0


@dataclass(frozen=True)
class Shifted(DotProduct):
    shift: float = 0.0


@dataclass(frozen=True)
class HalfClip(Clip):
    pass


@dataclass(frozen=True)
class Slow(Sgd):
    pass


class Plain(Objective):
    """A rule that is no dataclass."""

    def loss(self, logit_N: Any, label_N: Any, weight_N: Any) -> Any:
        return BinaryCrossEntropy().loss(logit_N, label_N, weight_N)


@pytest.fixture(autouse=True)
def _names_as_before() -> Iterator[None]:
    with restored():
        yield


def fedmf_with(**slots: Any) -> Experiment:
    experiment = resolve("fedmf", rounds=1, sets=["backbone.dim=4"])
    return replace(experiment, method=replace(experiment.method, **slots))  # type: ignore[type-var]


def refusal(experiment: Experiment, folder: Path) -> str:
    with pytest.raises(TacitError) as caught:
        run(experiment, folder)
    assert not folder.exists(), "nothing may be written before a refusal"
    return str(caught.value)


@pytest.mark.parametrize(
    ("slots", "name", "slot", "called"),
    [
        ({"objective": Softer()}, "Softer", "method.objective", "softer"),
        ({"backbone": Shifted(4)}, "Shifted", "method.backbone", "shifted"),
        ({"channel": (Dense(), HalfClip())}, "HalfClip", "method.channel.1", "half_clip"),
        ({"local": Joint(items=Slow())}, "Slow", "method.local.items", "slow"),
    ],
)
def test_a_part_in_no_list_is_refused_with_the_line_that_registers_it(
    slots: dict[str, Any], name: str, slot: str, called: str, tmp_path: Path
) -> None:
    experiment = fedmf_with(**slots)
    line = f'from tacit import register; register("{called}", {name})'
    assert refusal(experiment, tmp_path / "one") == (
        f"{name} in {slot} is in no list of parts, so no file can name it; register it first: "
        f"{line}."
    )
    exec(line, {name: globals()[name]})  # the remedy is followed to the letter
    require_writable(experiment)
    assert run(experiment, tmp_path / "one").rounds_run == 1
    assert recommend(tmp_path / "one", user="user-1", k=1)
    assert evaluate(tmp_path / "one")
    assert run(experiment, tmp_path / "one", resume=True).rounds_run == 1


def test_a_whole_method_of_ones_own(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Mine(Popularity):
        pass

    experiment = replace(resolve("popularity"), method=Mine())
    assert refusal(experiment, tmp_path / "one").startswith("Mine in method is in no list of parts")
    register("mine", Mine)
    run(experiment, tmp_path / "one")
    assert recommend(tmp_path / "one", user="user-1", k=1)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (lambda logit: logit, "method.objective.by is a function, which no file can hold; give "),
        (np.ones(3), "method.objective.by is a ndarray, which no file can hold; give it a number"),
        ({"a": 1}, "method.objective.by is a dict, which no file can hold; give it a number, "),
        ([1, 2], "method.objective.by is a list, which no file can hold; give it a number, "),
        ((1, {2}), "method.objective.by.1 is a set, which no file can hold; give it a number, "),
        (Softer(), "Softer in method.objective.by is in no list of parts"),
        (float("nan"), "method.objective.by is nan, but its text gives back nan; make it a value "),
    ],
)
def test_fields_that_no_file_can_hold(value: Any, sentence: str, tmp_path: Path) -> None:
    register("weighed", Weighed)
    assert refusal(fedmf_with(objective=Weighed(by=value)), tmp_path / "one").startswith(sentence)


def test_numbers_of_numpy_are_numbers() -> None:
    register("weighed", Weighed)
    for by in (np.float64(0.1), np.float32(0.1), np.int64(3), np.bool_(True)):
        require_writable(fedmf_with(objective=Weighed(by=by)))


def test_a_rule_that_is_no_dataclass(tmp_path: Path) -> None:
    said = refusal(fedmf_with(objective=Plain()), tmp_path / "one")
    assert said.startswith("Plain in method.objective is no dataclass, so no file can hold its ")
    assert "register" in said


def test_names_and_classes_that_are_taken() -> None:
    register("softer", Softer)
    register("softer", Softer)  # a cell of a notebook that is run again
    again = type("Softer", (BinaryCrossEntropy,), {"__module__": __name__})
    register("softer", again)
    assert PARTS["softer"] is again
    assert part_name(Softer) is None
    for name, part, sentence in (
        ("softer", Weighed, "A part named 'softer' is there already: Softer of "),
        ("bce", Weighed, "A part named 'bce' is there already: BinaryCrossEntropy of tacit."),
        ("weigher", again, "Softer has the name 'softer' already; use that one"),
        ("cross entropy", Weighed, "'cross entropy' is no name for a part; use letters"),
        ("plain", Plain, "'Plain' is no dataclass, so its settings cannot be written down"),
        ("value", Weighed(), "Weighed(on='logits', by=2.0) is no dataclass"),
    ):
        with pytest.raises(TacitError) as caught:
            register(name, part)  # type: ignore[arg-type]
        assert str(caught.value).startswith(sentence)
    assert len(set(PARTS.values())) == len(PARTS)


OPENS = """
import sys
from tacit.errors import TacitError
from tacit.experiment.recommend import recommend
from tacit.experiment.evaluate import evaluate
from tacit.experiment.folder import RunFolder
from tacit.experiment.run import run
from pathlib import Path
for what in (
    lambda: recommend(sys.argv[1], user="user-1"),
    lambda: evaluate(sys.argv[1]),
    lambda: run(RunFolder(Path(sys.argv[1])).experiment(), sys.argv[1], resume=True),
):
    try:
        what()
    except TacitError as error:
        print(error)
"""


def test_another_program_says_that_the_part_must_be_registered(tmp_path: Path) -> None:
    register("softer", Softer)
    run(fedmf_with(objective=Softer()), tmp_path / "one")
    done = subprocess.run(
        [sys.executable, "-c", OPENS, "one"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    path = str(Path("one") / "experiment.toml")
    sentence = (
        f"{path!r} names the part 'softer' at method.objective, which nobody has registered here; "
        "register it before the run is opened, as the program did that trained it (from "
        'tacit import register; register("softer", YourClass); on the command line, --import its '
        "module), or bring the file back if that is no name of yours."
    )
    assert done.stdout.splitlines() == [sentence] * 3


def test_the_lines_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    (lines,) = [block for block in blocks if "register(" in block]
    monkeypatch.chdir(tmp_path)
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    exec(compile(lines, "guide", "exec", dont_inherit=True), module.__dict__)
    assert len(recommend("runs/louder", user="user-1", k=3)) == 3


def test_an_unknown_part_in_a_configuration() -> None:
    with pytest.raises(UnknownPartError, match=r"Unknown part 'softer' at sync; .* register\("):
        decode({"part": "softer"}, Replace, "sync")


def test_a_field_that_was_added_later_is_written_where_it_says_something() -> None:
    plain, private = resolve("fedneumf"), resolve("fedneumf", plugins=["dual_personalised"])
    assert "scorer" not in dumps(plain)
    assert 'scorer = "private"' in dumps(private)
    for experiment in (plain, private):
        assert loads(dumps(experiment)) == experiment
    assert "scorer" not in encode(fedneumf().backbone)


def test_everything_that_has_a_name_can_be_written() -> None:
    """Also values inside of parts that are no parts of their own: features, schedules, views."""
    for name in ("mdifffr", "cs_fcf", "fedvbpr", "ipfedrec"):
        require_writable(resolve(name))
    require_writable(fedmf_with(items=Mixture(width=4)))
