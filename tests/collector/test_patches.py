"""Patches of a library's functions: put back in any order, and nothing in the way when it is over."""

from __future__ import annotations

import itertools

import pytest

from rankscope.collector.hooks.patch import Function, Patch, patch


class Base:
    def call(self, *, by: int = 1) -> int:
        """Documented."""
        return by


class Derived(Base):
    pass


def adding(amount: int, seen: list[int]) -> Function:
    def around(original: Function) -> Function:
        def call(self: Base, *, by: int = 1) -> int:
            seen.append(amount)
            return original(self, by=by) + amount

        return call

    return around


def test_a_patch_calls_through_and_is_undone() -> None:
    before = Base.call
    made = Patch(Base, "call", adding(10, []))
    assert Base().call(by=2) == 12 and Base.call.__doc__ == "Documented."
    made.undo()
    assert Base.call is before


def test_a_patch_of_an_inherited_function_leaves_no_copy_behind() -> None:
    made = Patch(Derived, "call", adding(10, []))
    assert Derived().call() == 11 and Base().call() == 1
    made.undo()
    assert "call" not in vars(Derived)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_patches_over_each_other_end_in_any_order(order: tuple[int, ...]) -> None:
    before, seen = Base.call, list[int]()
    made = [Patch(Base, "call", adding(10**number, seen)) for number in range(3)]
    assert Base().call() == 112
    for number in order:
        made[number].undo()
    seen.clear()
    assert Base().call() == 1 and seen == []
    if order == (2, 1, 0):
        assert Base.call is before
    Base.call = before  # type: ignore[method-assign]


def test_a_place_that_this_version_lacks_is_left_alone() -> None:
    assert patch(Base, "not_there", adding(1, [])) == []
    assert patch(None, "call", adding(1, [])) == []
