"""Rows of the fusion tables: five backbones as FedMR and FedVLR run them, and what they carry.

All of them: width 64, one negative per positive drawn anew in each of 5 local epochs, batches of
2048. Four settings each; where the four lie was decided after short looks at KU's validation part,
and not equally many for every row (`LOOKED`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.benchmarks.tables.definition import Metric, Row, Setting, apart

HIT: Metric = ("full", "HR@50")
GAIN: Metric = ("full", "NDCG@50")
# How a round is chosen and when a run ends are those of the paper in both columns: under clean,
# which changes neither pool, mask nor split by it, they stand here.
SELECTED = ("protocol.select_metric=HR@50", "protocol.select_of_equals=first")
STOPPED = ("protocol.patience=20",)
DRAWN = ("sampling.negatives=1", "sampling.redraw=epoch")
COMMON: Setting = (*SELECTED, *STOPPED, *DRAWN)
LOOKED = (
    "Where each row's four settings lie was decided beforehand on KU's validation part, in runs of "
    "10 to 50 rounds with seed 0, mostly under clean, and unequally: 36 such runs of plain FCF, 20 "
    "of FedRAP, 14 of PFedRec, 13 of FedAvg, 7 of FedNCF; with a wide id table or content 47 on "
    "FCF, 14 on PFedRec, 3 on FedAvg, 3 on FedNCF, 1 on FedRAP, and 4 of VBPR. The settings of "
    "rows with few may suit them less."
)


@dataclass(frozen=True)
class Base:
    """A backbone: the rates that its plain row tries (scorer, items), and those of rows with
    content (scorer, items, server's encoder). `per_item` is η of the item rate η·I.

    >>> Base("fcf", ((0.1, 1.0),), ((0.1, 0.1, 0.001),), per_item=1.0).steps("local")[-1]
    'local.items.per_item=1.0'
    """

    method: str
    plain: tuple[tuple[float, float], ...]
    fused: tuple[tuple[float, float, float], ...]
    per_item: float | None = None
    dim: int | None = None  # None: the method's own width is the papers' already
    sets: Setting = ()
    plain_length: tuple[int, int] = (100, 50)  # rounds of a run and of the search
    fused_length: tuple[int, int] = (100, 50)

    def steps(self, local: str) -> Setting:
        """How a device trains, at the path of its local rule."""
        scale = (f"{local}.items.per_item={self.per_item}",) if self.per_item else ()
        return (f"{local}.epochs=5", f"{local}.batch=2048", *scale)


def plain_row(base: Base) -> Row:
    """A backbone without content.

    >>> plain_row(BASES["fcf"]).name
    'fcf'
    """
    dim = (f"backbone.dim={base.dim}",) if base.dim else ()
    return Row(
        base.method,
        base.method,
        sets=(*COMMON, *dim, *base.sets, *base.steps("local")),
        settings=apart("local.model.rate", "local.items.rate", *base.plain),
        rounds=base.plain_length[0],
        search_rounds=base.plain_length[1],
    )


def fused_row(base: Base, name: str, *plugins: str, sets: Setting = ()) -> Row:
    """A backbone with plug-ins of which the first makes its items; the server steps for all.

    >>> fused_row(BASES["fcf"], "fedmr", "fedmr").settings[0][-1]
    'server.encoder.rate=0.001'
    """
    dim = (f"backbone.dim={base.dim}", f"items.width={base.dim}") if base.dim else ()
    scale = (f"server.items.per_item={base.per_item}",) if base.per_item else ()
    return Row(
        f"{base.method} + {name}" if name else base.method,
        base.method,
        plugins,
        sets=(*COMMON, *dim, *base.sets, *base.steps("local.inner"), *scale, *sets),
        settings=tuple(
            (
                f"local.inner.model.rate={scorer}",
                f"local.inner.items.rate={items}",
                f"server.items.rate={items}",
                f"server.encoder.rate={encoder}",
            )
            for scorer, items, encoder in base.fused
        ),
        rounds=base.fused_length[0],
        search_rounds=base.fused_length[1],
    )


def control(name: str, method: str, *sets: str, seeded: bool = False) -> Row:
    """A row that learns nothing from anybody, so it has nothing to choose.

    >>> control("popularity", "popularity").free
    True
    """
    return Row(
        name,
        method,
        sets=(*SELECTED, *sets),
        rounds=1,
        search_rounds=1,
        evaluate_every=1,
        seeded=seeded,
        free=True,
    )


# (scorer, items) and (scorer, items, encoder) where items step at rate·I: the grid of the papers
# without its slow end; FedAvg's and FedNCF's items step at the plain rate, hence the larger numbers
_SCALED = ((0.1, 0.1), (0.1, 1.0), (1.0, 0.1), (1.0, 1.0))
_FUSED = ((0.1, 0.1, 0.001), (0.1, 0.1, 0.01), (1.0, 0.1, 0.003), (0.1, 1.0, 0.003))
_PLAIN_RATE = ((0.1, 50.0), (0.1, 500.0), (1.0, 50.0), (1.0, 500.0))
_PLAIN_FUSED = ((0.1, 50.0, 0.001), (0.1, 50.0, 0.01), (1.0, 50.0, 0.003), (0.1, 500.0, 0.003))
# the papers' first values of an item row are about as small as those of the wide id table here
_SMALL = ("backbone.item_scale=0.05",)

BASES: dict[str, Base] = {
    base.method: base
    for base in (
        Base("fedavg", _PLAIN_RATE, _PLAIN_FUSED, sets=_SMALL),
        Base("fcf", _SCALED, _FUSED, per_item=1.0, sets=_SMALL),
        Base(
            "fedneumf",
            plain=((0.1, 10.0), (1.0, 1.0), (1.0, 10.0), (1.0, 100.0)),
            fused=((0.1, 10.0, 0.001), (0.1, 10.0, 0.01), (1.0, 10.0, 0.003), (0.1, 100.0, 0.003)),
            plain_length=(100, 20),
            fused_length=(100, 20),
        ),
        Base("pfedrec", _SCALED, _FUSED, per_item=1.0, dim=64, sets=_SMALL),
        Base(
            "fedrap",
            plain=((0.1, 0.1), (0.1, 1.0), (1.0, 0.01), (1.0, 0.1)),
            fused=_FUSED,
            per_item=1.0,
            dim=64,
            sets=(*_SMALL, "sync.apart=0.0001", "sync.sparse=0.01"),
            # everybody's own table is 512 wide here, and a round takes seconds
            fused_length=(40, 10),
        ),
    )
}
VBPR = Base(
    "fedvbpr",
    plain=(),
    fused=((1.0, 10.0, 0.01), (1.0, 50.0, 0.003), (1.0, 50.0, 0.01), (0.1, 50.0, 0.01)),
    fused_length=(100, 20),
)
