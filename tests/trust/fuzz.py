"""Read damaged files in a process of its own, with bounded memory and time and every act of the process watched.

    python -m tests.trust.fuzz --cases 10000 pickle partition

prints one line of JSON a reader. A case is named by its number, so that a failure can be repeated alone:
`--first 4711 --cases 1`. With `--out FILE.json` each reader has processes of its own for some thousand cases each; the
metrics are kept in that file and in a page beside it as they come, and what was ended before its last case goes on.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.trust import fuzz_page
from tests.trust.hostile import HOSTILE
from tests.trust.mutate import mutate
from tests.trust.readers import READERS, Reader

MEMORY = 1 << 30  # bytes that reading may take beyond what the process holds
SECONDS = 5.0  # of processor time that a case may take
SHARE = 2500  # cases of a process
FORBIDDEN = (
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "pickle.find_class",
    "socket.connect",
)
WRITING = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.symlink", "os.link", "os.truncate")


@dataclass
class Tally:
    """What became of a reader's cases: CPU seconds of the slowest and of all, and bytes that reading took at most."""

    reader: str
    cases: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    memory: int = 0
    sentences: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Watch:
    """An audit hook that notes what no reader may do; `exchanged` are names that processes send each other."""

    folder: str = "/nonexistent"
    exchanged: tuple[str, ...] = ()
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "pickle.find_class" and ".".join(arguments).startswith(self.exchanged):
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {arguments!r}")
        elif event == "open" and self._writes(arguments) and not self._inside(arguments[0]):
            self.seen.append(f"open for writing {arguments[0]!r}")
        elif event in WRITING and not self._inside(arguments[0]) and not self._in_open_folder(event, arguments):
            self.seen.append(f"{event} {arguments[0]!r}")

    @staticmethod
    def _writes(arguments: tuple[Any, ...]) -> bool:
        flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    @staticmethod
    def _in_open_folder(event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether the path is relative to a folder that is held open, as in the removal of a temporary tree."""
        return event in ("os.remove", "os.rmdir") and arguments[-1] != -1 and os.sep not in os.fsdecode(arguments[0])

    def _inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return True
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", choices=[[], *READERS], default=[])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print each failure's traceback and the sentences")
    parser.add_argument("--out", type=Path, help="file of metrics, .json, with a page beside it")
    chosen = parser.parse_args()
    if chosen.out is not None:
        sys.exit(fuzz_apart(chosen.readers or list(READERS), chosen.cases, chosen.out))
    faulthandler.enable()
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve a gigabyte of addresses beforehand
    warnings.simplefilter("ignore")  # damaged arrays overflow where they are compared
    watch = Watch()
    sys.addaudithook(watch)
    failed = False
    for name in chosen.readers or READERS:
        tally = fuzz(name, READERS[name], range(chosen.first, chosen.first + chosen.cases), watch)
        if chosen.show:
            _show(tally)
        print(json.dumps({**asdict(tally), "sentences": len(tally.sentences)}), flush=True)
        failed = failed or bool(tally.failures)
    sys.exit(failed)


def fuzz_apart(names: Sequence[str], cases: int, out: Path) -> bool:
    """Fuzz each reader in a process of its own and note what came of it; whether one failed."""
    failed = False
    for name in names:
        tally = fuzz_page.unfinished(out, name, cases)
        while tally.get("next", 0) < cases:
            first = tally.get("next", 0)
            command = [sys.executable, "-m", "tests.trust.fuzz", "--first", str(first)]
            command += ["--cases", str(min(SHARE, cases - first)), name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            tally = fuzz_page.join(tally, json.loads(done.stdout)) | {"next": min(first + SHARE, cases)}
            fuzz_page.note(out, "damaged", f"make fuzz CASES={cases}", {name: tally})
        failed = failed or bool(tally["failures"])
        print(json.dumps({**tally, "failures": tally["failures"][:3]}), flush=True)
    return failed


def fuzz(name: str, reader: Reader, cases: Sequence[int], watch: Watch) -> Tally:
    """Damage the reader's valid files in many ways and read each; every hostile file comes before the first case."""
    tally = Tally(name)
    tempfile.tempdir = None
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "case"
        folder.mkdir()
        watch.folder, watch.exchanged = os.path.realpath(root), reader.exchanged
        tempfile.tempdir = root  # where checks of the answer may write
        reader.write(folder)
        expected = reader.read(folder)  # undamaged; what is imported late is imported now
        reader.sound(expected)
        if reader.sealed:
            reader = replace(reader, sound=only(expected))
        files = reader.files(folder)
        contents = {path: path.read_bytes() for path in files}
        _limit_memory()
        began, before = time.process_time(), _resident()
        watch.seen.clear()
        for title, content in HOSTILE.items() if not cases or cases[0] == 0 else ():
            for path in files:
                path.write_bytes(content)
                _try(reader, folder, f"{title} as {path.name}", tally, watch)
                path.write_bytes(contents[path])
        others = list(contents.values())
        for number in cases:
            path = files[number % len(files)]
            path.write_bytes(mutate(number, contents[path], others))
            _try(reader, folder, f"case {number}, {path.name}", tally, watch)
            path.write_bytes(contents[path])
        tally.seconds = time.process_time() - began
        tally.memory = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, 0)
    return tally


