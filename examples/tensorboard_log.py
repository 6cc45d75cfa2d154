"""Curves of a run for TensorBoard: a callback that writes scalars.

pip install tensorboard
python examples/tensorboard_log.py [FOLDER]
tensorboard --logdir FOLDER
"""

import sys

from torch.utils.tensorboard import SummaryWriter

import tacit


class TensorBoard(tacit.Callback):
    """Loss and validation by round, and the test metrics at the end."""

    def __init__(self, folder: str) -> None:
        self.writer = SummaryWriter(folder)

    def begin(self, experiment: tacit.Experiment, rounds: int, engine: str) -> None:
        self.writer.add_text("experiment", f"{experiment}, {engine}")

    def validation(self, found: tacit.Validation) -> None:
        for ranking, values in found.metrics.items():
            for name, value in values.items():
                self.writer.add_scalar(f"validation {ranking}/{name}", value, found.round)

    def round(self, number: int, loss: float | None) -> None:
        if loss is not None:
            self.writer.add_scalar("loss", loss, number)

    def end(self, record: object) -> None:
        self.writer.close()


folder = sys.argv[1] if len(sys.argv) > 1 else "runs/tensorboard"
model = tacit.fit("planted", "fedmf", rounds=20, callbacks=[TensorBoard(folder)])
print(model)
print(f"tensorboard --logdir {folder}")
