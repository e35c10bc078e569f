# SPDX-License-Identifier: Apache-2.0

"""Answers that are kept for as long as there is no news of a node."""

import weakref
from typing import Any

import pytest

from ironic_virt.nova.reports import Reports


class Driver:
    """Knows nodes, and counts how often an answer is made."""

    def __init__(self, **nodes: object) -> None:
        self.nodes: dict[str, Any] = dict(nodes)
        self.made: list[str] = []
        self.reports = Reports(self.nodes.get, self.make)

    def make(self, name: str) -> str:
        self.made.append(name)
        return f"{name} is {self.nodes.get(name, 'gone')}"


def test_an_answer_is_made_once_for_as_long_as_there_is_no_news() -> None:
    driver = Driver(a=[1], b=[2])
    assert [driver.reports.of(name) for name in "abab"] == ["a is [1]", "b is [2]"] * 2
    assert driver.made == ["a", "b"]
    # News, even if the node looks the same.
    driver.nodes["a"] = [1]
    driver.reports.of("a"), driver.reports.of("b")
    driver.nodes["a"] = [3]
    assert driver.reports.of("a") == "a is [3]"
    assert driver.made == ["a", "b", "a", "a"]


def test_nothing_is_kept_of_a_node_whose_news_are_not_known() -> None:
    driver = Driver()
    assert driver.reports.of("a") == driver.reports.of("a") == "a is gone"
    assert driver.made == ["a", "a"]


def test_a_change_while_an_answer_is_made_is_news_the_next_time() -> None:
    driver = Driver(a=[1])
    make = driver.make

    def overtaken(name: str) -> str:
        answer = make(name)
        driver.nodes[name] = [2]
        return answer

    reports = Reports(driver.nodes.get, overtaken)
    assert reports.of("a") == "a is [1]"
    assert reports.of("a") == "a is [2]"


def test_an_error_is_not_kept() -> None:
    driver = Driver(a=[1])
    answers = iter([OSError("lost")])

    def make(name: str) -> str:
        for error in answers:
            raise error
        return driver.make(name)

    reports = Reports(driver.nodes.get, make)
    with pytest.raises(OSError, match="lost"):
        reports.of("a")
    assert reports.of("a") == "a is [1]"


def test_nodes_that_are_gone_are_forgotten() -> None:
    class News:
        """Of a node."""

    driver = Driver(a=News(), b=News())
    known = {name: weakref.ref(news) for name, news in driver.nodes.items()}
    driver.reports.of("a"), driver.reports.of("b")
    driver.nodes.clear()
    assert known["a"]() is not None
    driver.reports.forget_others(["b"])
    assert known["a"]() is None
    assert known["b"]() is not None
