#!/usr/bin/env python3
"""Licences and bill of materials of what a release links, and whether a program is stripped. Uses no network.

    release_parts.py licences METADATA TREE APACHE MIT   the licences of all parts, as text
    release_parts.py bill METADATA TREE LOCK             a bill of materials in CycloneDX's JSON
    release_parts.py stripped PROGRAM                    exit 1 if an ELF program has symbols or debug information

METADATA is what `cargo metadata` prints, TREE the lines of `cargo tree --prefix none --format {p}` for the packages of the release, first
the packages themselves. Where a package has no text of its licence, APACHE is it if the package may be used under Apache-2.0, or MIT with
the package's authors if under MIT, or the text of another package under MPL-2.0, which is one for all; anything else is an error. LLVM,
which is in no package, is a part where llvm-sys is.
"""

import json
import os
import re
import struct
import sys
import tomllib

# Beginnings of the names of files and folders with licences, endings of those with something else, and the largest number of bytes of one.
LICENCE = re.compile(r"licen[cs]e|copying|copyright|notice|unlicense", re.IGNORECASE)
OTHER = re.compile(r"\.(rs|py|js|ts|c|cc|cpp|h|hpp|go|sh|json|toml|ya?ml)$", re.IGNORECASE)
MOST = 1 << 20
# Folders of packages that no program links; nor does it hidden ones.
UNLINKED = {"tests", "benches", "examples", "fuzz", "target"}
CYCLONEDX = "1.6"


class PartError(Exception):
    """A part of which something that a release needs isn't known."""


def listed(tree):
    """Names and versions of the packages in the lines of `cargo tree`, each once, in their order."""
    pairs = []
    for line in tree.splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) < 2 or not words[1].startswith("v"):
            raise PartError(f"cargo tree: expected a name and a version, got {line!r}")
        pair = (words[0], words[1][1:])
        if pair not in pairs:
            pairs.append(pair)
    if not pairs:
        raise PartError("cargo tree: expected packages, got none")
    return pairs


def parts(metadata, tree):
    """The packages of cargo's metadata that `cargo tree` lists, in its order."""
    known = {(package["name"], package["version"]): package for package in metadata["packages"]}
    found = []
    for pair in listed(tree):
        if pair not in known:
            raise PartError(f"{pair[0]} {pair[1]}: expected in cargo's metadata, got none")
        found.append(known[pair])
    return found


def expression(package):
    """The licence as an SPDX expression; an old `/` stands for OR. None for a package that names a file alone."""
    stated = package.get("license")
    return re.sub(r"\s*/\s*", " OR ", stated) if stated else None


def offers(stated, licence):
    """Whether an SPDX expression lets a user take this licence alone."""
    if stated is None or " AND " in stated:
        return False
    return licence in [one.strip(" ()") for one in stated.split(" OR ")]


def texts(package):
    """The texts of the licences and notices of a package, and of other people's code in its folders, by path."""
    folder = os.path.dirname(package["manifest_path"])
    paths = [package["license_file"]] if package.get("license_file") else []
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name not in UNLINKED and not name.startswith(".")]
        all_are = place != folder and LICENCE.match(os.path.basename(place))
        chosen = [name for name in names if (all_are or LICENCE.match(name)) and not OTHER.search(name)]
        paths += [os.path.relpath(os.path.join(place, name), folder) for name in chosen]
    found = {}
    for path in sorted(set(map(os.path.normpath, paths))):
        file = os.path.join(folder, path)
        if os.path.isfile(file) and os.path.getsize(file) <= MOST:
            with open(file, encoding="utf-8", errors="replace") as opened:
                text = opened.read().strip()
            # A short file is the name of a path, which a system without links has in place of the link.
            if len(text) > 100:
                found[path] = text
    return found


def mozilla(packages):
    """The text of MPL-2.0, which names nobody, from the first package that is under it alone and brings it; None if there is none."""
    for package in packages:
        if expression(package) == "MPL-2.0":
            for text in texts(package).values():
                if text.startswith("Mozilla Public License Version 2.0"):
                    return text
    return None


def llvm(packages):
    """The text of LLVM's licence from the first package that brings it, as some do that are under the same; None if there is none."""
    for package in packages:
        if "LLVM-exception" in (expression(package) or ""):
            for text in texts(package).values():
                if text.startswith("Apache License") and "LLVM Exceptions" in text:
                    return text
    return None


