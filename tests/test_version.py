"""The version is the same wherever it stands."""

import re
from pathlib import Path

import gpnn

ROOT = Path(__file__).parents[1]


def test_the_newest_release_of_the_changelog_is_the_package():
    releases = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d{2}-\d{2}$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert releases[0] == gpnn.__version__


def test_the_citation_names_the_package_of_this_version():
    assert f"\nversion: {gpnn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
