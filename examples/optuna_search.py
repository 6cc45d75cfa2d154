"""A search over rates with Optuna: validation chooses, and bad trials are stopped early.

    pip install optuna
    python examples/optuna_search.py [TRIALS]

Only validation is looked at while searching; the test is read once, of the chosen setting.
"""

import sys

import optuna

import tacit


class Prune(tacit.Callback):
    """Tells a trial how it goes, and ends it where others were better at this round."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial, self.best = trial, 0.0

    def validation(self, found: tacit.Validation) -> None:
        self.best = found.best
        self.trial.report(found.value, found.round)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def settings(rate: float) -> list[str]:
    return [f"local.items.rate={rate}"]


def objective(trial: optuna.Trial) -> float:
    rate, prune = trial.suggest_float("rate", 0.001, 10.0, log=True), Prune(trial)
    tacit.fit("planted", "fedmf", rounds=10, sets=settings(rate), callbacks=[prune])
    return prune.best


trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20
study = optuna.create_study(direction="maximize")
study.optimize(objective, n_trials=trials)
chosen = tacit.fit("planted", "fedmf", rounds=10, sets=settings(study.best_params["rate"]))
print(study.best_params, f"validation {study.best_value:.4f}")
print(chosen)
