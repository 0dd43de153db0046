"""Reports: an evaluation as an HTML page or as PNG charts."""

from sekai.evaluation.report.page import write_report
from sekai.evaluation.report.pictures import write_pictures

__all__ = ["write_pictures", "write_report"]
