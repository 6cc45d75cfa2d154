"""What MDiffFR needs: guidance, attention, width; what noise on uploads costs; its light form."""

from __future__ import annotations

from tacit.benchmarks.tables.coldstart import ML_100K
from tacit.benchmarks.tables.coldstart_rows import METRICS, PLAIN
from tacit.benchmarks.tables.definition import Row, Table

OURS = "mdifffr:preset=tuned"


def fixed(name: str, plugins: tuple[str, ...], width: int = 64, sets: tuple[str, ...] = ()) -> Row:
    """A row with nothing to choose: the clients' rates are the paper's.

    >>> fixed("mdifffr", ("mdifffr",)).free
    True
    """
    return Row(
        name,
        "pfedrec",
        plugins,
        sets=(f"backbone.dim={width}", "sampling.negatives=5", PLAIN, *sets),
        rounds=60,
        search_rounds=60,
        evaluate_every=10,
        free=True,
    )


def _guidance(name: str, plugin: str) -> tuple[Row, ...]:
    joined = "," if ":" in plugin else ":"
    blind = {"no guidance": "none", "zero": "zero", "random": "random"}
    return (
        fixed(name, (plugin,)),
        *(
            fixed(f"{name}, {said}", (f"{plugin}{joined}guidance={kind}",))
            for said, kind in blind.items()
        ),
    )


def _laplace(scale: int) -> Row:
    plugins = (OURS, f"laplace:scale={scale}") if scale else (OURS,)
    return fixed(f"ours, Laplace noise {scale} (no guarantee)", plugins)


ROWS = (
    *_guidance("mdifffr", "mdifffr"),
    fixed("mdifffr, no attention", ("mdifffr:fusion=concatenated",)),
    fixed("light mdifffr", ("light_mdifffr",)),
    *_guidance("ours", OURS),
    fixed("ours, share 0 (the linear map alone)", (OURS,), sets=("cold.share=0.0",)),
    fixed("ours, share 1", (OURS,), sets=("cold.share=1.0",)),
    fixed("ours, attention", (f"{OURS},fusion=attention",)),
    fixed("ours, light", ("light_mdifffr:preset=tuned",)),
    *(fixed(f"ours, width {width}", (OURS,), width) for width in (16, 32, 128)),
    *(_laplace(scale) for scale in (1, 10, 20, 30, 40, 50)),
)

COLDSTART_ABLATIONS = Table(
    name="coldstart-ablations",
    title="MDiffFR, its ablations",
    rows=ROWS,
    datasets=(ML_100K,),
    metrics=METRICS,
    settings=1,
    split_seeds=True,
    cold=True,
    notes=(
        "Nothing is chosen here but the round, on validation; clients have the paper's rates.",
        "Guidance of zeros, random guidance and none carry nothing of an item: such rows belong at "
        "chance, up to the luck of one draw of noise.",
        "Laplace noise of that scale lies on every entry of every uploaded change. Nothing is "
        "clipped, so it gives no guarantee.",
        "What the generator takes on the server, in seconds a round, stands beside the numbers.",
    ),
)
