"""The command `gpnn`, and `python -m gpnn`: the command line, whose import can be interrupted, too."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from gpnn.cli import main as run
    except KeyboardInterrupt:
        print("gpnn: stopped.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
