// In checked builds the compiler calls these functions before each access (-fsanitize=thread, without its library).
// Accesses to the thread's own stack and to the emulator's own data are not reported.
extern "C" {
EMU_APART __attribute__((noinline)) void emu_tell(const void* at, emu_u32 bytes, emu_u32 kind, const void* code) {
    emu_thread* self = emu_self();
    emu_block* block = self->block;
    __UINTPTR_TYPE__ place = (__UINTPTR_TYPE__)at;
    if ((place ^ (__UINTPTR_TYPE__)self) < EMU_STACK_BYTES) return;
    if (place - (__UINTPTR_TYPE__)block < sizeof *block || place - (__UINTPTR_TYPE__)block->calls < sizeof *block->calls) return;
    block->calls->access(self, at, bytes, kind, code);
}
#define EMU_HOOK(name, bytes, kind) \
    EMU_APART void name(const void* at) { emu_tell(at, bytes, kind, __builtin_return_address(0)); }
#define EMU_HOOKS(bytes)                                                                                  \
    EMU_HOOK(__tsan_read##bytes, bytes, EMU_READ) EMU_HOOK(__tsan_write##bytes, bytes, EMU_WRITE)         \
    EMU_HOOK(__tsan_unaligned_read##bytes, bytes, EMU_READ)                                               \
    EMU_HOOK(__tsan_unaligned_write##bytes, bytes, EMU_WRITE)                                             \
    EMU_HOOK(__tsan_volatile_read##bytes, bytes, EMU_ATOMIC_READ)                                            \
    EMU_HOOK(__tsan_volatile_write##bytes, bytes, EMU_ATOMIC_WRITE)                                           \
    EMU_HOOK(__tsan_unaligned_volatile_read##bytes, bytes, EMU_ATOMIC_READ)                                  \
    EMU_HOOK(__tsan_unaligned_volatile_write##bytes, bytes, EMU_ATOMIC_WRITE)
EMU_HOOKS(1) EMU_HOOKS(2) EMU_HOOKS(4) EMU_HOOKS(8) EMU_HOOKS(16)
EMU_APART void __tsan_read_range(const void* at, size_t bytes) { emu_tell(at, bytes, EMU_READ, __builtin_return_address(0)); }
EMU_APART void __tsan_write_range(const void* at, size_t bytes) { emu_tell(at, bytes, EMU_WRITE, __builtin_return_address(0)); }
EMU_APART void __tsan_func_entry(const void*) {}
EMU_APART void __tsan_func_exit() {}
EMU_APART void __tsan_init() {}
}
