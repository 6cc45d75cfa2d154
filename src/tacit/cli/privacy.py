"""`tacit privacy`: plan a guarantee before a run, and read what crossed after it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import plain_table, say, say_json, show
from tacit.errors import TacitError
from tacit.experiment.amounts import DASH, bytes_text, whole_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.privacy.plan import Plan

app = typer.Typer(help="Guarantees: plan noise, epsilon and rounds; what crossed in a run.")


@app.callback()
def privacy() -> None:
    """Guarantees: plan noise, epsilon and rounds; what crossed in a run."""


@app.command("plan")
def plan_noise(
    epsilon: Annotated[
        float | None, typer.Option(help="The budget over all releases, as in 8.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="On one release: on a sum, or on an upload in the local view."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Releases that one user takes part in; most often rounds.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="The probability that the promise fails; well below 1 / users.")
    ] = 1e-5,
    view: Annotated[
        str, typer.Option(help="What the server sees: secure_sum (sums alone) or local (uploads).")
    ] = "secure_sum",
    bound: Annotated[
        float, typer.Option(help="The largest norm of one user's upload (what `clip` says).")
    ] = 1.0,
    mechanism: Annotated[
        str, typer.Option(help="gaussian (bound on the L2 norm) or laplace (L1; delta is 0).")
    ] = "gaussian",
    users: Annotated[
        int | None,
        typer.Option(help="How many add to a sum: tells each device's share, and noise of means."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="A PNG file to draw how the numbers trade.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Noise for an epsilon, epsilon for a noise, or rounds for both: give two, get the third."""
    from tacit.privacy.plan import plan

    found = plan(
        epsilon=epsilon,
        noise=noise,
        rounds=rounds,
        delta=delta,
        view=view,
        bound=bound,
        mechanism=mechanism,
        users=users,
    )
    if figure is not None:
        _write_figure(found, figure)
    if as_json:
        say_json(found.as_json())
        return
    _show_plan(found)
    if figure is not None:
        say(f"written   {figure}")


@app.command("ledger")
def show_ledger(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    imports: options.Import = None,
    as_json: options.Json = False,
) -> None:
    """Every parameter that crossed in a run: how often, through what, and who can read it."""
    from tacit.experiment.folder import RunFolder

    record = RunFolder(run).record()
    if record.ledger is None:
        raise TacitError(
            f"The run at {str(run)!r} has no ledger, since an older version of tacit made it; "
            "train again."
        )
    if as_json:
        say_json({"run": str(run), "privacy": record.privacy.text, **asdict(record.ledger)})
        return
    ledger = record.ledger
    columns = ["parameter", "way", "in", "through", "who can read it"]
    columns += ["shape", "bytes", "times", "per client"]
    rows = [
        [
            one.text,
            one.direction,
            one.exchange,
            ", ".join(one.through) or DASH,
            one.readers_text,
            one.shape_text,
            bytes_text(one.bytes),
            whole_text(one.times),
            whole_text(one.times_per_client),
        ]
        for one in ledger.crossings
    ]
    title = (
        f"{record.label} on {record.dataset}, {ledger.rounds:,} {record.unit}{_s(ledger.rounds)}"
    )
    show(plain_table(title, columns, rows, numbers=4))
    say(f"ledger    {ledger.sentence}")
    say(f"privacy   {record.privacy.text}")
    say("public    who took part in which round, how many, the catalogue, and all settings")
    say("not here  the final model that people rank with, and the metrics and losses of a report")


def _show_plan(plan: Plan) -> None:
    from tacit.privacy.plan import FALSE_ALARMS, NOISE_WORDS

    stated = plan.guarantee
    many = f"{stated.releases:,} release{_s(stated.releases)} together"
    rows = [
        ["epsilon", f"{stated.epsilon_per_release:.4f}", f"{stated.epsilon:.4f}"],
        ["delta", f"{stated.delta:g}", f"{stated.delta:g}"],
    ]
    show(plain_table(_title(plan), ["", "one release", many], rows, numbers=2))
    upload, total = "each upload", "the sum of a release"
    where = [
        (upload if stated.view == "local" else total, stated.noise),
        *([(total, plan.noise_on_sum)] if stated.view == "local" else []),
        *([] if stated.view == "local" else [("a device's share of it", plan.noise_of_device)]),
        ("a mean over the users", plan.noise_on_mean),
    ]
    noises = [[name, f"{value:.6g}"] for name, value in where if value is not None]
    show(plain_table(None, ["noise on", NOISE_WORDS[stated.mechanism]], noises, numbers=1))
    say(f"privacy   {stated.text}")
    say(f"adjacent  {stated.adjacency}")
    say(
        f"bound     {stated.bound:g} in the L{stated.norm} norm, so neighbours are at most "
        f"{stated.sensitivity:g} apart; noise is {plan.multiplier:.4g} times the bound"
    )
    test, found = "for one person", f"{plan.found_of_participants:.1%} of those who took part"
    if stated.view == "local":
        test, found = "between two histories", f"{plan.found_of_participants:.1%} of the others"
    say(f"attacker  the best test {test}, with {FALSE_ALARMS:.0%} false alarms, finds {found}")
    if plan.users is not None and stated.view == "secure_sum":
        say("note      shares add up to that noise if all users' shares arrive: give the fewest")
        say("          that may be left after drop-outs, less those who may collude")


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _title(plan: Plan) -> str:
    stated = plan.guarantee
    epsilon, noise = f"ε = {stated.epsilon:.4g}", f"noise {stated.noise:.6g}"
    many = f"{stated.releases:,} release{_s(stated.releases)}"
    if plan.unknown == "noise":
        return f"{epsilon} over {many} needs {noise}"
    if plan.unknown == "epsilon":
        return f"{noise} over {many} has {epsilon}"
    return f"{noise} allows {many}, with {epsilon}"


def _write_figure(plan: Plan, path: Path) -> None:
    from tacit.experiment.charts import DOTS_PER_INCH
    from tacit.files import whole_file

    if path.suffix != ".png":
        raise TacitError(f"The figure {str(path)!r} does not end in .png; name a PNG file.")
    with whole_file(path) as temporary:
        plan_figure(plan).savefig(
            temporary, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None}
        )


def plan_figure(plan: Plan) -> Figure:
    """How the numbers of a plan trade: noise against epsilon, or epsilon against releases."""
    from tacit.experiment.charts import caption, colour, new_figure

    curve, stated = plan.curve, plan.guarantee
    figure, (axes,) = new_figure(width=5.6)
    axes.plot(*zip(*curve.points, strict=True), color=colour(0))
    axes.plot(*curve.at, "o", color=colour(1), markersize=8, clip_on=False)
    axes.annotate(
        f"{curve.at[1]:.4g}",
        curve.at,
        xytext=(8, 8 if curve.x == "epsilon" else -16),  # beside the line, which falls or rises
        textcoords="offset points",
        color=colour(1),
    )
    words = {
        "epsilon": f"ε over all releases, δ = {stated.delta:g}",
        "noise": "noise on one release",
        "releases": "releases that one user takes part in",
    }
    axes.set_xlabel(words[curve.x])
    axes.set_ylabel(words[curve.y])
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    fixed = f" of {stated.noise:.4g}"
    if curve.x == "epsilon":
        fixed = f", {stated.releases:,} release{_s(stated.releases)}"
    caption(
        figure,
        f"{stated.mechanism.capitalize()} noise{fixed}, bound {stated.bound:g}, view "
        f"{stated.view}: {stated.adjacency}. Composition is exact, without amplification.",
    )
    return figure
