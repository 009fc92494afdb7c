"""Makes and unpacks the bundle that `scripts/gpu build` takes to a machine with a GPU.

Usage: python3 bundle.py OUT --moebius FILE --conformance FILE --features LIST
The bundle is three archives, none above LIMIT: moebius.xz and conformance.xz, stripped, and rest.tar.xz with the case files, the peers'
scripts and libraries that a bare system may lack; beside them manifest.json, the script `gpu` and its parts in kit/. NVRTC, CUDA and
the drivers are not packed: the machine has its own.
"""

import argparse
import glob
import hashlib
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from typing import NamedTuple

MIB = 1 << 20
# The most bytes of an archive: what one upload of a lent machine takes.
LIMIT = 28 * MIB
MANIFEST = "manifest.json"
PROGRAMS = ("moebius", "conformance")
REST = "rest.tar.xz"
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
KIT = os.path.dirname(os.path.abspath(__file__))
# What runs with PyTorch.
PEERS = ("peers.py", "triton_peers.py", "works.py")
SECONDS = os.path.join(ROOT, "tests", "support", "seconds_on_gpus.tsv")
# Loaded at run time, so that no list of a program's libraries has them: Vulkan's loader, and what NVIDIA's driver of Vulkan asks for.
LOADED_LATER = ("libvulkan.so.1", "libEGL.so.1", "libGLX.so.0", "libOpenGL.so.0", "libGLdispatch.so.0", "libX11.so.6", "libXext.so.6")
# The C library and its parts, which only work together, so that those of the machine are taken.
C_LIBRARY = re.compile(r"^(ld-linux.*|linux-vdso.*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec))\.so(\.\d+)*$")
LINKED = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/\S+) \(0x", re.MULTILINE)
CACHED = re.compile(r"^\s*(?P<name>\S+) \(libc6[^)]*\) => (?P<path>/\S+)$", re.MULTILINE)
# The filter by which xz undoes what makes jumps of machine code hard to compress.
FILTERS = {"x86_64": ["--x86"], "aarch64": ["--arm64"]}


class Damaged(Exception):
    """A bundle lacks a file, or a file is another one than the manifest says."""


class TooLarge(Exception):
    """An archive is larger than LIMIT."""


class File(NamedTuple):
    """A file of the bundle, as the manifest has it."""

    bytes: int
    sha256: str


def check_size(name, size):
    """Raises TooLarge for an archive above LIMIT, with how much it is too large."""
    if size > LIMIT:
        over = size - LIMIT
        raise TooLarge(f"{name}: expected at most {LIMIT / MIB:.0f} MiB, got {size / MIB:.2f} MiB, {over:,} bytes ({over / MIB:.2f} MiB) too large")


def described(path):
    """Size and hash of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    return File(os.path.getsize(path), digest.hexdigest())


def linked(text):
    """The libraries in what `ldd` prints, with their files, without those of the C library: {name: path}."""
    return {found["name"]: found["path"] for found in LINKED.finditer(text) if not C_LIBRARY.match(found["name"])}


def cached(text):
    """The libraries in what `ldconfig -p` prints, with their files; of two of a name the first, as the system would load it."""
    found = {}
    for line in CACHED.finditer(text):
        found.setdefault(line["name"], line["path"])
    return found


def printed(words):
    """What a command prints. Raises CalledProcessError where it fails."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode("utf-8", "replace")


def libraries(programs):
    """The libraries to pack: those that the programs link and those of LOADED_LATER, with what these link in turn. Those of
    LOADED_LATER that this system lacks are named on standard error.
    """
    # Debian keeps ldconfig where the PATH of a user doesn't look.
    known = cached(printed([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"]))
    absent = [name for name in LOADED_LATER if name not in known]
    if absent:
        print(f"gpu: not packed, because this system has none: {', '.join(absent)}", file=sys.stderr)
    found = {name: known[name] for name in LOADED_LATER if name in known}
    for path in [*programs, *found.values()]:
        found.update(linked(printed(["ldd", path])))
    return found


def compress(source, target):
    """Compresses a program as small as xz can, with the filter for its machine code."""
    filters = FILTERS.get(platform.machine(), [])
    with open(target, "wb") as out:
        subprocess.run(["xz", "--stdout", *filters, "--lzma2=preset=9e", source], stdout=out, check=True)


def pack_program(source, out, name):
    """Writes a stripped and compressed copy of a program to OUT/NAME.xz."""
    plain = os.path.join(out, name)
    subprocess.run(["strip", "-o", plain, source], check=True)
    compress(plain, f"{plain}.xz")
    os.remove(plain)


def members(programs):
    """The files of REST: [(name in the archive, path)], sorted."""
    cases = os.path.join(ROOT, "tests", "cases")
    found = [(f"cases/{os.path.basename(path)}", path) for path in glob.glob(os.path.join(cases, "*.safetensors"))]
    weights = glob.glob(os.path.join(cases, "weights", "**"), recursive=True)
    found += [(f"cases/{os.path.relpath(path, cases)}", path) for path in weights if os.path.isfile(path)]
    found += [(f"peers/{name}", os.path.join(KIT, name)) for name in PEERS]
    found.append(("seconds.tsv", SECONDS))
    found += [(f"lib/{name}", os.path.realpath(path)) for name, path in libraries(programs).items()]
    return sorted(found)


def plain_entry(entry):
    """The same entry of an archive for everybody: without owner and time."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def pack_rest(files, target):
    """Writes the archive of the other files."""
    with lzma.open(target, "wb", preset=9 | lzma.PRESET_EXTREME) as out, tarfile.open(fileobj=out, mode="w") as archive:
        for name, path in files:
            archive.add(path, arcname=name, filter=plain_entry)


def git(*words):
    return printed(["git", "-C", ROOT, *words]).strip()


def make(out, programs, features):
    """Makes the bundle in OUT of the built programs, {name: file}. Raises TooLarge after all archives are there."""
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(os.path.join(out, "kit"))
    for name in PROGRAMS:
        pack_program(programs[name], out, name)
    pack_rest(members(list(programs.values())), os.path.join(out, REST))
    for path in glob.glob(os.path.join(KIT, "*.py")):
        if not os.path.basename(path).startswith(("test_", "sample")):
            shutil.copy(path, os.path.join(out, "kit"))
    shutil.copy(os.path.join(ROOT, "scripts", "gpu"), out)
    archives = [f"{name}.xz" for name in PROGRAMS] + [REST]
    manifest = {
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--porcelain")),
        "features": features,
        "machine": platform.machine(),
        "c_library": " ".join(platform.libc_ver()),
        "files": {name: described(os.path.join(out, name))._asdict() for name in archives},
    }
    with open(os.path.join(out, MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    for name in archives:
        size = manifest["files"][name]["bytes"]
        print(f"gpu: {name}: {size / MIB:.2f} MiB of {LIMIT / MIB:.0f}")
    for name in archives:
        check_size(name, manifest["files"][name]["bytes"])
    return manifest


def read_manifest(folder):
    """The manifest of a bundle. Raises Damaged where it is missing or a file isn't the one that it names."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        files = manifest["files"].items()
    except (OSError, ValueError, KeyError) as error:
        raise Damaged(f"{folder}: expected a bundle with {MANIFEST}, got {error}") from error
    if manifest["machine"] != platform.machine():
        raise Damaged(f"{folder}: expected a bundle for {platform.machine()}, got one for {manifest['machine']}")
    for name, told in files:
        path = os.path.join(folder, name)
        got = described(path) if os.path.exists(path) else None
        if got is None or got != File(told["bytes"], told["sha256"]):
            raise Damaged(f"{path}: expected {told['bytes']} bytes with SHA-256 {told['sha256']}, got {got or 'no file'}")
    return manifest


def unpack(folder, manifest):
    """Unpacks the archives into FOLDER/unpacked, unless the same ones are there."""
    target = os.path.join(folder, "unpacked")
    mark = os.path.join(target, "of")
    told = json.dumps(manifest["files"], sort_keys=True)
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read() == told:
                return
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    for name in PROGRAMS:
        path = os.path.join(target, name)
        with lzma.open(os.path.join(folder, f"{name}.xz")) as source, open(path, "wb") as out:
            shutil.copyfileobj(source, out, MIB)
        os.chmod(path, 0o755)
    with lzma.open(os.path.join(folder, REST)) as source, tarfile.open(fileobj=source, mode="r|") as archive:
        for entry in archive:
            # Names are checked although the hash is: the archive writes where it says.
            if not entry.isfile() or entry.name.startswith("/") or ".." in entry.name.split("/"):
                raise Damaged(f"{REST}: expected plain files inside, got {entry.name}")
            archive.extract(entry, target)
    with open(mark, "w", encoding="utf-8") as file:
        file.write(told)


def main(arguments):
    parser = argparse.ArgumentParser(description="Makes the bundle of built programs.")
    parser.add_argument("out")
    for name in PROGRAMS:
        parser.add_argument(f"--{name}", required=True, metavar="FILE")
    parser.add_argument("--features", required=True, metavar="LIST")
    options = parser.parse_args(arguments)
    try:
        manifest = make(options.out, {name: getattr(options, name) for name in PROGRAMS}, options.features)
    except TooLarge as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"gpu: the bundle could not be made: {error}", file=sys.stderr)
        return 2
    dirty = ", with changes that are not committed: its results will not be recorded" if manifest["dirty"] else ""
    print(f"gpu: {options.out} has the bundle of {manifest['commit'][:8]}{dirty}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
