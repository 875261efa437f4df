"""A table whose items end agrees with a plain dictionary of ends, and holds no more than it must."""

import random

from dovetail.storage.ttl_table import NEVER, TtlTable


def test_whatever_is_done_the_table_knows_what_is_there() -> None:
    dice = random.Random(2)
    table: TtlTable[int] = TtlTable()
    model: dict[str, tuple[int, float]] = {}
    now = 0.0
    for step in range(20_000):
        name = f"{dice.randrange(60)}"
        end = dice.choice([now + dice.random() * 20, now + 5, NEVER])
        alive = name in model and model[name][1] > now
        match dice.randrange(6):
            case 0:
                table.set(name, step, end)
                model[name] = (step, end)
            case 1:
                assert table.renew(name, end, now) is alive
                if alive:
                    model[name] = (model[name][0], end)
            case 2:
                assert table.pop(name, now) == (model[name][0] if alive else None)
                model.pop(name, None)
            case 3:
                now += dice.random()
                table.sweep(now, dice.randrange(4))
            case 4:
                living = sorted(other for other, (_, until) in model.items() if until > now)
                first = table.first(now)
                assert len(table) == len(living)
                limited = [(until, other) for other in living if (until := model[other][1]) != NEVER]
                assert (first and first[1]) == (min(limited)[0] if limited else None)
                assert first is None or model[first[0]][1] == first[1]
                assert len(table._heap) <= 2 * len(table) + 130
            case _:
                assert table.get(name, now) == (model[name][0] if alive else None)


def test_an_item_that_is_renewed_again_and_again_is_looked_at_rarely() -> None:
    table: TtlTable[str] = TtlTable()
    table.set("session", "state", 100.0)
    for now in range(1, 1000):
        table.sweep(float(now), 10)
        assert table.renew("session", now + 100.0, float(now))
        assert len(table._heap) == 1
    assert table.get("session", 1098.0) == "state"
    table.sweep(1099.0, 10)
    table.sweep(1099.0, 10)
    assert len(table) == 0 and table._heap == []
