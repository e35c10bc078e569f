# SPDX-License-Identifier: Apache-2.0

"""Run the cases of Nova that ``cases.toml`` lists."""

from collections import defaultdict

from tests.nova.upstream import listed, loading

_RUNS = listed.read().runs


def _test_cases() -> dict[str, type]:
    methods = defaultdict(dict)
    for case in loading.all_cases():
        if (case.owner, case.name) in _RUNS:
            for kind, method in case.classes:
                methods[kind][case.name] = method
    return {kind.__name__: loading.test_case(kind, these) for kind, these in methods.items()}


globals().update(_test_cases())
