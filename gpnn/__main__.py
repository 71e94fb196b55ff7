"""`python -m gpnn` is the command line."""

from gpnn.cli import main

if __name__ == "__main__":
    main()
