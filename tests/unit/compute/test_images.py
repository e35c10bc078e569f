# SPDX-License-Identifier: Apache-2.0

"""Which images can be asked for, and what is said of others."""

import uuid

import pytest

from ironic_virt import virt
from ironic_virt.compute import images
from ironic_virt.compute.errors import InvalidRequest

URL = "https://images.example.test/debian.raw"
MD5, SHA256, SHA512 = "a1" * 16, "B2" * 32, "c3" * 64
GLANCE = str(uuid.UUID(int=7))


@pytest.mark.parametrize("checksum", [MD5, SHA256, SHA512, "http://images.example.test/SUMS"])
def test_a_url_with_a_digest_or_a_file_of_digests_will_do(checksum: str) -> None:
    kept = checksum if "://" in checksum else checksum.lower()
    assert images.image(URL, checksum=checksum) == virt.ImageMeta(URL, kept, "raw")


@pytest.mark.parametrize(
    ("name", "expected"), [("a.raw", "raw"), ("a.RAW?v=1", "raw"), ("a.qcow2", None), ("a", None)]
)
def test_the_agent_is_told_that_a_raw_image_is_raw(name: str, expected: str | None) -> None:
    """ironic-python-agent 13.0.0 takes one with a GPT for format gpt, and fails."""
    url = f"https://images.example.test/{name}"
    assert images.image(url, checksum=MD5).disk_format == expected
    assert images.image(url, checksum=MD5, disk_format="qcow2").disk_format == "qcow2"
    assert images.image("file:///images/a.raw").disk_format is None, "the conductor looks itself"


@pytest.mark.parametrize(
    "href", ["file:///images/a.raw", "oci://registry.test/a:1", GLANCE, f"glance://{GLANCE}"]
)
def test_others_need_no_checksum(href: str) -> None:
    assert images.image(href) == virt.ImageMeta(href)


def test_nor_does_one_that_is_run_from_memory() -> None:
    properties = {"ironic_ramdisk_deploy": "true"}
    assert images.image(URL, properties=properties) == virt.ImageMeta(URL, properties=properties)


def test_all_that_is_said_of_an_image_is_kept() -> None:
    properties = {"kernel_id": "http://a/k", "ramdisk_id": "http://a/r"}
    found = images.image(URL, checksum=MD5, disk_format="qcow2", properties=properties)
    assert found == virt.ImageMeta(URL, MD5, "qcow2", properties)


@pytest.mark.parametrize(
    ("href", "more", "complaint"),
    [
        (URL, {}, "needs a checksum"),
        ("http://images.example.test/a", {}, "needs a checksum"),
        (URL, {"checksum": MD5[1:]}, "neither an MD5"),
        (URL, {"checksum": "g" * 32}, "neither an MD5"),
        (URL, {"checksum": "file:///sums"}, "neither an MD5"),
        (URL, {"checksum": "http://[::1"}, "neither an MD5"),
        ("file:///images/a.raw", {"checksum": "1"}, "neither an MD5"),
        (URL, {"checksum": MD5, "disk_format": "floppy"}, "image format 'floppy' is none of raw"),
        (URL, {"checksum": MD5, "properties": {"kernel_id": "k"}}, "both kernel_id and"),
        ("http://images.example.test/a.img", {"checksum": MD5}, "may be raw or qcow2"),
        (GLANCE, {"checksum": MD5}, "is in Glance, which knows it: a checksum"),
        (f"glance://{GLANCE}", {"disk_format": "raw"}, "is in Glance, which knows it: a format"),
        ("", {}, "is neither an http"),
        ("debian", {}, "is neither an http"),
        ("/images/a.raw", {}, "is neither an http"),
        ("file://images/a.raw", {}, "is neither an http"),
        ("file:///", {}, "is neither an http"),
        ("ftp://images.example.test/a", {}, "is neither an http"),
        ("https://", {}, "is neither an http"),
        ("https://images.example.test/", {}, "is neither an http"),
        ("https://images.example.test/a b", {}, "is neither an http"),
        ("http://[::1/a", {}, "is neither an http"),
        ("glance://", {}, "is neither an http"),
    ],
)
def test_what_ironic_would_refuse_is_refused(href, more, complaint) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        images.image(href, **more)  # type: ignore[arg-type]
