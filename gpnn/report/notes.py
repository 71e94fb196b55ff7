"""The notes of a run: what was decided on the user's behalf, what is not used, and what mends it."""

from __future__ import annotations

from gpnn.report.content import Section, Table
from gpnn.report.shared_record import AnyRecord


def notes(record: AnyRecord) -> Section | None:
    """Every note with the setting that mends it; None where there are none."""
    if not record.notes:
        return None
    lead = "What was decided on your behalf, and what of the data this run does not use."
    rows = [(note.what, note.setting) for note in record.notes]
    return Section("notes", "Notes", lead, [Table("", ("note", "what mends it"), rows, wide=True, text=True)])
