"""Words after a command: the dataset, settings and their list, options that commands share, what a shell completes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from gpnn.check import SETTING_NAMES, TABLE_NAMES, nearest_setting, unknown_setting, unknown_settings
from gpnn.cli.errors import USER_MISTAKE
from gpnn.cli.show import output, print_json, table
from gpnn.text import docstring_entries

if TYPE_CHECKING:
    from gpnn.config import Config


# The names of gpnn.data.DATASETS and gpnn.divide.METHODS, whose import takes seconds; a test compares them.
DATASET_NAMES = (
    "digits", "cora", "citeseer", "pubmed", "nell", "diel", "babi", "planted", "people", "rmat", "grid", "chain",
    "diel_like", "eccentricity", "shortest_path", "diameter", "ring_transfer", "tree_match", "mesh_eccentricity",
    "amazon_cs", "blogcatalog", "flickr", "facebook_pages", "chameleon_filtered", "texas", "cornell", "wisconsin",
    "wiki_chameleon", "twitch_de", "ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-papers100M",
)  # fmt: skip
SECTION_NAMES = ("data.", "partition.", "schedule.", "model.", "train.")
METHOD_NAMES = (
    "flood_fill", "refined", "clustered", "spectral", "metis", "mtkahypar", "random", "components", "given", "auto",
    "learned",
)  # fmt: skip


def complete_words(incomplete: str) -> list[str | tuple[str, str]]:
    """The datasets and the sections of settings that begin so, or the settings of a section; files are the shell's.

    >>> complete_words("cor"), complete_words("part"), complete_words("partition.k")
    (['cora', 'cornell'], ['partition.'], [('partition.k=', 'number of subgraphs K')])
    """
    if "." in incomplete:
        return [(f"{name}=", about) for name, about in about_settings().items() if name.startswith(incomplete)]
    return [name for name in (*DATASET_NAMES, *SECTION_NAMES) if name.startswith(incomplete)]


SOURCES = (  # section, file and class or function whose docstring tells of its settings; what comes first counts
    ("", "config/sections.py", "Config"), ("data.", "config/sections.py", "DataConfig"),
    ("data.", "data/tables/__init__.py", "tables"), ("partition.", "config/sections.py", "PartitionConfig"),
    ("schedule.", "config/sections.py", "ScheduleConfig"), ("model.", "config/sections.py", "ModelConfig"),
    ("model.", "nn/gpnn.py", "GPNN"), ("train.", "train/recipe.py", "Recipe"),
)  # fmt: skip


def about_settings() -> dict[str, str]:
    """What each setting does, up to the first full stop or semicolon.

    The docstrings are read from the source, since an import takes seconds.

    >>> about_settings()["train.epochs"]
    'the most epochs, each one exact gradient step over the whole graph'
    """
    sentences: dict[str, str] = {}
    for section, file, name in SOURCES:
        tree = ast.parse((Path(__file__).parents[1] / file).read_text("utf-8"))
        documented = next(each for each in tree.body if getattr(each, "name", None) == name)
        entries = docstring_entries(ast.get_docstring(documented) or "")  # type: ignore[arg-type]
        sentences = {f"{section}{key}": about for key, about in entries.items()} | sentences
    place = SETTING_NAMES.index("partition.method")
    names = (*SETTING_NAMES[:place], *TABLE_NAMES, *SETTING_NAMES[place:])
    return {name: re.split(r"[;.](?:\s|$)", sentences[name])[0] for name in names}


class TrainCommand(TyperCommand):
    """`gpnn train`, whose help lists the settings by section."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        shown = Table("setting", "what it does", title="Settings: KEY=VALUE", title_justify="left", box=None)
        for section, settings in groupby(about_settings().items(), lambda each: each[0].rpartition(".")[0]):
            if section:
                shown.add_row("")
            for name, about in settings:
                shown.add_row(escape(name), escape(about))
        Console(highlight=False).print(shown, "\n`gpnn settings` has their defaults and more of each.")


def complete_method(incomplete: str) -> list[str]:
    """The partitioners that begin so."""
    return [name for name in METHOD_NAMES if name.startswith(incomplete)]


METAVAR = "DATASET|FOLDER|FILE|KEY=VALUE"

Words: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=METAVAR,
        help="A dataset, a folder of tables or a graph file; and settings, which `gpnn settings` lists.",
        autocompletion=complete_words,
    ),
]
Root: TypeAlias = Annotated[Path | None, typer.Option(help="Folder of downloaded data.")]
Nodes: TypeAlias = Annotated[Path | None, typer.Option(help="Table of nodes: .csv, .tsv, .parquet or .npz.")]
Edges: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Table of edges: .csv, .tsv, .parquet, .npz, METIS .graph; or a folder or a quoted pattern of them."
    ),
]
Features: TypeAlias = Annotated[
    Path | None, typer.Option(help="Features: .npy, .npz (dense or sparse), .parquet, .csv or .tsv.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only, no messages.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object, no messages.")]


