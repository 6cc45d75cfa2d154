"""Servers that read single tables: what they make of those that arrived, for each node.

Such a method is played only where it was allowed (`Rules.allow_tables`), and by nodes whose owners
agreed to it. A node sends its person's whole item table; it gets back what the server makes for
that person, once the exchange is over. A node that is away then goes on with what it has.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tacit import streams
from tacit.coordinator.roster import Roster
from tacit.core.algorithm import Algorithm
from tacit.core.types import OWN_ITEMS, Params
from tacit.engines.round import meeting_generator, read_tables
from tacit.errors import TacitError, shown
from tacit.wire.messages import Arrays


def require_one_each(name: str, roster: Roster) -> None:
    """A table is one person's, so a node has to be, too."""
    many = [member.name for member in roster.members if member.people != 1]
    if many:
        raise TacitError(
            f"The server of {name} reads single tables, and node {shown(many[0])} has several "
            "people; use nodes with one person each."
        )


def made_from_tables(
    algorithm: Algorithm,
    shared: Params,
    tables: Mapping[str, np.ndarray],
    seed: int,
    round_number: int,
) -> tuple[Params, dict[str, Arrays]]:
    """The server's next parameters, and what each node that sent a table is given.

    Tables are read in the order of the keys of names, as a simulation reads those of its users.
    A table that the server leaves as it is does not travel back.
    """
    rule = algorithm.reads_tables
    assert rule is not None
    if not tables:
        return shared, {}
    names = sorted(tables, key=streams.name_of)
    own_PID = torch.stack([torch.from_numpy(tables[name]) for name in names])
    sent = {OWN_ITEMS: own_PID.clone()}
    for name in algorithm.made_by_server:
        sent[name] = own_PID.new_zeros(len(names), *algorithm.private[name].shape)
    generator = meeting_generator(seed, round_number)
    after = read_tables(algorithm, rule, sent, shared, generator)
    given = {}
    for place, node in enumerate(names):
        arrays = {name: sent[name][place].numpy() for name in algorithm.made_by_server}
        if not torch.equal(sent[OWN_ITEMS][place], own_PID[place]):
            arrays[OWN_ITEMS] = sent[OWN_ITEMS][place].numpy()
        if arrays:
            given[node] = arrays
    return after, given
