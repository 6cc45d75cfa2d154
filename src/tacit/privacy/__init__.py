"""Guarantees: what noise on bounded sums promises to one person, and how sums are kept secret.

Nothing here knows of methods or trainers. `accounting` turns noise into epsilon and back;
`guarantee` states what is promised, against whom, in which words.
"""
