"""The command line: every command is a module here; heavy imports wait inside the commands' bodies."""

from __future__ import annotations

import warnings

import typer

import gpnn
from gpnn.cli.data import data_app
from gpnn.cli.errors import Commands
from gpnn.cli.experiment import experiment
from gpnn.cli.finished import explain, export, predict, report
from gpnn.cli.show import messages, print_notes
from gpnn.cli.structure import partition, schedule
from gpnn.cli.train import train
from gpnn.cli.words import TrainCommand, settings

app = typer.Typer(
    name="gpnn",
    cls=Commands,
    help="Graph partition neural networks: train on graphs of any size with exact gradients.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=TrainCommand)(train)
app.command()(predict)
app.command()(explain)
app.command()(export)
app.command()(partition)
app.command()(schedule)
app.command()(experiment)
app.command()(report)
app.command()(settings)
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command line."""
    # torch warns of a line in torch_geometric, which the user cannot change
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    warnings.showwarning = _print_warning
    app()


def _print_warning(message: Warning | str, *place: object, **rest: object) -> None:
    """A warning as one line, without the place in our code."""
    print_notes([message], messages())


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpnn {gpnn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del version
