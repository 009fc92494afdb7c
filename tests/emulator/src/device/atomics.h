// Atomic operations are the host's, because blocks of one launch run on several host processors.
template <int bytes> struct emu_word;
template <> struct emu_word<1> { typedef emu_u8 type; };
template <> struct emu_word<2> { typedef emu_u16 type; };
template <> struct emu_word<4> { typedef emu_u32 type; };
template <> struct emu_word<8> { typedef emu_u64 type; };

// An atomic update for any type and operation: replaces a word if it still holds the value that the new one was computed from,
// else retries.
template <class T, class Change> EMU_CALL T emu_update(T* at, Change change, emu_u32 kind = EMU_ATOMIC) {
    typedef typename emu_word<sizeof(T)>::type word;
    emu_access(emu_self(), at, sizeof(T), kind, __builtin_return_address(0));
    word* words = (word*)at;
    word seen = __atomic_load_n(words, __ATOMIC_RELAXED), next;
    T old;
    do {
        __builtin_memcpy(&old, &seen, sizeof(T));
        T value = change(old);
        __builtin_memcpy(&next, &value, sizeof(T));
    } while (!__atomic_compare_exchange_n(words, &seen, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}
#define EMU_ATOMIC_OP(name, expression)                                     \
    template <class T, class V> EMU_LIBRARY T name(T* at, V given) {        \
        T value = (T)given;                                                 \
        return emu_update(at, [&](T old) EMU_APART -> T { return expression; });      \
    }
EMU_ATOMIC_OP(atomicAdd, old + value)
EMU_ATOMIC_OP(atomicSub, old - value)
EMU_ATOMIC_OP(atomicMin, old < value ? old : value)
EMU_ATOMIC_OP(atomicMax, old > value ? old : value)
EMU_ATOMIC_OP(atomicAnd, old & value)
EMU_ATOMIC_OP(atomicOr, old | value)
EMU_ATOMIC_OP(atomicXor, old ^ value)
template <class T, class V> EMU_LIBRARY T atomicExch(T* at, V given) {
    T value = (T)given;
    return emu_update(at, [&](T) EMU_APART -> T { return value; }, EMU_ATOMIC_WRITE);
}
template <class T> EMU_LIBRARY T atomicCAS(T* at, T expected, T value) {
    return emu_update(at, [&](T old) EMU_APART -> T { return old == expected ? value : old; });
}

// `atom.relaxed.OP...` of PTX, whose registers may stand for another type than the pointer's.
enum emu_op { EMU_ADD, EMU_MIN, EMU_MAX };
template <class T> EMU_LIBRARY T emu_combined(emu_op op, T a, T b) {
    return op == EMU_ADD ? (T)(a + b) : op == EMU_MIN ? (b < a ? b : a) : (a < b ? b : a);
}
template <class T, class R, class P, class V> EMU_LIBRARY void emu_atom(emu_op op, R& result, P* at, V given) {
    static_assert(sizeof(T) == sizeof(R) && sizeof(T) == sizeof(V), "registers of another size");
    T value;
    __builtin_memcpy(&value, &given, sizeof(T));
    T old = emu_update((T*)at, [&](T seen) EMU_APART -> T { return emu_combined(op, seen, value); });
    __builtin_memcpy(&result, &old, sizeof(T));
}

// Atomic loads of 16 bytes, by their documented names. Two loads of a word each guarantee no less than a GPU's vector load.
enum { __NV_ATOMIC_RELAXED };
template <class T> EMU_CALL void __nv_atomic_load(const T* at, T* to, int) {
    emu_access(emu_self(), at, sizeof(T), EMU_ATOMIC_READ, __builtin_return_address(0));
    __builtin_memcpy(to, at, sizeof(T));
}
