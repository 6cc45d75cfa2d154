"""All paths give the numbers of the definition: what every battery of a part ends with."""

from __future__ import annotations

import numpy as np
import torch

from tacit.core.compose import ComposedAlgorithm
from tacit.core.method import Method
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.scoring import Scorer, client_parameters
from tacit.engines.state import State
from tacit.testing.play import Trace, algorithm_for, same_to, trace
from tacit.testing.synthetic import ragged, with_content

WIDE = torch.float64


def small_train(content: bool = False, n_items: int = 16) -> TrainView:
    """A few clients with histories of very different lengths, for comparisons of paths.

    >>> small_train().n_users
    9
    """
    dataset = ragged(n_users=9, n_items=n_items)
    return split_dataset(with_content(dataset) if content else dataset, CLEAN).train


def reference_scores(algorithm: ComposedAlgorithm, train: TrainView, state: State) -> np.ndarray:
    """Scores by the definition: one client after another, with all that it ranks with.

    >>> from tacit.methods import fedmf
    >>> train = small_train()
    >>> found = trace(fedmf(dim=4), train, LoopEngine(), rounds=1)
    >>> reference_scores(algorithm_for(fedmf(dim=4), train), train, found.state).shape
    (9, 16)
    """
    with torch.no_grad():
        each = [
            algorithm.logits(client_parameters(algorithm, state, user, train.history(user)))
            for user in range(train.n_users)
        ]
    return torch.stack(each).numpy()


def assert_paths_agree(
    method: Method, train: TrainView, *, rounds: int = 2, relative: float = 1e-10
) -> Trace:
    """Fail where the path that is taken by itself, or blocks that are not fused, end elsewhere than
    the loop, or where scores are not those of the definition; return what the loop found.

    >>> from tacit.methods import fedmf
    >>> assert_paths_agree(fedmf(dim=4), small_train()).state.round_number
    2
    """
    reference = trace(method, train, LoopEngine(WIDE), rounds=rounds)
    assert any(reference.change(parameter) > 0 for parameter in reference.end), (
        "nothing moved at all"
    )
    engines = {
        "auto": CohortEngine(WIDE),
        "cohort": CohortEngine(WIDE, block=5, fused="never"),
    }
    algorithm = algorithm_for(method, train)
    for name, engine in engines.items():
        found = trace(method, train, engine, rounds=rounds)
        path = f"{name} ({engine.describe(algorithm).text})"
        _assert_same_end(reference, found, path, relative)
    assert_scores_agree(algorithm, train, reference.state)
    return reference


def assert_scores_agree(algorithm: ComposedAlgorithm, train: TrainView, state: State) -> None:
    """Fail where blocks of users are scored otherwise than one client after another."""
    scorer = Scorer(algorithm, state, block=4, train=train)
    expected_UI = reference_scores(algorithm, train, state)
    found_UI = scorer(np.arange(train.n_users))
    most = float(np.abs(found_UI - expected_UI).max())
    allowed = 1e-10 * max(1.0, float(np.abs(expected_UI).max()))
    assert most <= allowed, f"{scorer.describe()}: {most:.2e} from one client's own scores"


def _assert_same_end(reference: Trace, found: Trace, path: str, relative: float) -> None:
    for parameter, value in reference.end.items():
        # a parameter that a loss cannot move still moves by roundings
        rounding = 1e-15 * max(1.0, float(value.abs().max()))
        allowed = max(relative * reference.change(parameter), rounding)
        assert same_to(value, found.end[parameter], allowed), (
            f"{path} differs from the loop in {parameter}"
        )
    for kind in ("optimizer", "server"):
        ours, theirs = getattr(reference.state, kind), getattr(found.state, kind)
        for name, value in ours.items():
            allowed = relative * float(value.abs().max())
            assert same_to(value, theirs[name], allowed), f"{path} differs from the loop in {name}"
    assert abs(found.state.loss - reference.state.loss) <= 1e-10 * abs(reference.state.loss), path
    ours, theirs = reference.state.tuned, found.state.tuned
    assert (ours is None) == (theirs is None), path
    if ours is None or theirs is None:
        return
    for user in range(len(ours.count_U)):
        (item_R, row_RD), (found_R, found_RD) = ours.of(user), theirs.of(user)
        assert np.array_equal(item_R, found_R), path
        assert torch.allclose(row_RD, found_RD, rtol=1e-9, atol=1e-9), f"{path}: tuned rows"
