"""Which column is the user, the item, the time: as the caller says, or by its usual name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.errors import TacitError, listed, nearest, shown

ROLES = ("user", "item", "time", "value", "label")

# Written as `plain` writes them, the likeliest first. A bare "label" is not here: in most files it
# is a click, not a split.
USUAL: dict[str, tuple[str, ...]] = {
    "user": ("userid", "user", "uid", "reviewerid"),
    "item": ("itemid", "item", "iid", "movieid", "productid", "asin", "artistid", "bookid"),
    "time": ("timestamp", "time", "ts", "datetime", "unixreviewtime"),
    "value": ("rating", "value", "score", "overall"),
    "label": ("splitlabel", "xlabel"),
}


def plain(name: str) -> str:
    """A column name without case, punctuation and RecBole's type, so that spellings compare equal.

    >>> plain("User_ID"), plain("timestamp:float")
    ('userid', 'timestamp')
    """
    return "".join(c for c in name.split(":")[0].lower() if c.isalnum())


def parse_columns(text: str) -> dict[str, str]:
    """The value of `--columns`: role=column pairs with commas between them.

    >>> parse_columns("user=client, item=product")
    {'user': 'client', 'item': 'product'}
    """
    columns: dict[str, str] = {}
    for pair in text.split(","):
        role, _, name = (part.strip() for part in pair.partition("="))
        if not role or not name or role in columns:
            raise TacitError(
                f"Columns {shown(text)} cannot be read at {shown(pair.strip())}; write each role "
                "once, for example user=NAME,item=NAME,time=NAME."
            )
        columns[role] = name
    return columns


def resolve(names: Sequence[str], columns: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """The column of each role; time, value and label are left out when there is none.

    With `columns` given, time, value and label are exactly what it names: nobody gets a time that
    was not asked for. A user or item column left unnamed is still found by its usual name.

    >>> resolve(["userId", "movieId", "rating"], None, "ratings.csv")
    {'user': 'userId', 'item': 'movieId', 'value': 'rating'}
    >>> resolve(["who", "movieId", "rating"], {"user": "who"}, "ratings.csv")
    {'user': 'who', 'item': 'movieId'}
    """
    given = dict(columns or {})
    for role, name in given.items():
        if role not in ROLES:
            raise TacitError(f"There is no column role {shown(role)}; {nearest(role, ROLES)}")
        if name not in names:
            raise TacitError(f"{where!r} has no column {shown(name)}; {nearest(name, names)}")
    searched = ROLES if columns is None else ("user", "item")
    found = {role: _usual(names, role, where) for role in searched if role not in given}
    chosen = {role: given.get(role) or found.get(role) for role in ROLES}
    for role in ("user", "item"):
        if not chosen[role]:
            raise TacitError(
                f"No column of {where!r} looks like the {role}; it has {listed(names)}: say "
                "which is which, for example --columns user=NAME,item=NAME,time=NAME."
            )
    result = {role: name for role, name in chosen.items() if name}
    if len(set(result.values())) < len(result):
        raise TacitError(
            f"One column of {where!r} was named for two roles "
            f"({listed(f'{role}={name}' for role, name in result.items())}); name one for each."
        )
    return result


def _usual(names: Sequence[str], role: str, where: str) -> str | None:
    for usual in USUAL[role]:
        matching = [name for name in names if plain(name) == usual]
        if len(matching) > 1:
            raise TacitError(
                f"Columns {matching[0][:60]} and {matching[1][:60]} of {where!r} both look like "
                f"the {role}; say which one it is, for example --columns {role}={matching[0][:60]}."
            )
        if matching:
            return matching[0]
    return None
