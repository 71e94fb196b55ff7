"""Files that are written whole or not at all, and read with one clear sentence where they are damaged."""
