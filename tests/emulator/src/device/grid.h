// The basis of every kernel: a thread's position, barriers, warps and shared memory. A thread is a coroutine of the
// emulator. Its state lies at the lowest address of its stack, whose size is also its alignment, so that the state is
// found from the stack pointer without thread-local variables.
typedef __SIZE_TYPE__ size_t;
typedef unsigned int emu_u32;
typedef unsigned short emu_u16;
typedef unsigned char emu_u8;
typedef unsigned long long emu_u64;

#define EMU_LIBRARY __attribute__((always_inline, no_sanitize("thread"))) inline
#define EMU_APART __attribute__((no_sanitize("thread")))
// Functions that aren't inlined, so that checks report a call's effect and not its internal accesses.
#define EMU_CALL EMU_APART __attribute__((noinline))

struct emu_dim3 { emu_u32 x, y, z; };
struct emu_thread;
typedef emu_u64 emu_mask;
typedef void (*emu_together)(void* const* lanes, emu_mask present);

// The layouts of these three structs match src/grid/state.rs.
struct emu_calls {
    void (*barrier)(emu_thread*, emu_u32 line);
    void (*together)(emu_thread*, emu_u32 line, emu_mask mask, emu_together act, void* lane);
    void (*access)(emu_thread*, const void* at, emu_u32 bytes, emu_u32 kind, const void* code);
};
struct emu_block {
    emu_dim3 block, block_size, grid_size;
    emu_u32 shared_bytes;
    char* shared;
    const emu_calls* calls;
};
struct emu_thread {
    emu_dim3 thread;
    emu_u32 lane;
    emu_u32 line;
    emu_block* block;
};

EMU_LIBRARY emu_thread* emu_self() {
    return (emu_thread*)((__UINTPTR_TYPE__)__builtin_frame_address(0) & ~(__UINTPTR_TYPE__)(EMU_STACK_BYTES - 1));
}
EMU_LIBRARY char* emu_shared() { return emu_self()->block->shared; }

#define threadIdx (emu_self()->thread)
#define blockIdx (emu_self()->block->block)
#define blockDim (emu_self()->block->block_size)
#define gridDim (emu_self()->block->grid_size)
#define warpSize EMU_LANES
#define EMU_ALL_LANES (~(emu_mask)0 >> (64 - EMU_LANES))

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Threads of a block do exchange data through global memory, which `__restrict__` would let the host's compiler ignore.
#define __restrict__

EMU_LIBRARY void emu_barrier(emu_u32 line) { emu_self()->block->calls->barrier(emu_self(), line); }
#define __syncthreads() emu_barrier(__LINE__)
EMU_CALL inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EMU_CALL inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Makes the lanes of `mask` wait for each other at this line; then runs `act` once for all of them.
EMU_LIBRARY void emu_meet(emu_u32 line, emu_mask mask, emu_together act, void* lane) {
    emu_self()->block->calls->together(emu_self(), line, mask, act, lane);
}
template <class T> EMU_LIBRARY T& emu_lane(void* const* lanes, emu_u32 lane) { return *(T*)lanes[lane]; }

// Reports an access that a warp's common function makes on behalf of a lane.
EMU_LIBRARY void emu_access(emu_thread* of, const void* at, emu_u32 bytes, emu_u32 kind, const void* code = 0) {
#ifdef EMU_CHECK
    of->block->calls->access(of, at, bytes, kind, code);
#endif
}
enum { EMU_READ, EMU_WRITE, EMU_ATOMIC, EMU_ATOMIC_READ, EMU_ATOMIC_WRITE };

EMU_APART static void emu_nothing(void* const*, emu_mask) {}
#define EMU_LINE emu_u32 line = __builtin_LINE()
EMU_LIBRARY void __syncwarp(emu_mask mask = EMU_ALL_LANES, EMU_LINE) { emu_meet(line, mask, emu_nothing, 0); }

// An empty mask stands for the lanes that reach this line: which lanes run converged is up to the hardware.
EMU_APART static void emu_present(void* const* lanes, emu_mask present) {
    for (emu_u32 lane = 0; lane < EMU_LANES; lane++) if (present >> lane & 1) emu_lane<emu_mask>(lanes, lane) = present;
}
EMU_LIBRARY emu_u32 __activemask(EMU_LINE) {
    emu_mask mask = 0;
    emu_meet(line, 0, emu_present, &mask);
    return mask;
}

