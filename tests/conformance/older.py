# SPDX-License-Identifier: Apache-2.0

"""Where the Ironics of earlier releases answer otherwise than the one that the fake is like.

A fake whose API is set to an earlier version leaves out what came later into the API; what
changed without a new version it does as the newest does.  Each row was seen in ``make releases``.
"""

from fnmatch import fnmatchcase

_NEVER_ASKED = {
    "http: how deep a body may be: more than the parser bears": "the service died of it",
}
_ROOT = "the root did not look at the version, and named none in its headers"
_DISABLE_POWER_OFF = "disable_power_off is a field of version 1.95"
_ROWS = (
    (
        "arguments: a node whose parent_node is null or empty",
        "an empty parent was refused",
    ),
    (
        "arguments: a node whose properties is null or empty",
        "a node could be made without properties",
    ),
    ("arguments: a node whose disable_power_off is null or empty", _DISABLE_POWER_OFF),
    ("consoles: a graphical console *", "there was no graphical console of fake hardware"),
    ("consoles: * of interface fake-graphical", "there was no graphical console of fake hardware"),
    ("ports: whether node_uuid of a port can be patched", "that was an error of the server"),
    (
        "arguments: servicing with a step that * does not have fails",
        "a step of servicing that does not exist was refused before it began",
    ),
    (
        "verbs: which verbs are possible in state service *",
        "an abort of servicing left the node in service failed",
    ),
    ("history: *", "beginnings and ends of deployments were not in the history"),
    (
        "arguments: what * says to an argument that it does not have",
        "unknown arguments were a bad request, and are an error of the server since",
    ),
    (
        "arguments: what becomes of * when it is deleted with a body",
        "unknown arguments were a bad request, and are an error of the server since",
    ),
    ("*: * instance_name *", "the instance name is a field of version 1.104"),
    ("ports: whether a port is moved *", "a node of no uuid was an error of the server"),
    ("http: what a body of type 'None' is taken for", "it was not taken for a form"),
    (
        "verbs: which verbs are possible in state wait call-back, and where they lead",
        "a verb of a later version was a bad request",
    ),
    ("http: what HEAD and OPTIONS say of /", _ROOT),
    ("http: what HEAD and OPTIONS say of /v1", "there was no HEAD of /v1"),
    ("http: what who accepts * is answered", _ROOT),
    ("http: what is found at a path with ..", _ROOT),
    ("http: what is found at //v1/nodes", "slashes in a row were one"),
    ("http: whether version None knows paths that end in .json", "/v1.json was /v1"),
    ("versions: the root *", _ROOT),
    (
        "versions: errors say which version was spoken, and the general header is understood",
        "it was not understood",
    ),
    ("power: a node that must not be switched off is not", _DISABLE_POWER_OFF),
    (
        "provision: the project of an instance becomes the lessee of the node, until it is gone",
        "that was not so by default",
    ),
    (
        "provision: a rebuild of an image of unknown type is a failure of the server",
        "it was not looked at before the answer",
    ),
    ("http: how deep a body may be: *", "the depth of a body had no limit"),
    ("http: what becomes of a body that is larger than is allowed", "bodies had no limit"),
    (
        "http: a body may be larger where it may hold a config drive",
        "the decoder bore no body of that size",
    ),
    ("http: a body that comes in chunks is read", "a body in chunks was not read"),
    (
        "nodes_show: a port group *",
        "fields of port groups were hidden by other versions",
    ),
    ("arguments: the ports of a port group have one physical network", "it was not checked"),
    (
        "allocations: the uuid of an allocation is not looked at",
        "it was looked at",
    ),
    (
        "allocations: there are no allocations before version 1.52",
        "the answer to a resource of a later version named no versions",
    ),
    (
        "versions: * is not there before its version",
        "the answer to a resource of a later version named no versions",
    ),
    (
        "malformed: there is nothing at /v1/nodes/%2F",
        "the answer was the API's, not the framework's",
    ),
    ("provision: steps belong to the verbs that run them", "a step that is not whole was refused"),
    (
        "provision: a step that holds needs an interface, and is then passed over",
        "a step that is not whole was refused",
    ),
    (
        "vifs: a VIF that Neutron refuses in state available is there all the same",
        "Neutron was not asked before the node is deployed",
    ),
    (
        "volumes: a volume target of a node that is on goes in no state but those before it is *",
        "it could not be removed from a node that is on",
    ),
    ("volumes: a volume target *", "the secret of a volume target was shown"),
)


def never_asked(identity: str) -> str:
    """Why an earlier Ironic is not asked at all, in words; empty if it is."""
    return _NEVER_ASKED.get(identity, "")


def reason(identity: str) -> str:
    """Why an earlier Ironic may fail a check, in words; empty if it must pass it."""
    return next((why for pattern, why in _ROWS if fnmatchcase(identity, pattern)), "")
