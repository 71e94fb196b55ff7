"""`gpnn settings`: every setting with its default and what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from gpnn.cli.show import output, print_json, table
from gpnn.cli.words import Json


def settings(
    section: Annotated[str, typer.Argument(help="These alone: data, partition, schedule, model, train.")] = "",
    recipe: Annotated[str, typer.Option(help="The recipe whose values are the defaults.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the names only.")] = False,
    json: Json = False,
) -> None:
    """List the settings that `gpnn train` takes as key=value and `--config` as TOML, with their defaults.

    Examples:

    `gpnn settings`

    `gpnn settings train --recipe gated`
    """
    from gpnn.check import check_choice
    from gpnn.config import SECTIONS, Config
    from gpnn.config.parse import list_settings

    if section:
        check_choice("section", section, SECTIONS)
    found = [
        each
        for each in list_settings(Config.of(recipe) if recipe else None)
        if not section or each.name.startswith(f"{section}.")
    ]
    if json:
        print_json({each.name: {"default": each.default, "must be": each.kind, "about": each.about} for each in found})
    elif quiet:
        typer.echo("\n".join(each.name for each in found))
    else:
        output().print(table(["setting", "default", "what it does"], [(s.name, s.default, s.about) for s in found]))
