"""Many runs: studies, comparisons and sweeps."""

from tacit.study.study import Study, Trial

__all__ = ["Study", "Trial"]
