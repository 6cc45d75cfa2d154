"""From a frame to `Interactions`: which column is which, and every value looked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tacit.data.interactions import Interactions
from tacit.errors import TacitError, argument, listed, nearest, shown

# What is known to be odd about a published file, so that it need not be let through in general.


@dataclass(frozen=True)
class Quirks:
    """Oddities of one source that are accepted for it alone.

    >>> Quirks(repaired_times={"12 x3": "123"}).negative_times
    False
    """

    negative_times: bool = False  # times before 1970 are in the file as published
    repaired_times: Mapping[str, str] = field(default_factory=dict)  # exact damaged text -> time


NO_QUIRKS = Quirks()


# Which column is the user, the item, the time: as the caller says, or by its usual name.

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
            example = argument("columns", {"user": "NAME", "item": "NAME", "time": "NAME"})
            raise TacitError(
                f"No column of {where!r} looks like the {role}; it has "
                f"{listed(names) or 'none at all'}: say which is which, for example {example}."
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
            example = argument("columns", {role: matching[0][:60]})
            raise TacitError(
                f"Columns {matching[0][:60]} and {matching[1][:60]} of {where!r} both look like "
                f"the {role}; say which one it is, for example {example}."
            )
        if matching:
            return matching[0]
    return None


# From a frame with named columns to `Interactions`: every value is looked at once, here.

# Dates as people write them, without a zone and with one (Z, +02:00, +0200, +02).
_DAYS = ("%Y-%m-%d",)
_MOMENTS = tuple(f"%Y-%m-%d{between}{clock}" for between in " T" for clock in ("%T%.f", "%R"))
_ZONED = tuple(f"{moment}%#z" for moment in _MOMENTS)
_EXACT = 2.0**53  # float64 holds every whole number below this
# Split labels as people write them out.
_PARTS = {"train": 0, "valid": 1, "validation": 1, "val": 1, "vali": 1, "test": 2}


def interactions_from(
    frame: pl.DataFrame,
    columns: Mapping[str, str] | None,
    where: str,
    quirks: Quirks = NO_QUIRKS,
) -> Interactions:
    """Check the named columns and build the interactions; rows count from 1, without the header.

    >>> frame = pl.DataFrame({"user_id": [7, 7], "item_id": ["a", "b"], "timestamp": ["5", "6"]})
    >>> interactions_from(frame, None, "frame").time_N.tolist()
    [5, 6]
    """
    chosen = resolve(frame.columns, columns, where)
    if frame.height == 0:
        raise TacitError(f"{where!r} holds no interactions: it has column names but no rows.")
    found = {role: frame[name] for role, name in chosen.items()}
    return Interactions.from_ids(
        ids_of(found["user"], where),
        ids_of(found["item"], where),
        time=_times(found["time"], where, quirks) if "time" in found else None,
        value=_numbers(found["value"], where) if "value" in found else None,
        label=_labels(found["label"], where) if "label" in found else None,
    )


def ids_of(column: pl.Series, where: str) -> pl.Series:
    """Ids as text without blanks around them; rows without one are refused.

    >>> ids_of(pl.Series("item_id", [7.0, 8.0]), "items.csv").to_list()
    ['7', '8']
    """
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise _wrong_kind(column, where, "ids (text or whole numbers)")
    if column.dtype.is_float():
        # pandas turns whole numbers into floats as soon as one is missing; undo that.
        column = column.fill_nan(None)
        fraction = column.is_not_null() & (column != column.round())
        if fraction.any() or column.is_infinite().any():
            raise _wrong_kind(column, where, "ids (text or whole numbers), but fractions")
        column = column.cast(pl.Int64)
    text = column.cast(pl.String).str.strip_chars()
    missing = (text.is_null() | (text == "")).fill_null(True)
    if missing.any():
        raise TacitError(
            f"Data row {_first(missing)} of {where!r} has no id in column {shown(column.name)}; "
            "drop such rows or give them an id."
        )
    return text


def _times(column: pl.Series, where: str, quirks: Quirks) -> np.ndarray:
    if quirks.repaired_times and column.dtype == pl.String:
        column = column.replace(quirks.repaired_times)
    time_N = _numbers(_epoch(column, where), where, "a number or a date such as 2024-01-31")
    if time_N.dtype.kind == "f" and (time_N == np.round(time_N)).all():
        time_N = time_N.astype(np.int64) if (abs(time_N) < _EXACT).all() else time_N
    if not quirks.negative_times and (time_N < 0).any():
        row = int(np.flatnonzero(time_N < 0)[0])
        raise TacitError(
            f"Column {shown(column.name)} of {where!r} is {time_N[row]} in data row {row + 1}; "
            "times must not be negative."
        )
    return time_N


def _epoch(column: pl.Series, where: str) -> pl.Series:
    """Dates as microseconds since 1970; anything else is handed back as it is."""
    if column.dtype in (pl.Date, pl.Datetime):
        return column.dt.epoch("us")
    if column.dtype != pl.String or not column.str.contains("^\\s*\\d{4}-").any():
        return column
    # a blank before the zone, and the word UTC for Z, are common as well
    text = column.str.strip_chars().str.replace(r"\s*(UTC|Z|z)$", "Z")
    text = text.str.replace(r"\s+([+-]\d{2}:?(\d{2})?)$", "$1")
    plain = _moments(text, (*_DAYS, *_MOMENTS))
    if not plain.null_count():
        return plain.dt.epoch("us")
    zoned = _moments(text, _ZONED)
    unread = plain.is_null() & zoned.is_null()
    if unread.any():
        row = _first(unread)
        raise _unreadable(column, row, f"{shown(column[row - 1])}, which is not a date,", where)
    if zoned.null_count():
        row = _first((plain if zoned[0] is None else zoned).is_null())
        said = f"{shown(column[row - 1])} and {shown(column[0])}, with a zone and without,"
        raise _unreadable(column, row, said, where, also=1)
    return zoned.dt.epoch("us")


def _moments(text: pl.Series, forms: Sequence[str]) -> pl.Series:
    """Each text read by the first form that fits it; null where none does."""
    found = pl.Series(text.name, [], dtype=pl.Datetime("us")).extend_constant(None, len(text))
    for form in forms:
        if not found.null_count():
            break
        moment = text.str.to_datetime(form, strict=False, time_unit="us", ambiguous="null")
        if moment.dtype.time_zone is not None:  # type: ignore[attr-defined]
            moment = moment.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        found = found.zip_with(found.is_not_null(), moment)
    return found


def _numbers(column: pl.Series, where: str, kind: str = "a number") -> np.ndarray:
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean, pl.Null)):
        raise _wrong_kind(column, where, "numbers")
    text = column.str.strip_chars() if column.dtype == pl.String else column
    if not column.dtype.is_float():
        # Whole numbers first: nanosecond times do not survive a float64.
        whole = text.cast(pl.Int64, strict=False)
        if whole.null_count() == 0:
            return whole.to_numpy()
    number = text.cast(pl.Float64, strict=False)
    bad = ~number.is_finite().fill_null(False)
    if bad.any():
        row = _first(bad)
        value = column[row - 1]
        said = f"{shown(value)}, which is not {kind},"
        if number[row - 1] is not None:
            said = f"{str(value)[:60]}, which is not finite,"
        raise _unreadable(column, row, said, where)
    return number.to_numpy()


def _labels(column: pl.Series, where: str) -> np.ndarray:
    if column.dtype == pl.String:  # words that say the same, where a file has them throughout
        words = column.str.strip_chars().str.to_lowercase()
        coded = words.replace_strict(_PARTS, default=None, return_dtype=pl.Int64)
        if coded.null_count() == 0:
            return coded.to_numpy()
    label_N = _numbers(column, where)
    outside = ~np.isin(label_N, (0, 1, 2))
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise TacitError(
            f"Column {shown(column.name)} of {where!r} is {str(column[row])[:60]} in data row "
            f"{row + 1}; a split label must be 0 (train), 1 (valid) or 2 (test)."
        )
    return label_N


def _first(mask: pl.Series) -> int:
    return int(mask.arg_true()[0]) + 1


def _unreadable(
    column: pl.Series, row: int, said: str, where: str, also: int | None = None
) -> TacitError:
    """What stands in a row, and perhaps in another that does not go with it."""
    if column[row - 1] in (None, ""):
        said = "empty"
    rows = f"row {row}" if also is None else f"rows {row} and {also}"
    remedy = "fix or drop that row or name another column" if also is None else "write both alike"
    return TacitError(
        f"Column {shown(column.name)} of {where!r} is {said} in data {rows}; {remedy}."
    )


def _wrong_kind(column: pl.Series, where: str, wanted: str) -> TacitError:
    return TacitError(
        f"Column {shown(column.name)} of {where!r} holds {str(column.dtype)[:60]} values where "
        f"{wanted} belong; name another column."
    )
