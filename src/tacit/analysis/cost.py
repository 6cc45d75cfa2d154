"""What a method costs a device: numbers held, bytes at rest and at peak, bytes that travel."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.core.compose import ComposedAlgorithm
from tacit.experiment.amounts import bytes_text, whole_text
from tacit.experiment.charts import colour, new_figure
from tacit.experiment.names import dataset_name

WHO = (Column("run", word), Column("dataset", word), Column("privacy", word))
DEVICE = (
    Column("trained", whole_text),
    Column("stored", whole_text),
    Column("at rest", bytes_text),
    Column("at peak", bytes_text),
)
WIRE = (
    Column("once", bytes_text),
    Column("up", bytes_text),
    Column("down", bytes_text),
    Column("exchanges", whole_text),
    Column("to best round", bytes_text),
)
SHADES = {  # what a column is called in the figure, in the order of colours
    "at rest": "at rest",
    "at peak": "at peak",
    "once": "once, content",
    "up": "up",
    "down": "down",
    "to best round": "up and down",
}


def cost(runs: Sequence[FinishedRun]) -> Finding:
    """Costs per client, and of all clients up to the selected round; runs need not be alike."""
    held, sent, uncounted, sentences = [], [], [], []
    data = [run.experiment.data.name for run in runs]
    for run in runs:
        counted, measured = _held(run), run.record.cost
        if counted is None:
            uncounted.append(run.name)
            # only composed methods tell the peak and the content that is sent once
            peak, once = measured.client_bytes_at_peak, measured.bytes_once
            counted = (None, None, measured.client_bytes, peak, once)
        elif run.algorithm.reads_content:
            sentences.append(_fused(run))
        privacy = run.record.privacy.short
        who = (run.name, dataset_name(run.experiment.data.name, data), privacy)
        held.append((*who, *counted[:4]))
        sent.append(
            (
                *who,
                counted[4],
                measured.bytes_up,
                measured.bytes_down,
                measured.exchanges,
                measured.bytes_total_to_selected_round,
            )
        )
    if uncounted:
        sentences.append(
            f"{', '.join(uncounted)}: no expression over parts, so the parameters of a client are "
            "not counted here, and what its result says stands instead."
        )
    sentences += [
        "Trained: numbers that local training moves. Stored (in bytes: at rest): its own "
        "parameters, its copy of the shared ones, content. At peak: with a table that only comes "
        "by, as at a guidance; gradients and the batch come on top.",
        "Once: content, before the first round, not part of the total. Up and down are bytes per "
        "client and exchange, exchanges and bytes to the best round are those of all clients.",
        *_privacy(runs),
    ]
    device = Table("cost", "Cost on the device", (*WHO, *DEVICE), tuple(held))
    wire = Table("cost-wire", "Cost on the wire", (*WHO, *WIRE), tuple(sent))
    return Finding("cost", (device, wire), _figure(device, wire), tuple(sentences))


def _privacy(runs: Sequence[FinishedRun]) -> list[str]:
    """What the bytes tell whoever receives them, with the guarantee that goes with it."""
    return [
        f"{run.name}, {run.record.privacy.text}: {'; '.join(run.record.privacy.server_reads)}."
        for run in runs
    ]


Counted = tuple[int | None, int | None, int | None, int | None, int | None]


def _held(run: FinishedRun) -> Counted | None:
    """Numbers that a client trains and stores, and bytes at rest, at peak and received once."""
    if not run.composed:
        return None
    algorithm = run.algorithm
    rest, peak, once = algorithm.floats_on_client, algorithm.floats_at_peak, algorithm.floats_once
    width = 8 if run.experiment.precision == "float64" else 4
    return trained_numbers(algorithm), rest, rest * width, peak * width, once * width


def trained_numbers(algorithm: ComposedAlgorithm) -> int:
    """How many numbers local training moves on one device.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> trained_numbers(compose(fedmf(dim=4), Task(n_users=2, n_items=3)))  # 3 rows and a vector
    16
    """
    guided = algorithm.method.sync.guidance
    gates = guided.gate_parameters if guided is not None else ()
    moved = {
        *algorithm.row_parameters,
        *algorithm.model_parameters,
        *gates,
    } - algorithm.gradients_only
    parameters = {**algorithm.shared, **algorithm.private}
    return sum(parameters[name].count for name in moved)


def _fused(run: FinishedRun) -> str:
    """What papers count, beside what is trained here and there."""
    algorithm = run.algorithm
    whole = sum(init.count for init in (*algorithm.shared.values(), *algorithm.private.values()))
    encoder = algorithm.method.items.viewed
    travel = encoder is not None and encoder.placement == "server"
    where = (
        "made on the server and sent"
        if travel and algorithm.with_server_views
        else "made on the device"
    )
    return (
        f"{run.name}: a client takes part in a model of {whole_text(whole)} parameters (table, "
        "projections, operators, and its own router and scorer), content not counted; views are "
        f"{where}."
    )


def _figure(device: Table, wire: Table) -> Figure:
    """A panel for each kind of bytes; a bar carries its number, since sizes differ by far."""
    records = [a | b for a, b in zip(device.records(), wire.records(), strict=True)]
    panels_of = {
        "held by a client": ("at rest", "at peak"),
        "per client and exchange": ("up", "down"),
        "per client, before the first round": ("once",),
        "all clients, to the best round": ("to best round",),
    }
    if not any(record["once"] for record in records):  # content is rare
        del panels_of["per client, before the first round"]
    figure, panels = new_figure(len(panels_of), width=3.8, height=1.9 + 0.55 * len(records))
    for panel, (title, columns) in zip(panels, panels_of.items(), strict=True):
        thick = 0.8 / len(columns)
        largest = max((record[name] or 0 for record in records for name in columns), default=0)
        for place, name in enumerate(columns):
            y = [at + (place - (len(columns) - 1) / 2) * thick for at in range(len(records))]
            values = [record[name] for record in records]
            shade = colour(list(SHADES).index(name))
            panel.barh(y, [v or 0 for v in values], thick * 0.92, color=shade, label=SHADES[name])
            for at, value in zip(y, values, strict=True):
                panel.text(value or 0, at, f" {bytes_text(value)}", va="center", fontsize=9)
        panel.set_xlim(0, 1.45 * (largest or 1))
        panel.set_xticks([])
        panel.set_title(title, fontsize=11)
        panel.set_xlabel("bytes")
        names = [f"{record['run']}\n{record['dataset']}\n{record['privacy']}" for record in records]
        panel.set_yticks(range(len(records)), names if panel is panels[0] else [])
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
    return figure
