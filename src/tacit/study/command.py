"""The command that runs an experiment again, in as few words as give the very same experiment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tacit.core.codec import encode
from tacit.errors import TacitError
from tacit.experiment.resolve import COLD_SPLITS, SPLITS, resolve
from tacit.experiment.spec import Experiment


def command_of(experiments: Sequence[Experiment], config: str) -> str:
    """The command for seeds of one experiment; where names and settings do not lead there, one that
    reads `config`, the path of a file with the whole experiment.

    >>> one = resolve("fedmf", data="ml-100k", sets=["local.items.rate=0.05"])
    >>> command_of([one], "one.toml")
    'tacit train fedmf --data ml-100k --set local.items.rate=0.05 --seed 0'
    >>> command_of([one, replace(one, seed=3)], "one.toml")[:31]
    'for seed in 0 3; do tacit train'
    """
    first = experiments[0]
    words = words_of(first)
    if words is None:
        words = ["--config", config]
    words = ["tacit", "train", *words, *(["--device", first.device] * (first.device != "cpu"))]
    said = " ".join(map(shlex.quote, words))
    seeds = [str(one.seed) for one in experiments]
    if len(seeds) == 1:
        return f"{said} --seed {seeds[0]}"
    return f"for seed in {' '.join(seeds)}; do {said} --seed $seed; done"


def words_of(experiment: Experiment) -> list[str] | None:
    """Method and flags without seed and device; None where nothing but its text leads to it.

    >>> words_of(resolve("ease", data="citeulike-a", split="cold"))
    ['ease', '--data', 'citeulike-a', '--split', 'cold']
    """
    if experiment.data.in_memory:
        return None
    asked = replace(experiment, seed=0, device="cpu")
    found = [words for split in (None, *SPLITS, *COLD_SPLITS) if (words := _words(asked, split))]
    return min(found, key=len, default=None)  # the first of those with the fewest words


def _words(asked: Experiment, split: str | None) -> list[str] | None:
    """Method and flags with this split and what is set beside it; None where that is not it."""
    given: dict[str, Any] = {"data": asked.data.name}
    given |= {} if asked.preset == "paper" else {"preset": asked.preset}
    given |= {} if split is None else {"split": split}
    given |= {"plugins": asked.plugins} if asked.plugins else {}
    given |= {"columns": dict(asked.data.columns)} if asked.data.columns else {}
    try:
        near = resolve(asked.name, **given)
        sets = list(_settings(encode(near), encode(asked)))
        again = resolve(asked.name, **given, sets=sets)
    except TacitError:
        return None
    settings = [word for one in sets for word in ("--set", one)]
    return [asked.name, *_flags(given), *settings] if again == asked else None


def _flags(given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        if name == "plugins":
            yield from (word for one in value for word in ("--with", one))
        elif name == "columns":
            yield from ("--columns", ",".join(f"{role}={column}" for role, column in value.items()))
        else:
            yield from (f"--{name}", value)


_OUTER = {field.name for field in fields(Experiment)}


def _settings(near: Any, asked: Any, path: str = "") -> Iterator[str]:
    """Every field in which two experiments differ, as `--set` reads it."""
    if isinstance(near, dict) and isinstance(asked, dict) and near.get("part") == asked.get("part"):
        for key in dict.fromkeys((*near, *asked)):
            yield from _settings(near.get(key), asked.get(key), f"{path}.{key}" if path else key)
    elif near != asked:
        inner = path.removeprefix("method.")  # a path may begin at the method's parts
        yield f"{path if inner.split('.')[0] in _OUTER else inner}={_text(asked)}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
