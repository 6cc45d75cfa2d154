"""Batteries for single parts: links of the channel, and synchronisation rules."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from tacit.core.parts import ServerRule, Sync, TableRule, Transform
from tacit.core.types import ITEMS, OWN_ITEMS
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.experiment.codec import decode, encode
from tacit.methods import fedmf
from tacit.server.mean import Mean
from tacit.testing.play import same_to, trace
from tacit.testing.worlds import ragged


class ChannelTests:
    """For a link of the channel: neutral at its neutral setting, bounded, equal across engines.

    `before` are the links it needs in front of it.
    """

    link: ClassVar[Transform]
    neutral: ClassVar[Transform]
    before: ClassVar[tuple[Transform, ...]]

    def test_neutral_setting_changes_nothing(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        plain = replace(fedmf(dim=4), channel=self.before)
        neutral = replace(plain, channel=(*self.before, self.neutral))
        one, two = trace(plain, train, LoopEngine()), trace(neutral, train, LoopEngine())
        assert torch.equal(one.end[ITEMS], two.end[ITEMS])

    def test_it_does_something(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        plain = replace(fedmf(dim=4), channel=self.before)
        linked = replace(plain, channel=(*self.before, self.link))
        one, two = trace(plain, train, LoopEngine()), trace(linked, train, LoopEngine())
        assert not torch.equal(one.end[ITEMS], two.end[ITEMS])

    def test_engines_agree(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        method = replace(fedmf(dim=4), channel=(*self.before, self.link))
        reference = trace(method, train, LoopEngine(torch.float64))
        for engine in (
            CohortEngine(torch.float64, block=5, fused="never"),
            CohortEngine(torch.float64, fused="always"),
        ):
            found = trace(method, train, engine)
            allowed = 1e-10 * reference.change(ITEMS)
            assert same_to(reference.end[ITEMS], found.end[ITEMS], allowed)

    def test_factor_only_shrinks(self) -> None:
        norm = torch.tensor([0.0, 0.5, 1e3], dtype=torch.float64)
        factor = self.link.factor(norm)
        assert ((factor > 0) & (factor <= 1)).all()

    def test_round_trip(self) -> None:
        assert decode(encode(self.link), type(self.link)) == self.link

    def test_noise_is_keyed(self) -> None:
        """The same generator gives the same noise: a run can be repeated."""
        one = self.link.add_noise(np.zeros((3, 2)), 4, np.random.default_rng(1))
        two = self.link.add_noise(np.zeros((3, 2)), 4, np.random.default_rng(1))
        assert np.array_equal(one, two)


class SyncTests:
    """For a synchronisation rule: it reads rows one by one, and says honestly what it sends.

    `server` is the server that it needs.
    """

    sync: ClassVar[Sync]
    server: ClassVar[ServerRule | TableRule] = Mean()

    def test_reading_is_row_wise(self) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = {leaf: torch.randn(5, 3, generator=generator) for leaf in (ITEMS, OWN_ITEMS)}
        whole = self.sync.read(rows)
        some = self.sync.read({leaf: value[[3, 1]] for leaf, value in rows.items()})
        assert torch.equal(whole[[3, 1]], some)

    def test_the_global_table_moves_only_if_something_is_sent(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        method = replace(fedmf(dim=4), sync=self.sync, server=self.server)
        found = trace(method, train, LoopEngine(), rounds=1)
        moved = ITEMS in found.end and not torch.equal(found.start[ITEMS], found.end[ITEMS])
        assert moved == self.sync.sends(1)

    def test_round_trip(self) -> None:
        assert decode(encode(self.sync), type(self.sync)) == self.sync
