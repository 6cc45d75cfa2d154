"""What all attacks share: short names of runs, notes on controls, and figures."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.attack.page import (
    Control,
    Estimate,
    draw_estimates,
    figure_over_runs,
    names_by_epsilon,
    notes_on_controls,
)
from tacit.experiment.charts import new_figure
from tacit.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Run:
    name: str
    method: str
    guarantee: Guarantee | None = None


EIGHT = Guarantee.gaussian("local", bound=1.0, noise=4.0, releases=1, delta=1e-5)


def test_names_are_as_short_as_tells_runs_apart() -> None:
    said = f"ε = {EIGHT.epsilon:.4g}"
    one_method = [Run("fedmf", "fedmf"), Run("fedmf + private", "fedmf", EIGHT)]
    assert names_by_epsilon(one_method) == ["no guarantee", said]
    two = [Run("fedmf", "fedmf"), Run("pfedrec + private", "pfedrec", EIGHT)]
    assert names_by_epsilon(two) == ["fedmf, no guarantee", f"pfedrec, {said}"]
    alike = [Run("fedmf", "fedmf"), Run("fedmf + clip", "fedmf")]
    assert names_by_epsilon(alike) == ["fedmf", "fedmf + clip"]


def test_a_broken_control_is_said() -> None:
    good = Control("told", "succeed", "norm", Estimate(1.0, 1.0, 1.0), passed=True)
    bad = Control("shuffled", "fail", "norm", Estimate(0.9, 0.8, 1.0), passed=False)
    said = notes_on_controls([good, bad])
    assert len(said) == 3
    assert "do not trust" in said[-1]
    assert "'shuffled'" in said[-1]


def test_an_interval_that_rounding_put_beside_its_mean_is_drawn() -> None:
    beside = Estimate(1.0, 1.0 + 1e-16, 1.0 - 1e-16)
    _, (panel,) = new_figure()
    draw_estimates(
        panel, {"norm": [(0.0, Estimate(0.5, 0.5000001, 0.6)), (1.0, beside)]}, chance=0.5
    )
    figure = figure_over_runs([Run("fedmf", "fedmf")], {"norm": [(0.0, beside)]}, "AUC", "A note.")
    assert figure.axes[0].get_ylabel() == "AUC"
