"""What a method costs a device: numbers held, bytes at rest and at peak, bytes that travel."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tacit.analysis.finding import Column, Finding, Table, word
from tacit.analysis.finished import FinishedRun
from tacit.experiment.amounts import bytes_text, whole_text
from tacit.experiment.figures import colour, new_figure
from tacit.experiment.names import dataset_name

COLUMNS = (
    Column("run", word),
    Column("dataset", word),
    Column("parameters", whole_text),
    Column("at rest", bytes_text),
    Column("at peak", bytes_text),
    Column("up", bytes_text),
    Column("down", bytes_text),
    Column("exchanges", whole_text),
    Column("to best round", bytes_text),
)
SHADES = {  # what a column is called in the figure, in the order of colours
    "at rest": "at rest",
    "at peak": "at peak",
    "up": "up",
    "down": "down",
    "to best round": "up and down",
}


def cost(runs: Sequence[FinishedRun]) -> Finding:
    """Costs per client, and of all clients up to the selected round; runs need not be alike."""
    rows, uncounted, sentences = [], [], []
    for run in runs:
        counted, measured = _held(run), run.result["cost"]
        if counted is None:
            uncounted.append(run.name)
            parameters = None
            rest, peak = measured.get("client_bytes"), measured.get("client_bytes_at_peak")
        else:
            parameters, rest, peak = counted
        rows.append(
            (
                run.name,
                dataset_name(run.experiment.data.name),
                parameters,
                rest,
                peak,
                measured.get("bytes_up"),
                measured.get("bytes_down"),
                measured.get("exchanges"),
                measured.get("bytes_total_to_selected_round"),
            )
        )
    if uncounted:
        sentences.append(
            f"{', '.join(uncounted)}: no expression over parts, so the leaves of a client are not "
            "counted here, and what its result says stands instead."
        )
    sentences += [
        "At rest: its own leaves and its copy of the shared ones. At peak: with a table that only "
        "comes by, as at a guidance; gradients and the batch come on top.",
        "Up and down are bytes per client and exchange, exchanges and bytes to the best round are "
        "those of all clients.",
    ]
    table = Table("cost", "Cost on the device and on the wire", COLUMNS, tuple(rows))
    return Finding("cost", (table,), _figure(table), tuple(sentences))


def _held(run: FinishedRun) -> tuple[int, int, int] | None:
    """Parameters that a client keeps, and bytes at rest and at peak."""
    if not run.composed:
        return None
    rest, peak = run.algorithm.floats_on_client, run.algorithm.floats_at_peak
    width = 8 if run.experiment.precision == "float64" else 4
    return rest, rest * width, peak * width


def _figure(table: Table) -> Figure:
    """A panel for each kind of bytes; a bar carries its number, since sizes differ by far."""
    records = table.records()
    panels_of = {
        "held by a client": ("at rest", "at peak"),
        "per client and exchange": ("up", "down"),
        "all clients, to the best round": ("to best round",),
    }
    figure, panels = new_figure(3, width=3.8, height=1.9 + 0.55 * len(records))
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
        names = [f"{record['run']}\n{record['dataset']}" for record in records]
        panel.set_yticks(range(len(records)), names if panel is panels[0] else [])
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
    return figure
