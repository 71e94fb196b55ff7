"""Coverage-guided fuzzing of the readers with atheris, where it installs.

    python -m tests.trust.guided --seconds 300 --out benchmarks/results/fuzz.json pickle tables

Each reader has a process of its own. The first byte of an input picks one of its files; the rest is that file. What is
not a sound answer or one clear sentence is a crash, whose input is written to the folder `build/guided`.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CRASHES = Path("build/guided")


def main() -> None:
    if "--reader" in sys.argv:
        fuzz(sys.argv[sys.argv.index("--reader") + 1], sys.argv[sys.argv.index("--") + 1 :])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seconds", type=int, default=300, help="for each reader")
    parser.add_argument("--out", type=Path, help="file of metrics, .json, with a page beside it")
    chosen = parser.parse_args()
    failures = 0
    for name in chosen.readers or readers():
        found = run_reader(name, chosen.seconds)
        failures += found["failures"]
        print(name, found, flush=True)
        if chosen.out is not None:
            from tests.trust import fuzz_page  # not above: what a reader's process imports first is not instrumented

            fuzz_page.note(chosen.out, "guided", f"make fuzz-guided SECONDS={chosen.seconds}", {name: found})
    sys.exit(failures > 0)


def readers() -> list[str]:
    from tests.trust.readers import READERS

    return list(READERS)


def run_reader(name: str, seconds: int) -> dict[str, Any]:
    """What a reader's process came to: inputs, seconds, what they reached, and whether one crashed."""
    CRASHES.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=600", "-rss_limit_mb=4096"]
    options += ["-max_len=65536", f"-artifact_prefix={CRASHES / name.replace(' ', '-')}-"]
    command = [sys.executable, "-m", "tests.trust.guided", "--reader", name, "--", *options]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
    return read_log(done.stderr) | {"failures": int(done.returncode != 0), "seconds": time.monotonic() - began}


def read_log(log: str) -> dict[str, int]:
    """The metrics of libFuzzer's last line and of its statistics."""
    reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", log) or [("0", "0", "0")]
    inputs = re.search(r"stat::number_of_executed_units:\s*(\d+)", log)
    return dict(zip(("edges", "features", "kept"), map(int, reached[-1]))) | {"inputs": int(inputs[1]) if inputs else 0}


def compiled() -> list[str]:
    """The modules that numba compiles, which cannot be instrumented."""
    files = [path for path in (ROOT / "gpnn").rglob("*.py") if "njit" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz a reader in this process until libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["gpnn"], exclude=compiled()):
        from tests.trust.fuzz import SECONDS, only, too_long, unclear
        from tests.trust.readers import READERS
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, too_long)
    with tempfile.TemporaryDirectory() as root:
        folder, corpus = Path(root) / "case", Path(root) / "corpus"
        folder.mkdir()
        corpus.mkdir()
        reader = READERS[name]
        reader.write(folder)
        expected = reader.read(folder)  # what is imported late is imported now
        if reader.sealed:
            reader = replace(reader, sound=only(expected))
        files = reader.files(folder)[:256]
        contents = [path.read_bytes() for path in files]
        for number, content in enumerate(contents):
            (corpus / str(number)).write_bytes(bytes([number]) + content)

        def try_one(content: bytes) -> None:
            number = content[0] % len(files) if content else 0
            files[number].write_bytes(content[1:])
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)  # of the processor; libFuzzer's own limit is the clock's
            try:
                reader.sound(reader.read(folder))
            except ValueError as error:
                if problem := unclear(error):
                    raise RuntimeError(problem) from error
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                files[number].write_bytes(contents[number])

        atheris.Setup([sys.argv[0], *options, str(corpus)], try_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
