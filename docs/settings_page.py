"""docs/settings.md, made from the docstrings of the settings: `python -m docs.settings_page` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

from gpnn.config import SECTIONS
from gpnn.config.parse import Setting, list_settings

PAGE = Path(__file__).with_name("settings.md")
HEAD = """# Settings

What `gpnn train` takes as `key=value` and a TOML file as `[section]` and `key = value`; `gpnn settings` prints the
same, `gpnn settings dropout` those with that in the name. Without a setting of partition, schedule, model or train,
[recipes](recipes.md) race (`recipe=auto`); defaults are those of the recipe `spread`. A dataset, a partitioner and a
schedule have options of their own: `gpnn data list`, [partitions](partitions.md), [schedules](schedules.md).
"""


def page() -> str:
    """The text of the page: a table per section."""
    found, parts = list_settings(), [HEAD]
    for section in ("", *SECTIONS):
        title = f"[{section}]" if section else "Outside the sections"
        rows = [each for each in found if each.name.rpartition(".")[0] == section]
        parts.append(f"## {title}\n\n| setting | default | what it does |\n|---|---|---|\n" + "".join(map(_row, rows)))
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    about = setting.about.replace("|", "\\|")
    return f"| `{setting.name}` | `{json.dumps(setting.default)}` | {about} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
