"""Forms with every kind of field."""

TITLED = [{"const": "#F00", "title": "Red"}, {"const": "#0F0", "title": "Green"}]
FIELDS = {
    "text": {"type": "string", "title": "Text", "description": "Say it", "minLength": 1, "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^[a-z]+$", "default": "a"},
    "email": {"type": "string", "format": "email"},
    "uri": {"type": "string", "format": "uri"},
    "date": {"type": "string", "format": "date"},
    "moment": {"type": "string", "format": "date-time"},
    "number": {"type": "number", "minimum": 0, "maximum": 1.5, "default": 0.5},
    "integer": {"type": "integer", "minimum": -3, "default": 2},
    "boolean": {"type": "boolean", "default": True},
    "untitled": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "titled": {"type": "string", "oneOf": TITLED, "default": "#F00"},
    "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
}
MULTIPLE = {
    "untitled": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
    "titled": {"type": "array", "items": {"anyOf": TITLED}, "default": ["#F00"]},
}


def form(fields, *required, **more):
    return {"type": "object", "properties": fields, "required": list(required), **more}


WHOLE = form(
    FIELDS | {f"many_{name}": field for name, field in MULTIPLE.items()},
    "text",
    **{"$schema": "https://json-schema.org/draft/2020-12/schema"},
)