def only(expected: Any) -> Callable[[Any], None]:
    """What refuses every answer but one."""

    def sound(answer: Any) -> None:
        assert answer == expected, "another answer than the undamaged files give"

    return sound


def _try(reader: Reader, folder: Path, title: str, tally: Tally, watch: Watch) -> None:
    """Read once; anything but a sound answer or one clear ValueError is a failure."""
    tally.cases += 1
    began = time.process_time()
    before = _listing(folder)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        reader.sound(reader.read(folder))
        tally.read += 1
    except ValueError as error:
        tally.refused += 1
        tally.sentences[str(error)[:200]] += 1
        if problem := unclear(error):
            tally.failures.append({"case": title, "problem": problem, "trace": _trace(error)})
    except BaseException as error:
        tally.failures.append(
            {"case": title, "problem": f"{type(error).__name__}: {error}"[:300], "trace": _trace(error)}
        )
        if isinstance(error, KeyboardInterrupt):
            raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    tally.slowest = max(tally.slowest, time.process_time() - began)
    if watch.seen or _listing(folder) != before:
        tally.failures.append({"case": title, "problem": f"acts: {watch.seen[:3]}", "trace": ""})
        watch.seen.clear()


def unclear(error: ValueError) -> str | None:
    """What is wrong with a refusal: a library's own error passed on, or words that name neither file nor setting."""
    text = str(error)
    if type(error) is not ValueError:
        return f"a {type(error).__name__} is passed on: {text[:200]}"
    if not text or len(text) > 2000 or "Traceback" in text:
        return f"not a sentence: {text[:200]!r}"
    if not text.rstrip().endswith((".", "?", ")")):
        return f"no full stop: {text[:200]!r}"
    return None


def _limit_memory() -> None:
    size = _pages(0)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _resident() -> int:
    return _pages(1)


def _pages(place: int) -> int:
    """A figure of the process's memory in bytes: its addresses (0) or what is resident (1)."""
    return int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()


def _listing(folder: Path) -> list[str]:
    return sorted(os.fspath(path) for path in folder.rglob("*"))


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-4:])


def too_long(number: int, frame: Any) -> None:
    """What the alarm of a case that takes too long calls."""
    del number, frame
    raise TimeoutError(f"more than {SECONDS} seconds")


def _show(tally: Tally) -> None:
    kinds = {failure["trace"][-200:] or failure["problem"]: failure for failure in tally.failures}
    for failure in list(kinds.values())[:20]:
        print(f"--- {failure['case']}: {failure['problem']}\n{failure['trace']}", file=sys.stderr)
    for sentence, count in tally.sentences.most_common(25):
        print(f"{count:6} {sentence}", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, too_long)
    main()
