"""Parameters that all processes share, and those of which each has the rows of its own nodes."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that learn and are this process's own (rows of its nodes), and those that all share."""
    own = set(own_names(model))
    learning = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return [each for name, each in learning if name in own], [each for name, each in learning if name not in own]


def own_names(model: nn.Module) -> Iterator[str]:
    """The names of the parameters that have a row for each own node: those of modules that say for which `nodes`."""
    for prefix, module in model.named_modules():
        if getattr(module, "nodes", None) is not None:
            for name, _ in module.named_parameters(recurse=False):
                yield f"{prefix}.{name}" if prefix else name
