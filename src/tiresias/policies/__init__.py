"""The policies, which rank jobs, and the allocators. Importing this package makes every one known by name.

Their modules are imported when a name is used.
"""

from tiresias.core.plugins import policies

CLASSES = {  # by name: the module and the class
    "fifo": ("fifo", "Fifo"),
    "fifo-skip": ("fifo", "FifoSkip"),
    "gandiva": ("gandiva", "Gandiva"),
    "las": ("las", "Las"),
    "optimus": ("optimus", "Optimus"),
    "sjf": ("oracle", "Sjf"),
    "srsf": ("oracle", "Srsf"),
    "srtf": ("oracle", "Srtf"),
    "tiresias-g": ("paper", "TiresiasG"),
    "tiresias-l": ("paper", "TiresiasL"),
    "philly": ("philly", "Philly"),
    "ftf": ("themis", "Ftf"),
    "themis": ("themis", "Themis"),
    "tiresias": ("tiresias", "Tiresias"),
    "two-level": ("two_level", "TwoLevel"),
}

for _name, (_module, _class) in CLASSES.items():
    policies.register_later(_name, f"{__name__}.{_module}", _class)
