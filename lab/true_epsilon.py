"""Epsilon of the noise in a table's rows, as it is and as it would be.

Papers print noise and no epsilon. Here a row's own channel says which mechanism it is, how large
its noise is and whether anything bounds an upload, its method says in how many releases a client
sends, and `tacit.privacy` composes them. Where nothing bounds an upload there is no guarantee; a
reading that assumes a bound says so in its name. No epsilon is written down anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from lab.definition import Data, Place, Reading, Row, Table
from lab.results import Results, UploadNorms
from tacit.core.algorithm import TRAIN, Algorithm, Noise
from tacit.core.parts import Transform
from tacit.core.protection import DELTA, promised
from tacit.core.types import Task, Upload
from tacit.data.sampling import samples_per_user
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.experiment.amounts import DASH
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.parts.channel import Clip, Gaussian, Laplace
from tacit.privacy.accounting import LARGEST
from tacit.privacy.guarantee import Guarantee, sensitivity
from tacit.study.writer import as_markdown as table_in_markdown

WATCHED = 100  # users whose uploads are looked at

HOW_TO_READ = f"""\
Epsilon is for one user's whole history over all planned rounds, against a server that sees every \
upload and its sender: two uploads of norm at most C are at most 2C apart (L1 norm under Laplace \
noise, L2 under Gaussian noise). Laplace noise adds up over releases at δ = 0; Gaussian noise is \
composed exactly, at δ = {DELTA:g}. Choosing the round on validation is not covered. An epsilon \
above {LARGEST:.0e} is no promise and is told as none."""


# What a row does to its uploads.


def algorithm_of(row: Row) -> Algorithm:
    """The row's algorithm, on as little data as there is: its channel and its rounds do not depend
    on more."""
    sets = (*row.sets, *row.settings[0])
    experiment = resolve(row.method, preset=row.preset, plugins=row.plugins, sets=sets)
    return experiment.method.algorithm(Task(n_users=1, n_items=2))


def noise_of(algorithm: Algorithm) -> Noise | None:
    """The noise on uploads; None where there is none."""
    found = [link.noise for link in algorithm.channel if link.noise is not None]
    return next((noise for noise in found if noise.scale > 0), None)


def order_of(noise: Noise) -> Literal[1, 2]:
    """The norm in which uploads have to be bounded for this noise."""
    return 1 if noise.mechanism == "laplace" else 2


# What uploads are like. A run writes this down, so that a table needs no data to be written.


def needs_norms(place: Place) -> bool:
    """Whether a reading of this place depends on the uploads or steps of a run; they are looked at
    in the first column."""
    if place.column != place.table.columns_of(place.data)[0]:
        return False
    applied = [one for one in place.table.epsilon if applies(place.row, one)]
    return any(one.bound == "median" or one.released == "steps" for one in applied)


def upload_norms(experiment: Experiment, run: str) -> UploadNorms:
    """Norms of the uploads in the first round that sends, as they are before noise, over users that
    are spread evenly; rounds before it are trained."""
    trainer = Trainer(experiment, prepare(experiment).split.train)
    algorithm, train, seed = trainer.algorithm, trainer.train, experiment.seed
    noise = noise_of(algorithm)
    assert noise is not None
    number = 1
    while not any(exchange.sends for exchange in algorithm.exchanges(number)):
        trainer.run_round()
        number += 1
    user_P = np.unique(np.linspace(0, train.n_users - 1, WATCHED).round().astype(np.int64))
    user_P = user_P[train.positives.size_U[user_P] > 0]
    seen: list[tuple[int, Upload]] = []
    engine = LoopEngine(next(iter(trainer.state.shared.values())).dtype, uploads=seen)
    who = Participants(user_P, np.ones(len(user_P), dtype=bool))
    engine.round(algorithm, train, trainer.state.on("cpu").copy(), who, seed)
    order = order_of(noise)
    norms = [upload_norm(upload, algorithm, order) for _, upload in seen]
    return UploadNorms(
        run=run,
        users=len(user_P),
        order=order,
        median=float(np.median(norms)),
        steps=most_steps(trainer),
    )


def upload_norm(upload: Upload, algorithm: Algorithm, order: Literal[1, 2]) -> float:
    """The norm of all that a client sends; rows of one item fall together, as they do in a sum."""
    parts = []
    for name, value in upload.change.items():
        whole = value.double()
        if name in algorithm.sent_by_row:
            table = whole.new_zeros(algorithm.task.n_items, *whole.shape[1:])
            whole = table.index_add(0, upload.item_R, whole)
        parts.append(whole.reshape(-1))
    return float(torch.linalg.vector_norm(torch.cat(parts), ord=order))


