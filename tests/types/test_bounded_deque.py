"""A deque of bounded bytes keeps the latest entries."""

from dovetail.types.bounded_deque import ByteBoundedDeque


def test_the_oldest_go_first() -> None:
    ring: ByteBoundedDeque[str] = ByteBoundedDeque(1000)
    for number in range(10):
        ring.add(str(number), 100)
    assert ring.all() == ["7", "8", "9"]


def test_the_last_entry_stays_however_large_it_is() -> None:
    ring: ByteBoundedDeque[str] = ByteBoundedDeque(10)
    ring.add("small", 5)
    ring.add("large", 5000)
    assert ring.all() == ["large"]


def test_empty_lines_are_bounded_too() -> None:
    ring: ByteBoundedDeque[str] = ByteBoundedDeque(10_000)
    for _ in range(100_000):
        ring.add("", 0)
    assert len(ring.all()) <= 50
