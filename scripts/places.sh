# Where the scripts put things and find drivers. Sourced, not run, from the root of the repository.
# shellcheck shell=bash

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/moebius"
# Wheel layout below it: nvidia/cu13/lib and nvidia/cu13/include.
# shellcheck disable=SC2034
NVRTC_DIR="$CACHE/nvrtc"

# The bundler's version is its crate's version, so the lock file tells which bundle a build will look for.
LLVM_VERSION=$(sed -n '/^name = "tracel-llvm-bundler"/{n;s/^version = "\(.*\)"/\1/p;}' Cargo.lock)
# shellcheck disable=SC2034
LLVM_BUNDLE="${XDG_DATA_HOME:-$HOME/.local/share}/tracel/tracel-llvm-$LLVM_VERSION"
# shellcheck disable=SC2034
LLVM_URL="https://github.com/tracel-ai/tracel-llvm/releases/download/v$LLVM_VERSION/linux-x64.checksums.json"

# Debian's compiler for wasm32, unpacked, for systems where rustup can't add the target.
# shellcheck disable=SC2034
WASM_DEBIAN="$CACHE/wasm-toolchain/debian"
# wasm-bindgen's command and crate must be of one version.
WASM_BINDGEN_VERSION=$(sed -n '/^name = "wasm-bindgen"/{n;s/^version = "\(.*\)"/\1/p;}' Cargo.lock)
# shellcheck disable=SC2034
WASM_BINDGEN_DIR="$CACHE/wasm-bindgen-$WASM_BINDGEN_VERSION"
# shellcheck disable=SC2034
BROWSER_TESTS=web-demo/test

# Plugins of XLA, each a wheel, unpacked: pjrt/<wheel>-<version>/.
PJRT_DIR="$CACHE/pjrt"
XLA_CPU_VERSION=0.0.1
LIBTPU_VERSION=0.0.51
# shellcheck disable=SC2034
XLA_CPU_PLUGIN="$PJRT_DIR/xla-cpu-pjrt-$XLA_CPU_VERSION/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
# shellcheck disable=SC2034
LIBTPU_PLUGIN="$PJRT_DIR/libtpu-$LIBTPU_VERSION/libtpu/libtpu.so"

DENO_VERSION=2.9.8
# shellcheck disable=SC2034
DENO_UNPACKED="$CACHE/deno-$DENO_VERSION/deno"

# has_wasm_target: whether the ordinary compiler brings a standard library for the browser.
has_wasm_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown" ]; }

# first_file PATH...: the first that exists.
first_file() {
  local file
  for file in "$@"; do
    if [ -e "$file" ]; then
      printf '%s\n' "$file"
      return 0
    fi
  done
}

# moebius_binary GIVEN: the program GIVEN, or, where none is, the release build, which is made.
moebius_binary() {
  local program=$1
  if [ -z "$program" ]; then
    cargo build --release --locked -p moebius-cli >&2 || return
    program=${CARGO_TARGET_DIR:-target}/release/moebius
  fi
  printf '%s\n' "$program"
}

# Mesa's software Vulkan driver. Its file name carries the architecture in some releases.
lavapipe_icd() { first_file /usr/share/vulkan/icd.d/lvp_icd*.json; }

# A lavapipe for SPIR-V, which wants more of a driver than WGSL does: Mesa of LAVAPIPE_MIN or newer, that of the system or
# one with all libraries that it needs, the C library among them. libraries/ holds these, and is missing where the system's is used.
# shellcheck disable=SC2034
LAVAPIPE_MIN=26.2
LAVAPIPE_DIR="$CACHE/lavapipe"
spirv_icd() { first_file "$LAVAPIPE_DIR/lvp_icd.json"; }
# The loader that programs are run with there, and its libraries: with those of the system they can't be mixed.
spirv_loader() { first_file "$LAVAPIPE_DIR"/libraries/usr/lib/*-linux-gnu/ld-linux-*.so.*; }

# A spirv-val of SPIRV_TOOLS_MIN or newer, the system's or an unpacked one; tests/validate/src/tools.rs runs it from there.
# shellcheck disable=SC2034
SPIRV_TOOLS_MIN=2025.3
# shellcheck disable=SC2034
SPIRV_TOOLS="$CACHE/spirv-tools"

# Chromium's software Vulkan driver: Debian, Google's package, Ubuntu's snap.
swiftshader_icd() {
  first_file /usr/lib/chromium/vk_swiftshader_icd.json /opt/google/chrome/vk_swiftshader_icd.json \
    /snap/chromium/current/usr/lib/chromium-browser/vk_swiftshader_icd.json
}

# A browser with WebGPU for the tests; CHROMIUM names another.
browser_binary() {
  local name
  if [ -n "${CHROMIUM:-}" ]; then
    printf '%s\n' "$CHROMIUM"
    return 0
  fi
  for name in chromium google-chrome google-chrome-stable chromium-browser; do
    command -v "$name" && return 0
  done
  first_file "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" /Applications/Chromium.app/Contents/MacOS/Chromium
}

# Deno, another implementation of WebGPU: the system's, or the one that scripts/setup unpacks.
deno_binary() {
  command -v deno || first_file "$DENO_UNPACKED"
}
