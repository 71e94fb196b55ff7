"""The race: recipes of different families tried on validation by successive halving, within a budget."""

from gpnn.race.budget import choose_members, default_budget, parse_budget
from gpnn.race.halving import Trial, run_race
from gpnn.race.record import RaceRecord

__all__ = ["RaceRecord", "Trial", "choose_members", "default_budget", "parse_budget", "run_race"]
