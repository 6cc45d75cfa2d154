"""`tacit attack`: what others can read out of what a run sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json, show
from tacit.cli.settings import cores, ready_to_compute
from tacit.errors import TacitError, argument, shown

if TYPE_CHECKING:
    from tacit.attack.page import Page
    from tacit.experiment.prepare import Prepared
    from tacit.experiment.spec import Experiment

app = typer.Typer(help="Attacks: what others can read out of what a run sends.")


@app.callback()
def attack() -> None:
    """Attacks: what others can read out of what a run sends."""


@app.command("inversion")
def inversion(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs with cold items.")
    ],
    leaked: Annotated[
        float, typer.Option(help="Share of the cold items whose content the attacker knows.")
    ] = 0.2,
    seeds: Annotated[
        int, typer.Option(help="How often: leaked items and attackers are drawn anew.", min=1)
    ] = 5,
    draws: Annotated[
        int, typer.Option(help="Draws of the generator that the attacker averages.", min=1)
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write to. Default: RUN/attack.")
    ] = None,
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Reconstruct the content of cold items from their generated embeddings."""
    from tacit.attack.inversion import invert_runs
    from tacit.attack.inversion_page import inversion_page

    ready_to_compute()
    found = invert_runs(runs, leaked=leaked, seeds=seeds, draws=draws)
    tell(inversion_page(found), runs[0] / "attack" if out is None else out, as_json)


Attacked = Annotated[
    list[str],
    typer.Argument(metavar="METHOD|RUN...", help="Methods of `tacit list`, or folders of runs."),
]


@dataclass(frozen=True)
class AttackFlags:
    """What attacks on methods and runs take beside the experiment."""

    epsilon: Annotated[
        str | None,
        typer.Option(
            help="A series of budgets of the plug-in private, as in none,20,8,4; its other "
            "settings come from --with private:...",
        ),
    ] = None
    seed: options.Seed = None
    threads: options.Threads = None
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write to. Default: RUN/attack, or a new one below runs."),
    ] = None
    imports: options.Import = None
    as_json: options.Json = False


@app.command("interactions")
@options.with_flags
def interactions(
    attacked: Attacked,
    *,
    flags: options.ExperimentFlags,
    more: AttackFlags,
    clients: Annotated[
        str, typer.Option(help="Sums over so many clients, as in 1,10,200; 1 is a single upload.")
    ] = "1",
    targets: Annotated[int, typer.Option(help="How many people are attacked.", min=1)] = 100,
    first: Annotated[
        int, typer.Option(help="The first round that is watched; earlier ones are trained.", min=1)
    ] = 1,
    watched: Annotated[int, typer.Option(help="How many rounds are watched.", min=1)] = 2,
) -> None:
    """Find the items of people's histories in their uploads, or in sums over several clients."""
    from tacit.attack.interactions import Setting, attack_interactions
    from tacit.attack.interactions_page import interactions_page
    from tacit.cli.progress import ItemsBar

    experiments = attacked_experiments(attacked, flags.given(seed=more.seed), more.epsilon)
    setting = Setting(targets, whole_numbers(clients, "clients"), first, watched)
    setting.check()
    ready_to_compute()
    bar = ItemsBar("experiments")
    bar.begin("interactions", len(experiments))
    found = []
    try:
        for one, prepared in experiments:
            threads = more.threads or cores()
            found.append(attack_interactions(one, setting, prepared=prepared, threads=threads))
            bar.advance(len(found))
    finally:
        bar.end()
    tell(interactions_page(found), folder_of(attacked, experiments, more.out), more.as_json)


@app.command("membership")
@options.with_flags
def membership(
    attacked: Attacked,
    *,
    flags: options.ExperimentFlags,
    more: AttackFlags,
    models: Annotated[
        int, typer.Option(help="Models to train: half of them with the person.")
    ] = 100,
    user: Annotated[
        str | None, typer.Option(help="The person to look for. Default: who has the rarest items.")
    ] = None,
    delta: Annotated[float, typer.Option(help="At which the bound on epsilon is told.")] = 1e-5,
    allowed: Annotated[
        float, typer.Option(help="Rate of false alarms at which the rate of true ones is told.")
    ] = 0.05,
) -> None:
    """Tell from a released model whether a person was among those it was made from."""
    from tacit.attack.membership import attack_membership, require_settings
    from tacit.attack.membership_page import membership_page
    from tacit.cli.progress import ItemsBar

    experiments = attacked_experiments(attacked, flags.given(seed=more.seed), more.epsilon)
    require_settings(models, allowed)
    ready_to_compute()
    found, bar = [], ItemsBar("models")
    for one, prepared in experiments:
        bar.begin(one.label, models)
        try:
            found.append(
                attack_membership(
                    one,
                    models=models,
                    person=user,
                    delta=delta,
                    allowed=allowed,
                    prepared=prepared,
                    threads=more.threads or cores(),
                    told=bar.advance,
                )
            )
        finally:
            bar.end()
    tell(membership_page(found), folder_of(attacked, experiments, more.out), more.as_json)


