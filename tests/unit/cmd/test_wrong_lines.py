# SPDX-License-Identifier: Apache-2.0

"""A wrong command line of any program is its exit code and one clear line, and no more."""

import shlex

import pytest

from ironic_virt.cmd import compute, fake_ironic, fleet, manage, shell, status
from ironic_virt.cmd.demo import run as demo
from ironic_virt.exit_codes import ExitCode, FleetExitCode

PROGRAMS = {
    "demo": shell,
    "ironic-virt": shell,
    "ironic-virt-compute": compute,
    "ironic-virt-fake-ironic": fake_ironic,
    "ironic-virt-fleet": fleet,
    "ironic-virt-manage": manage,
    "ironic-virt-status": status,
}
LINES = {
    "demo --nodes 0": "argument --nodes: '0' is not a number from 1",
    "demo --nodes 2": "argument --servers: 3 don't fit on 2 nodes (--nodes)",
    "demo now": "unrecognized arguments: now",
    "ironic-virt --debg": "did you mean --debug?",
    "ironic-virt server create --flavr gold web": "did you mean --flavor?",
    "ironic-virt-compute --config-fil x --use-sylog": "did you mean --use-syslog?",
    "ironic-virt-fake-ironic --nods 3": "did you mean --nodes?",
    "ironic-virt-manage ironic-compute-node-move --servce a": "did you mean --service?",
    "ironic-virt-status upgrade check --confg-file x": "did you mean --config-file?",
    "ironic-virt-fake-ironic --deploy-time soon": "'soon' is neither seconds such as 5 nor a r",
    "ironic-virt-fake-ironic --max-version new": "'new' is not an API version such as 1.81",
    "ironic-virt-fake-ironic --min-version 1.9 --max-version 1.8": "it is above --max-version",
    "ironic-virt-fake-ironic --port 70000": "'70000' is not a port",
    "ironic-virt-fake-ironic --auth magic": "'magic' is neither none nor token",
    "ironic-virt-fleet": "which command?",
    "ironic-virt-fleet chck": "did you mean check?",
    "ironic-virt-fleet check --code a --fix b": "--fix: not allowed with argument --code",
    "ironic-virt-fleet check --service-conf one": "--service-conf: one is not <host>=<file>",
    "ironic-virt-fleet check --code nothing-like-it": "no finding has the code nothing-like-it",
    "ironic-virt-fleet check --apply": "argument --apply: only with --fix",
    "ironic-virt-fleet check --column nope": "the columns are Severity",
    "ironic-virt-fleet check --code lease-nobody": "the nearest are lease-of-nobody, ",
    "ironic-virt-fleet plan shards": "give the file of each service",
    "ironic-virt-fleet plan shards --cell a --include-new": "--include-new: not with --cell",
    "ironic-virt-fleet plan shards --output /none/at/all": "can't write to the directory /none/at",
    "ironic-virt-fleet plan shards --serves one": "argument --serves: ",
    "ironic-virt-fleet plan shards --serves a=b --serves a=c": "a is given twice",
    "ironic-virt-fleet plan shards --serves a=b --accept none": "no finding has the code none",
    "ironic-virt-fleet plan move --from one": "arguments are required: --to",
}


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_command_line_is_an_exit_code_and_one_line(line, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "run", lambda *_: pytest.fail("it began"))
    name, *argv = shlex.split(line)
    # Only one of them takes its name from there.
    monkeypatch.setattr("sys.argv", [name])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(PROGRAMS[name].main([name, *argv] if name == "demo" else argv))
    is_fleet = name == "ironic-virt-fleet"
    assert ended.value.code == (FleetExitCode.FAILED if is_fleet else ExitCode.REFUSED)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("ironic-virt")
    assert LINES[line] in err


@pytest.mark.parametrize(
    ("line", "examples"),
    [
        ("demo", [f"\n  ironic-virt demo {options}" for options in (" ", "--nodes", "-v")]),
        ("ironic-virt-fake-ironic", ["examples:", "--deploy-time 5,30"]),
        ("ironic-virt-fleet check", ["ironic-virt-fleet check --service-conf"]),
    ],
)
def test_the_help_has_examples(line, examples, capsys) -> None:
    name, *argv = line.split()
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(PROGRAMS[name].main([*([name] if name == "demo" else argv), "--help"]))
    assert not ended.value.code
    text = capsys.readouterr().out
    assert [example for example in examples if example not in text] == []
