"""FedMR's ablations on NineRec KU, on two backbones, and habits of its released code by name."""

from __future__ import annotations

from dataclasses import replace

from tacit.benchmarks.tables.definition import Column, Row, Setting, Table
from tacit.benchmarks.tables.fedmr_ku import DATA, KU_DATA
from tacit.benchmarks.tables.fusion_print import ABLATIONS, printed
from tacit.benchmarks.tables.fusion_rows import BASES, GAIN, HIT, LOOKED, Base, fused_row

NOISE = ("fedmr", "clip:bound=1.0", "gaussian:sigma=0.31623")  # √0.1 of the bound
RELEASED = "fedmr:without=image,restores=false,softmaxes=2,router=shared,sends=last_gradient"
# (plug-ins, sets) by what the row is called
VARIANTS: dict[str, tuple[tuple[str, ...], Setting]] = {
    "fedmr": (("fedmr",), ()),
    "no image": (("fedmr:without=image",), ()),
    "noise for image": (("fedmr:noise=image",), ()),
    "no text": (("fedmr:without=text",), ()),
    "noise for text": (("fedmr:noise=text",), ()),
    "no id": (("fedmr:without=id",), ()),
    "content shuffled": (("fedmr:shuffled=true",), ()),
    "shared router": (("fedmr:router=shared",), ()),
    "per-item router": (("fedmr:rule=item",), ()),
    "half of the clients": (("fedmr",), ("participation.ratio=0.5",)),
    "noise on uploads (no guarantee)": (NOISE, ()),
    "released: no restore": (("fedmr:restores=false",), ()),
    "released: two softmaxes": (("fedmr:softmaxes=2",), ()),
    "released: all": ((RELEASED,), ()),
}
# bounding an upload needs every client's whole gradient, and a round takes seconds
SLOW = {"noise on uploads (no guarantee)": (40, 10)}


def _rows_of(base: Base) -> tuple[Row, ...]:
    rows = []
    for name, (plugins, sets) in VARIANTS.items():
        long = replace(base, fused_length=SLOW.get(name, base.fused_length))
        rows.append(fused_row(long, name, *plugins, sets=sets))
    return tuple(rows)


WHY: dict[tuple[str, str, Column], str] = {}

FEDMR_ABLATIONS = Table(
    name="fedmr-ablations",
    title="FedMR, Tables 3, 4 and 6: ablations on NineRec KU",
    rows=(*_rows_of(BASES["fcf"]), *_rows_of(BASES["pfedrec"])),
    datasets=(KU_DATA,),
    metrics=(HIT, GAIN),
    settings=4,
    paper="fedmr",
    printed=printed(DATA, ABLATIONS),
    why=WHY,
    tolerance=2.0,
    warmth=True,
    notes=(
        LOOKED,
        "Every row is `+ fedmr` with one thing changed. `no` drops an input after its projection; "
        "`noise for` puts one fixed draw of the same norm per item in its place (released code "
        "draws anew at every pass, about 22 times larger); `content shuffled` gives every item "
        "another item's text and image.",
        "`noise on uploads`: each upload, all leaves together, is bounded to L2 norm 1, and every "
        "entry gets Gaussian noise of standard deviation √0.1 of that bound, which is how we read "
        "the paper's variance of 0.1 (it names no bound; its released code never calls its noise). "
        "No epsilon is claimed.",
        "`half of the clients` draws half of them uniformly in each round; the papers plot this "
        "and print no number. Nor do they print routers.",
        "`released` rows are diagnostic. `no restore`: nobody finds their scorer and router again, "
        "so rankings differ by the mask alone. `two softmaxes`: weights stay within 0.21 and 0.58. "
        "`all`: both, a shared router, gradients of the last batch alone, and no image, because "
        "the code ships with zeros in its place; `no image` is that last habit on its own, up to "
        "the bias of a projection.",
        "Both columns choose the round by validation HR@50, looked at every fifth round, and end "
        "20 rounds after the last better one.",
    ),
)
