"""`tacit list`: everything that has a name."""

from __future__ import annotations

import inspect

from tacit.cli.output import show


def list_names() -> None:
    """Methods, plug-ins, protocols, datasets and metrics."""
    from tacit.analysis.analyses import ANALYSES
    from tacit.cli.output import plain_table
    from tacit.data.load import PLANTED
    from tacit.data.protocol import PROTOCOLS
    from tacit.data.sources import SOURCES
    from tacit.evaluation.metrics import METRICS
    from tacit.experiment.plugins import PLUGINS
    from tacit.methods import METHODS

    methods = [
        [name, entry.summary, ", ".join(entry.presets), entry.protocol, str(entry.rounds)]
        for name, entry in METHODS.items()
    ]
    columns = ["method", "what it is", "presets", "its paper's protocol", "rounds"]
    show(plain_table("Methods (tacit train METHOD)", columns, methods, numbers=1))
    plugins = [
        [name, ", ".join(list(inspect.signature(plugin.apply).parameters)[1:]), plugin.summary]
        for name, plugin in PLUGINS.items()
    ]
    show(plain_table("Plug-ins (--with NAME:key=value)", ["name", "keys", "what it does"], plugins))
    protocols = [
        [
            protocol.name,
            protocol.split.text,
            protocol.duplicates,
            protocol.negatives_exclude,
            f"{protocol.select_metric}, {protocol.select_on}",
        ]
        for protocol in PROTOCOLS.values()
    ]
    columns = ["name", "split", "duplicates", "negatives exclude", "selected by validation"]
    show(plain_table("Protocols (--protocol NAME, or paper)", columns, protocols))
    datasets = [[PLANTED, "a made-up world that needs no files"]]
    datasets += [[name, source.title] for name, source in SOURCES.items()]
    show(plain_table("Datasets (--data NAME or PATH)", ["name", "what it is"], datasets))
    analyses = [
        [name, ", ".join(f"--{option}" for option in one.options), one.summary]
        for name, one in ANALYSES.items()
    ]
    columns = ["name", "options", "what it shows"]
    show(plain_table("Analyses (tacit analyse NAME RUN...)", columns, analyses))
    show(plain_table(None, ["metrics (NAME@K)"], [[", ".join(METRICS)]]))
