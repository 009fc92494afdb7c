// Matrix instructions: wmma fragments, `mma.sync` and `ldmatrix`. Each runs once for its warp. The terms of a product are
// summed in a double and rounded once, which is closer to the exact result than any tensor core.
template <class T> struct emu_element { typedef T type; EMU_LIBRARY static double value(T x) { return (double)(float)x; } };
template <> struct emu_element<int> { typedef int type; EMU_LIBRARY static double value(int x) { return x; } };
struct emu_tf32 {};
// A tf32 lacks an f32's lowest 13 bits.
template <> struct emu_element<emu_tf32> {
    typedef float type;
    EMU_LIBRARY static double value(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
};
template <class T> EMU_LIBRARY T emu_narrow(double x) { return (T)x; }

template <int M, int N, int K> EMU_LIBRARY void emu_product(double (&d)[M * N], const double (&a)[M * K], const double (&b)[K * N]) {
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            for (int n = 0; n < N; n++) d[m * N + n] += a[m * K + k] * b[k * N + n];
}

namespace nvcuda { namespace wmma {
struct matrix_a {}; struct matrix_b {}; struct accumulator {};
struct row_major {}; struct col_major {};
namespace precision { typedef emu_tf32 tf32; }
enum layout_t { mem_row_major, mem_col_major };
EMU_LIBRARY float __float_to_tf32(float x) {
    if (__builtin_isnan(x) || __builtin_isinf(x)) return x;
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

template <class Use, int M, int N, int K> struct emu_shape { static constexpr int rows = M, columns = N; };
template <int M, int N, int K> struct emu_shape<matrix_a, M, N, K> { static constexpr int rows = M, columns = K; };
template <int M, int N, int K> struct emu_shape<matrix_b, M, N, K> { static constexpr int rows = K, columns = N; };

// Element e of the matrix, row by row, lies in lane e % EMU_LANES; programs must not depend on which lane holds which element.
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    typedef emu_shape<Use, M, N, K> shape;
    typedef emu_element<T> element;
    static constexpr int num_elements = shape::rows * shape::columns / EMU_LANES;
    typename element::type x[num_elements];
};
template <class F, class T> struct emu_transfer { F* fragment; T* memory; emu_u32 stride; bool columns; emu_thread* of; };
template <class F, class T> EMU_APART void emu_load(void* const* lanes, emu_mask) {
    for (int e = 0; e < F::shape::rows * F::shape::columns; e++) {
        auto& own = emu_lane<emu_transfer<F, const T>>(lanes, e % EMU_LANES);
        int row = e / F::shape::columns, column = e % F::shape::columns;
        const T* at = own.memory + (own.columns ? column * own.stride + row : row * own.stride + column);
        emu_access(own.of, at, sizeof(T), EMU_READ);
        own.fragment->x[e / EMU_LANES] = *at;
    }
}
template <class F, class T> EMU_APART void emu_store(void* const* lanes, emu_mask) {
    for (int e = 0; e < F::shape::rows * F::shape::columns; e++) {
        auto& own = emu_lane<emu_transfer<F, T>>(lanes, e % EMU_LANES);
        int row = e / F::shape::columns, column = e % F::shape::columns;
        T* at = own.memory + (own.columns ? column * own.stride + row : row * own.stride + column);
        emu_access(own.of, at, sizeof(T), EMU_WRITE);
        *at = own.fragment->x[e / EMU_LANES];
    }
}
template <class L> struct emu_by_columns { static constexpr bool value = false; };
template <> struct emu_by_columns<col_major> { static constexpr bool value = true; };

template <class U, int M, int N, int K, class T, class L, class P>
EMU_LIBRARY void load_matrix_sync(fragment<U, M, N, K, T, L>& into, const P* from, emu_u32 stride, EMU_LINE) {
    typedef fragment<U, M, N, K, T, L> F;
    emu_transfer<F, const P> own = {&into, from, stride, emu_by_columns<L>::value, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_load<F, P>, &own);
}
template <int M, int N, int K, class T, class P>
EMU_LIBRARY void load_matrix_sync(fragment<accumulator, M, N, K, T>& into, const P* from, emu_u32 stride, layout_t layout, EMU_LINE) {
    typedef fragment<accumulator, M, N, K, T> F;
    emu_transfer<F, const P> own = {&into, from, stride, layout == mem_col_major, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_load<F, P>, &own);
}
template <int M, int N, int K, class T, class P>
EMU_LIBRARY void store_matrix_sync(P* to, fragment<accumulator, M, N, K, T>& from, emu_u32 stride, layout_t layout, EMU_LINE) {
    typedef fragment<accumulator, M, N, K, T> F;
    emu_transfer<F, P> own = {&from, to, stride, layout == mem_col_major, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_store<F, P>, &own);
}
template <class F, class V> EMU_LIBRARY void fill_fragment(F& into, V value) {
    for (int i = 0; i < F::num_elements; i++) into.x[i] = value;
}

template <class D, class A, class B, class C> struct emu_multiply { D* d; A* a; B* b; C* c; };
template <int M, int N, int K, class D, class A, class B, class C> EMU_APART void emu_warp_multiply(void* const* lanes, emu_mask) {
    typedef emu_multiply<D, A, B, C> own;
    double a[M * K], b[K * N], d[M * N];
    for (int e = 0; e < M * K; e++) a[e] = A::element::value(emu_lane<own>(lanes, e % EMU_LANES).a->x[e / EMU_LANES]);
    for (int e = 0; e < K * N; e++) b[e] = B::element::value(emu_lane<own>(lanes, e % EMU_LANES).b->x[e / EMU_LANES]);
    for (int e = 0; e < M * N; e++) d[e] = C::element::value(emu_lane<own>(lanes, e % EMU_LANES).c->x[e / EMU_LANES]);
    emu_product<M, N, K>(d, a, b);
    for (int e = 0; e < M * N; e++) emu_lane<own>(lanes, e % EMU_LANES).d->x[e / EMU_LANES] = emu_narrow<typename D::element::type>(d[e]);
}
template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
EMU_LIBRARY void mma_sync(fragment<accumulator, M, N, K, TD>& d, fragment<matrix_a, M, N, K, TA, LA>& a,
                          fragment<matrix_b, M, N, K, TB, LB>& b, fragment<accumulator, M, N, K, TC>& c, EMU_LINE) {
    typedef fragment<accumulator, M, N, K, TD> D; typedef fragment<accumulator, M, N, K, TC> C;
    typedef fragment<matrix_a, M, N, K, TA, LA> A; typedef fragment<matrix_b, M, N, K, TB, LB> B;
    emu_multiply<D, A, B, C> own = {&d, &a, &b, &c};
    emu_meet(line, EMU_ALL_LANES, emu_warp_multiply<M, N, K, D, A, B, C>, &own);
}
}}

// `mma.sync.aligned.m16n8k{K}.row.col`: registers in the layout that the PTX manual draws for each lane.
// A register holds 32 bits of values that are adjacent along k.
struct emu_e4m3 { static constexpr int bits = 8; };
struct emu_e5m2 { static constexpr int bits = 8; };
struct emu_s8 { static constexpr int bits = 8; };
struct emu_u8_value { static constexpr int bits = 8; };
struct emu_f16_value { static constexpr int bits = 16; };
struct emu_bf16_value { static constexpr int bits = 16; };
struct emu_tf32_value { static constexpr int bits = 32; };
#ifdef EMU_FP8
EMU_LIBRARY double emu_unpacked(emu_e4m3, emu_u32 x) { return emu_fp8_value(x & 0xff, __NV_E4M3); }
EMU_LIBRARY double emu_unpacked(emu_e5m2, emu_u32 x) { return emu_fp8_value(x & 0xff, __NV_E5M2); }
#endif
EMU_LIBRARY double emu_unpacked(emu_s8, emu_u32 x) { return (signed char)x; }
EMU_LIBRARY double emu_unpacked(emu_u8_value, emu_u32 x) { return (emu_u8)x; }
EMU_LIBRARY double emu_unpacked(emu_f16_value, emu_u32 x) { return emu_f16::widen(x); }
EMU_LIBRARY double emu_unpacked(emu_bf16_value, emu_u32 x) { return emu_bf16::widen(x); }
EMU_LIBRARY double emu_unpacked(emu_tf32_value, emu_u32 x) { return emu_element<emu_tf32>::value(__uint_as_float(x)); }

template <class R, int a_registers, int b_registers> struct emu_mma_lane { R d[4]; emu_u32 a[a_registers], b[b_registers]; R c[4]; };
template <class R, class TA, class TB, int K> EMU_APART void emu_warp_mma(void* const* lanes, emu_mask) {
    constexpr int per = 32 / TA::bits, half = per * 4, a_registers = K / per / 2, b_registers = K / per / 4;
    typedef emu_mma_lane<R, a_registers, b_registers> own;
    double a[16 * K], b[K * 8], d[16 * 8];
    for (int lane = 0; lane < 32; lane++) {
        int group = lane >> 2, member = lane & 3;
        own& held = emu_lane<own>(lanes, lane);
        for (int i = 0; i < a_registers; i++)
            for (int j = 0; j < per; j++)
                a[(group + (i & 1) * 8) * K + (i >> 1) * half + member * per + j] = emu_unpacked(TA(), held.a[i] >> (j * TA::bits % 32));
        for (int i = 0; i < b_registers; i++)
            for (int j = 0; j < per; j++)
                b[(i * half + member * per + j) * 8 + group] = emu_unpacked(TB(), held.b[i] >> (j * TB::bits % 32));
        for (int i = 0; i < 4; i++) d[(group + (i >> 1) * 8) * 8 + member * 2 + (i & 1)] = held.c[i];
    }
    emu_product<16, 8, K>(d, a, b);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            emu_lane<own>(lanes, lane).d[i] = (R)d[((lane >> 2) + (i >> 1) * 8) * 8 + (lane & 3) * 2 + (i & 1)];
}
template <class T> EMU_LIBRARY emu_u32 emu_register(T x) { emu_u32 y; static_assert(sizeof(T) == 4, "a register"); __builtin_memcpy(&y, &x, 4); return y; }
template <class R, class TA, class TB, int K, class... Inputs>
EMU_LIBRARY void emu_mma(emu_u32 line, R& d0, R& d1, R& d2, R& d3, Inputs... inputs) {
    constexpr int per = 32 / TA::bits, a_registers = K / per / 2, b_registers = K / per / 4;
    static_assert(sizeof...(Inputs) == a_registers + b_registers + 4, "registers of this shape");
    emu_u32 given[] = {emu_register(inputs)...};
    emu_mma_lane<R, a_registers, b_registers> own;
    __builtin_memcpy(own.a, given, sizeof own.a);
    __builtin_memcpy(own.b, given + a_registers, sizeof own.b);
    __builtin_memcpy(own.c, given + a_registers + b_registers, sizeof own.c);
    emu_meet(line, EMU_ALL_LANES, emu_warp_mma<R, TA, TB, K>, &own);
    d0 = own.d[0]; d1 = own.d[1]; d2 = own.d[2]; d3 = own.d[3];
}

// `ldmatrix` and `stmatrix` of 8 x 8 values of 16 bits: lane 8 i + r gives the address of row r of matrix i.
template <int count> struct emu_matrices { emu_u32 registers[count]; char* row; emu_thread* of; };
template <int count, bool transposed, bool store> EMU_APART void emu_move_matrices(void* const* lanes, emu_mask) {
    typedef emu_matrices<count> own;
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < 32; lane++)
            for (int j = 0; j < 2; j++) {
                int row = lane >> 2, column = (lane & 3) * 2 + j;
                if (transposed) { int other = row; row = column; column = other; }
                own& named = emu_lane<own>(lanes, i * 8 + row);
                emu_u16* at = (emu_u16*)named.row + column;
                emu_u16* held = (emu_u16*)&emu_lane<own>(lanes, lane).registers[i] + j;
                emu_access(named.of, at, 2, store ? EMU_WRITE : EMU_READ);
                if (store) *at = *held; else *held = *at;
            }
}
template <bool transposed, class... R> EMU_LIBRARY void emu_ldmatrix(emu_u32 line, emu_u32 row, R&... results) {
    emu_matrices<sizeof...(R)> own = {{}, emu_shared() + row, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_move_matrices<sizeof...(R), transposed, false>, &own);
    int i = 0;
    ((results = own.registers[i++]), ...);
}
template <bool transposed, class... R> EMU_LIBRARY void emu_stmatrix(emu_u32 line, emu_u32 row, R... values) {
    emu_matrices<sizeof...(R)> own = {{emu_register(values)...}, emu_shared() + row, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_move_matrices<sizeof...(R), transposed, true>, &own);
}

