"""JSON at the edge: compact, optionally sorted, and plain about what it cannot do."""

from types import MappingProxyType

import pytest

from fireledger.runners.json_edge import Json, Jsonable, MalformedJson, dumps, dumps_text, loads


def test_a_value_survives_the_round_trip() -> None:
    """Every kind of JSON value is written compactly and read back equal."""
    value: Json = {"b": [1, 2.5, None, True], "a": {"é": "x"}}
    assert dumps(value) == '{"b":[1,2.5,null,true],"a":{"é":"x"}}'.encode()
    assert loads(dumps(value)) == value == loads(dumps_text(value))


def test_keys_can_be_sorted_and_mappings_written() -> None:
    """sort_keys orders every level; a read-only mapping is written like a dictionary."""
    value: Jsonable = MappingProxyType({"b": {"z": 1, "a": 2}, "a": (1, 2)})
    assert dumps_text(value, sort_keys=True) == '{"a":[1,2],"b":{"a":2,"z":1}}'


def test_bytes_and_huge_integers_are_refused() -> None:
    """A value JSON does not have raises TypeError."""
    for value in (b"x", 2**64):
        with pytest.raises(TypeError):
            dumps({"value": value})


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":1}x', b"\xff", "nope"])
def test_malformed_json_is_one_kind_of_error(data: bytes | str) -> None:
    """Whatever is wrong with the bytes, MalformedJson is raised."""
    with pytest.raises(MalformedJson, match="not a json value"):
        loads(data)
