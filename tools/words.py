# SPDX-License-Identifier: Apache-2.0

"""Count the words that make a reader stop, and fail when there are more than are allowed.

    python tools/words.py [--list KIND] [--report] [DIRECTORY]

Each count has a maximum in pyproject.toml, ``[tool.words.most]``, which may only fall.  A class or
module name that stands for two things has a reason in ``[tool.words.shared]``, or counts.
``--list KIND`` prints where the words of a kind are.  With ``--report`` the exit status is 0 in
any case.  Tics are patterns in ``tools/tics.toml``, each with better words.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE, CODE = "ironic_virt", "tests/**/*.py tools/**/*.py benchmarks/**/*.py"
VAGUE = re.compile("found|one|now|wanted|left|what|where|asked|former|done|told|said")
TICS = Path(__file__).with_name("tics.toml")
LONGEST_TEST, LONGEST_PAGE = 60, 200
PAGES = "*.rst *.md doc/**/*.rst doc/**/*.toml doc/**/*.csv releasenotes/**/*.yaml"
COMMENTED = "Makefile *.toml *.cfg .ci/* etc/**/*.conf devstack/**/*.sh"
_REFERENCE = re.compile(
    r"See (?!(that|whether|if|how|what|after)\b)|(The same|Those of)\b|(As|Like) [:`]"
)


class Place(NamedTuple):
    """Where a word is."""

    path: Path
    line: int
    text: str

    @property
    def room(self) -> str:
        """The room of the product that it is in, or the directory."""
        parts = self.path.parts
        return parts[1] if parts[0] == PACKAGE else parts[0]


class Source(NamedTuple):
    """A module that was read, its path below the checkout."""

    path: Path
    text: str
    tree: ast.Module

    def places(self, kind: type[ast.AST]) -> Iterator[Any]:
        """The nodes of a kind, anywhere in the module."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))

    def texts(self) -> Iterator[tuple[Place, bool]]:
        """Each text and comment, and whether it is documentation or else a program's words."""
        documented = {id(node.value) for node in self.places(ast.Expr)}
        for node in self.places(ast.Constant):
            if isinstance(node.value, str):
                yield Place(self.path, node.lineno, node.value), id(node) in documented
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield Place(self.path, token.start[0], token.string), True


def sources(root: Path, patterns: str) -> list[Source]:
    """The modules of a checkout that patterns name."""
    return [Source(path, text, ast.parse(text)) for path, _, text in files(root, patterns)]


def functions(product: list[Source], is_outside: bool = False) -> list[Place]:
    """The functions, dunder methods aside; with ``is_outside`` only those of no class."""
    return [
        Place(source.path, node.lineno, node.name)
        for source in product
        for owner in source.places(ast.AST)
        for node in ast.iter_child_nodes(owner)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
        if not (is_outside and isinstance(owner, ast.ClassDef))
    ]


def shared_names(product: list[Source], reasons: Mapping[str, list[str]]) -> list[Place]:
    """The classes and modules whose name another one has, too, and no reason allows."""
    places = defaultdict(list)
    for source in product:
        if "testing" in source.path.parts:  # Its names are Ironic's, as they are in other rooms.
            continue
        if not source.path.stem.startswith("__"):
            places[source.path.stem].append(Place(source.path, 1, source.path.stem))
        for node in source.places(ast.ClassDef):
            places[node.name].append(Place(source.path, node.lineno, node.name))
    allowed = {name for names in reasons.values() for name in names}
    return [
        place
        for name, several in places.items()
        for place in several
        if len(several) > 1 and name not in allowed
    ]


def tics(texts: list[Place]) -> list[Place]:
    """The tics in some texts, and what to write instead."""
    better_words = tomllib.loads(TICS.read_text())
    return [
        Place(path, line + text.count("\n", 0, match.start()), f"{match[0]!r}: {better}")
        for path, line, text in texts
        for pattern, better in better_words.items()
        for match in re.finditer(f"(?i){pattern}".replace(" ", r"\s+"), text)
    ]


def files(root: Path, patterns: str) -> list[Place]:
    """Whole files."""
    paths = sorted(path for one in patterns.split() for path in root.glob(one) if path.is_file())
    return [Place(path.relative_to(root), 1, path.read_text()) for path in paths]


def count(root: Path, settings: Mapping[str, Any]) -> dict[str, tuple[float, list[Place]]]:
    """By kind, how many (of functions: how many in 100), and where."""
    product, code = sources(root, f"{PACKAGE}/**/*.py"), sources(root, CODE)
    pages = files(root, PAGES)
    comments = [
        Place(place.path, number, line.partition("#")[2])
        for place in files(root, COMMENTED)
        for number, line in enumerate(place.text.splitlines(), 1)
    ]
    texts = [text for source in product + code for text in source.texts()]
    silent = [place for place, is_silent in texts if is_silent]
    said = [
        place for place, is_silent in texts if place.path.parts[0] == PACKAGE and not is_silent
    ]
    kinds = {
        "vague-locals": [
            Place(source.path, node.lineno, node.id)
            for source in product
            for node in source.places(ast.Name)
            if isinstance(node.ctx, ast.Store) and VAGUE.fullmatch(node.id)
        ],
        "shared-names": shared_names(product, settings["shared"]),
        "long-tests": [
            place
            for place in functions(code)
            if place.text.startswith("test_") and len(place.text) > LONGEST_TEST
        ],
        "tics": tics([*pages, *comments, *said]),
        "tics-in-code": tics(silent),
        "references": [place for place in silent if _REFERENCE.match(place.text)],
        "long-pages": [
            page
            for page in pages
            if page.path.suffix == ".rst" and page.text.count("\n") > LONGEST_PAGE
        ],
    }
    counts: dict[str, tuple[float, list[Place]]] = {k: (len(v), v) for k, v in kinds.items()}
    for kind, is_outside in (("one-word-functions", False), ("one-word-outside", True)):
        places = functions(product, is_outside)
        one_word = [place for place in places if "_" not in place.text.strip("_")]
        share = 1000 * len(one_word) / max(len(places), 1)
        counts[kind] = (math.ceil(share) / 10, one_word)
    return counts


def main(argv: list[str] | None = None) -> int:
    """Print the counts; return 1 if one is above its maximum."""
    parser = argparse.ArgumentParser(description="How many words make a reader stop?")
    parser.add_argument("--list", metavar="KIND", help="where the words of a kind are")
    parser.add_argument("--report", action="store_true", help="exit with 0 in any case")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args(argv)
    pyproject = (arguments.directory / "pyproject.toml").read_text()
    settings = tomllib.loads(pyproject)["tool"]["words"]
    counts = count(arguments.directory, settings)
    over: list[str] = []
    for kind, (size, places) in counts.items():
        most = settings["most"].get(kind, 0)
        rooms = Counter(place.room for place in places).most_common(6)
        print(f"{kind:<20}{size:>7g} of {most:<6g}", *(f"{room} {n}" for room, n in rooms))
        over += [kind] if size > most else []
        if kind == arguments.list or (size > most and kind == "tics"):
            for path, line, words in places:
                print(f"  {path}:{line}: {words[:90].splitlines()[0]}")
    names = Counter(place.text for place in counts["vague-locals"][1])
    print("vague-locals:", *(f"{name} {number}" for name, number in names.most_common()))
    print(f"Over its maximum: {', '.join(over)}; see --list" if over else "All allowed")
    return int(bool(over) and not arguments.report)


if __name__ == "__main__":
    sys.exit(main())