// `wgmma` of 64 rows x N columns by 16: a warp has 16 of the rows, and reads both operands from shared memory, where descriptors say.
// Lines have 128 bytes, whose chunks of 16 are swizzled.
struct emu_group { float* sums; const emu_u64* at; emu_thread* of; };
EMU_LIBRARY const char* emu_described(emu_u64 descriptor, int line, int byte, int block, emu_thread* of) {
    emu_u32 at = (emu_u32)(descriptor & 0x3fff) * 16 + line % 8 * 128 + line / 8 * ((emu_u32)(descriptor >> 32 & 0x3fff) * 16);
    at += block * ((emu_u32)(descriptor >> 16 & 0x3fff) * 16) + byte;
    const char* from = emu_shared() + (at ^ (at >> 3 & 0x70));
    emu_access(of, from, 2, EMU_READ);
    return from;
}
template <class T, int N, bool left, bool right, int steps> EMU_APART void emu_warp_wgmma(void* const* lanes, emu_mask) {
    emu_thread* of = emu_lane<emu_group>(lanes, 0).of;
    int warp = (of->thread.x + of->block->block_size.x * (of->thread.y + of->block->block_size.y * of->thread.z)) / 32 % 4;
    for (int step = 0; step < steps; step++) {
        emu_u64 x = emu_lane<emu_group>(lanes, 0).at[2 * step], w = emu_lane<emu_group>(lanes, 0).at[2 * step + 1];
        double a[16 * 16], b[16 * N], d[16 * N];
        for (int i = 0; i < 16 * 16; i++) {
            int row = warp * 16 + i / 16, k = i % 16;
            const char* from = left ? emu_described(x, k, row * 2, 0, of) : emu_described(x, row, k * 2, 0, of);
            a[i] = emu_unpacked(T(), *(const emu_u16*)from);
        }
        for (int i = 0; i < 16 * N; i++) {
            int k = i / N, n = i % N;
            const char* from = right ? emu_described(w, k, n % 64 * 2, n / 64, of) : emu_described(w, n, k * 2, 0, of);
            b[i] = emu_unpacked(T(), *(const emu_u16*)from);
        }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < N / 2; i++)
                d[((lane >> 2) + (i >> 1 & 1) * 8) * N + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1)] = emu_lane<emu_group>(lanes, lane).sums[i];
        emu_product<16, N, 16>(d, a, b);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < N / 2; i++)
                emu_lane<emu_group>(lanes, lane).sums[i] = (float)d[((lane >> 2) + (i >> 1 & 1) * 8) * N + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1)];
    }
}
template <class T, int N, bool left, bool right, int steps> EMU_LIBRARY void emu_wgmma(emu_u32 line, float* sums, const emu_u64* at) {
    emu_group own = {sums, at, emu_self()};
    emu_meet(line, EMU_ALL_LANES, emu_warp_wgmma<T, N, left, right, steps>, &own);
}
