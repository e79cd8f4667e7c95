"""Values of Python become JSON, and what cannot is refused with its place."""

import enum
import json
import math

import pytest

from determined import _det
from determined.errors import InvalidArgument


class Colour(enum.Enum):
    RED = 1


class Scalar:
    def item(self):
        return 2.5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        ((1, (2, 3)), [1, [2, 3]]),
        (Scalar(), 2.5),
        (Colour.RED, "RED"),
        ([math.nan, math.inf, -math.inf], ["NaN", "Infinity", "-Infinity"]),
        ('ü\n"', 'ü\n"'),
        ({}, {}),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_values_become_json(value, expected):
    assert json.loads(_det.to_json(value)) == expected


def test_arrays_and_tensors_become_lists_and_numbers():
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    value = {"scalar": numpy.float32(0.5), "array": numpy.arange(3), "tensor": torch.tensor([1.0, 2.0])}
    value["loss"] = torch.tensor(0.25, requires_grad=True)
    assert json.loads(_det.to_json(value)) == {
        "scalar": 0.5,
        "array": [0, 1, 2],
        "tensor": [1, 2],
        "loss": 0.25,
    }


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": {"b": [1, object()]}}, r"metrics\['a'\]\['b'\]\[1\] is a object"),
        ({1: 2}, "metrics is a int, but names must be str"),
        (2**64, "has more than 64 bits"),
        (b"bytes", "metrics is a bytes"),
        (nested(100), "nested too deeply"),
    ],
)
def test_what_cannot_be_json_is_refused_with_its_place(value, message):
    with pytest.raises(TypeError, match=message):
        _det.to_json(value, "metrics")


def test_a_list_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested too deeply"):
        _det.to_json(endless)


def test_yaml_is_read_with_places_of_mistakes():
    assert _det.parse_yaml("a: [1, 0.5, yes]\nb: {c: null}") == {"a": [1, 0.5, "yes"], "b": {"c": None}}
    with pytest.raises(InvalidArgument, match="const.yaml:2"):
        _det.parse_yaml("a: 1\n  b: {", "const.yaml")
