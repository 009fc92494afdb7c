"""Tests of what is read of a machine, of the tools' counters, and of the bundle's files."""

import os
import tempfile
import unittest

import bundle
import counters
import machine
import sample


def touch(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8"):
        pass
    return path


class Cards(unittest.TestCase):
    def test_what_nvidia_smi_prints(self):
        text = "NVIDIA H100 80GB HBM3, 580.159.04, 81559 MiB\nNVIDIA L4, 580.159.04, 23034 MiB\n"
        self.assertEqual(machine.nvidia_card(text), machine.Card("NVIDIA H100 80GB HBM3", "580.159.04", 81559))
        self.assertEqual(machine.nvidia_card("NVIDIA GB10, 580.95.05, [N/A]\n").memory_mib, None)
        self.assertIsNone(machine.nvidia_card("No devices were found\n"))

    def test_software_adapters_are_left_out_and_named(self):
        survey = sample.parsed("devices.json")
        chosen, left_out = machine.devices_of(survey, ["cuda", "vulkan", "wgpu"])
        self.assertEqual(chosen, [])
        self.assertIn("not part of this build", left_out["cuda"])
        self.assertTrue(left_out["wgpu"].endswith("is a software adapter"))
        self.assertIsNone(machine.card_of_devices(survey["devices"]))

    def test_the_first_gpu_of_a_name(self):
        survey = sample.parsed("devices.json")
        adapter = next(entry for entry in survey["devices"] if entry["device"] == "wgpu:0")
        gpu = {**adapter, "capability": {**adapter["capability"], "kind": "discretegpu", "name": "NVIDIA L4"}}
        survey["devices"].append({**gpu, "device": "wgpu:1"})
        survey["devices"].append({**gpu, "device": "rocm:0"})
        self.assertEqual(machine.devices_of(survey, ["rocm", "wgpu"])[0], ["rocm", "wgpu:1"])
        self.assertEqual(machine.card_of_devices(survey["devices"]).name, "NVIDIA L4")


class Toolkits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def test_the_systems_own(self):
        touch(self.path("cuda", machine.HEADER))
        touch(self.path("cuda", "lib64", "libnvrtc.so.13"))
        found = machine.toolkit([self.path("none"), self.path("cuda")], [], self.path("scratch"))
        self.assertEqual(found, machine.Toolkit(self.path("cuda"), (self.path("cuda", "lib64"),)))

    def test_wheels_of_one_folder(self):
        touch(self.path("nvidia", "cu13", "include", "cuda_fp8.h"))
        touch(self.path("nvidia", "cu13", "lib", "libnvrtc.so.13"))
        found = machine.toolkit([], [self.path("nvidia")], self.path("scratch"))
        self.assertEqual(found.libraries, (self.path("nvidia", "cu13", "lib"),))
        self.assertTrue(os.path.exists(os.path.join(found.root, "include", "cuda_fp8.h")))

    def test_headers_of_several_wheels_are_joined(self):
        touch(self.path("nvidia", "cuda_runtime", "include", "cuda_fp8.h"))
        touch(self.path("nvidia", "cuda_cccl", "include", "cccl", "barrier"))
        touch(self.path("nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12"))
        found = machine.toolkit([], [self.path("nvidia")], self.path("scratch"))
        for name in ("cuda_fp8.h", "cccl/barrier"):
            self.assertTrue(os.path.exists(os.path.join(found.root, "include", name)), name)

    def test_what_lacks_is_said(self):
        with self.assertRaisesRegex(machine.NotHere, "CUDA's headers: expected a CUDA toolkit"):
            machine.toolkit([], [], self.path("scratch"))
        touch(self.path("nvidia", "cu13", "include", "cuda_fp8.h"))
        with self.assertRaisesRegex(machine.NotHere, "libnvrtc: expected"):
            machine.toolkit([], [self.path("nvidia")], self.path("scratch"))

    def test_only_libraries_that_the_machine_lacks_are_supplied(self):
        touch(self.path("packed", "libc.so.6"))
        touch(self.path("packed", "libnowhere-moebius.so.1"))
        self.assertEqual(machine.supply(self.path("packed"), self.path("here")), ["libnowhere-moebius.so.1"])
        self.assertEqual(os.listdir(self.path("here")), ["libnowhere-moebius.so.1"])


class Libraries(unittest.TestCase):
    def test_what_ldd_does_not_find(self):
        text = sample.text("ldd.txt")
        self.assertEqual(machine.missing(text), [])
        self.assertEqual(machine.missing(text + "\tlibz3.so.4 => not found\n"), ["libz3.so.4"])
        old = "./moebius: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./moebius)\n"
        self.assertEqual(machine.too_old(old + text), ["GLIBC_2.38"])

    def test_the_c_library_is_not_packed(self):
        found = bundle.linked(sample.text("ldd.txt"))
        self.assertEqual(sorted(found), ["libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "libzstd.so.1"])
        self.assertTrue(all(path.startswith("/") for path in found.values()))

    def test_the_first_of_a_name_is_taken(self):
        text = sample.text("ldconfig.txt")
        known = bundle.cached(text + "\tlibz.so.1 (libc6) => /lib32/libz.so.1\n")
        self.assertEqual(known["libvulkan.so.1"], "/lib/x86_64-linux-gnu/libvulkan.so.1")
        self.assertNotEqual(known["libz.so.1"], "/lib32/libz.so.1")

    def test_an_archive_that_is_too_large_says_by_how_much(self):
        bundle.check_size("moebius.xz", bundle.LIMIT)
        with self.assertRaisesRegex(bundle.TooLarge, r"moebius.xz: expected at most 28 MiB, got 29.50 MiB, 1,572,864 bytes \(1.50 MiB\) too large"):
            bundle.check_size("moebius.xz", bundle.LIMIT + 3 * bundle.MIB // 2)


class Counters(unittest.TestCase):
    def test_the_longest_launch_of_each_kernel(self):
        found = counters.kernels(sample.text("ncu.csv"))
        self.assertEqual([(one["kernel"], one["time_us"], one["launches"]) for one in found], [("kernel_b", 1500.0, 1), ("kernel_a", 12.48, 2)])
        self.assertEqual((found[1]["registers"], found[1]["multiprocessors_percent"]), (62.0, 41.25))
        self.assertNotIn("registers", found[0])
        self.assertEqual(len(counters.kernels(sample.text("ncu.csv"), most=1)), 1)

    def test_why_there_are_none(self):
        with self.assertRaisesRegex(counters.NoCounters, "ERR_NVGPUCTRPERM"):
            counters.kernels("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
        with self.assertRaisesRegex(counters.NoCounters, "no launch was counted"):
            counters.kernels("")

    def test_findings_of_the_sanitizer(self):
        self.assertEqual(counters.findings(sample.text("sanitizer.txt")), (1, ["Invalid __global__ read of size 4 bytes"]))
        self.assertEqual(counters.findings("========= COMPUTE-SANITIZER\n"), (None, []))


if __name__ == "__main__":
    unittest.main()
