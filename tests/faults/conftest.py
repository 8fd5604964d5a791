"""What the campaigns measured is shown at the end."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
