# SPDX-License-Identifier: Apache-2.0

"""Lines of the log that repeat nothing."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from oslo_config import cfg
from oslo_log import formatters, log

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.node_decoder import NodeDecoder
from tests.unit.baremetal.scripted import node_json

NAME = "tests_of_errors_told_once"


def test_what_was_told_is_news_again_when_it_is_long_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(logs, "MOST_LOGGED", 2)
    told = logs.LogOnce()
    assert [told.is_news(what) for what in "aabba"] == [True, False, True, False, False]
    assert [told.is_news(what) for what in "cab"] == [True, True, True]


def test_warnings_of_nodes_are_remembered_up_to_a_number(monkeypatch, caplog) -> None:
    monkeypatch.setattr(logs, "MOST_LOGGED", 10)
    decoder = NodeDecoder()
    for number in (*range(11), 0):
        decoder.one(json.dumps(node_json(provision_state=f"state {number}")).encode())
    said = [line for line in caplog.messages if "'state 0'" in line]
    assert len(said) == 2


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What oslo.log writes."""
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatters.ContextFormatter(project="test", version="1", config=conf))
    root = logging.getLogger()
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)
    logging.getLogger(NAME).parent = root


def test_an_error_in_the_line_is_not_added_and_a_traceback_stays(written) -> None:
    # Twice, as two drivers in a process would.
    logs.log_errors_once(NAME)
    logs.log_errors_once(NAME)
    below = log.getLogger(f"{NAME}.below")
    try:
        raise exceptions.IronicUnavailable("BAD GATEWAY")
    except exceptions.IronicUnavailable as exc:
        below.warning("It failed: %s", exc)
    try:
        raise RuntimeError("nobody expected it")
    except RuntimeError as exc:
        below.error("It failed: %s", logs.error_text(exc), exc_info=True)
    warning, error, *trace = written.getvalue().splitlines()
    assert warning.count("BAD GATEWAY") == 1
    assert error.endswith("It failed: RuntimeError: RuntimeError: nobody expected it")
    assert "Traceback" in trace[0]


def test_levels_and_handlers_of_an_operators_still_count(written: io.StringIO) -> None:
    logs.log_errors_once(NAME)
    theirs = io.StringIO()
    handler = logging.StreamHandler(theirs)
    above, below = logging.getLogger(NAME), logging.getLogger(f"{NAME}.below")
    above.addHandler(handler)
    assert below.getEffectiveLevel() == logging.getLogger().level
    below.error("once")
    above.propagate = False
    below.error("not for the root")
    above.propagate = True
    above.removeHandler(handler)
    assert theirs.getvalue() == "once\nnot for the root\n"
    assert len(written.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "(pymysql.err.DataError) (1406, \"Data too long for column 'x'\")\n"
            "[SQL: UPDATE nodes SET instance_info=%(i)s]\n[parameters: {'i': 'SECRET'}]\n"
            "(Background on this error at: https://sqlalche.me/e/21/9h9h)",
            "(pymysql.err.DataError) (1406, \"Data too long for column 'x'\") (SQL left out)",
        ),
        (
            "(psycopg2.errors.NotNullViolation) null value in column x\nDETAIL:  Failing row "
            "contains (1, SECRET).\n\n[SQL: INSERT INTO nodes]",
            "(psycopg2.errors.NotNullViolation) null value in column x (SQL left out)",
        ),
        (
            "(psycopg2.errors.SyntaxError) at ,\nLINE 1: SELECT SECRET\n  ^\n[SQL: SELECT SECRET]",
            "(psycopg2.errors.SyntaxError) at , (SQL left out)",
        ),
        ("DETAIL: no SQL here", "DETAIL: no SQL here"),
    ],
)
def test_a_database_errors_statement_and_values_are_left_out(text: str, kept: str) -> None:
    assert logs.one_line(text) == kept
