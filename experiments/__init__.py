"""Tables and figures: one TOML file each, the code that runs them, the baselines, and their results."""
