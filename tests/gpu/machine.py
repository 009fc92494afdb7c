"""What a machine with a GPU has: its card and driver, NVRTC with its headers, the libraries that programs need.

Functions that parse take texts; those that look take the folders in which to look.
"""

import ctypes
import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
from typing import NamedTuple, Optional

HEADER = "include/cuda_fp8.h"
MISSING = re.compile(r"^\s*(?P<name>\S+) => not found", re.MULTILINE)
TOO_OLD = re.compile(r"version `(?P<version>[^']+)' not found")


class Card(NamedTuple):
    """The first GPU that a maker's driver shows."""

    name: str
    driver: str
    memory_mib: Optional[int]


class Toolkit(NamedTuple):
    """Where NVRTC and CUDA's headers are."""

    # The folder that has `include`, for CUDA_PATH.
    root: str
    # The folders that have libnvrtc and what it loads.
    libraries: tuple


class NotHere(Exception):
    """What the machine lacks, and what would bring it."""


def output(words, seconds=20):
    """What a command prints; None where it isn't there, fails or takes too long."""
    try:
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else None


def nvidia_card(text):
    """The first card in what `nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader` prints; None if it has
    none.
    """
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[0]:
            amount = re.match(r"(\d+) MiB$", fields[2])
            return Card(fields[0], fields[1], int(amount[1]) if amount else None)
    return None


def card_of_devices(devices):
    """The card as `moebius devices` shows it, where no tool of its maker tells it; None if there is no GPU."""
    for device in devices:
        capability = device.get("capability") or {}
        if device.get("available") and capability.get("kind") != "cpu":
            memory = (capability.get("memory") or {}).get("total")
            mib = memory // (1 << 20) if memory else None
            return Card(capability["name"], capability.get("driver") or "unknown", mib)
    return None


def card(devices):
    """The machine's card, by its maker's tool or else by `moebius devices`; None if there is none."""
    text = output(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return (nvidia_card(text) if text else None) or card_of_devices(devices)


def devices_of(survey, built):
    """The devices to run on, from the object that `moebius --json devices` prints, among the names of the build; and why others are
    left out, as (devices, {name: why}).

    Of each name it is the first that is a GPU. Software adapters are left out: the tests run on them everywhere.
    """
    chosen, left_out = [], {}
    for name in built:
        entries = [entry for entry in survey["devices"] if entry["device"].split(":")[0] == name]
        usable = [entry for entry in entries if entry["available"]]
        gpus = [entry for entry in usable if (entry.get("capability") or {}).get("kind") != "cpu"]
        if gpus:
            place = gpus[0]["device"]
            chosen.append(name if place in (name, f"{name}:0") else place)
        elif usable:
            left_out[name] = f"{usable[0]['capability']['name']} is a software adapter"
        else:
            left_out[name] = next((entry["error"] for entry in entries if entry.get("error")), "no such device")
    return chosen, left_out


def nvidia_packages():
    """The folders `nvidia` of the packages of the Python that runs this, where wheels of NVIDIA's libraries lie."""
    found = importlib.util.find_spec("nvidia")
    return [os.path.realpath(path) for path in found.submodule_search_locations] if found else []


def plugin():
    """The file of JAX's PJRT plugin for CUDA in the packages of the Python that runs this; None without one."""
    found = importlib.util.find_spec("jax_plugins")
    folders = list(found.submodule_search_locations) if found else []
    files = [os.path.join(folder, name, "xla_cuda_plugin.so") for folder in folders for name in ("xla_cuda13", "xla_cuda12")]
    return next((file for file in files if os.path.exists(file)), None)


def with_nvrtc(folders):
    """Those of the folders that have a libnvrtc."""
    return [folder for folder in folders if glob.glob(os.path.join(folder, "libnvrtc.so*"))]


def system_roots(named):
    """The folders in which a CUDA toolkit may be, the one that CUDA_PATH names first, the newest version first."""
    versions = sorted(glob.glob("/usr/local/cuda-*"), key=version_of, reverse=True)
    return ([named] if named else []) + ["/usr/local/cuda", "/opt/cuda", *versions, "/usr"]


def version_of(path):
    """The numbers in a path's last part, by which versions are sorted."""
    return [int(number) for number in re.findall(r"\d+", os.path.basename(path))]


def toolkit(roots, packages, scratch):
    """The first complete toolkit: of the system in `roots`, else of the wheels in `packages`, whose headers are joined in a folder
    under `scratch` where each wheel has its own. Headers of the system go with a wheel's NVRTC where the system has none.

    Raises NotHere.
    """
    of_wheels = with_nvrtc(sorted(path for folder in packages for path in glob.glob(os.path.join(folder, "*", "lib"))))
    for root in roots:
        if not os.path.exists(os.path.join(root, HEADER)):
            continue
        inside = [os.path.join(root, "lib64"), os.path.join(root, "lib"), *glob.glob(os.path.join(root, "targets", "*", "lib"))]
        inside += glob.glob(os.path.join(root, "lib", "*-linux-gnu"))
        libraries = with_nvrtc(inside) or of_wheels
        if libraries:
            return Toolkit(root, tuple(libraries[:1]))
    includes = sorted(path for folder in packages for path in glob.glob(os.path.join(folder, "*", "include")))
    whole = [path for path in includes if os.path.exists(os.path.join(path, "cuda_fp8.h"))]
    if not whole or not of_wheels:
        lacks = "libnvrtc" if whole else "CUDA's headers"
        raise NotHere(f"{lacks}: expected a CUDA toolkit, or PyPI's nvidia-cuda-nvrtc and nvidia-cuda-runtime in this Python")
    return Toolkit(joined(whole + [path for path in includes if path not in whole], os.path.join(scratch, "cuda")), tuple(of_wheels[:1]))


def joined(includes, root):
    """Makes the folder `root/include` with links to all that the folders have, the first one's before the others'."""
    target = os.path.join(root, "include")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(target)
    for folder in includes:
        for name in os.listdir(folder):
            link = os.path.join(target, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(folder, name), link)
    return root


def nvrtc_version(folders):
    """The version of the first libnvrtc in the folders, such as `13.0`; None where it can't be loaded or doesn't tell."""
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "libnvrtc.so*"))):
            major, minor = ctypes.c_int(), ctypes.c_int()
            try:
                told = ctypes.CDLL(path).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
            except (OSError, AttributeError):
                continue
            if told == 0:
                return f"{major.value}.{minor.value}"
    return None


