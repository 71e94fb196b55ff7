"""Files that are written atomically, and read with one clear error where they are damaged."""
