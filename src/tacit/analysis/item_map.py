"""Items in two dimensions, coloured by what they are to one user; and which user."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from tacit.analysis.user_groups import activity, ordered
from tacit.errors import TacitError
from tacit.experiment.figures import GREY, PALETTE
from tacit.experiment.prepare import Prepared

KINDS = {  # the colour, marker and size of each kind of item; later ones lie on top
    "others": (GREY, "o", 12),
    "train": (PALETTE[0], "o", 30),
    "held out": (PALETTE[1], "D", 60),
}


def draw_items(panel: Axes, place_I2: np.ndarray, kind_I: np.ndarray) -> None:
    """A point for each item."""
    for kind, (shade, shape, size) in KINDS.items():
        own = place_I2[kind_I == kind]
        panel.scatter(
            own[:, 0],
            own[:, 1],
            s=size,
            marker=shape,
            color=shade,
            alpha=0.5 if kind == "others" else 0.95,
            linewidths=0 if kind == "others" else 0.6,
            edgecolors="none" if kind == "others" else "#202020",
            label=kind,
        )


def user_code(prepared: Prepared, user: str | None) -> int:
    """The code of a user id; without one, of a user with a median history."""
    users = prepared.dataset.interactions.users
    if user is None:
        order = ordered(activity(prepared.split.train), users)
        return int(order[(len(order) - 1) // 2])
    if user not in users:
        raise TacitError(f"No user {user!r} in the data; ids look like {', '.join(users[:3])}.")
    return users.index(user)