def split_words(words: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """The dataset's name, folder or file (None when there is none), and the settings.

    >>> split_words(["cora", "train.epochs=5"])
    ('cora', ['train.epochs=5'])

    Raises:
        ValueError: for a second word that is no setting.
    """
    named = [word for word in words or [] if "=" not in word or Path(word).exists()]
    if len(named) > 1:
        raise ValueError(f"There must be one dataset or folder; settings look like key=value. Got {', '.join(named)}.")
    return (named[0] if named else None), [word for word in words or [] if word not in named]


def check_words(words: Sequence[str] | None, *, leads: bool = True) -> None:
    """Raise ValueError for settings that do not exist, before anything that takes seconds is imported.

    A process that does not lead ends without a word.
    """
    name, settings = split_words(words)
    of_tables = name is not None and name not in DATASET_NAMES and any(Path(name).glob("edges*"))
    problems = unknown_settings((word.partition("=")[0].strip() for word in settings), of_tables=of_tables)
    if problems and not leads:
        raise typer.Exit(USER_MISTAKE)
    if problems:
        raise ValueError("\n".join(problems))


def read_config(
    words: Sequence[str] | None,
    *,
    file: Path | None = None,
    root: Path | None = None,
    tables: Mapping[str, Path | None] | None = None,
    also: Sequence[str] = (),
) -> Config:
    """The configuration of a command; what comes later counts: file, words, options.

    Args:
        words: the words after the command.
        file: TOML file of settings.
        root: the data folder.
        tables: files given by `--nodes`, `--edges` and `--features`, None where not given.
        also: settings of the command's own options.
    """
    from gpnn.build import load_config
    from gpnn.data import DATASETS

    name, settings = split_words(words)
    given = {part: path.resolve() for part, path in (tables or {}).items() if path is not None}
    if given:
        settings += _table_settings(name, given)
    elif name is not None:
        if name in DATASETS and any(Path(name).glob("edges*")):
            raise ValueError(
                f"{name!r} must be one thing (./{name} is the folder). Got a dataset and a folder of tables."
            )
        settings.append(f"data.name={name if name in DATASETS or not Path(name).exists() else Path(name).resolve()}")
    if root is not None:
        settings.append(f"data.root={root.resolve()}")
    return load_config(file, [*settings, *also])


def _table_settings(name: str | None, given: Mapping[str, Path]) -> list[str]:
    """The settings of tables that are given as files, of a folder beside them or on their own."""
    if name is not None and not Path(name).is_dir():
        raise ValueError(f"`--{next(iter(given))}` goes with a folder of tables or stands alone. Got {name!r}.")
    if name is None and "edges" not in given:
        raise ValueError(f"`--{next(iter(given))}` needs `--edges`, or the folder that holds them. Got neither.")
    for part, path in given.items():
        if not path.is_file() and not (part == "edges" and (path.is_dir() or "*" in path.name)):
            raise ValueError(f"`--{part}` must be a file. {str(path)!r} is not.")
    folder = given["edges"].parent if name is None else Path(name).resolve()
    return [f"data.name={folder}", *(f"data.{part}={path}" for part, path in given.items())]


def check_file(option: str, path: Path | None, *endings: str) -> None:
    """Raise ValueError unless a file that ends so can be written at `path`; None: there is none to write."""
    if path is None:
        return
    if path.suffix not in endings:
        raise ValueError(f"`{option}` must end in {' or '.join(endings)}. Got {str(path)!r}.")
    if not path.parent.is_dir():
        raise ValueError(f"`{option}` must lie in a folder that exists. {str(path.parent)!r} does not.")


def given_settings(words: Sequence[str] | None, file: Path | None) -> list[str]:
    """The dotted names of the settings that the user gave, in words or in a file."""
    from gpnn.config import read_settings
    from gpnn.storage.read import flatten

    return [name for name, _ in flatten(read_settings(file, split_words(words)[1]))]


def chooses_model(settings: Sequence[str]) -> bool:
    """Whether the user chose a model, by its recipe or by a setting of it, so that there is nothing to race for.

    >>> chooses_model(["data.seed", "train.metric"]), chooses_model(["train.epochs"])
    (False, True)
    """
    from gpnn.recipes import OPEN

    sections = ("partition.", "schedule.", "model.", "train.")
    chosen = [name for name in settings if name.removeprefix("train.") not in OPEN]
    return any(name == "recipe" or name.startswith(sections) for name in chosen)


def settings(
    name: Annotated[
        str, typer.Argument(help="These alone: of a section such as train, or with this in the name.")
    ] = "",
    recipe: Annotated[str, typer.Option(help="The recipe whose values are the defaults.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the names only.")] = False,
    json: Json = False,
) -> None:
    """List the settings that `gpnn train` takes as key=value and `--config` as TOML, with their defaults.

    Examples:

    `gpnn settings`

    `gpnn settings train --recipe gated`

    `gpnn settings dropout`
    """
    from gpnn.config import SECTIONS, Config
    from gpnn.config.parse import list_settings

    found = list_settings(Config.of(recipe) if recipe else None)
    if name in SECTIONS:
        found = [each for each in found if each.name.startswith(f"{name}.")]
    elif name:
        inside = [each for each in found if name in each.name]
        found = inside or [each for each in found if each.name == nearest_setting(name)]
        if not found:
            raise ValueError(unknown_setting(name))
    if json:
        print_json({each.name: {"default": each.default, "must be": each.kind, "about": each.about} for each in found})
    elif quiet:
        typer.echo("\n".join(each.name for each in found))
    else:
        shown = table(["setting", "default", "what it does"], [(s.name, s.default, s.about) for s in found])
        shown.columns[2].justify = "left"
        output().print(shown)
