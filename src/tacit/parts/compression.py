"""Links that make an upload smaller: fewer bits, fewer rows, shorter rows.

Each is written for one client, whose changes come whole. A row is an entry of a parameter's first
axis; a parameter with one number in each row is a single row. None of them hides anything by
itself, and none comes with a guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from tacit.core.capabilities import encodes
from tacit.core.fit import CompositionError, Use
from tacit.core.method import Method
from tacit.core.parts import Transform
from tacit.core.registry import register
from tacit.core.types import WAITING, Initializer, Packed, Params, UploadDraws
from tacit.errors import TacitError

AS_IT_IS = 32  # bits: the numbers of the device, whatever their width
PLACE = 4  # bytes that say which row of a table this is


def rows_of(value: Tensor) -> Tensor:
    """A parameter as rows, in the sense of `Packed`.

    >>> rows_of(torch.zeros(4, 2, 3)).shape, rows_of(torch.zeros(4, 1)).shape
    (torch.Size([4, 6]), torch.Size([1, 4]))
    """
    packed = Packed.of(tuple(value.shape), width=1)
    return value.reshape(packed.rows, packed.row_width)


# Fewer bits for each number.


@register("quantise")
@dataclass(frozen=True)
class Quantise(Transform):
    """Each number becomes a whole number of `bits` bits, times a scale: the largest of its row, or
    of its whole tensor. It is rounded up or down at random, so that its mean is true.

    With one bit there is only the sign: plus or minus the scale, plus the more often the larger the
    number is. A row of zeros has the scale 0 and stays as it is.

    >>> draws = UploadDraws(seed=0, round_number=1, user_key=7)
    >>> code, _ = Quantise(bits=2).encode({"items": torch.tensor([[4.0, 1.0, 0.0]])}, {}, draws)
    >>> code["items"].tolist()
    [[4.0, 0.0, 0.0]]
    """

    bits: Literal[1, 2, 4, 8, 16, 32] = 8
    scale: Literal["row", "tensor"] = "row"

    def check(self, method: Method) -> None:
        if self.bits == 1 and self.scale == "tensor":
            raise TacitError(
                "Quantise(bits=1) with one scale for a whole tensor would send noise in the place "
                "of rows of zeros; let scale be 'row'."
            )

    @property
    def neutral(self) -> bool:
        return self.bits == AS_IT_IS

    @property
    def keeps_bounds(self) -> bool:  # type: ignore[override]
        return self.neutral  # what the server reads may be longer than the change

    @property
    def gives(self) -> frozenset[str]:
        return frozenset(() if self.neutral else {"quantised"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    def encode(self, change: Params, own: Params, draws: UploadDraws) -> tuple[Params, Params]:
        if self.neutral:
            return change, own
        return {name: self._rounded(name, value, draws) for name, value in change.items()}, own

    def _rounded(self, name: str, value: Tensor, draws: UploadDraws) -> Tensor:
        whole_RW = rows_of(value)
        changed = whole_RW.any(dim=1).nonzero().squeeze(1)  # all other rows stay zeros
        drawn_RW = draws.own(name, tuple(whole_RW.shape))[changed]
        row_RW = whole_RW[changed]
        largest = row_RW.abs().amax(dim=1, keepdim=True)
        if self.scale == "tensor" and len(row_RW):
            largest = largest.amax().expand_as(largest)
        share_RW = row_RW / largest  # in [-1, 1]
        if self.bits == 1:
            rounded_RW = torch.where(drawn_RW < (1 + share_RW) / 2, largest, -largest)
        else:
            levels = 2 ** (self.bits - 1) - 1
            step_RW = torch.floor(share_RW * levels + drawn_RW).clamp(-levels, levels)
            rounded_RW = step_RW * largest / levels
        found = torch.zeros_like(whole_RW).index_copy_(0, changed, rounded_RW.to(whole_RW))
        return found.reshape(value.shape)

    def packed(self, sent: Packed) -> Packed:
        if self.neutral:
            return sent
        scales = sent.rows if self.scale == "row" else 1
        return replace(sent, bits=self.bits, beside=sent.beside + scales * sent.bits // 8)

    def interpretation(self) -> str:
        if self.neutral:
            return ""
        bits = "one bit" if self.bits == 1 else f"{self.bits} bits"
        return (
            f"each number travels as {bits}, rounded at random so that its mean is true: this "
            "saves bytes and hides nothing by itself"
        )


# Fewer rows.


@register("top_k")
@dataclass(frozen=True)
class TopK(Transform):
    """Of each table the `share` of rows that changed most travel, with their places. What is not
    sent waits on the device and is added to the next change (error feedback), so nothing is lost.

    As many rows travel in every round; where fewer changed, rows of zeros fill them up.

    >>> change, waiting = {"items": torch.tensor([[1.0, 1], [5, 5]])}, torch.zeros(2, 2)
    >>> draws = UploadDraws(seed=0, round_number=1, user_key=7)
    >>> code, own = TopK(share=0.5).encode(change, {"items@waiting": waiting}, draws)
    >>> code["items"].tolist(), own["items@waiting"].tolist()
    ([[0.0, 0.0], [5.0, 5.0]], [[1.0, 1.0], [0.0, 0.0]])
    """

    share: float = 0.1

    def check(self, method: Method) -> None:
        if not 0 < self.share <= 1:
            raise TacitError(
                f"share of TopK is {self.share}; it must be more than 0 and at most 1."
            )
        coding = [link for link in method.channel if encodes(link)]
        if self in coding and coding[0] != self:
            first = type(coding[0]).__name__
            rest = [link for link in method.channel if link not in coding]
            others = [link for link in coding if link != self]
            raise CompositionError(
                f"TopK keeps rows of the table itself, which it does not see after {first}",
                Use(f"put TopK before {first}", "channel", (*rest, self, *others)),
            )

    @property
    def neutral(self) -> bool:
        return self.share == 1

    @property
    def keeps_bounds(self) -> bool:  # type: ignore[override]
        return self.neutral  # what the server reads may be longer than the change

    @property
    def gives(self) -> frozenset[str]:
        return frozenset(() if self.neutral else {"sparse"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    def count(self, rows: int) -> int:
        """How many rows travel of so many.

        >>> TopK(share=0.1).count(1682), TopK(share=0.1).count(3)
        (168, 1)
        """
        return max(1, round(self.share * rows))

    def private(self, sent: Mapping[str, Initializer]) -> dict[str, Initializer]:
        return {
            f"{name}{WAITING}": Initializer(init.shape)
            for name, init in sent.items()
            if self.count(rows := Packed.of(init.shape, width=1).rows) < rows
        }

    def encode(self, change: Params, own: Params, draws: UploadDraws) -> tuple[Params, Params]:
        sent, kept = dict(change), dict(own)
        for name, value in change.items():
            if f"{name}{WAITING}" not in own:
                continue
            whole = value + own[f"{name}{WAITING}"]
            row_RW = rows_of(whole)
            largest_first = row_RW.square().sum(1).argsort(descending=True, stable=True)
            goes_R = torch.zeros(len(row_RW), dtype=torch.bool)
            goes_R[largest_first[: self.count(len(row_RW))]] = True
            zero = torch.zeros((), dtype=row_RW.dtype)
            sent[name] = torch.where(goes_R[:, None], row_RW, zero).reshape(value.shape)
            kept[f"{name}{WAITING}"] = torch.where(goes_R[:, None], zero, row_RW).reshape(
                value.shape
            )
        return sent, kept

    def packed(self, sent: Packed) -> Packed:
        count = self.count(sent.rows)
        if count >= sent.rows:
            return sent
        return replace(sent, rows=count, beside=sent.beside + count * PLACE)

    def interpretation(self) -> str:
        if self.neutral:
            return ""
        return (
            f"the {100 * self.share:g} % of rows that changed most travel with their places, the "
            "others wait on the device: the server can read which items moved a client most, and "
            "which of these were liked"
        )


# Shorter rows.


@register("random_projection")
@dataclass(frozen=True)
class RandomProjection(Transform):
    """Each row travels as `width` numbers: its coordinates in a random subspace, which is another
    in every round and which everybody knows. The server goes back by the transposed map, scaled so
    that the mean over subspaces is the row itself. Rows that are no longer than `width` stay.

    The map is the same for all clients of a round, so the server may go back from their sum.

    >>> RandomProjection(width=8).packed(Packed.of((10, 32), width=4)).size
    320
    """

    width: int = 8

    def check(self, method: Method) -> None:
        if self.width < 1:
            raise TacitError(f"width of RandomProjection is {self.width}; it must be at least 1.")

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"projected"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"dense"})

    def encode(self, change: Params, own: Params, draws: UploadDraws) -> tuple[Params, Params]:
        code = {}
        for name, value in change.items():
            row_RW = rows_of(value)
            short = row_RW.shape[1] <= self.width
            code[name] = value if short else row_RW @ self._basis(name, row_RW.shape[1], draws)
        return code, own

    def decode(
        self, code: Params, shapes: Mapping[str, tuple[int, ...]], draws: UploadDraws
    ) -> Params:
        change = {}
        for name, value in code.items():
            length = Packed.of(shapes[name], width=1).row_width
            change[name] = value
            if length > self.width:
                basis_WK = self._basis(name, length, draws)
                change[name] = (length / self.width * value @ basis_WK.T).reshape(shapes[name])
        return change

    def _basis(self, name: str, length: int, draws: UploadDraws) -> Tensor:
        return _random_basis(replace(draws, user_key=0), name, length, self.width)

    def packed(self, sent: Packed) -> Packed:
        return replace(sent, row_width=min(sent.row_width, self.width))

    def interpretation(self) -> str:
        return (
            f"rows travel as {self.width} numbers each, through a random map that everybody knows: "
            "rows of zeros stay zeros, so it hides nothing"
        )


@lru_cache(maxsize=64)
def _random_basis(draws: UploadDraws, name: str, length: int, width: int) -> Tensor:
    """(length, width): an orthonormal basis of a subspace, each equally likely. Signs are such that
    the basis, too, depends on the draw alone."""
    basis_WK, upper_KK = torch.linalg.qr(draws.public(name, (length, width)))
    return basis_WK * torch.sign(torch.diagonal(upper_KK))
