# SPDX-License-Identifier: Apache-2.0

"""The shards that nodes are in."""

from __future__ import annotations

import msgspec

from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.sender import Sender
from ironic_virt.baremetal.http.versions import Feature


class _Shard(msgspec.Struct):
    name: str | None = None


class _Shards(msgspec.Struct):
    shards: list[_Shard]


_SHARDS = msgspec.json.Decoder(_Shards)


def names(sender: Sender) -> list[str]:
    """The names of the shards that have a node, sorted.

    :raises MicroversionNotSupported: the server knows no shards.
    :raises IronicError: they could not be listed.
    """
    answer = sender.read("/shards", needs=[Feature.SHARD])
    found = answers.content(answer, _SHARDS.decode, "a list of shards", path="/shards")
    return sorted(shard.name for shard in found.shards if shard.name)
