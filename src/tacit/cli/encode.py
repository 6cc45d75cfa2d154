"""`tacit encode`: feature tables from titles and pictures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import settings as options
from tacit.cli.output import say, say_json
from tacit.cli.settings import ready_to_compute
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.content.encode import Encoding, Source
    from tacit.content.encoders import Modality

NAMED = 10  # damaged pictures that are named on the terminal; the manifest names all of them


def encode(
    items: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a row per item.")],
    out: Annotated[
        Path, typer.Option(help="The folder to write to; it may be that of the dataset.")
    ],
    text: Annotated[
        str | None, typer.Option(help="Columns to read as text, as in title,description.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="A folder of pictures named by item id: 17.jpg, x.png.")
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="ngrams or minilm for text, colours or efficientnet for images, clip:FOLDER for "
            "both; may be repeated. Default: ngrams and colours."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the table is called. Default: text or image.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column with the ids. Default: item_id.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help='A sentence around the text: "a film called {}".')
    ] = None,
    placeholder: Annotated[
        str | None,
        typer.Option(help="A sentence for items without text. Default: they get no row."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Items at a time.", min=1, metavar="N")] = 32,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch clip:OWNER/NAME if it is not here.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Turn titles and pictures into features; interrupted, the same command goes on."""
    from tacit.cli.progress import ItemsBar
    from tacit.content.encode import encode_table
    from tacit.content.encoders import BUILT_IN, choose, load_encoder

    sources = _sources(items, text, images, id_column, prompt, placeholder)
    if name is not None and len(sources) > 1:
        raise TacitError("With --text and --images there are two tables; name one at a time.")
    chosen = choose(tuple(sources), encoder or [])
    done: list[Encoding] = []
    for modality, source in sources.items():
        if chosen[modality] != BUILT_IN[modality]:
            ready_to_compute()
        loaded = load_encoder(chosen[modality], modality, download=download)
        bar = ItemsBar()
        try:
            encoding = encode_table(source, loaded, out, name=name, batch=batch, watch=bar)
        except KeyboardInterrupt:
            raise TacitError(
                f"Stopped after {bar.done} of {bar.total} items of {bar.label}; give the same "
                "command again to go on."
            ) from None
        done.append(encoding)
    if as_json:
        say_json({one.manifest.table: asdict(one.manifest) for one in done})
        return
    for encoding, source in zip(done, sources.values(), strict=True):
        _say(encoding, source)


def _sources(
    items: Path,
    text: str | None,
    images: Path | None,
    id_column: str | None,
    prompt: str | None,
    placeholder: str | None,
) -> dict[Modality, Source]:
    from tacit.content.sources import Images, Texts, read_items

    columns = [column.strip() for column in (text or "").split(",") if column.strip()]
    if not columns and images is None:
        raise TacitError("There is nothing to encode; add --text COLUMNS or --images FOLDER.")
    if not columns and (prompt is not None or placeholder is not None):
        raise TacitError("--prompt and --placeholder are for texts; add --text COLUMNS.")
    found = read_items(items, columns, id_column)
    sources: dict[Modality, Source] = {}
    if columns:
        sources["text"] = Texts.of(found, prompt=prompt, placeholder=placeholder)
    if images is not None:
        sources["image"] = Images.of(found, images)
    return sources


def _say(encoding: Encoding, source: Source) -> None:
    from tacit.content.sources import Images

    about, damaged = encoding.manifest, encoding.damaged
    counts = f"{about.rows} of {about.items} items, {about.missing} without {about.modality}"
    if about.placeholders:
        counts += f", {about.placeholders} with the placeholder"
    if damaged:
        counts += f", {len(damaged)} damaged"
    say(f"{about.table:8}  {about.encoder}, {about.width} wide: {counts}")
    for one in damaged[:NAMED]:
        say(f"damaged   {one} cannot be read as a picture and has no row")
    if len(damaged) > NAMED:
        say(f"damaged   and {len(damaged) - NAMED} more, see the manifest")
    if isinstance(source, Images) and source.strangers:
        say(f"unused    {source.strangers} pictures belong to no item of the file")
    before = about.rows + len(damaged) - encoding.encoded
    if before:
        say(f"before    {before} items were finished before and not encoded again")
    say(f"features  {encoding.files.features}")
    say(f"manifest  {encoding.files.manifest}")
