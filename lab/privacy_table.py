"""`python -m lab.privacy_table`: what a budget of privacy costs, method by method.

Rows are methods, columns are values of epsilon. Every number has two forms: with the settings that
`--with private` takes by itself, which were fixed on other data, and with the best of a few on
validation, which the guarantee does not cover. Cells are filled as those of any table
(`lab/fill.py`): in order, up to a budget of hours, and again from there. Fixed settings come first,
with all their draws. The attack (`tacit/attack/presence.py`) is made once for each method, epsilon
and dataset, with the fixed settings.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from lab.definition import Data, Metric, Overrides, Place, Row, Table
from lab.fill import NOT_YET, Filling, Only
from lab.results import AttackCell, Results, values_of
from tacit.attack.presence import attack_presence
from tacit.cli import settings as options
from tacit.cli.main import main
from tacit.cli.output import say
from tacit.cli.progress import Bar
from tacit.cli.settings import cores, ready_to_compute
from tacit.engines.select import require_device
from tacit.evaluation.significance import Spread
from tacit.experiment.amounts import DASH
from tacit.experiment.callbacks import Callback
from tacit.experiment.charts import colour, legend_outside, marker, new_figure, save_figure
from tacit.study.runner import Job, JobOutcome
from tacit.study.study import digest
from tacit.study.writer import as_markdown as table_in_markdown

NAME = "privacy"
PUBLISHED = Path("docs", "results")
DELTA = 1e-5
EPSILONS: tuple[float | None, ...] = (None, 20.0, 8.0, 4.0, 2.0, 1.0)
METRICS: tuple[Metric, ...] = (("full", "HR@10"), ("full", "NDCG@10"))
TRIED = 4
LONG = 100  # rounds of methods that train
DRAWS, FEW_DRAWS = 60, 6  # of an attack, with each person and without; few over LONG rounds

Form = Literal["fixed", "chosen"]
SAID: dict[Form, str] = {
    "fixed": "settings fixed beforehand, the same for all data (their origin: see above)",
    "chosen": "settings chosen on validation: **selection not covered**",
}


@dataclass(frozen=True)
class Family:
    """A method over all values of epsilon; `tried` are its settings beside the fixed ones."""

    name: str
    method: str
    tried: tuple[Overrides, ...]
    plugins: tuple[str, ...] = ()
    preset: str = "paper"
    rounds: int = 24  # closed forms end by themselves
    evaluate_every: int = 1
    ordered: bool = False  # needs times
    drawn: bool = True  # has first values that are drawn, so that seeds differ without noise, too

    def row(self, epsilon: float | None, form: Form) -> Row:
        """The method at one epsilon; without one it is the plain method."""
        claim: tuple[str, ...] = ()
        if epsilon is not None:
            chosen = ",selection=uncovered" if form == "chosen" else ""
            claim = (f"private:epsilon={epsilon:g},delta={DELTA:g}{chosen}",)
        free = form == "fixed"
        # a claim takes the last round, whatever validation says of the others
        only_last = self.evaluate_every > 1 and free and epsilon is not None
        return Row(
            row_name(self, epsilon, form),
            self.method,
            preset=self.preset,
            plugins=(*self.plugins, *claim),
            on=(("citeulike-a", ("protocol.split.order=random",)),),
            settings=((),) if free else ((), *self.tried),
            rounds=self.rounds,
            search_rounds=self.rounds,
            evaluate_every=self.rounds if only_last else self.evaluate_every,
            seeded=self.drawn or epsilon is not None,
            free=free,
        )


def row_name(family: Family, epsilon: float | None, form: Form) -> str:
    """The name of a row in the results file.

    >>> row_name(FAMILIES[0], 8.0, "chosen")
    'fednext, epsilon 8, chosen'
    """
    spent = "no noise" if epsilon is None else f"epsilon {epsilon:g}, {form}"
    return f"{family.name}, {spent}"


RECENT = "recency:half_life=2.8,floor=0.02"
NEAR = (
    ("item_power=0.15", "past=1.0"),
    ("cut=2.0", "recency.floor=0.0"),
    ("past=4.0", "recency.half_life=1.4", "column_power=-0.1"),
)
ALL = (("ridge=8.0",), ("cut=2.0",), ("column_power=0.0",))
ALS = (("dim=8",), ("iterations=3",), ("dim=32", "cut=3.0"))
SPECTRUM = (("cut=3.0",), ("width=8", "cut=3.0"), ("iterations=3",))
TRAINED = (
    ("privacy.clip=0.1",),
    ("privacy.clip=0.1", "rounds=20", "evaluate_every=20"),
    ("rounds=20", "evaluate_every=20"),
)

POPULARITY = "popularity"
FAMILIES = (
    Family("fednext", "fednext", NEAR, ordered=True, drawn=False),
    Family("fedease", "fedease", ALL, drawn=False),
    Family("fedease + recency", "fedease", ALL, (RECENT,), ordered=True, drawn=False),
    Family("fedspectral", "fedspectral", SPECTRUM),
    Family("dpals", "dpals", ALS),
    Family("dpals, public features", "dpals", ALS, preset="content", drawn=False),
    Family(POPULARITY, "fedpop", (), drawn=False),
    Family("fedmf", "fedmf", TRAINED, rounds=LONG, evaluate_every=10),
    Family("pfedrec", "pfedrec", TRAINED, rounds=LONG, evaluate_every=10),
)
NOTES = (
    """\
