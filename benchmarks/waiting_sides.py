# SPDX-License-Identifier: Apache-2.0

"""The sides of ``waiting``; each runs in its own process.

A side is a compute service that has asked for deployments and waits until they are
done, a thread each.  The service's records are stubs on both sides, which answer at
once.
"""

from __future__ import annotations

import abc
import pathlib
import tempfile
import threading
import time
from collections.abc import Collection
from typing import Any

from ironic_virt import virt

HOST = "compute-1"
_PATIENCE = 120.0


class Waiting(abc.ABC):
    """Waits, and tells when each wait was over.

    :param url: of Ironic.
    :param shard: of the nodes that this service has.
    """

    def __init__(self, url: str, shard: str) -> None:
        self._returned: dict[str, float] = {}
        self._errors: list[Exception] = []
        self._threads: list[threading.Thread] = []
        self._asked: set[str] = set()
        self._changed = threading.Condition()
        self.connect(url, shard)

    @abc.abstractmethod
    def connect(self, url: str, shard: str) -> None:
        """Make the driver."""

    @abc.abstractmethod
    def wait(self, instance: str, node: str) -> None:
        """Return when the instance is active on its node, which is being deployed."""

    def note_asked(self, instance: str) -> None:
        """The driver has asked whether the instance is still wanted, as it does while it waits."""
        with self._changed:
            self._asked.add(instance)
            self._changed.notify_all()

    def begin(self, deployments: Collection[tuple[str, str]]) -> None:
        """Wait for each (instance, node); return when all are waiting."""
        self._returned, self._threads, self._asked = {}, [], set()
        for instance, node in deployments:
            thread = threading.Thread(target=self._wait, args=(instance, node), daemon=True)
            self._threads.append(thread)
            thread.start()
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._errors or len(self._asked) >= len(deployments), _PATIENCE
            ):
                raise TimeoutError(f"only {len(self._asked)} of {len(deployments)} wait")

    def returned(self) -> dict[str, float]:
        """Instance to the moment when its wait was over, on the host's monotonic clock."""
        for thread in self._threads:
            thread.join(_PATIENCE)
        if self._errors:
            raise self._errors[0]
        if len(self._returned) < len(self._threads):
            raise TimeoutError(f"only {len(self._returned)} of {len(self._threads)} waits ended")
        return self._returned

    def _wait(self, instance: str, node: str) -> None:
        try:
            self.wait(instance, node)
            self._returned[instance] = time.monotonic()
        except Exception as exc:
            with self._changed:
                self._errors.append(exc)
                self._changed.notify_all()


class _Service(virt.VirtAPI):
    """What stands behind our driver."""

    def __init__(self, side: Waiting) -> None:
        self._side = side

    @property
    def host(self) -> str:
        return HOST

    def live_hosts(self) -> Collection[str]:
        return [HOST]

    def owned_instance_uuids(self) -> Collection[str]:
        return []

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        self._side.note_asked(instance.uuid)
        return None


class Ours(Waiting):
    """ironic_virt's driver, which takes up deployments that it finds under way."""

    def connect(self, url: str, shard: str) -> None:
        from ironic_virt import conf
        from ironic_virt.driver.loading import load_compute_driver

        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "service.conf")
            path.write_text(
                f"[DEFAULT]\nhost = {HOST}\n"
                f"[ironic]\nauth_type = none\nendpoint_override = {url}\nshard_key = {shard}\n"
                # The peer has nothing like it, and it is not part of a wait.
                "protect_instances = false\n"
            )
            self.driver = load_compute_driver(conf.load([str(path)]), _Service(self))
            self.driver.init_host(HOST)

    def wait(self, instance: str, node: str) -> None:
        flavor = virt.Flavor("baremetal", vcpus=8, memory_mb=16384, root_gb=100)
        self.driver.spawn(
            virt.DeployRequest(
                virt.Instance(instance, "instance", flavor, host=HOST, node=node),
                virt.ImageMeta("https://images.example.test/a.raw"),
            )
        )


class InTree(Waiting):
    """Nova's in-tree driver, from where its ``spawn`` begins to wait."""

    def connect(self, url: str, shard: str) -> None:
        from benchmarks import intree

        self.service = intree.InTree(url, {"shard": shard})

        def refresh(instance: Any, use_slave: bool = False) -> None:
            self.note_asked(instance.uuid)

        self.service.objects.Instance.refresh = refresh

    def wait(self, instance: str, node: str) -> None:
        from nova import conf
        from oslo_service import loopingcall

        # These are the lines that end spawn() there.
        timer = loopingcall.FixedIntervalLoopingCall(
            self.service.driver._wait_for_active, self.service.instance(instance, node)
        )
        timer.start(interval=conf.CONF.ironic.api_retry_interval).wait()
