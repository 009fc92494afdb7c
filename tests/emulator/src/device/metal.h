// Metal's names that differ from CUDA's. Every lane holds a whole simdgroup matrix, because eight by eight elements are few.
namespace metal {}
typedef __half half;
typedef __nv_bfloat16 bfloat;
template <class T, size_t n> struct array {
    T at[n];
    EMU_LIBRARY T& operator[](size_t i) { return at[i]; }
    EMU_LIBRARY const T& operator[](size_t i) const { return at[i]; }
};
struct uint3 {
    emu_u32 at[3];
    EMU_LIBRARY emu_u32 operator[](size_t i) const { return at[i]; }
};
EMU_LIBRARY uint3 emu_vector(emu_dim3 x) { return {{x.x, x.y, x.z}}; }
EMU_LIBRARY uint3 emu_thread_position() { return emu_vector(threadIdx); }
EMU_LIBRARY uint3 emu_group_position() { return emu_vector(blockIdx); }
EMU_LIBRARY uint3 emu_groups() { return emu_vector(gridDim); }
EMU_LIBRARY uint3 emu_threads_of_group() { return emu_vector(blockDim); }
EMU_LIBRARY emu_u32 emu_thread_index() {
    emu_dim3 at = threadIdx, size = blockDim;
    return (at.z * size.y + at.y) * size.x + at.x;
}
EMU_LIBRARY emu_u32 clamp(emu_u32 x, emu_u32 least, emu_u32 most) { return min(max(x, least), most); }
EMU_LIBRARY int clamp(int x, int least, int most) { return min(max(x, least), most); }
EMU_LIBRARY float clamp(float x, float least, float most) { return min(max(x, least), most); }

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
#define threadgroup_barrier(flags) emu_barrier(__LINE__)
#define simdgroup_barrier(flags) __syncwarp()

template <class T, int rows, int columns> struct simdgroup_matrix { T at[rows][columns]; };
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
template <class T, int rows, int columns> EMU_LIBRARY simdgroup_matrix<T, rows, columns> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, rows, columns> filled;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) filled.at[i][j] = value;
    return filled;
}
template <class T> inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, const T* from, size_t line, int, bool transposed) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to.at[i][j] = transposed ? from[j * line + i] : from[i * line + j];
}
// Each lane writes two of the 64 elements.
template <class T> inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& from, T* to, size_t line) {
    emu_u32 first = 2 * emu_self()->lane, i = first / 8, j = first % 8;
    to[i * line + j] = from.at[i][j];
    to[i * line + j + 1] = from.at[i][j + 1];
}
// Sums in doubles and rounds once, as for other cards' matrices, and once for all lanes.
template <class A, class B> struct emu_accumulate {
    simdgroup_float8x8* to;
    const simdgroup_matrix<A, 8, 8>* a;
    const simdgroup_matrix<B, 8, 8>* b;
    const simdgroup_float8x8* c;
};
template <class A, class B> EMU_APART static void emu_accumulate_all(void* const* lanes, emu_mask present) {
    const emu_accumulate<A, B>& first = emu_lane<emu_accumulate<A, B>>(lanes, __builtin_ctzll(present));
    float a[8][8], b[8][8];
    for (int i = 0; i < 64; i++) a[0][i] = first.a->at[0][i], b[0][i] = first.b->at[0][i];
    simdgroup_float8x8 sums;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double sum = first.c->at[i][j];
            for (int k = 0; k < 8; k++) sum += (double)a[i][k] * b[k][j];
            sums.at[i][j] = (float)sum;
        }
    for (emu_u32 lane = 0; lane < EMU_LANES; lane++)
        if (present >> lane & 1) *emu_lane<emu_accumulate<A, B>>(lanes, lane).to = sums;
}
template <class A, class B> EMU_LIBRARY void simdgroup_multiply_accumulate(
    simdgroup_float8x8& to, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b, const simdgroup_float8x8& c, EMU_LINE) {
    emu_accumulate<A, B> own = {&to, &a, &b, &c};
    emu_meet(line, EMU_ALL_LANES, emu_accumulate_all<A, B>, &own);
}

// Metal's address spaces are all the host's memory.
#define device
#define constant
#define thread
#define threadgroup
