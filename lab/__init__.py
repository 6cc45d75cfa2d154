"""The laboratory beside the package: published tables, planted studies, speed. Not in the wheel."""
