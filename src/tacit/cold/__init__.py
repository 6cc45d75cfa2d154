"""Generators of rows for items that nobody has touched, one file each."""
