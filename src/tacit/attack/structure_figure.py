"""Heat maps of S' - S: where a reconstruction calls items more, or less, alike than they are."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tacit.attack.inversion import Attempt, Inversion
from tacit.experiment.figures import caption, new_figure

SHADES = "RdBu_r"  # colour-blind readers tell its ends apart
SCALE = Normalize(-1, 1)


def structure_figure(name: str, found: Inversion) -> Figure:
    """One panel for each attacker and view: the floor, then a row for each attacker that learns.

    >>> import numpy as np
    >>> from tacit.attack.inversion import invert
    >>> content_CF = np.random.default_rng(0).normal(size=(60, 3))
    >>> found = invert(content_CF[None], content_CF, seeds=1)
    >>> [panel.get_title() for panel in structure_figure("a run", found).axes[:3]]
    ['mean, sees nothing', 'ridge, sees shuffled', 'ridge, sees 1 draw']
    """
    learnt = found.attempts[1:]
    rows = len({one.attacker for one in learnt})
    columns = len(learnt) // rows + 1
    figure, panels = new_figure(rows * columns, width=2.9, height=3.0, columns=columns)
    waiting = list(learnt)
    for place, panel in enumerate(panels):
        if place % columns:
            _matrix(panel, waiting.pop(0))
        elif place == 0:
            _matrix(panel, found.floor)
        else:
            figure.delaxes(panel)
    figure.colorbar(
        ScalarMappable(SCALE, SHADES), ax=figure.axes, label="cosine, guess minus truth", shrink=0.8
    )
    figure.suptitle(name, fontsize=12)
    shown = len(found.floor.difference_VV)
    caption(
        figure,
        f"Pairs of {shown} random items whose content the attacker does not know, first seed. Red: "
        "called more alike than they are; blue: less; white: as they are, which is leakage. "
        "Shuffled is the control: the embeddings belong to other items.",
    )
    return figure


def _matrix(panel: Axes, attempt: Attempt) -> None:
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    panel.imshow(attempt.difference_VV, cmap=SHADES, norm=SCALE)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_title(f"{attempt.attacker}, sees {attempt.view}", fontsize=10)