template <class T> struct emu_exchange { T value, result; emu_u32 from; };
template <class T> EMU_APART void emu_shuffle(void* const* lanes, emu_mask present) {
    for (emu_u32 lane = 0; lane < EMU_LANES; lane++) {
        if (!(present >> lane & 1)) continue;
        emu_exchange<T>& own = emu_lane<emu_exchange<T>>(lanes, lane);
        // A lane that isn't present has no value to give, so this lane keeps its own; on a real warp the result is undefined.
        own.result = present >> own.from & 1 ? emu_lane<emu_exchange<T>>(lanes, own.from).value : own.value;
    }
}
template <class T> EMU_LIBRARY T emu_take(emu_mask mask, T value, emu_u32 from, emu_u32 line) {
    emu_exchange<T> own = {value, value, from};
    emu_meet(line, mask, emu_shuffle<T>, &own);
    return own.result;
}
template <class T> EMU_LIBRARY T __shfl_sync(emu_mask mask, T value, int from, int width = EMU_LANES, EMU_LINE) {
    emu_u32 lane = emu_self()->lane;
    return emu_take(mask, value, (lane & ~(width - 1)) | (from & (width - 1)), line);
}
template <class T> EMU_LIBRARY T __shfl_up_sync(emu_mask mask, T value, emu_u32 delta, int width = EMU_LANES, EMU_LINE) {
    int lane = emu_self()->lane, from = lane - (int)delta;
    return emu_take(mask, value, from < (lane & ~(width - 1)) ? lane : from, line);
}
template <class T> EMU_LIBRARY T __shfl_down_sync(emu_mask mask, T value, emu_u32 delta, int width = EMU_LANES, EMU_LINE) {
    emu_u32 lane = emu_self()->lane, from = lane + delta;
    return emu_take(mask, value, from > (lane | (width - 1)) ? lane : from, line);
}
template <class T> EMU_LIBRARY T __shfl_xor_sync(emu_mask mask, T value, int bits, int width = EMU_LANES, EMU_LINE) {
    emu_u32 lane = emu_self()->lane, from = (lane ^ (emu_u32)bits) & (EMU_LANES - 1);
    return emu_take(mask, value, from > (lane | (width - 1)) ? lane : from, line);
}

// A vote gives every lane the set of lanes whose predicate holds; `all` and `any` follow from that set.
struct emu_vote { emu_mask holds, set, present; };
EMU_APART static void emu_ballot(void* const* lanes, emu_mask present) {
    emu_mask set = 0;
    for (emu_u32 lane = 0; lane < EMU_LANES; lane++)
        if (present >> lane & 1 && emu_lane<emu_vote>(lanes, lane).holds) set |= (emu_mask)1 << lane;
    for (emu_u32 lane = 0; lane < EMU_LANES; lane++) if (present >> lane & 1) {
        emu_lane<emu_vote>(lanes, lane).set = set;
        emu_lane<emu_vote>(lanes, lane).present = present;
    }
}
EMU_LIBRARY emu_vote emu_votes(emu_mask mask, bool holds, emu_u32 line) {
    emu_vote own = {holds, 0, 0};
    emu_meet(line, mask, emu_ballot, &own);
    return own;
}
EMU_LIBRARY emu_u32 __ballot_sync(emu_mask mask, int holds, EMU_LINE) { return emu_votes(mask, holds, line).set; }
EMU_LIBRARY int __any_sync(emu_mask mask, int holds, EMU_LINE) { return emu_votes(mask, holds, line).set != 0; }
EMU_LIBRARY int __all_sync(emu_mask mask, int holds, EMU_LINE) {
    emu_vote votes = emu_votes(mask, holds, line);
    return votes.set == votes.present;
}
EMU_LIBRARY emu_u32 emu_elect(emu_mask mask, EMU_LINE) {
    emu_vote votes = emu_votes(mask, true, line);
    return (emu_u32)__builtin_ctzll(votes.present) == emu_self()->lane;
}

// Shared memory has its own 32-bit addresses: offsets from its start.
EMU_LIBRARY emu_u32 __cvta_generic_to_shared(const volatile void* at) { return (const volatile char*)at - emu_shared(); }
// `cp.async` copies at once: no kernel may look at the data before it has waited for the copy.
EMU_CALL inline void emu_copy_async(emu_u32 shared, const void* from, emu_u32 bytes, emu_u32 given) {
    char* to = emu_shared() + shared;
    emu_access(emu_self(), from, given, EMU_READ, __builtin_return_address(0));
    emu_access(emu_self(), to, bytes, EMU_WRITE, __builtin_return_address(0));
    for (emu_u32 i = 0; i < bytes; i++) to[i] = i < given ? ((const char*)from)[i] : 0;
}