User-level privacy at delta 1e-5, secure-sum view: a server that sees the sum of each round and who
took part. `tacit train METHOD --data DATA --with private:epsilon=8` is such a cell.""",
    """\
Seeds draw the noise and, where there are any, first values; the split is by time and the same for
all. Without noise a method takes its best round or setting on validation, as everywhere, and one in
which nothing is drawn runs once.""",
    """\
The attacker is the strongest server that a secure sum allows: it sees the noisy sums of all rounds,
knows what everybody else sent and what one person would send, and tells by the likelihood ratio
whether that person was there. AUC is the probability that it ranks a run with the person above one
without: 50 is chance, 100 is certainty. It is the mean over 50 people of the data, with their own
uploads and with fixed settings, and a bootstrap interval over these people. Whoever is at the bound
in all rounds is told apart as well as the budget allows, whatever the method.""",
    """\
The fixed settings come from a search by validation HR@10 at epsilon 8, 4, 2 and 1, relative to the
best of each dataset: among 90 settings for fednext, 8 for fedease and 24 with recency, 14 for
fedspectral, 30 for dpals and 22 with features, in a program that was written before these methods,
with two to six draws. With each dataset left out in turn, the
others choose these settings for fednext and fedspectral on every dataset of ml-1m, amazon-video and
ml-100k; for fedease on these three, and on citeulike-a but for what needs an order; for fedease +
recency on two of three (ml-100k would speak of the latest 50 items in place of 100, without a prior
mean); for dpals on amazon-video and citeulike-a (ml-1m would take a width of 8, ml-100k three
iterations); for dpals with features on all but citeulike-a. fedmf and pfedrec have the settings of
their papers, 100 rounds, and a bound that follows the median norm.""",
    """\
Which settings were searched, and the form of the rule for the share of the counts, were drawn by
hand after looks at validation and test on all four datasets. So these numbers say what the settings
give, and a claim that covers them needs data that nobody has looked at.""",
    """\
The other form takes the best of four settings by validation NDCG@10 of seed 0, for each method,
epsilon and dataset by itself. A chosen setting may do worse on test than the fixed one.""",
    """\
Somebody at the bound in all releases is told apart with an AUC of 99.3, 88.1, 74.3, 63.9 and 57.5
at epsilon 20, 8, 4, 2 and 1: the closed form for Gaussian noise. Whoever sends less is hidden
better. An attack on 100 rounds of fedmf or pfedrec has 6 draws a person; all others have 60.""",
    """\
