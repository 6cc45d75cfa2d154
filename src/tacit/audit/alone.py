"""The method's own client, never communicating: what can it know of an item it never saw?"""

from __future__ import annotations

from dataclasses import replace

from tacit.audit.finding import Finding, does_not_apply
from tacit.audit.subject import Subject
from tacit.channel.dense import Dense
from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.errors import TacitError
from tacit.experiment.amounts import metric_text as m4
from tacit.methods.local_only import local_only
from tacit.server.mean import Mean
from tacit.sync.isolated import Isolated


def twin_alone(subject: Subject) -> tuple[Method, str] | None:
    """The method without its federation, and what it is; None where there are no clients.

    A client that shares part of its model with others is none without them; PFedRec's client,
    drawing negatives as the method does, then stands in.
    """
    if subject.sampling is None:
        return None
    method = subject.experiment.method
    if isinstance(method, Method):
        own = replace(method, sync=Isolated(), channel=(Dense(),), server=Mean())
        try:
            compose(own, Task(n_users=1, n_items=1))
        except TacitError:
            pass
        else:
            return own, "The method's own client"
    return replace(local_only(), sampling=subject.sampling[0]), "PFedRec's client, standing in,"


def alone(subject: Subject) -> Finding:
    """HR@10 of clients that train alone, under the audited pool and under the honest one.

    On item numbers without content a client alone cannot tell one unseen item from another. The two
    trainings differ in the pool and in nothing else, so what the one has over the other is the
    leak's, whatever the order was that both began with.
    """
    name = "local training alone"
    twin = twin_alone(subject)
    if twin is None:
        return does_not_apply(name, "there are no clients that draw negatives")
    method, what = twin
    try:
        audited = subject.hits(subject.outcome("audited", method, ", alone").test.full)
        honest = subject.hits(subject.outcome("honest", method, ", alone").test.full)
    except TacitError as error:  # its personal tables do not fit, or it diverged: say so, go on
        return Finding(name, "note", f"Could not be trained: {error}")
    popularity = subject.hits(subject.popularity.full)
    bound = subject.bound(max(subject.chance, honest))
    # with content a client alone may rightly beat popularity; by numbers it may not
    beats_counting = subject.ids_only and audited > max(popularity, subject.bound(subject.chance))
    flagged = audited > bound or beats_counting
    says = f"{what} reaches HR@10 {m4(audited)} without any communication"
    if subject.split.train.leaks:
        says += f", and {m4(honest)} when its negatives may be any item but its train items"
    says += f"; popularity has {m4(popularity)}, chance {m4(subject.chance)}"
    if audited > bound:
        says += ": what it gains by the pool is not knowledge of the person."
    elif beats_counting:
        says += ": nobody who is alone can know so much; look for a leak."
    else:
        says += "."
    return Finding(
        name,
        "FLAG" if flagged else "pass",
        says,
        {
            "HR@10, audited pool": audited,
            "HR@10, honest pool": honest,
            "popularity": popularity,
            "chance": subject.chance,
            "bound": bound,
        },
        m4(audited),
        f"≤ {m4(bound)}",
    )
