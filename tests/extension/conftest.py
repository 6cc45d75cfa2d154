"""The package here is a stranger's: tests import it where they ask for it, nobody collects it."""

collect_ignore = ["package"]