# What several attacks share: whom they attack, and how they tell it.


def attacked_experiments(
    words: Sequence[str], flags: dict[str, Any], epsilons: str | None
) -> list[tuple[Experiment, Prepared | None]]:
    """The experiments that methods or folders of runs mean, each once for every budget; of a run
    with its data, which is that of the run."""
    from tacit.analysis.finished import finished_runs
    from tacit.experiment.resolve import override, resolve
    from tacit.methods import METHODS

    series = [None] if epsilons is None else budgets(epsilons)
    found: list[tuple[Experiment, Prepared | None]] = []
    for word in words:
        if word in METHODS:
            found += [(resolve(word, **with_budget(flags, epsilon)), None) for epsilon in series]
            continue
        if not Path(word).exists():
            raise METHODS.unknown(word)
        if flags:
            raise TacitError(
                f"{shown(word)} is a run, which has its settings already; leave out "
                f"{argument(next(iter(flags)))}, or give a method."
            )
        [run] = finished_runs([word])
        for epsilon in series:
            added = with_budget({}, epsilon).get("plugins", [])
            experiment = override(run.experiment, plugins=added) if added else run.experiment
            found.append((experiment, run.prepared))
    return found


def budgets(text: str) -> list[str]:
    """The members of a series of budgets.

    >>> budgets("none, 8,0.5")
    ['none', '8', '0.5']
    """
    found = [piece.strip() for piece in text.split(",") if piece.strip()]
    for piece in found:
        try:
            good = piece == "none" or float(piece) > 0
        except ValueError:
            good = False
        if not good:
            raise TacitError(
                f"Cannot read {shown(piece)} in --epsilon {shown(text)}; write numbers above 0, or "
                "none, as in none,20,8,4."
            )
    if not found:
        raise TacitError("--epsilon names no budget; write for instance none,20,8,4.")
    return found


def with_budget(flags: dict[str, Any], epsilon: str | None) -> dict[str, Any]:
    """Flags with a budget in their `private`, which is added where it is missing; "none" drops it.

    >>> with_budget({"plugins": ["private:epsilon=1,view=local", "clip"]}, "8")
    {'plugins': ['clip', 'private:view=local,epsilon=8']}
    >>> with_budget({"plugins": ["private"]}, "none")
    {'plugins': []}
    """
    from tacit.plugins.entry import parse

    if epsilon is None:
        return flags
    kept, arguments = [], {}
    for spelling in flags.get("plugins", []):
        name, given = parse(spelling)
        if name == "private":
            arguments = given
        else:
            kept.append(spelling)
    if epsilon != "none":
        arguments = {key: text for key, text in arguments.items() if key != "epsilon"}
        pairs = [f"{key}={text}" for key, text in {**arguments, "epsilon": epsilon}.items()]
        kept.append(f"private:{','.join(pairs)}")
    return {**flags, "plugins": kept}


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Whole numbers with commas between them.

    >>> whole_numbers("1, 10,200", "clients")
    (1, 10, 200)
    """
    try:
        return tuple(dict.fromkeys(int(piece) for piece in text.split(",") if piece.strip()))
    except ValueError:
        raise TacitError(
            f"Cannot read --{name} {shown(text)}; write whole numbers, as in 1,10,200."
        ) from None


def folder_of(
    words: Sequence[str],
    experiments: Sequence[tuple[Experiment, Prepared | None]],
    out: Path | None,
) -> Path:
    """Where an attack writes to: beside a run, or a folder of its own below `runs`."""
    from tacit.experiment.names import data_below, run_name

    if out is not None:
        return out
    first, data_of_run = experiments[0]
    if data_of_run is not None:
        return Path(words[0]) / "attack"
    name = run_name(first, data_below(Path("runs")))
    return options.free_folder(f"attack-{name}")


def tell(page: Page, out: Path, as_json: bool) -> None:
    """Write a page, and print its tables and notes, or its JSON object."""
    from rich.text import Text

    from tacit.cli.output import plain_table

    files = page.write(out)
    if as_json:
        say_json({**page.as_json, "files": [str(path) for path in files]})
        return
    for table in page.tables:
        numbers = len(table.columns) - table.words
        show(plain_table(table.title, table.header, table.texts(), numbers=numbers))
    for note in page.notes:
        show(Text(note))
        say()
    for path in files:
        say(f"written   {path}")
