"""Operators that make one view of an item from its projected inputs; one file each."""
