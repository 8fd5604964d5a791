"""The policies, which rank jobs, and the allocators. Importing this package makes every one known by name.

Their modules are imported when a name is used.
"""

from functools import partial
from importlib import import_module

from tiresias.core.plugins import policies

MODULES = {
    "fifo": ("fifo", "fifo-skip"),
    "gandiva": ("gandiva",),
    "las": ("las",),
    "optimus": ("optimus",),
    "oracle": ("sjf", "srtf", "srsf"),
    "paper": ("tiresias-l", "tiresias-g"),
    "philly": ("philly",),
    "themis": ("themis", "ftf"),
    "tiresias": ("tiresias",),
    "two_level": ("two-level",),
}

for _module, _names in MODULES.items():
    policies.register_later(_names, partial(import_module, f"{__name__}.{_module}"))
