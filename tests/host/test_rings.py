"""The latest of something, up to so many bytes."""

from dovetail.host.rings import Ring


def test_the_oldest_go_first() -> None:
    ring: Ring[str] = Ring(1000)
    for number in range(10):
        ring.add(str(number), 100)
    assert ring.all() == ["7", "8", "9"]


def test_one_entry_stays_however_large() -> None:
    ring: Ring[str] = Ring(10)
    ring.add("small", 5)
    ring.add("large", 5000)
    assert ring.all() == ["large"]


def test_empty_lines_are_bounded_too() -> None:
    ring: Ring[str] = Ring(10_000)
    for _ in range(100_000):
        ring.add("", 0)
    assert len(ring.all()) <= 50