def most_steps(trainer: Trainer) -> int:
    """The most local steps that anybody takes in a round."""
    exchange = next(one for one in trainer.algorithm.exchanges(1) if one.name == TRAIN)
    draws = trainer.algorithm.draws(exchange)
    if draws.sampling is None or draws.batch is None:
        return draws.epochs
    longest = int(samples_per_user(trainer.train, draws.sampling).max())
    return draws.epochs * -(-longest // draws.batch)


# What a reading promises.


def applies(row: Row, reading: Reading) -> bool:
    """Whether a reading speaks of a row: it has noise, and no bound is made up where it has one.

    >>> bounded = Row("bounded", "pfedrec", plugins=("clip:order=1", "laplace"))
    >>> applies(bounded, Reading("as it runs")), applies(bounded, Reading("if", bound=1.0))
    (True, False)
    """
    algorithm = algorithm_of(row)
    bounded = algorithm.guarantee(releases=1) is not None
    return noise_of(algorithm) is not None and (reading.bound is None or not bounded)


@dataclass(frozen=True)
class Stated:
    """A reading of a row's noise, with all that its epsilon depends on. `bound` is None where
    nothing bounds an upload, `releases` where they are not counted yet."""

    reading: str
    noise: Noise
    bound: float | None
    releases: int | None
    guarantee: Guarantee | None

    @property
    def short(self) -> str:
        """Epsilon, or that there is none.

        >>> Stated("as it runs", Noise("laplace", "upload", 0.1), None, 100, None).short
        'no guarantee'
        """
        if self.releases is None:
            return "not measured yet"
        if self.guarantee is not None:
            return epsilon_text(self.guarantee.epsilon)
        return "no guarantee" if self.bound is None else f"no guarantee (above {LARGEST:.0e})"


def epsilon_text(epsilon: float) -> str:
    """An epsilon with four digits, so that nobody takes an astronomic one for a small one.

    >>> epsilon_text(20.6755), epsilon_text(2000.0), epsilon_text(2008528.8)
    ('20.68', '2,000', '2.009e+06')
    """
    return f"{epsilon:,.0f}" if 1000 <= epsilon < 1e6 else f"{epsilon:.4g}"


def stated(row: Row, reading: Reading, norms: UploadNorms | None = None) -> Stated | None:
    """What a row's noise promises under a reading; None where the reading does not speak of it.

    >>> row = Row("noisy", "pfedrec", plugins=("laplace:scale=0.5",), rounds=100)
    >>> found = stated(row, Reading("if clipped to 1", bound=1.0))
    >>> found.guarantee.epsilon  # 100 releases, each 2 C / scale
    400.0
    >>> stated(row, Reading("as it runs")).guarantee is None
    True
    """
    algorithm = algorithm_of(row)
    noise = noise_of(algorithm)
    if noise is None or not applies(row, reading):
        return None
    measured = reading.bound == "median" or reading.released == "steps"
    if measured and norms is None:
        return Stated(reading.name, noise, None, None, None)
    releases = algorithm.releases(row.rounds)
    if reading.released == "steps":
        assert norms is not None
        releases = row.rounds * norms.steps
    bound: float | None
    if reading.bound == "median":
        assert norms is not None
        bound = norms.median
    else:
        once = algorithm.guarantee(releases=1)
        bound = reading.bound or (None if once is None else once.bound)
    if reading.as_it_runs or bound is None:
        return Stated(reading.name, noise, bound, releases, algorithm.guarantee(releases))
    if reading.multiplier is not None:
        noise = Noise(noise.mechanism, noise.on, reading.multiplier * bound)
    guarantee = promised(links(bound, noise), None, releases)
    return Stated(reading.name, noise, bound, releases, guarantee)


def links(bound: float, noise: Noise) -> Sequence[Transform]:
    """A clip, and that noise on each upload after it."""
    drawn = Laplace(noise.scale) if noise.mechanism == "laplace" else Gaussian(noise.scale)
    return (Clip(bound, order_of(noise)), drawn)


# What is written.


def norms_of(results: Results, table: Table, row: Row, data: Data) -> UploadNorms | None:
    """What was looked at in a run of this row on this data."""
    columns = table.columns_of(data)
    return results.uploads.get(Place(table, row, data, columns[0]).key) if columns else None


def short_epsilon(table: Table, row: Row, data: Data, results: Results) -> str:
    """What stands beside the numbers of a row: epsilon as the row runs."""
    found = stated(row, table.epsilon[0], norms_of(results, table, row, data))
    return "no noise" if found is None else found.short


def epsilon_lines(table: Table, data: Data, results: Results) -> list[str]:
    """All readings of all rows with noise, but for what can be measured nowhere; nothing for tables
    that do not ask."""
    if not table.epsilon:
        return []
    heading = ["method", "reading", "noise", "C", "sensitivity", "releases"]
    heading += ["ε of one release", "ε of all"]
    lines = []
    for row in table.rows_of(data):
        for reading in table.epsilon:
            found = stated(row, reading, norms_of(results, table, row, data))
            if found is not None and (found.releases is not None or table.columns_of(data)):
                lines.append([row.name, *_texts(found)])
    return ["", f"### {data.name}: epsilon as it is", "", table_in_markdown(heading, lines)]


def _texts(found: Stated) -> list[str]:
    kind = "Laplace, scale" if found.noise.mechanism == "laplace" else "Gaussian, deviation"
    noise = f"{kind} {found.noise.scale:.4g}"
    if found.releases is None:
        return [found.reading, noise, *[DASH] * 4, found.short]
    releases = f"{found.releases:,}"
    if found.bound is None:
        return [found.reading, noise, "none", "not finite", releases, DASH, found.short]
    reach = f"{sensitivity('local', found.bound):.4g}"
    once = found.guarantee
    alone = DASH if once is None else epsilon_text(once.epsilon_per_release)
    return [found.reading, noise, f"{found.bound:.4g}", reach, releases, alone, found.short]
