"""Reports: an evaluation as a page to read, or as pictures."""

from sekai.evaluation.report.pictures import write_pictures
from sekai.evaluation.report.write import write_report

__all__ = ["write_pictures", "write_report"]
