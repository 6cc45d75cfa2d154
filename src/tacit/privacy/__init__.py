"""Guarantees: what noise on bounded sums promises to one person, and how sums are kept secret.

Nothing here knows of methods or trainers. `accounting` turns noise into epsilon and back;
`guarantee` states what is promised, against whom, in which words. `fixed_point` and `skellam` make
bounded vectors and their noise whole numbers; `secure_sum` adds them so that a server sees the sum
only, and needs the extra `privacy`.
"""
