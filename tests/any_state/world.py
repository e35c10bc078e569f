# SPDX-License-Identifier: Apache-2.0

"""Many nodes, each in another state, in one deployment: Nova, Placement and the fake Ironic.

Nova and Placement are the real ones, in this process.  All nodes share a start of the compute
service and its periods, as they would; what a user, an operator or the service then does to one
node must not depend on its neighbours.

Time is Ironic's alone: it goes on by half a second with each request.
"""

import datetime
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar
from unittest import mock

from nova import context as nova_context
from nova import exception
from nova.tests.functional.api import client as api_client

from ironic_virt.baremetal.http.retry import Failures
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.fleet import corrections
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, VirtualClock
from ironic_virt.testing.fake_ironic.inprocess import FakeIronicAdapter
from ironic_virt.testing.fake_ironic.journal import Entry
from tests.any_state import judging, shortcuts, staging, triples
from tests.any_state.judging import Outcome, View
from tests.any_state.staging import Staged, Template
from tests.any_state.triples import Triple
from tests.nova import figures
from tests.nova.fleets import Fleet

HOST, OTHER_HOST = "ours", "other"
_TIMEOUTS = ("unprovision_timeout", "power_timeout", "rescue_timeout")
_MOST_STARTS = 10
_BY_REQUEST = 0.5
"""Seconds that each request takes, on Ironic's clock."""
_FASTER = 50
"""How many times as fast as ours a waiting driver's clock runs."""


def _of_each(
    client: Any, what: str, providers: Collection[str], progress: Any
) -> dict[str, dict[str, Any]]:
    """Answer as ``PlacementClient.of_each``, without a request for each provider."""
    stocks, holders = judging.read_placement()
    if what == "allocations":
        return {
            uuid: {consumer: {"resources": {kind: 1}} for consumer, kind in holders[uuid]}
            for uuid in providers
        }
    return {
        uuid: {kind: {"total": total, "reserved": held} for kind, total, held in stocks[uuid]}
        for uuid in providers
    }


def _shorter(pause: float | None) -> float | None:
    return pause and pause / _FASTER


