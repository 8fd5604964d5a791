"""Which files belong to this distribution: those of the repository, or of the source archive made from it."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MANAGER_ONLY = ("reports.py", "progress.py")


class Sources(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        root = Path(self.root)
        source = next(each for each in (root / "src", root.parents[1] / "src") if each.is_dir())
        below = "src/" if self.target_name == "sdist" else ""
        files = [path for path in (source / "tiresias/job").glob("*.py") if path.name not in MANAGER_ONLY]
        for path in [source / "tiresias/__init__.py", *files]:
            build_data["force_include"][str(path)] = below + path.relative_to(source).as_posix()
