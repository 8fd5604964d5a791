"""Options as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core.model import Rank
from tiresias.core.plugins import OptionError, Policy, parse_options, placers, policies
from tiresias.core.state import JobState


def made(name: str, **options: Any) -> Any:
    return policies.make(name, options).options


@pytest.mark.parametrize(
    "given", ["3250,7200", [3250, 7200], (3250.0, 7200.0), " 3250 , 7200 ", ["3250", "7200"]]
)
def test_thresholds_as_text_or_numbers(given: Any) -> None:
    assert made("tiresias-l", queues=given).queues == (3250, 7200)


@pytest.mark.parametrize("given", ["3250", 3250, 3250.0, [3250]])
def test_one_threshold(given: Any) -> None:
    assert made("tiresias-l", queues=given).queues == (3250,)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("tiresias-l", "queues", "7200,3250"),
        ("tiresias-l", "queues", "100,100"),
        ("tiresias-l", "queues", "0,100"),
        ("tiresias-l", "queues", "-5"),
        ("tiresias-l", "queues", "nan"),
        ("tiresias-l", "queues", "inf"),
        ("tiresias-l", "queues", "many"),
        ("tiresias-l", "queues", "auto:2:6"),
        ("tiresias-l", "order", "by-name"),
        ("tiresias-l", "promote_knob", "-1"),
        ("tiresias-l", "min_run_s", "-1"),
        ("tiresias-l", "min_run_s", "nan"),
        ("las", "quantum_s", "0"),
        ("las", "quantum_s", "inf"),
        ("tiresias-g", "index", "best"),
        ("tiresias-g", "learn_after", "-1"),
        ("tiresias-g", "learn_after", "1.5"),
        ("tiresias-g", "same_within", "0.5"),
        ("tiresias-g", "distribution", "1,-2"),
        ("tiresias-g", "distribution", ""),
        ("tiresias-g", "distribution", "nan"),
        ("tiresias-g", "table", "1:2"),
        ("tiresias-g", "table", "0:1,5:2,3:1"),
        ("tiresias-g", "table", "0"),
        ("tiresias-g", "table", "0:1,nan:2"),
        ("tiresias-g", "table", "0:nan"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_option(name: str, key: str, value: str) -> None:
    options = {"index": "table"} if key == "table" else {}
    with pytest.raises(OptionError) as caught:
        policies.make(name, {**options, key: value})
    message = str(caught.value)
    assert name in message
    assert key in message
    assert repr(value) in message
    help = policies.get(name).Options.__dataclass_fields__[key].metadata["help"]
    assert message.endswith(f"; {key}: {help}"), "it says what may be given"


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'min_run_s'"):
        policies.make("srtf", {"min_run": "5"})
    with pytest.raises(OptionError, match="it takes none"):
        policies.make("fifo", {"min_run_s": "5"})


def test_an_unknown_policy_or_placer_names_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"no policy 'tiresia'.*known: "):
        policies.make("tiresia")
    with pytest.raises(OptionError, match="no placer 'pack'; did you mean 'packed'"):
        placers.make("pack")


@pytest.mark.parametrize("options", [{"index": "table"}, {"table": "0:1"}, {"index": "sup", "table": "0:1"}])
def test_a_table_and_its_index_go_together(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="go together"):
        policies.make("tiresias-g", options)


@dataclass
class PlainOptions:
    patience_s: float = 3.0
    colour: str = "blue"
    tries: int = 2


class Plain(Policy):
    """A policy whose options are a plain dataclass."""

    name = "plain"
    Options = PlainOptions

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ()


def test_the_options_of_a_user_may_be_a_plain_dataclass() -> None:
    options = parse_options(Plain, {"patience_s": "4", "colour": "red", "tries": 5})
    assert (options.patience_s, options.colour, options.tries) == (4.0, "red", 5)


def test_a_wrong_value_of_a_plain_option_is_refused_too() -> None:
    with pytest.raises(OptionError, match="tries='some'"):
        parse_options(Plain, {"tries": "some"})


def test_the_former_name_of_an_option_is_accepted_because_journals_contain_it() -> None:
    for placer in ("consolidated", "profile"):
        assert placers.make(placer, {"moves": "2"}).migrations == 2
        assert placers.make(placer, {"migrations": "2"}).migrations == 2
        with pytest.raises(OptionError, match=f"{placer}: migrations is given twice"):
            placers.make(placer, {"moves": "2", "migrations": "1"})
