// CUDA's mathematical functions, by the host's library. Sums and products are rounded separately (-ffp-contract=off),
// `fma` once, as on a GPU; functions such as `exp` are the host's, within the error that CUDA documents.
extern "C" int printf(const char*, ...);

#define EMU_MATH1(name)                                                          \
    EMU_LIBRARY float name(float x) { return __builtin_##name##f(x); }           \
    EMU_LIBRARY double name(double x) { return __builtin_##name(x); }            \
    EMU_LIBRARY float name##f(float x) { return __builtin_##name##f(x); }
#define EMU_MATH2(name)                                                                      \
    EMU_LIBRARY float name(float x, float y) { return __builtin_##name##f(x, y); }           \
    EMU_LIBRARY double name(double x, double y) { return __builtin_##name(x, y); }           \
    EMU_LIBRARY float name##f(float x, float y) { return __builtin_##name##f(x, y); }
EMU_MATH1(exp) EMU_MATH1(exp2) EMU_MATH1(expm1) EMU_MATH1(log) EMU_MATH1(log2) EMU_MATH1(log10) EMU_MATH1(log1p)
EMU_MATH1(sin) EMU_MATH1(cos) EMU_MATH1(tan) EMU_MATH1(asin) EMU_MATH1(acos) EMU_MATH1(atan)
EMU_MATH1(sinh) EMU_MATH1(cosh) EMU_MATH1(tanh) EMU_MATH1(asinh) EMU_MATH1(acosh) EMU_MATH1(atanh)
EMU_MATH1(sqrt) EMU_MATH1(floor) EMU_MATH1(ceil) EMU_MATH1(trunc) EMU_MATH1(round) EMU_MATH1(rint)
EMU_MATH1(erf) EMU_MATH1(erfc) EMU_MATH1(cbrt) EMU_MATH1(fabs)
EMU_MATH2(pow) EMU_MATH2(fmod) EMU_MATH2(atan2) EMU_MATH2(hypot) EMU_MATH2(copysign) EMU_MATH2(fmin) EMU_MATH2(fmax)
EMU_LIBRARY float pow(float x, int y) { return __builtin_powf(x, (float)y); }
EMU_LIBRARY double pow(double x, int y) { return __builtin_pow(x, (double)y); }
EMU_LIBRARY float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_LIBRARY double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
EMU_LIBRARY float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EMU_LIBRARY float rsqrt(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
EMU_LIBRARY double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
EMU_LIBRARY float rsqrtf(float x) { return rsqrt(x); }
EMU_LIBRARY float rhypotf(float x, float y) { return 1.0f / __builtin_hypotf(x, y); }
EMU_LIBRARY double rhypot(double x, double y) { return 1.0 / __builtin_hypot(x, y); }

// CUDA's approximate functions with underscores, which are less exact on a GPU, but not here.
EMU_LIBRARY float __expf(float x) { return __builtin_expf(x); }
EMU_LIBRARY float __logf(float x) { return __builtin_logf(x); }
EMU_LIBRARY float __sinf(float x) { return __builtin_sinf(x); }
EMU_LIBRARY float __cosf(float x) { return __builtin_cosf(x); }
EMU_LIBRARY float __powf(float x, float y) { return __builtin_powf(x, y); }
EMU_LIBRARY float __tanhf(float x) { return __builtin_tanhf(x); }
EMU_LIBRARY float __fdividef(float x, float y) { return x / y; }
EMU_LIBRARY float __frcp_rn(float x) { return 1.0f / x; }
EMU_LIBRARY float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
EMU_LIBRARY float __frsqrt_rn(float x) { return rsqrt(x); }

EMU_LIBRARY int isnan(float x) { return __builtin_isnan(x); }
EMU_LIBRARY int isnan(double x) { return __builtin_isnan(x); }
EMU_LIBRARY int isinf(float x) { return __builtin_isinf(x) != 0; }
EMU_LIBRARY int isinf(double x) { return __builtin_isinf(x) != 0; }

#define EMU_EXTREME(T)                                              \
    EMU_LIBRARY T min(T a, T b) { return a < b ? a : b; }           \
    EMU_LIBRARY T max(T a, T b) { return a > b ? a : b; }
EMU_EXTREME(int) EMU_EXTREME(emu_u32) EMU_EXTREME(long) EMU_EXTREME(unsigned long) EMU_EXTREME(long long) EMU_EXTREME(emu_u64)
EMU_LIBRARY float min(float a, float b) { return __builtin_fminf(a, b); }
EMU_LIBRARY float max(float a, float b) { return __builtin_fmaxf(a, b); }
EMU_LIBRARY double min(double a, double b) { return __builtin_fmin(a, b); }
EMU_LIBRARY double max(double a, double b) { return __builtin_fmax(a, b); }
EMU_LIBRARY float emu_min_nan(float a, float b) { return isnan(a) || isnan(b) ? __builtin_nanf("") : min(a, b); }
EMU_LIBRARY float emu_max_nan(float a, float b) { return isnan(a) || isnan(b) ? __builtin_nanf("") : max(a, b); }

EMU_LIBRARY int abs(int x) { return x < 0 ? -x : x; }
EMU_LIBRARY long long abs(long long x) { return x < 0 ? -x : x; }
EMU_LIBRARY float abs(float x) { return __builtin_fabsf(x); }
EMU_LIBRARY double abs(double x) { return __builtin_fabs(x); }

EMU_LIBRARY int __popc(emu_u32 x) { return __builtin_popcount(x); }
EMU_LIBRARY int __popcll(emu_u64 x) { return __builtin_popcountll(x); }
EMU_LIBRARY int __clz(int x) { return x ? __builtin_clz((emu_u32)x) : 32; }
EMU_LIBRARY int __clzll(long long x) { return x ? __builtin_clzll((emu_u64)x) : 64; }
EMU_LIBRARY int __ffs(int x) { return __builtin_ffs(x); }
EMU_LIBRARY int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_LIBRARY emu_u64 __brevll(emu_u64 x) {
    emu_u64 y = 0;
    for (int bit = 0; bit < 64; bit++) y |= (x >> bit & 1) << (63 - bit);
    return y;
}
EMU_LIBRARY emu_u32 __brev(emu_u32 x) { return __brevll(x) >> 32; }
EMU_LIBRARY int __mulhi(int a, int b) { return (long long)a * b >> 32; }
EMU_LIBRARY emu_u32 __umulhi(emu_u32 a, emu_u32 b) { return (emu_u64)a * b >> 32; }
EMU_LIBRARY long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
EMU_LIBRARY emu_u64 __umul64hi(emu_u64 a, emu_u64 b) { return (unsigned __int128)a * b >> 64; }
template <class T> EMU_LIBRARY int emu_dot4(T a, T b, int c) {
    for (int byte = 0; byte < 4; byte++) {
        long long x = (T)-1 < 0 ? (long long)(signed char)(a >> 8 * byte) : (long long)(emu_u8)(a >> 8 * byte);
        long long y = (T)-1 < 0 ? (long long)(signed char)(b >> 8 * byte) : (long long)(emu_u8)(b >> 8 * byte);
        c = (int)(c + x * y);
    }
    return c;
}
EMU_LIBRARY int __dp4a(int a, int b, int c) { return emu_dot4(a, b, c); }
EMU_LIBRARY emu_u32 __dp4a(emu_u32 a, emu_u32 b, emu_u32 c) { return emu_dot4(a, b, (int)c); }
EMU_LIBRARY int emu_clamped(long long x) {
    return x < -2147483648ll ? (int)-2147483648ll : x > 2147483647ll ? 2147483647 : (int)x;
}

EMU_LIBRARY emu_u32 __float_as_uint(float x) { emu_u32 y; __builtin_memcpy(&y, &x, 4); return y; }
EMU_LIBRARY int __float_as_int(float x) { return (int)__float_as_uint(x); }
EMU_LIBRARY float __uint_as_float(emu_u32 x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
EMU_LIBRARY float __int_as_float(int x) { return __uint_as_float((emu_u32)x); }
EMU_LIBRARY emu_u64 emu_bits(double x) { emu_u64 y; __builtin_memcpy(&y, &x, 8); return y; }
EMU_LIBRARY double emu_double(emu_u64 x) { double y; __builtin_memcpy(&y, &x, 8); return y; }
