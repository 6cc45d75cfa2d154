"""What finished runs say beyond their metrics; see `analyses.py` for all of them by name."""
