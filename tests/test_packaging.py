"""Dockerfiles and conda's recipe say what pyproject.toml says, and name files that are there."""

import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import gpnn

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KNOWN = {"FROM", "WORKDIR", "RUN", "COPY", "USER", "ENTRYPOINT", "CMD"}
CONDA_NAMES = {
    "torch": "pytorch",
    "torch_geometric": "pytorch_geometric",
    "xxhash": "python-xxhash",
    "matplotlib": "matplotlib-base",
}


def instructions(path: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their arguments, lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


@pytest.fixture(params=["cpu", "cuda"])
def dockerfile(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    return instructions(ROOT / "docker" / f"{request.param}.Dockerfile")


def test_an_image_copies_what_the_context_holds(dockerfile):
    """Files that .dockerignore keeps, and all that the wheel is built of."""
    lines = (ROOT / ".dockerignore").read_text().split()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    copied = [shlex.split(rest)[:-1] for word, rest in dockerfile if word == "COPY" and "--from" not in rest]
    names = {name for each in copied for name in each}
    assert names == kept
    assert all((ROOT / name).exists() for name in names)
    assert {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "gpnn"} <= names
    assert not any(fnmatch("gpnn", line) for line in lines[1:])


def test_an_image_is_small_pinned_and_not_roots(dockerfile):
    assert {word for word, _ in dockerfile} <= KNOWN
    assert all(re.match(r"python:3\.1[123]-slim( AS \w+)?$", rest) for word, rest in dockerfile if word == "FROM")
    steps = [rest for word, rest in dockerfile if word == "RUN"]
    installs = [part for step in steps for part in step.split("&&") if " install " in part and "apt-get" not in part]
    assert all("--no-cache" in part for part in installs)
    pinned = [part for part in installs if "torch" in part or ".whl" in part]
    assert len(pinned) == 2
    assert all("--constraint /tmp/constraints.txt" in part for part in pinned)
    for step in steps:
        if "apt-get install" in step:
            assert "--no-install-recommends" in step
            assert "rm -rf /var/lib/apt/lists/*" in step
    assert [rest for word, rest in dockerfile if word == "USER"] == ["gpnn"]
    assert dict(dockerfile)["ENTRYPOINT"] == '["gpnn"]'
    assert "gpnn" in PROJECT["scripts"]


def test_an_image_has_extras_that_there_are(dockerfile):
    (extras,) = re.findall(r"gpnn-\*\.whl\)\[(.*?)\]", " ".join(rest for _, rest in dockerfile))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    pins = (ROOT / "constraints.txt").read_text().split()
    (build,) = {pin for word, rest in dockerfile for pin in re.findall(r"build==[\d.]+", rest)}
    assert build in pins


def test_condas_recipe_asks_for_the_same():
    text = (ROOT / "conda" / "recipe.yaml").read_text()
    assert f'version: "{gpnn.__version__}"' in text
    assert f"- gpnn = {PROJECT['scripts']['gpnn']}" in text
    asked = dict(re.findall(r"^    - ([\w-]+) (>=[\d.]+)$", text.partition("  run:")[2].partition("tests:")[0], re.M))
    wanted = {"python": PROJECT["requires-python"]}
    for requirement in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)(>=[\d.]+)", requirement).groups()
        wanted[CONDA_NAMES.get(name, name)] = bound
    assert asked == wanted
