"""Every generator, held to the battery."""

from tacit.core.optim import Adam
from tacit.parts.cold.diffusion import Corrected, Diffusion
from tacit.parts.cold.features import Features
from tacit.parts.cold.mapping import Mapping
from tacit.parts.cold.simple import Nearest, NoRow, RandomRows, Ridge
from tacit.testing import ColdTests


class TestRidge(ColdTests):
    generator = Ridge()


class TestNearest(ColdTests):
    generator = Nearest(neighbours=5)


class TestMapping(ColdTests):
    generator = Mapping(steps=5)


class TestDiffusion(ColdTests):
    generator = Diffusion(loss="unweighted", optimiser=Adam(3e-3), standardise=True, epochs=5)


class TestLight(ColdTests):
    generator = Diffusion(
        loss="unweighted", optimiser=Adam(3e-3), standardise=True, epochs=10, every=2
    )


class TestCorrected(ColdTests):
    generator = Corrected(
        Ridge(Features()),
        Diffusion(loss="unweighted", optimiser=Adam(1e-3), standardise=True),
        share=0.25,
    )


class TestRandomRows(ColdTests):
    generator = RandomRows()
    reads = False


class TestNoRow(ColdTests):
    generator = NoRow()
    reads = False
