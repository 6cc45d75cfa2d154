"""A third modality: every item of the planted dataset gets a sound, and fusion hears it.

    python examples/third_modality.py [ROUNDS]

A modality is a named table with one row per item. Nothing in the library knows how many there are.
"""

import sys
from dataclasses import replace

import numpy as np

from tacit.data.dataset import Dataset, FeatureTable, Modalities
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods import fcf
from tacit.plugins.fusion import fedmr


def sounds(dataset: Dataset) -> FeatureTable:
    """Tones in noise whose pitch tells the genre, as the spectrum of an eighth of a second."""
    generator, second_T = np.random.default_rng(0), np.arange(1024) / 8000
    pitch_I = 220.0 * 2 ** (dataset.truth["text_latent_IK"].argmax(axis=1) / 6)
    wave_IT = np.sin(2 * np.pi * pitch_I[:, None] * second_T)
    wave_IT += generator.normal(size=wave_IT.shape)
    spectrum_IF = np.abs(np.fft.rfft(wave_IT, axis=1))[:, :64]
    spectrum_IF /= np.linalg.norm(spectrum_IF, axis=1, keepdims=True)
    return FeatureTable(spectrum_IF.astype(np.float32), np.ones(len(pitch_I), dtype=bool))


rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
dataset = planted_dataset()
dataset = replace(
    dataset, modalities=Modalities({**dataset.modalities.tables, "audio": sounds(dataset)})
)
split = split_dataset(dataset, CLEAN)
for modalities in ("text+image", "text+image+audio", "audio"):
    method = fedmr(
        fcf(dim=32, rate=1.0, per_item=0.1), "single", modalities, encoder_rate=0.003, id_width=64
    )
    trainer = Trainer(Experiment("fcf", method, rounds), split.train, threads=1)
    for _ in range(rounds):
        trainer.run_round()
    found = rank(trainer.scores(), split.valid).full
    print(f"{modalities:18} HR@10 {metric(found, 'HR@10'):.3f} on validation")
