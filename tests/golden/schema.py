"""What a stored type looks like, field by field, in words that do not depend on Python names."""

from msgspec import NODEFAULT, inspect


def fields_of(stored: type) -> list[str]:
    """Return "name: type" of each field in order, with "= default" where it may be left out."""
    info = inspect.type_info(stored)
    assert isinstance(info, inspect.StructType), stored
    return [_field(field) for field in info.fields]


def layout_of(stored: type) -> str:
    """Return how the type is written: as an array or a map, and with which topic."""
    info = inspect.type_info(stored)
    assert isinstance(info, inspect.StructType), stored
    assert info.forbid_unknown_fields, stored
    shape = "array" if info.array_like else "map"
    return shape if info.tag is None else f"{shape} {info.tag}"


def _field(field: inspect.Field) -> str:
    text = f"{field.encode_name}: {_text(field.type)}"
    if field.required:
        return text
    default = (
        field.default_factory() if field.default is NODEFAULT and callable(field.default_factory) else field.default
    )
    return f"{text} = {default!r}"


def _text(kind: inspect.Type) -> str:
    """One type as text; nested structures are written out."""
    match kind:
        case inspect.UnionType():
            return " | ".join(sorted(_text(each) for each in kind.types))
        case inspect.LiteralType():
            return "(" + ", ".join(sorted(repr(value) for value in kind.values)) + ")"
        case inspect.VarTupleType():
            return f"[{_text(kind.item_type)}]"
        case inspect.DictType():
            return f"{{{_text(kind.key_type)}: {_text(kind.value_type)}}}"
        case inspect.StructType():
            tag = "" if kind.tag is None else f"{kind.tag} "
            return f"<{tag}{'; '.join(_field(field) for field in kind.fields)}>"
        case _:
            return type(kind).__name__.removesuffix("Type").lower()