def standard(package, apache, mit, mpl):
    """The text of the licence of a package that brings none."""
    stated = expression(package)
    if offers(stated, "Apache-2.0"):
        return apache.strip()
    if offers(stated, "MIT"):
        holders = ", ".join(package.get("authors") or [f"the authors of {package['name']}"])
        return re.sub(r"(?m)^Copyright .*$", lambda _: f"Copyright (c) {holders}", mit.strip(), count=1)
    if offers(stated, "MPL-2.0") and mpl:
        return mpl
    raise PartError(f"{package['name']} {package['version']}: expected a file with its licence ({stated}), got none")


def licences(packages, apache, mit, mpl=None, of_llvm=None):
    """A text with the licences of all packages; the same text is written once, below all that it belongs to."""
    lines = ["Parts of this program, and the terms under which they are used.", ""]
    of_text, lacking = {}, []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        where = package.get("repository") or "no repository stated"
        lines.append(f"{name}: {expression(package) or 'see its file'}, {where}")
        own = list(texts(package).values()) or [None]
        for text in own:
            if text is None:
                try:
                    text, name = standard(package, apache, mit, mpl), f"{name} (its package has no text)"
                except PartError as error:
                    lacking.append(str(error))
                    continue
            of_text.setdefault(text, []).append(name)
        if package["name"] == "llvm-sys":
            lines.append(f"LLVM, which {package['name']} links: Apache-2.0 WITH LLVM-exception, https://llvm.org")
            if of_llvm is None:
                lacking.append("LLVM: expected a package with its licence, got none")
            of_text.setdefault(of_llvm, []).append("LLVM")
    if lacking:
        raise PartError("\n".join(lacking))
    for text, names in of_text.items():
        lines += ["", "=" * 80, ", ".join(names), "-" * 80, text]
    return "\n".join(lines) + "\n"


def checksums(lock):
    """SHA-256 of the packages of a lock file, by name and version."""
    packages = tomllib.loads(lock)["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in packages if "checksum" in one}


def component(package, sums):
    """A package in CycloneDX's form."""
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    entry = {
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    }
    stated = expression(package)
    entry["licenses"] = [{"expression": stated}] if stated else [{"license": {"name": "see its file"}}]
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def bill(metadata, tree, lock):
    """The bill of materials of the packages that `cargo tree` lists; the first is what is released."""
    packages = parts(metadata, tree)
    sums = checksums(lock)
    components = [component(package, sums) for package in packages]
    refs = {package["id"]: entry["bom-ref"] for package, entry in zip(packages, components)}
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    edges = []
    for package in packages:
        # What a package needs for its build or its tests alone isn't linked for it.
        linked = [one["pkg"] for one in nodes.get(package["id"], []) if any(kind["kind"] is None for kind in one["dep_kinds"])]
        edges.append({"ref": refs[package["id"]], "dependsOn": sorted(refs[one] for one in linked if one in refs)})
    released = dict(components[0], type="application")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX,
        "version": 1,
        "metadata": {"component": released},
        "components": components[1:],
        "dependencies": edges,
    }


def sections(program):
    """The names of the sections of a 64-bit little-endian ELF program."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise PartError("expected a 64-bit little-endian ELF program, got something else")
    try:
        (start,) = struct.unpack_from("<Q", program, 0x28)
        size, count, names = struct.unpack_from("<HHH", program, 0x3A)
        rows = [struct.unpack_from("<IIQQQQ", program, start + size * at) for at in range(count)]
        strings = rows[names][4] if rows else 0
        starts = [strings + row[0] for row in rows]
        return [program[at : program.index(b"\0", at)].decode("ascii", "replace") for at in starts]
    except (struct.error, ValueError, IndexError) as error:
        raise PartError(f"expected an ELF program, got a damaged one: {error}") from error


def surplus(program):
    """The sections of an ELF program that stripping removes."""
    return [name for name in sections(program) if name == ".symtab" or name.startswith(".debug")]


def read(path):
    with open(path, encoding="utf-8") as opened:
        return opened.read()


def main(arguments):
    match arguments:
        case ["licences", metadata, tree, apache, mit]:
            all_known = json.loads(read(metadata))
            packages = parts(all_known, read(tree))
            shared = mozilla(all_known["packages"]), llvm(all_known["packages"])
            sys.stdout.write(licences(packages, read(apache), read(mit), *shared))
        case ["bill", metadata, tree, lock]:
            made = bill(json.loads(read(metadata)), read(tree), read(lock))
            print(json.dumps(made, indent=1, ensure_ascii=False))
        case ["stripped", program]:
            with open(program, "rb") as opened:
                found = surplus(opened.read())
            if found:
                raise PartError(f"{program}: expected a stripped program, got one with {', '.join(found)}")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except PartError as error:
        print(f"release_parts: {error}", file=sys.stderr)
        sys.exit(1)
