"""The race: recipes of different families tried on validation by successive halving, within a budget."""

from gpnn.race.budget import choose_members, default_budget, parse_budget
from gpnn.race.halving import Finals, run_race
from gpnn.race.record import RaceRecord
from gpnn.race.start import Start, Trial, Variants

__all__ = [
    "Finals",
    "RaceRecord",
    "Start",
    "Trial",
    "Variants",
    "choose_members",
    "default_budget",
    "parse_budget",
    "run_race",
]