Each cell of the JSON file has the versions that it ran with; most have torch 2.11.0. Those took two
shortcuts that `tacit` does not have, and their `engine` does not say so. Inverses from 3,000
rows on were taken on a GPU, in the same precision. From 8,000 items on, scores of fedease, and of
fednext under a claim, were summed over the rows of a history. Four such cells were run again with
torch 2.13.0 and without shortcuts, and both metrics are the same in all digits: seed 1 of fednext
and fedease at epsilon 8 and of fedease + recency at 2 on ml-1m, of fedease at 8 on
amazon-video. Chosen cells of fedease on amazon-video and citeulike-a, and the one without noise on
citeulike-a, ran with `--device cuda`, and their `engine` says so: the server's step is computed
there.""",
    """\
fedmf and pfedrec train for 100 rounds, and where noise drowns them rounding decides. fedmf on
ml-100k at epsilon 2, seed 0, has HR@10 0.42 here and 0.95 with torch 2.13.0. A change of the first
sum by one part in ten million moves the latter to 0.53 or 1.17; at epsilon 20 it moves nothing.""",
    """\
ml-1m, ml-100k and citeulike-a have text as public features; amazon-video has none here. citeulike-a
has no times: its held-out items are drawn, and rows that need an order are left out.""",
)


def the_table() -> Table:
    """The table as `lab` has it: a row for each method, epsilon and form."""
    rows = [
        family.row(epsilon, form)
        for family in FAMILIES
        for epsilon in EPSILONS
        for form in forms_of(family, epsilon)
    ]
    ordered = tuple(
        row_name(family, epsilon, form)
        for family in FAMILIES
        for epsilon in EPSILONS
        for form in forms_of(family, epsilon)
        if family.ordered
    )
    public = tuple(row.name for row in rows if row.preset == "content")
    return Table(
        NAME,
        "What a budget of privacy costs",
        tuple(rows),
        (
            Data("ml-100k"),
            Data("ml-1m"),
            Data("amazon-video", without=public),
            Data("citeulike-a", without=ordered),
        ),
        METRICS,
        TRIED,
        notes=NOTES,
        seeds=5,
    )


def forms_of(family: Family, epsilon: float | None) -> tuple[Form, ...]:
    """Without noise there is one form, and where nothing can be chosen as well."""
    return ("fixed", "chosen") if epsilon is not None and family.tried else ("fixed",)


# What is written.


def as_markdown(table: Table, results: Results, out: Path) -> str:
    """The whole file."""
    done = len(results.done)
    lines = [
        f"# {table.title}",
        "",
        f"Written by `make table-privacy`: {done} of {len(results.cells)} cells run, seeds 0 to "
        f"{results.seeds - 1}. Numbers are percent, full ranking, clean protocol: the mean over "
        "seeds ± half of its 95 % interval (Student's t), the number of seeds in brackets.",
        "",
        *(f"- {' '.join(note.split())}" for note in table.notes),
        "",
    ]
    for data in table.datasets:
        lines += [f"## {data.name}", ""]
        for metric in table.metrics:
            for form, said in SAID.items():
                lines += [f"{metric[1]}, {said}.", ""]
                lines += [_block(table, data, form, partial(cell, results, metric=metric)), ""]
                lines += _below_popularity(table, results, data, form, metric)
        lines += ["AUC of the attack on the sums, settings fixed beforehand.", ""]
        lines += [_block(table, data, "fixed", partial(attacked, results)), ""]
    lines += ["## What was chosen on validation", "", *_choices(table, results)]
    return "\n".join(lines).rstrip() + "\n"


def _block(table: Table, data: Data, form: Form, text: Callable[[Place | None], str]) -> str:
    heads = ["method", *("no noise" if e is None else f"ε = {e:g}" for e in EPSILONS)]
    body = []
    for family in FAMILIES:
        places = dict(places_of(table, data, family, form))
        if places and (form == "fixed" or family.tried):
            body.append([family.name, *(text(places.get(epsilon)) for epsilon in EPSILONS)])
    return table_in_markdown(heads, body)


def _below_popularity(
    table: Table, results: Results, data: Data, form: Form, metric: Metric
) -> Sequence[str]:
    """Which methods a count of items under the same claim beats, and at which epsilon."""

    def means(family: Family) -> dict[float | None, float]:
        return {
            epsilon: Spread.of(values).mean
            for epsilon, place in places_of(table, data, family, form)
            if (values := values_of(results, place, metric))
        }

    floor = means(next(family for family in FAMILIES if family.name == POPULARITY))
    found = []
    for family in FAMILIES:
        if family.name == POPULARITY or (form == "chosen" and not family.tried):
            continue
        below = [
            f"{epsilon:g}"
            for epsilon, mean in means(family).items()
            if epsilon is not None and mean < floor.get(epsilon, -math.inf)
        ]
        if below:
            found.append(f"{family.name} at {', '.join(below)}")
    said = "; ".join(found) or "no method that was run"
    return [f"Mean below that of popularity under the same epsilon: {said}.", ""]


def places_of(
    table: Table, data: Data, family: Family, form: Form
) -> Iterator[tuple[float | None, Place]]:
    """The places of a method on a dataset, by epsilon."""
    # the table's own places, which know their experiments already
    places = {place.row.name: place for place in table.places if place.data is data}
    for epsilon in EPSILONS:
        taken = form if form in forms_of(family, epsilon) else "fixed"
        place = places.get(row_name(family, epsilon, taken))
        if place is not None:
            yield epsilon, place


def cell(results: Results, place: Place | None, *, metric: Metric) -> str:
    """A number with its interval, or that there is none yet."""
    if place is None:
        return DASH
    values = values_of(results, place, metric)
    if not values:
        return NOT_YET if place.problem is None else f"not run ({place.problem})"
    spread = Spread.of(values)
    if spread.deviation is None:
        return f"{spread.mean:.2f} (1)"
    return f"{spread.mean:.2f} ± {spread.half_width():.2f} ({spread.seeds})"


def attacked(results: Results, place: Place | None) -> str:
    """What the attack came to, in percent, with its interval."""
    found = None if place is None else attack_of(results, place)
    if found is None:
        return DASH if place is None else NOT_YET
    failed = "" if found.controls_passed else ", a control failed"
    return f"{100 * found.auc:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]{failed}"


def attack_of(results: Results, place: Place) -> AttackCell | None:
    """The attack on a place as it is defined today; None where there is none."""
    found = results.attacks.get(place.key)
    if found is None or place.problem is not None or found.digest != attack_digest(place):
        return None
    return found


@cache
def attack_digest(place: Place) -> str:
    return digest(place.experiment(place.settings[0], 0))


def _choices(table: Table, results: Results) -> Iterator[str]:
    for place in table.places:
        setting = results.setting_of(place)
        if not place.row.free and setting is not None:
            named = ", ".join(setting) or "the fixed settings"
            yield f"- {place.row.name} | {place.data.name}: {named}"


def draw(table: Table, results: Results, out: Path) -> Sequence[Path]:
    """HR@10 against epsilon, one panel for each dataset, with fixed settings. Methods that train
    over many rounds have broken lines."""
    known = {cell.dataset for cell in results.done}
    datasets = [data for data in table.datasets if data.name in known] or table.datasets[:1]
    figure, axes = new_figure(len(datasets), width=3.6, height=3.6)
    for axis, data in zip(axes, datasets, strict=True):
        for number, family in enumerate(FAMILIES):
            points = [
                (epsilon, Spread.of(values))
                for epsilon, place in places_of(table, data, family, "fixed")
                if epsilon is not None and (values := values_of(results, place, METRICS[0]))
            ]
            if not points:
                continue
            middles = [spread.mean for _, spread in points]
            widths = [spread.half_width() or 0.0 for _, spread in points]
            axis.errorbar(
                [epsilon for epsilon, _ in points],
                middles,
                widths,
                label=family.name,
                color=colour(number),
                marker=marker(number),
                markersize=4,
                linewidth=1.2,
                linestyle="-" if family.rounds < LONG else "--",
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks([1, 2, 4, 8, 20], ["1", "2", "4", "8", "20"])
        axis.set_xlim(0.9, 23)
        axis.set_ylim(bottom=0)
        axis.set_title(data.name)
        axis.set_xlabel("epsilon, at delta 1e-5")
    axes[0].set_ylabel("HR@10, percent")
    legend_outside(figure, axes[0])
    return save_figure(figure, out / NAME)


# The attacks.


@dataclass
class AttackOutcome(JobOutcome):
    """What came of one attack."""

    place: Place
    found: AttackCell


def attack_place(place: Place, callback: Callback) -> AttackOutcome:
    """Attack the first draw of a place."""
    began, experiment = time.perf_counter(), place.experiment(place.settings[0], 0)
    found = attack_presence(experiment, draws=DRAWS if place.row.rounds < LONG else FEW_DRAWS)
    cell = AttackCell(
        auc=found.auc.mean,
        low=found.auc.low,
        high=found.auc.high,
        targets=found.targets,
        draws=found.draws,
        releases=found.releases,
        controls_passed=all(control.passed for control in found.controls),
        seconds=time.perf_counter() - began,
        digest=digest(experiment),
    )
    return AttackOutcome(place, cell)


def attack_all(filling: Filling) -> None:
    """All attacks that are missing, as far as the budget of the filling goes."""

    def absorb(job: Job[AttackOutcome], outcome: AttackOutcome) -> None:
        filling.results.attacks[outcome.place.key] = outcome.found
        filling.report(f"attack    {outcome.place.key}: {outcome.found.auc:.3f}")
        filling.write()

    wanted = [p for p in filling.table.places if is_fixed(p) and filling.asks_for(p.key)]
    missing = [p for p in wanted if p.problem is None and attack_of(filling.results, p) is None]
    filling.run((Job(place.key, partial(attack_place, place)) for place in missing), absorb)


def is_fixed(place: Place) -> bool:
    """Whether settings were fixed beforehand."""
    return place.row.free


app = typer.Typer(name="lab.privacy_table", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def privacy(
    budget: Annotated[
        float, typer.Option(help="Hours; nothing is begun after them.", metavar="HOURS")
    ] = 1.4,
    seeds: Annotated[int, typer.Option(help="Run with seeds 0 to N-1.", metavar="N")] = 5,
    only: Only = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the table to docs/results as well.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Rows at the same time. Default: the cores.", metavar="N")
    ] = None,
    threads: options.Threads = None,
    device: options.Device = None,
) -> None:
    """Fill the table of privacy; finished cells are used again, and a stopped table goes on."""
    ready_to_compute()
    if device is not None:
        require_device(device)
    out = Path("runs", "tables", NAME)
    filling = Filling(
        replace(the_table(), device=device or "cpu"),
        out,
        seeds=seeds,
        budget=budget * 3600,
        only=only or (),
        threads=threads or 1,
        workers=workers if workers is not None else cores(),
        published=PUBLISHED,
        publish=PUBLISHED if publish else None,
        callbacks=Bar(),
        first=is_fixed,
        render=as_markdown,
        report=say,
    )
    results = filling.fill()
    attack_all(filling)
    figures = draw(filling.table, results, out)
    written = (filling.markdown_file, results.path, *figures)
    say(f"written   {', '.join(str(path) for path in written)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], app))
