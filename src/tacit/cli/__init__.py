"""The command line: one file per command; `main` wires them, and says mistakes in one line."""