def missing(text):
    """The libraries that `ldd` doesn't find."""
    return sorted(set(MISSING.findall(text)))


def too_old(text):
    """The versions of symbols that the machine's libraries lack, in what `ldd` prints on both its outputs."""
    return sorted(set(TOO_OLD.findall(text)))


def loads(name):
    """Whether the machine has a library of this name, with all that it needs."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def supply(packed, folder):
    """Links those of the packed libraries that the machine lacks into `folder`, and returns their names. The machine's own come first,
    because its drivers may need them newer than those of the build.
    """
    names = sorted(os.listdir(packed)) if os.path.isdir(packed) else []
    lacking = [name for name in names if not loads(name)]
    os.makedirs(folder, exist_ok=True)
    for name in lacking:
        link = os.path.join(folder, name)
        if not os.path.lexists(link):
            os.symlink(os.path.realpath(os.path.join(packed, name)), link)
    return lacking


def vulkan_driver(scratch):
    """The file that tells Vulkan's loader of NVIDIA's driver where no file in the usual folders does: one that lies elsewhere, or one
    that is written here. None where the usual folders have one, or there is no such driver.
    """
    usual = [path for folder in ("/etc", "/usr/share", "/usr/local/share") for path in glob.glob(f"{folder}/vulkan/icd.d/nvidia*.json")]
    if usual:
        return None
    elsewhere = glob.glob("/usr/local/nvidia/share/vulkan/icd.d/nvidia*.json")
    if elsewhere:
        return elsewhere[0]
    if not loads("libGLX_nvidia.so.0"):
        return None
    path = os.path.join(scratch, "nvidia_icd.json")
    with open(path, "w", encoding="utf-8") as file:
        icd = {"library_path": "libGLX_nvidia.so.0", "api_version": "1.3.0"}
        json.dump({"file_format_version": "1.0.0", "ICD": icd}, file)
    return path
