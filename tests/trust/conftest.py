"""Scripts and what only other processes import are no tests."""

collect_ignore = ["guided.py", "preload.py"]
