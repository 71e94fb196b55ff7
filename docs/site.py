"""What mkdocs does besides: committed results become pages of the site, and roles of docstrings become code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = ("experiments", "experiments/results", "benchmarks/results")  # folders that pages link to as ../FOLDER
AT_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
ENDINGS = (".md", ".svg", ".csv", ".png", ".json", ".toml")
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?")


def on_config(config: Any) -> Any:
    """Name the version that the pages are of."""
    text = (ROOT / "gpnn" / "__init__.py").read_text()
    config.site_name += " " + re.findall(r'^__version__ = "(.*)"$', text, re.M)[0]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Take results, and the pages at the repository's root, into the site under their own paths."""
    found = [path for folder in OUTSIDE for path in sorted((ROOT / folder).glob("*")) if path.suffix in ENDINGS]
    for path in [*found, *(ROOT / name for name in AT_ROOT)]:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links that leave docs/ to where their targets stand in the site."""
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri.startswith(OUTSIDE):
        return re.sub(r"\]\((?:\.\./)+docs/", f"]({up}", markdown)
    if page.file.src_uri in AT_ROOT:
        return markdown.replace("](docs/", "](")
    return re.sub(rf"\]\({re.escape(up)}\.\./(?=experiments/|benchmarks/|C|S)", f"]({up}", markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Show the roles of docstrings as the code that they name."""
    return ROLE.sub("<code>", html)
