"""`python -m lab.independent`: ours against implementations that others wrote, at equal settings.

iALS is compared with the package `implicit`, BPR-MF and VBPR with `cornac`: NDCG@10 on the test
part of ML-100K under clean, after a fixed number of epochs, and seconds per epoch. None of the
packages is a dependency; a comparison whose package is missing is skipped with a sentence. Packages
of another environment are found with `--packages FOLDER`, its site-packages.

A comparison is a `Pair`: one more system is one more entry of PAIRS. Functions import torch, after
`tacit.cli.main` has asked its idle threads to wait quietly; else they count as CPU seconds.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse
import typer
from pydantic import BaseModel, ConfigDict

from tacit.central.embeddings import USER_TABLE, ranking_loss
from tacit.central.samples import Batch
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.settings import ready_to_compute
from tacit.core.central import TrainedCentralMethod
from tacit.core.optim import Adam, Sgd
from tacit.core.types import Params
from tacit.data.views import TrainView
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.prepare import prepare
from tacit.experiment.resolve import resolve
from tacit.files import write_text
from tacit.methods import BprMf, Ials, Vbpr
from tacit.methods.item_to_item import train_matrix
from tacit.methods.vbpr import CONTENT_BIAS
from tacit.study.writer import as_markdown as table_in_markdown

if TYPE_CHECKING:
    from torch import Tensor

DATA, DIM, SEEDS = "ml-100k", 64, 10
SHORT, TIMED = 5, 8  # epochs of a run that is timed, and how many such runs
NAME = "independent"


class Fitted(NamedTuple):
    """Scores of everybody after the last epoch, and what an epoch took."""

    score_UI: np.ndarray
    wall: float
    cpu: float


Fit = Callable[[TrainView, int, int, int], Fitted]  # (train, epochs, seed, threads)


@dataclass(frozen=True)
class Pair:
    """One comparison: the package it is with, the settings in words, and both fits.

    `differs` is what is known of a difference that seeds do not explain."""

    name: str
    package: str
    settings: str
    epochs: int
    ours: Fit
    theirs: Fit
    timed: int = TIMED
    differs: str = ""


def _timed(epochs: int, play: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    play()
    return (time.perf_counter() - wall) / epochs, (time.process_time() - cpu) / epochs


def _ours(model: TrainedCentralMethod) -> Fit:
    def fit(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
        import torch

        torch.set_num_threads(threads)
        two = train.take(np.arange(2))
        model.epoch(model.start(two, seed, torch.float32), two, seed, 1)  # compiles kernels before
        held = [model.start(train, seed, torch.float32)]

        def play() -> None:
            for number in range(1, epochs + 1):
                held[0], _ = model.epoch(held[0], train, seed, number)

        times = _timed(epochs, play)
        histories = [train.history(user) for user in range(train.n_users)]
        return Fitted(model.score(held[0], histories, np.arange(train.n_users)), *times)

    return fit


# iALS. With the weight a of all pairs and without frequency scaling our objective is that of
# `implicit` for a confidence of 1 + 1/a and a ridge of ridge (1 + a) / a, in rows that are
# sqrt(1 + a) times as long: scores differ by a factor.

EPOCHS, UNOBSERVED, RIDGE, GRADIENT_STEPS = 15, 0.1, 3.0, 3  # the steps are its default


def _implicit(exact: bool) -> Fit:
    def fit(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
        kind = import_module("implicit.cpu.als").AlternatingLeastSquares
        model = kind(
            factors=DIM,
            alpha=1 + 1 / UNOBSERVED,
            regularization=RIDGE * (1 + UNOBSERVED) / UNOBSERVED,
            iterations=epochs,
            use_cg=not exact,
            num_threads=threads,
            random_state=seed,
        )
        matrix = scipy.sparse.csr_matrix(train_matrix(train), dtype=np.float32)
        times = _timed(epochs, lambda: model.fit(matrix, show_progress=False))
        return Fitted(model.user_factors @ model.item_factors.T, *times)

    return fit


# BPR-MF: triple by triple, plain descent, biases of items.

PASSES, RATE, DECAY = 60, 0.05, 0.01


def _for_cornac(train: TrainView, seed: int) -> tuple[Any, list[int], np.ndarray]:
    """Its own dataset, where it has users, and where it has items: -1 for those it never saw."""
    user_N, item_N = train.positives.list_N.tolist(), train.positives.item_N.tolist()
    known: Any = import_module("cornac.data").Dataset.from_uir(
        [(user, item, 1.0) for user, item in zip(user_N, item_N, strict=True)],
        seed=seed,  # its VBPR draws triples by the seed of the data
    )
    user_U = [known.uid_map[user] for user in range(train.n_users)]
    return known, user_U, np.array([known.iid_map.get(item, -1) for item in range(train.n_items)])


def _of_all_items(score_UI: np.ndarray, index_I: np.ndarray) -> np.ndarray:
    """Scores of cornac's items in our order; items that it never saw come last."""
    lowest_U1 = np.full((len(score_UI), 1), score_UI.min() - 1.0)
    return np.hstack([score_UI, lowest_U1])[:, index_I]


