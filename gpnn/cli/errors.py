"""Mistakes of the user end in one sentence and exit code 2, a full disk or a download that fails in one and 1.

A traceback is for our bugs.
"""

from __future__ import annotations

import errno
from typing import Any

import typer
from typer.core import TyperGroup

from gpnn.storage.atomic import DISK_FAILURES
from gpnn.text import printable

FAILED, USER_MISTAKE, INTERRUPTED = 1, 2, 130


class Commands(TyperGroup):
    """The group of commands, which turns what they raise into sentences and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit 2 after a mistake in its input, 130 after Ctrl-C, 1 after any other failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("gpnn: stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read our output has gone
            raise typer.Exit(FAILED) from None
        except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
            sentence = explain(error)
            if sentence is None:
                raise
            typer.echo(f"gpnn: {printable(sentence)}", err=True)
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            if hasattr(error, "possibilities") and hasattr(error, "option_name"):  # NoSuchOption, of any version
                error.possibilities = _settings_like(error) or error.possibilities
            raise


def _settings_like(error: Any) -> list[str]:
    """The settings that an unknown option may mean: `--epochs 3` is `train.epochs=3`."""
    from gpnn.check import nearest_setting

    near = nearest_setting(error.option_name.lstrip("-").replace("-", "_"))
    return [] if near is None else [f"{near}=VALUE"]


def exit_code(error: BaseException) -> int:
    """1 where the disk or the network failed, else 2.

    >>> exit_code(OSError(errno.ENOSPC, "No space left on device", "model.safetensors"))
    1
    """
    failed = isinstance(error, ConnectionError) or (isinstance(error, OSError) and error.errno in DISK_FAILURES)
    return FAILED if failed else USER_MISTAKE


def explain(error: BaseException) -> str | None:
    """What to print to the user, or None when it is not the user's mistake.

    >>> explain(FileNotFoundError(2, "No such file or directory", "graph.csv"))
    'graph.csv: no such file or directory.'
    """
    if type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
        return (
            "There is not enough memory on the GPU. Try a lower device_memory, for which more is kept on the host, "
            "more subgraphs, or fewer hidden channels."
        )
    if isinstance(error, MemoryError) or "CPUAllocator" in str(error):
        return "There is not enough memory. Try engine=streamed, more subgraphs, or fewer hidden channels."
    if isinstance(error, ConnectionError) and error.errno is None:  # a sentence of our downloads
        return str(error)
    if isinstance(error, OSError):
        if error.errno is None or error.errno == errno.EPIPE:
            return None
        reason = (error.strerror or "input or output failed").lower()
        return f"{error.filename}: {reason}." if error.filename is not None else f"{reason}."
    if isinstance(error, ValueError | ImportError):
        return str(error)
    return None
