"""Reports: an evaluation as an HTML page, as one page of PDF, or as PNG pictures."""

from sekai.evaluation.report.page import write_report
from sekai.evaluation.report.pictures import write_pictures, write_summary

__all__ = ["write_pictures", "write_report", "write_summary"]
