"""The names of all settings, known without the seconds that importing them takes, and what a wrong one means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

# By section, "" those outside; a test compares them with the dataclasses of gpnn.config.
_NAMES = {
    "": "recipe budget blend seed device threads deterministic engine memory device_memory disk",
    "data": "name root undirected scale_features",
    "partition": "method k file",
    "schedule": "name rounds normalization self_loops",
    "model": (
        "name method labels hidden_channels cell message aggregate sharing input embedding_start embedding_scale "
        "encoder predict activation concat head readout input_dropout state_dropout update_dropout dropout "
        "drop_node norm cell_options"
    ),
    "train": (
        "epochs optimizer learning_rate learning_rate_schedule warmup weight_decay decay_on clip class_weight "
        "label_smoothing passes batch labelled consistency consistency_warmup consistency_on consistency_threshold "
        "temperature precision target_scale metric check_every patience tolerance checkpoint_every "
        "checkpoint_seconds"
    ),
}
SETTING_NAMES = tuple(f"{section}.{name}".lstrip(".") for section, names in _NAMES.items() for name in names.split())
SECTION_NAMES = tuple(filter(None, _NAMES))
WITH_OPTIONS = ("data", "partition", "schedule")  # sections whose other keys are a loader's, a method's or a schedule's
SYNONYMS = {  # what others call our settings
    "lr": "train.learning_rate", "wd": "train.weight_decay", "num_epochs": "train.epochs", "max_epochs": "train.epochs",
    "early_stopping": "train.patience", "optim": "train.optimizer", "hidden": "model.hidden_channels",
    "hidden_dim": "model.hidden_channels", "hidden_size": "model.hidden_channels", "layers": "schedule.rounds",
    "num_layers": "schedule.rounds", "depth": "schedule.rounds", "num_parts": "partition.k", "parts": "partition.k",
    "dropnode": "model.drop_node", "gpu": "device", "cuda": "device", "random_state": "seed", "n_jobs": "threads",
}  # fmt: skip


def unknown_setting(key: str, also: Sequence[str] = ()) -> str:
    """The sentence for a setting that does not exist, with the nearest that does."""
    near = nearest_setting(key, also)
    hint = "`gpnn settings` lists those that there are." if near is None else f"Did you mean `{near}`?"
    shown = key if len(key) <= 80 else f"{key[:79]}…"
    return f"`{shown}` is not a setting. {hint}"


def nearest_setting(key: str, also: Sequence[str] = ()) -> str | None:
    """The setting that a wrong name means, if any.

    >>> nearest_setting("lr"), nearest_setting("epoch"), nearest_setting("teapot")
    ('train.learning_rate', 'train.epochs', None)
    """
    last = key.rpartition(".")[2]
    if last.lower() in SYNONYMS:
        return SYNONYMS[last.lower()]
    known = [*SETTING_NAMES, *SECTION_NAMES, *also]
    ends = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(key, known, 1, 0.75)
    return next(iter(near or [ends[end] for end in difflib.get_close_matches(last, list(ends), 1, 0.7)]), None)


def unknown_settings(keys: Iterable[str]) -> list[str]:
    """A sentence for each dotted name that cannot be a setting, those of one section together.

    >>> unknown_settings(["train.epoch", "schedule.intra", "seed"])
    ['`train.epoch` is not a setting. Did you mean `train.epochs`?']
    """
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, dot, _ = key.partition(".")
        if key in (*SETTING_NAMES, *SECTION_NAMES) or (dot and section in WITH_OPTIONS):
            sections.setdefault(section, [])
        elif dot and section in SECTION_NAMES:
            inside = any(key.startswith(f"{name}.") for name in SETTING_NAMES)  # of a table
            sections.setdefault(section, []).extend([] if inside else [key])
        else:
            sections.setdefault(section, []).extend([] if section in SETTING_NAMES else [section])
    return [unknown_setting(key) for keys in sections.values() for key in dict.fromkeys(keys)]
