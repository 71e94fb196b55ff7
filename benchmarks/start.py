"""How long does the command line take to its first line?

    python benchmarks/start.py --out benchmarks/results/start.md

CPU seconds of a process (user and system), which other work on the machine does not lengthen: of `gpnn --help` and of
`gpnn train` with a wrong key to their end, and of `gpnn train` to its first line of output. Medians of `--repeats`.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

COMMANDS = {
    "gpnn --help": ["--help"],
    "gpnn train --help": ["train", "--help"],
    "gpnn train, a wrong key": ["train", "planted", "trane.epochs=3"],
    "gpnn train, to its first line": ["train", "planted", "train.epochs=1"],
}


def first_line(arguments: list[str], folder: str) -> float:
    """CPU seconds of the command until its first line is there."""
    command = [sys.executable, "-m", "gpnn", *arguments]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
    assert job.stdout is not None
    line = job.stdout.readline()
    fields = Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()
    job.kill()
    job.communicate()
    assert line, "no line came"
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def whole(arguments: list[str], folder: str) -> float:
    """CPU seconds of the command."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "gpnn", *arguments], capture_output=True, check=False, cwd=folder)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    lines = ["| command | CPU seconds | least | most |", "|---|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in COMMANDS.items():
            measure = first_line if name.endswith("line") else whole
            taken = [measure(arguments, folder) for _ in range(options.repeats)]
            lines.append(f"| {name} | {statistics.median(taken):.2f} | {min(taken):.2f} | {max(taken):.2f} |")
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    head = f"# From a command to its first line\n\n    python benchmarks/start.py --out FILE\n\n{about}\n\n"
    machine = (
        f"Machine: {platform.machine()}, load average {os.getloadavg()[0]:.1f}, Python {platform.python_version()}."
    )
    text = f"{head}{machine}\n\n" + "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(options.out, text)


if __name__ == "__main__":
    main()