class World(Fleet):
    """One deployment; :meth:`judge` takes it through everything.

    :cvar settings: of Ironic.
    :cvar patience: for how many seconds, a request in each, a driver waits for it.
    :cvar longest: how many seconds a world waits for what it has asked for.
    :cvar template: makes the nodes.
    :ivar say: called with a line after each step.
    :ivar failed_starts: how many starts of the service have ended in an error.
    """

    say: Callable[[str], None] = staticmethod(lambda line: None)
    settings: ClassVar[dict[str, Any]] = {}
    patience = 5
    longest = 1200.0
    template = Template

    def setUp(self) -> None:
        shortcuts.take_before(self)
        self.stub_out("ironic_virt.fleet.placement.PlacementClient.of_each", _of_each)
        # No service will report what has changed shortly before.
        self.stub_out("ironic_virt.fleet.checks.offers.REPORTED_AFTER", datetime.timedelta.min)
        super().setUp()
        shortcuts.take_after(self)
        self.flags(notification_format="unversioned", group="notifications")

    def runTest(self) -> None:  # noqa: N802 - as unittest has it
        """Do nothing: this class only uses Nova's fixtures and is not a test."""

    def provide_ironic(self) -> Any:
        self.clock = VirtualClock()
        self.fake = FakeIronic(clock=self.clock, power_follows_deploy=True, **self.settings)
        server = FakeIronicServer(self.fake)
        server.start()
        self.addCleanup(server.stop)
        waits = {
            "clock": lambda: time.monotonic() * _FASTER,
            "pause": lambda woken, seconds: woken.wait(seconds and seconds / _FASTER),
        }
        adapter = FakeIronicAdapter(self.fake)
        sending = "ironic_virt.baremetal.http.transport._Adapter.send"
        self.stub_out(sending, lambda _, request, **how: adapter.send(request, **how))
        self.enterContext(mock.patch.dict(Watcher.__init__.__kwdefaults__, waits))
        pause_after = Failures.pause
        pausing = "ironic_virt.baremetal.http.retry.Failures.pause"
        self.stub_out(pausing, lambda *error: _shorter(pause_after(*error)))
        return server

    # -- the stage --------------------------------------------------------------

    def stage(self, drawn: Iterable[Triple], number: int, driver: str) -> None:
        """Have a node for each triple, and no service running."""
        self._number, self._driver, self.failed_starts = number, driver, 0
        # Nova's test support makes text of all that is logged at any level.
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.placement_call("post", "/resource_classes", {"name": "CUSTOM_WRONG"})
        (first,) = self.make_nodes(1, shard=staging.SHARD)
        (other,) = self.make_nodes(1, shard="b")
        self._start()
        self._started(OTHER_HOST, "b").stop()
        bystander = self.boot_at(HOST, first)
        self.refresh(self.compute)
        self.compute.stop()
        template = self.template(self.fake, first, bystander["id"], other)
        self.staged = template.stage(drawn, random.Random(f"staged {number}"))
        triple = Triple(
            *("active", triples.NEVER, False, False, False, triples.OURS, True, False),
            *(triples.USUAL, "power on", False, triples.OURS, "active", None, triples.FULL),
            triples.OURS,
        )
        self.bystander = Staged(triple, first, bystander["id"], "")
        self.begin()

    def begin(self) -> None:
        """Note what is sent from now on."""
        self._sent: list[str] = []
        self.fake.requests.listener = self._note

    def sent(self) -> list[str]:
        """The requests to Ironic since the last time that were to change something."""
        sent, self._sent = self._sent, []
        return sent

    def _started(self, host: str, shard: str, **more: Any) -> Any:
        options = {"api_retry_interval": 1, "api_max_retries": self.patience}
        if self._driver == figures.IN_TREE:
            options["shard"] = shard
        else:
            options |= {"shard_key": shard, "deploy_timeout": 0}
            options |= dict.fromkeys(_TIMEOUTS, self.patience)
        return self.start_compute(host, self._driver, **options, **more)

    def _note(self, entry: Entry) -> None:
        self.clock.advance(_BY_REQUEST)
        if entry.method != "GET":
            self._sent.append(f"{entry.method} {entry.path} {entry.body}")

    # -- what happens -----------------------------------------------------------

    def judge(self) -> list[Outcome]:
        """Take all nodes through everything, and say of each how it has ended."""
        self.free_wrongly: dict[str, str] = {}
        self.refusals: dict[str, str] = {}
        self.seconds: Counter[str] = Counter()
        before = View.now(self.fake)
        self._timed("start", self._start)
        self._timed("periods", self._periods)
        self._timed("deletes", self._delete)
        self._timed("check", self._fix)
        self._timed("periods", self._periods)
        settled = View.now(self.fake)
        self.check()
        findings = self.rows
        sent = self.sent()
        self.compute.stop()
        self._timed("again", self._start)
        self._timed("again", self._periods)
        self._timed("again", self._fix)
        after = View.now(self.fake)
        self.compute.stop()
        judge = judging.Judge(before, settled, after, findings, sent, self.free_wrongly)
        outcomes = [judge.outcome(one) for one in self.staged]
        why = judge.bystander(self.bystander)
        return [*outcomes, Outcome(self.bystander, (why,), ())] if why else outcomes

    def _timed(self, what: str, act: Callable[[], None]) -> None:
        began = time.process_time()
        act()
        used = time.process_time() - began
        self.seconds[what] += used
        self.say(f"world {self._number}: {what}, {used:.0f} s of processor time")

    def _start(self) -> None:
        """Start the service, as often as it takes: Nova's own may end by one server at a time."""
        while True:
            try:
                self.compute = self._started(HOST, staging.SHARD)
                return
            except exception.NovaException:
                self.failed_starts += 1
                if self._driver == figures.OURS or self.failed_starts == _MOST_STARTS:
                    raise

    def _periods(self) -> None:
        manager = self.compute.manager
        for _ in range(2):
            context = nova_context.get_admin_context()
            busy = View.now(self.fake).not_free
            manager.update_available_resource(context)
            view = View.now(self.fake)
            for node in busy & view.not_free & view.offered:
                self.free_wrongly.setdefault(node, view.nodes[node]["provision_state"])
            manager._sync_power_states(context)
            self._until(lambda: not manager._syncs_in_progress)
            manager._cleanup_running_deleted_instances(context)
            self.clock.advance(2 * staging.SOON)

    def _delete(self) -> None:
        """Delete all servers, those on slow nodes first, and again where that failed."""
        own = [one for one in self.staged if one.triple.record != triples.OTHER]
        for _ in range(2):
            known = View.now(self.fake).servers
            is_deleted = {uuid: row[0] for uuid, row in known.items()}
            self._delete_once([one for one in own if not is_deleted.get(one.server, True)])

    def _delete_once(self, servers: list[Staged]) -> None:
        late = [one for one in servers if one.triple.moves == triples.LATE]
        for some in (late, [one for one in servers if one not in late]):
            for one in some:
                try:
                    self.api.delete_server(one.server)
                except api_client.OpenStackApiException as exc:
                    self.refusals[one.server] = str(exc)
            self.clock.advance(2 * staging.FAR)
            uuids = {one.server for one in some} - self.refusals.keys()
            self._until(lambda uuids=uuids: not View.being_deleted(uuids))
        self.clock.advance(2 * staging.FAR)

    def _fix(self) -> None:
        """Have an operator fix all that the doctor can fix, and what comes to light by that."""
        for _ in range(2):
            for code in sorted(self.check().keys() & corrections.CORRECTIONS.keys()):
                self.run_fleet(["check", *self.service_files, "--fix", code, "--apply"])

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.longest
        while not is_so() and time.monotonic() < deadline:
            time.sleep(0.2)