// Calls a kernel with its arguments as CUDA passes them: pointers to values.
template <class T> struct emu_plain { typedef T type; };
template <class T> struct emu_plain<const T> { typedef T type; };
template <size_t... I> struct emu_indices {};
template <class... A, size_t... I> EMU_LIBRARY void emu_apply(void (*kernel)(A...), void* const* given, emu_indices<I...>) {
    kernel(*(typename emu_plain<A>::type*)given[I]...);
}
template <class... A> EMU_LIBRARY void emu_call(void (*kernel)(A...), void* const* given) {
    emu_apply(kernel, given, emu_indices<__integer_pack(sizeof...(A))...>());
}
template <class T> struct emu_pointee { typedef T type; static constexpr emu_u32 bytes = 0; };
template <class T> struct emu_pointee<T*> { typedef T type; static constexpr emu_u32 bytes = sizeof(T); };
template <class T> struct emu_pointee<T* const> : emu_pointee<T*> {};
// The place of the buffer lengths (numbers of elements) in the last argument, where CubeCL passes them: first byte, and bytes
// of one.
struct emu_lengths { emu_u32 at, bytes; };
template <class T> constexpr auto emu_lengths_of(int) -> decltype(sizeof(T::static_meta), emu_lengths()) {
    return {(emu_u32)__builtin_offsetof(T, static_meta), (emu_u32)sizeof(T::static_meta[0])};
}
template <class T> constexpr emu_lengths emu_lengths_of(long) { return {0, 0}; }
template <class... A> struct emu_last { typedef void type; };
template <class A> struct emu_last<A> { typedef A type; };
template <class A, class B, class... C> struct emu_last<A, B, C...> : emu_last<B, C...> {};
template <class... A> struct emu_sizes {
    static constexpr emu_u32 count = sizeof...(A);
    static constexpr emu_u32 each[sizeof...(A) + 1] = {(emu_u32)sizeof(A)..., 0};
    static constexpr emu_u32 elements[sizeof...(A) + 1] = {emu_pointee<A>::bytes..., 0};
    static constexpr emu_lengths lengths = emu_lengths_of<typename emu_pointee<typename emu_last<A...>::type>::type>(0);
};
template <class... A> constexpr emu_sizes<A...> emu_sizes_of(void (*)(A...)) { return {}; }

struct emu_kernel {
    const char* name;
    void (*thread)(void* const* given);
    void (*threads)(void* const* given, emu_thread* self);
    const emu_u32* sizes;
    const emu_u32* elements;
    emu_u32 parameters, most_threads, waits, lengths, length_bytes, dynamic;
};
// Defines a kernel's entry. `threads` serves kernels in which no thread waits for another: it runs a block as a plain loop.
#define EMU_KERNEL(kernel, most, waits, dynamic)                                                     \
    EMU_APART static void emu_thread_##kernel(void* const* given) { emu_call(kernel, given); }       \
    EMU_APART static void emu_threads_##kernel(void* const* given, emu_thread* self) {               \
        emu_dim3 size = self->block->block_size;                                                     \
        self->lane = 0;                                                                              \
        for (self->thread.z = 0; self->thread.z < size.z; self->thread.z++)                          \
            for (self->thread.y = 0; self->thread.y < size.y; self->thread.y++)                      \
                for (self->thread.x = 0; self->thread.x < size.x; self->thread.x++) {                \
                    emu_call(kernel, given);                                                         \
                    self->lane = (self->lane + 1) & (EMU_LANES - 1);                                              \
                }                                                                                    \
    }                                                                                                \
    typedef decltype(emu_sizes_of(kernel)) emu_sizes_##kernel;                                       \
    extern "C" __attribute__((visibility("default"))) const emu_kernel emu_kernel_##kernel = {       \
        #kernel, emu_thread_##kernel, emu_threads_##kernel, emu_sizes_##kernel::each, emu_sizes_##kernel::elements,  \
        emu_sizes_##kernel::count, most, waits, emu_sizes_##kernel::lengths.at, emu_sizes_##kernel::lengths.bytes, dynamic};