def _cornac(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
    known, user_U, index_I = _for_cornac(train, seed)
    model = import_module("cornac.models").BPR(
        k=DIM,
        max_iter=epochs,
        learning_rate=RATE,
        lambda_reg=DECAY,
        num_threads=threads,
        seed=seed,
    )
    times = _timed(epochs, lambda: model.fit(known))
    score_UI = model.u_factors[user_U] @ model.i_factors.T + model.i_biases
    return Fitted(_of_all_items(score_UI, index_I), *times)


# VBPR: Adam, mini-batches, both biases, no penalty. Ours has a constant beside projected content,
# which cancels between two items; its bias of content begins at zero. cornac sums losses of a batch
# where ours has their mean, which Adam hardly sees.

VISUAL_PASSES, VISUAL_DIM, VISUAL_BATCH, VISUAL_RATE, MODALITY = 10, 32, 256, 0.001, "text"
VISUAL_TIMED = 2


def _cornac_vbpr(train: TrainView, epochs: int, seed: int, threads: int) -> Fitted:
    import torch

    torch.set_num_threads(threads)
    known, user_U, index_I = _for_cornac(train, seed)
    content_IF = train.content[MODALITY].value_IF
    feature_JF = np.empty((known.num_items, content_IF.shape[1]), np.float32)
    feature_JF[index_I[index_I >= 0]] = content_IF[index_I >= 0]
    modality = import_module("cornac.data").ImageModality(features=feature_JF)
    known.add_modalities(item_image=modality)
    model = import_module("cornac.models").VBPR(
        k=VISUAL_DIM,
        k2=VISUAL_DIM,
        n_epochs=epochs,
        batch_size=VISUAL_BATCH,
        learning_rate=VISUAL_RATE,
        lambda_w=0.0,
        lambda_b=0.0,
        verbose=False,
        seed=seed,
    )
    with redirect_stdout(StringIO()):  # it says when it is done
        times = _timed(epochs, lambda: model.fit(known))
    score_UI = model.gamma_user @ model.gamma_item.T + model.theta_user @ model.theta_item.T
    score_UI = score_UI + model.beta_item + model.visual_bias
    return Fitted(_of_all_items(score_UI[user_U], index_I), *times)


class CrossedVbpr(Vbpr):
    """VBPR with cornac's loss: what the bias of content puts between the items of a triple is added
    to every triple of the batch, and not to that triple alone. For settings without a penalty."""

    def batch_loss(
        self, p: Params, known: Tensor, batch: Batch, generator: np.random.Generator
    ) -> Tensor:
        bare = p | {CONTENT_BIAS: p[CONTENT_BIAS].new_zeros(len(p[CONTENT_BIAS]))}
        positive_BD, positive_B = self.item_rows(bare, known, batch.positive_B)
        negative_BD, negative_B = self.item_rows(bare, known, batch.negative_B)
        product_B = (p[USER_TABLE][batch.user_B] * (positive_BD - negative_BD)).sum(1)
        content_B = (known[batch.positive_B] - known[batch.negative_B]) @ p[CONTENT_BIAS]
        ahead_BB = product_B + positive_B - negative_B + content_B[:, None]
        return ranking_loss(ahead_BB, ahead_BB.new_zeros(()))


def vbpr(kind: type[Vbpr]) -> Vbpr:
    """Our VBPR at the settings of the comparison."""
    return kind(
        dim=VISUAL_DIM,
        batch=VISUAL_BATCH,
        optimiser=Adam(rate=VISUAL_RATE, lifetime="persistent"),
        modalities=(MODALITY,),
        penalty=0.0,
        biases=True,
    )


VISUAL_WORDS = (
    f"{VISUAL_PASSES} epochs, width {VISUAL_DIM} + {VISUAL_DIM}, {MODALITY}, Adam at "
    f"{VISUAL_RATE}, batches of {VISUAL_BATCH}, biases, no penalty"
)
BPR = BprMf(dim=DIM, batch=1, optimiser=Sgd(rate=RATE, weight_decay=DECAY))
ALS = Ials(dim=DIM, unobserved=UNOBSERVED, ridge=RIDGE, exponent=0.0)
ALS_WORDS = f"{EPOCHS} epochs, width {DIM}, a {UNOBSERVED}, ridge {RIDGE}, no frequency scaling"
PAIRS = (
    Pair("ials, exact", "implicit", ALS_WORDS, EPOCHS, _ours(ALS), _implicit(exact=True)),
    Pair(
        "ials, conjugate gradients",
        "implicit",
        f"{ALS_WORDS}, {GRADIENT_STEPS} steps a row",
        EPOCHS,
        _ours(replace(ALS, steps=GRADIENT_STEPS)),
        _implicit(exact=False),
    ),
    Pair(
        "bprmf",
        "cornac",
        f"{PASSES} epochs, width {DIM}, rate {RATE}, weight decay {DECAY}, triple by triple",
        PASSES,
        _ours(BPR),
        _cornac,
    ),
    Pair(
        "vbpr",
        "cornac",
        f"{VISUAL_WORDS}; timed in {VISUAL_TIMED} runs",
        VISUAL_PASSES,
        _ours(vbpr(Vbpr)),
        _cornac_vbpr,
        timed=VISUAL_TIMED,
        differs="cornac adds the bias of content as a column to a row of differences, so that its "
        "loss is over all pairs of two triples of a batch: a triple gets the bias of every other "
        "one. The loss of the paper, and ours, gives it its own alone. In the row below, ours has "
        "cornac's loss and is else as above: that alone explains the difference.",
    ),
    Pair(
        "vbpr, loss over pairs of triples",
        "cornac",
        f"as above, and cornac's loss in ours; timed in {VISUAL_TIMED} runs",
        VISUAL_PASSES,
        _ours(vbpr(CrossedVbpr)),
        _cornac_vbpr,
        timed=VISUAL_TIMED,
    ),
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Side(_Part):
    """One implementation: NDCG@10 of each seed, and the seconds of an epoch in the quickest of some
    short runs."""

    gain: tuple[float, ...]
    wall: float
    cpu: float

    @classmethod
    @cache  # two pairs may have one side in common
    def of(cls, fit: Fit, epochs: int, threads: int, timed: int) -> Side:
        split = prepare(resolve("popularity", data=DATA)).split
        gain = []
        for seed in range(SEEDS):
            score_UI = fit(split.train, epochs, seed, threads).score_UI
            gain.append(metric(rank(score_UI.__getitem__, split.test).full, "NDCG@10"))
        short = [fit(split.train, SHORT, 0, threads) for _ in range(timed)]
        times = (min(one.wall for one in short), min(one.cpu for one in short))
        return cls(gain=tuple(gain), wall=times[0], cpu=times[1])

    @property
    def text(self) -> str:
        return f"{100 * np.mean(self.gain):.2f} ± {100 * np.std(self.gain, ddof=1):.2f}"


class Compared(_Part):
    name: str
    package: str
    version: str
    settings: str
    ours: Side
    theirs: Side
    differs: str = ""


class Product(_Part):
    """The least milliseconds of one product of LightGCN's graph with a table, on one thread."""

    dataset: str
    scipy: float
    torch: float


class Figures(_Part):
    threads: int
    compared: tuple[Compared, ...]
    products: tuple[Product, ...]


def product_times(dataset: str, repeats: int = 15) -> Product:
    """One way of the graph by scipy, and by torch's sparse rows."""
    import torch

    from tacit.central.graph import incidence, normalised

    train = prepare(resolve("popularity", data=dataset)).split.train
    graph = normalised(incidence(train.positives, train.n_items)).astype(np.float32)
    row, column = (part.astype(np.int32) for part in (graph.indptr, graph.indices))
    with warnings.catch_warnings(action="ignore"):  # torch says that its sparse rows are young
        sparse = torch.sparse_csr_tensor(
            torch.from_numpy(row),
            torch.from_numpy(column),
            torch.from_numpy(graph.data),
            size=graph.shape,
        )
    table_ID = np.ones((train.n_items, DIM), np.float32)
    other_ID = torch.from_numpy(table_ID)
    torch.set_num_threads(1)

    def least(play: Callable[[], object]) -> float:
        taken = []
        for _ in range(repeats):
            begin = time.process_time()
            play()
            taken.append(time.process_time() - begin)
        return 1000 * min(taken)

    both = (least(lambda: graph @ table_ID), least(lambda: sparse @ other_ID))
    return Product(dataset=dataset, scipy=both[0], torch=both[1])


def as_markdown(figures: Figures) -> str:
    """The page from its numbers alone."""
    rows = [
        [
            one.name,
            f"{one.package} {one.version}",
            one.ours.text,
            one.theirs.text,
            f"{one.ours.cpu:.3f} / {one.ours.wall:.3f}",
            f"{one.theirs.cpu:.3f} / {one.theirs.wall:.3f}",
            one.settings,
        ]
        for one in figures.compared
    ]
    heading = ["method", "package", "NDCG@10, ours", "theirs"]
    heading += ["seconds an epoch, CPU / wall, ours", "theirs", "settings of both"]
    products = [[one.dataset, f"{one.scipy:.2f}", f"{one.torch:.2f}"] for one in figures.products]
    differing = [one for one in figures.compared if one.differs]
    parts = [
        "# Against independent implementations",
        "",
        f"Written by `python -m lab.independent`: {DATA}, clean protocol, test part, full ranking, "
        f"in percent; mean and deviation over {SEEDS} seeds after a fixed number of epochs. "
        f"Nothing was searched. Times are those of the quickest of {TIMED} runs of {SHORT} "
        f"epochs with {figures.threads} threads, and one of BLAS in each, as implicit asks for.",
        "",
        table_in_markdown(heading, rows),
        "",
        "For bprmf, cornac draws as many triples as there are interactions, with replacement, and "
        "leaves out those whose negative is a positive; ours meets each interaction once. First "
        "values differ in all pairs. implicit keeps user rows from before the last item step; ours "
        "solves them after it.",
        *(
            f"\nSeeds do not explain the difference of {one.name}. {one.differs}"
            for one in differing
        ),
        "",
        "## Products over a graph",
        "",
        f"CPU milliseconds of one product of LightGCN's graph, users from items, with a table "
        f"{DIM} wide; least of 15, one thread. LightGCN takes torch's.",
        "",
        table_in_markdown(["dataset", "scipy", "torch"], products),
        "",
    ]
    return "\n".join(parts)


def compare(threads: int) -> Figures:
    """All pairs whose package is here; the others are told in a sentence each."""
    compared = []
    for pair in PAIRS:
        if find_spec(pair.package) is None:
            say(f"{pair.name} is skipped: the package {pair.package} is not installed here.")
            continue
        say(f"{pair.name} against {pair.package}")
        found = Compared(
            name=pair.name,
            package=pair.package,
            version=version(pair.package),
            settings=pair.settings,
            ours=Side.of(pair.ours, pair.epochs, threads, pair.timed),
            theirs=Side.of(pair.theirs, pair.epochs, threads, pair.timed),
            differs=pair.differs,
        )
        compared.append(found)
    products = tuple(product_times(dataset) for dataset in (DATA, "amazon-video"))
    return Figures(threads=threads, compared=tuple(compared), products=products)


app = typer.Typer(name="lab.independent", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def independent(
    packages: Annotated[
        Path | None, typer.Option(help="Where packages lie that are not installed here.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Of both implementations.")] = 2,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("docs", "results"),
) -> None:
    """Compare with implementations that others wrote."""
    if packages is not None:
        sys.path.append(str(packages))
    ready_to_compute()
    figures = compare(threads)
    if not figures.compared:
        say("Nothing was compared, so nothing is written.")
        return
    write_text(out / f"{NAME}.json", figures.model_dump_json(indent=1) + "\n")
    write_text(out / f"{NAME}.md", as_markdown(figures))
    say(f"written   {out / NAME}.md and .json")


BLAS_THREADS = "OPENBLAS_NUM_THREADS"

if __name__ == "__main__":
    if os.environ.get(BLAS_THREADS) != "1":  # read when numpy is loaded, so it takes a new process
        os.environ[BLAS_THREADS] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.exit(main(sys.argv[1:], app))
