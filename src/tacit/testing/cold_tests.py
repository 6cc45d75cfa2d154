"""The battery that every generator of rows inherits.

class TestRidge(ColdTests):
    generator = Ridge()
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from tacit.core.parts import ColdStart
from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.data.views import Split
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, loads
from tacit.experiment.trainer import Trainer
from tacit.methods.cold_start import cold_pfedrec
from tacit.testing.synthetic import checkerboard

COLD = among_cold_items(CLEAN)
METRIC = "Recall@15"


class ColdTests:
    """For parts that make rows of untouched items from content.

    The dataset is a checkerboard whose content shows an item's colour, among much that says
    nothing. `reads = False` lists a control that looks at no content.
    """

    generator: ClassVar[ColdStart]
    reads: ClassVar[bool] = True
    rounds: ClassVar[int] = 60

    def dataset(self, told: float = 1.0) -> Dataset:
        """`told` is how strongly content shows the colour."""
        plain = checkerboard(n_users=60, n_items=120)
        items = plain.interactions.items
        generator = np.random.default_rng(0)
        value_IF = generator.normal(size=(len(items), 8)).astype(np.float32)
        colour_I = np.array([int(name[1:]) % 2 for name in items])
        value_IF[:, 0] = (1 - told) * value_IF[:, 0] + told * (4.0 * colour_I - 2.0)
        text = FeatureTable(value_IF, np.ones(len(items), bool))
        return replace(plain, modalities=Modalities({"text": text}))

    def trainer(self, split: Split, rounds: int) -> Trainer:
        method = replace(cold_pfedrec(8), cold=self.generator)
        experiment = Experiment("cold", method, rounds, protocol=COLD)
        trainer = Trainer(experiment, split.train, 1)
        for _ in range(rounds):
            trainer.run_round()
        trainer.keep_best()
        return trainer

    def test_reads_the_colour_of_cold_items(self) -> None:
        split = split_dataset(self.dataset(), COLD)
        found = metric(rank(self.trainer(split, self.rounds).scores(), split.test).full, METRIC)
        expected = metric(chance(split.test).full, METRIC)
        if self.reads:
            assert found >= 1.5 * expected, f"{METRIC} = {found:.3f}, chance is {expected:.3f}"
        else:
            assert found < 1.3 * expected, f"it reads nothing, but {METRIC} = {found:.3f}"

    def test_content_that_says_nothing_leaves_it_at_chance(self) -> None:
        split = split_dataset(self.dataset(told=0.0), COLD)
        trainer = self.trainer(split, self.rounds)
        assert split.test.among_C is not None
        values = []
        for draw in range(20):  # rows are dealt to cold items in another order each time
            scores = trainer.scores()
            order = np.random.default_rng(draw).permutation(split.test.among_C)

            def dealt(user_B: np.ndarray, order: np.ndarray = order) -> np.ndarray:
                score_BI = np.array(scores(user_B))  # noqa: B023
                score_BI[:, split.test.among_C] = score_BI[:, order]
                return score_BI

            values.append(metric(rank(dealt, split.test).full, METRIC))
        expected = metric(chance(split.test).full, METRIC)
        error = max(float(np.std(values, ddof=1)) / len(values) ** 0.5, 1e-9)
        assert abs(float(np.mean(values)) - expected) <= 4 * error

    def test_state_goes_in_and_comes_out(self) -> None:
        generator, width = np.random.default_rng(0), 8
        table_WD = torch.from_numpy(generator.normal(size=(30, width)).astype(np.float32))
        feature_WF = torch.from_numpy(generator.normal(size=(30, width)).astype(np.float32))
        first = self.generator.begin(width, width, np.random.default_rng(1))
        kept = {name: parameter.clone() for name, parameter in first.items()}
        one = self.generator.fit(first, table_WD, feature_WF, 1, np.random.default_rng(2))
        two = self.generator.fit(first, table_WD, feature_WF, 1, np.random.default_rng(2))
        noise_CND = torch.zeros(30, self.generator.noise, width)
        made = self.generator.generate(one, feature_WF, noise_CND)
        assert made.shape == (30, width)
        assert torch.equal(made, self.generator.generate(two, feature_WF, noise_CND))
        assert all(torch.equal(parameter, kept[name]) for name, parameter in first.items())

    def test_config_round_trip(self) -> None:
        method = replace(cold_pfedrec(8), cold=self.generator)
        experiment = Experiment("pfedrec", method, 5, protocol=COLD)
        assert loads(dumps(experiment)) == experiment
