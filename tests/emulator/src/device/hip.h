// HIP's names that differ from CUDA's. Lanes of a wavefront run together: the lanes that reach a line take part in its operation.
#define __HIP_DEVICE_COMPILE__ 1
template <class T> EMU_LIBRARY T __shfl(T value, int from, int width = EMU_LANES, EMU_LINE) { return __shfl_sync(0, value, from, width, line); }
template <class T> EMU_LIBRARY T __shfl_up(T value, emu_u32 delta, int width = EMU_LANES, EMU_LINE) { return __shfl_up_sync(0, value, delta, width, line); }
template <class T> EMU_LIBRARY T __shfl_down(T value, emu_u32 delta, int width = EMU_LANES, EMU_LINE) { return __shfl_down_sync(0, value, delta, width, line); }
template <class T> EMU_LIBRARY T __shfl_xor(T value, int bits, int width = EMU_LANES, EMU_LINE) { return __shfl_xor_sync(0, value, bits, width, line); }
EMU_LIBRARY emu_u64 __ballot(int holds, EMU_LINE) { return emu_votes(0, holds, line).set; }
EMU_LIBRARY int __any(int holds, EMU_LINE) { return __any_sync(0, holds, line); }
EMU_LIBRARY int __all(int holds, EMU_LINE) { return __all_sync(0, holds, line); }
EMU_LIBRARY void __builtin_amdgcn_wave_barrier(EMU_LINE) { __syncwarp(0, line); }
#define __builtin_amdgcn_fence(order, scope) __threadfence_block()
