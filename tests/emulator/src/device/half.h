// __half and __nv_bfloat16: 16-bit floats whose operations are each rounded once, to nearest even; an operation that
// makes a NaN gives the hardware's, 0x7fff.
EMU_LIBRARY emu_u16 emu_bits(_Float16 x) { emu_u16 y; __builtin_memcpy(&y, &x, 2); return y; }
struct emu_f16 {
    EMU_LIBRARY static emu_u16 round(float x) { return __builtin_isnan(x) ? 0x7fff : emu_bits((_Float16)x); }
    EMU_LIBRARY static emu_u16 round(double x) { return __builtin_isnan(x) ? 0x7fff : emu_bits((_Float16)x); }
    EMU_LIBRARY static float widen(emu_u16 x) { _Float16 y; __builtin_memcpy(&y, &x, 2); return (float)y; }
    static constexpr emu_u16 infinity = 0x7c00;
};
// Rounds a double to odd at float precision: the result can be rounded again without a double-rounding error.
EMU_LIBRARY float emu_to_odd(double x) {
    float y = (float)x;
    if ((double)y == x || __builtin_isnan(x) || __builtin_isinf(y)) return y;
    emu_u32 bits = __float_as_uint(y);
    if (__builtin_fabs((double)y) > __builtin_fabs(x)) bits--;
    return __uint_as_float(bits | 1);
}
struct emu_bf16 {
    EMU_LIBRARY static emu_u16 round(float x) {
        if (__builtin_isnan(x)) return 0x7fff;
        emu_u32 bits = __float_as_uint(x);
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    EMU_LIBRARY static emu_u16 round(double x) { return round(emu_to_odd(x)); }
    EMU_LIBRARY static float widen(emu_u16 x) { return __uint_as_float((emu_u32)x << 16); }
    static constexpr emu_u16 infinity = 0x7f80;
};
struct __half_raw { emu_u16 x; };
struct __nv_bfloat16_raw { emu_u16 x; };
template <class F> struct emu_raw { typedef __half_raw type; };
template <> struct emu_raw<emu_bf16> { typedef __nv_bfloat16_raw type; };

// Rounds a 64-bit integer to odd at a double's 53 bits.
EMU_LIBRARY double emu_to_odd(emu_u64 x) {
    if (x >> 53 == 0) return (double)x;
    return (double)(x & ~0x7ffull) + ((x & 0x7ff) ? 0x800 / 2.0 : 0.0);
}
template <class F> struct emu_short_float {
    emu_u16 x;
    emu_short_float() = default;
    EMU_LIBRARY emu_short_float(typename emu_raw<F>::type raw) : x(raw.x) {}
    EMU_LIBRARY emu_short_float(float v) : x(F::round(v)) {}
    EMU_LIBRARY emu_short_float(double v) : x(F::round(v)) {}
    EMU_LIBRARY emu_short_float(bool v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(char v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(signed char v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(unsigned char v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(short v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(unsigned short v) : x(F::round((float)v)) {}
    EMU_LIBRARY emu_short_float(int v) : x(F::round((double)v)) {}
    EMU_LIBRARY emu_short_float(unsigned v) : x(F::round((double)v)) {}
    EMU_LIBRARY emu_short_float(long v) : emu_short_float((long long)v) {}
    EMU_LIBRARY emu_short_float(unsigned long v) : x(F::round(emu_to_odd((emu_u64)v))) {}
    EMU_LIBRARY emu_short_float(long long v)
        : x(F::round(v < 0 ? -emu_to_odd(-(emu_u64)v) : emu_to_odd((emu_u64)v))) {}
    EMU_LIBRARY emu_short_float(emu_u64 v) : x(F::round(emu_to_odd(v))) {}
    EMU_LIBRARY operator float() const { return F::widen(x); }
    EMU_LIBRARY operator typename emu_raw<F>::type() const { return {x}; }
    EMU_LIBRARY explicit operator bool() const { return (x & 0x7fff) != 0; }
#define EMU_TO(T) EMU_LIBRARY explicit operator T() const { return (T)F::widen(x); }
    EMU_TO(double) EMU_TO(char) EMU_TO(signed char) EMU_TO(unsigned char) EMU_TO(short) EMU_TO(unsigned short)
    EMU_TO(int) EMU_TO(unsigned) EMU_TO(long) EMU_TO(unsigned long) EMU_TO(long long) EMU_TO(unsigned long long)
    EMU_LIBRARY emu_short_float& operator+=(emu_short_float b) { return *this = *this + b; }
    EMU_LIBRARY emu_short_float& operator-=(emu_short_float b) { return *this = *this - b; }
    EMU_LIBRARY emu_short_float& operator*=(emu_short_float b) { return *this = *this * b; }
    EMU_LIBRARY emu_short_float& operator/=(emu_short_float b) { return *this = *this / b; }
    EMU_LIBRARY emu_short_float operator-() const { emu_short_float y = *this; y.x ^= 0x8000; return y; }
    EMU_LIBRARY emu_short_float operator+() const { return *this; }
    // Twice a short float's precision plus two bits fits in a float, so that rounding twice equals rounding once.
    EMU_LIBRARY friend emu_short_float operator+(emu_short_float a, emu_short_float b) { return F::widen(a.x) + F::widen(b.x); }
    EMU_LIBRARY friend emu_short_float operator-(emu_short_float a, emu_short_float b) { return F::widen(a.x) - F::widen(b.x); }
    EMU_LIBRARY friend emu_short_float operator*(emu_short_float a, emu_short_float b) { return F::widen(a.x) * F::widen(b.x); }
    EMU_LIBRARY friend emu_short_float operator/(emu_short_float a, emu_short_float b) { return F::widen(a.x) / F::widen(b.x); }
    EMU_LIBRARY friend bool operator==(emu_short_float a, emu_short_float b) { return F::widen(a.x) == F::widen(b.x); }
    EMU_LIBRARY friend bool operator!=(emu_short_float a, emu_short_float b) { return F::widen(a.x) != F::widen(b.x); }
    EMU_LIBRARY friend bool operator<(emu_short_float a, emu_short_float b) { return F::widen(a.x) < F::widen(b.x); }
    EMU_LIBRARY friend bool operator<=(emu_short_float a, emu_short_float b) { return F::widen(a.x) <= F::widen(b.x); }
    EMU_LIBRARY friend bool operator>(emu_short_float a, emu_short_float b) { return F::widen(a.x) > F::widen(b.x); }
    EMU_LIBRARY friend bool operator>=(emu_short_float a, emu_short_float b) { return F::widen(a.x) >= F::widen(b.x); }
};
typedef emu_short_float<emu_f16> __half;
typedef emu_short_float<emu_bf16> __nv_bfloat16;
struct __half2_raw { emu_u16 x, y; };
struct __nv_bfloat162_raw { emu_u16 x, y; };

// Two 16-bit floats in 32 bits, with the same operations on each.
template <class F> struct __align__(4) emu_pair {
    emu_short_float<F> x, y;
    emu_pair() = default;
    EMU_LIBRARY emu_pair(emu_short_float<F> a, emu_short_float<F> b) : x(a), y(b) {}
    EMU_LIBRARY explicit emu_pair(__half2_raw raw) { x.x = raw.x; y.x = raw.y; }
    EMU_LIBRARY explicit emu_pair(__nv_bfloat162_raw raw) { x.x = raw.x; y.x = raw.y; }
    EMU_LIBRARY operator __half2_raw() const { return {x.x, y.x}; }
    EMU_LIBRARY operator __nv_bfloat162_raw() const { return {x.x, y.x}; }
    EMU_LIBRARY emu_pair operator-() const { return {-x, -y}; }
#define EMU_PAIR(op) EMU_LIBRARY friend emu_pair operator op(emu_pair a, emu_pair b) { return {a.x op b.x, a.y op b.y}; }
    EMU_PAIR(+) EMU_PAIR(-) EMU_PAIR(*) EMU_PAIR(/)
    EMU_LIBRARY friend bool operator==(emu_pair a, emu_pair b) { return a.x == b.x && a.y == b.y; }
    EMU_LIBRARY friend bool operator!=(emu_pair a, emu_pair b) { return !(a == b); }
};
typedef emu_pair<emu_f16> __half2;
typedef emu_pair<emu_bf16> __nv_bfloat162;

#define EMU_SHORT template <class F> EMU_LIBRARY
// The product is exact in a double, and the sum is rounded to odd there, so that only the second rounding takes effect.
EMU_SHORT emu_short_float<F> __hfma(emu_short_float<F> a, emu_short_float<F> b, emu_short_float<F> c) {
    double product = (double)F::widen(a.x) * (double)F::widen(b.x), addend = F::widen(c.x);
    double sum = product + addend, part = sum - product;
    double rest = (product - (sum - part)) + (addend - part);
    emu_u64 bits = emu_bits(sum);
    if (rest != 0 && !(bits & 1)) bits += (rest > 0) == (sum > 0) ? 1 : -1;
    return rest != 0 && rest == rest && !__builtin_isinf(sum) ? emu_double(bits) : sum;
}
EMU_SHORT emu_short_float<F> __habs(emu_short_float<F> a) { a.x &= 0x7fff; return a; }
EMU_SHORT emu_short_float<F> __hneg(emu_short_float<F> a) { return -a; }
EMU_SHORT bool __hisnan(emu_short_float<F> a) { return (a.x & 0x7fff) > F::infinity; }
EMU_SHORT int __hisinf(emu_short_float<F> a) { return a.x == F::infinity ? 1 : (a.x ^ 0x8000) == F::infinity ? -1 : 0; }
// Of two zeros, -0 is the smaller.
EMU_SHORT emu_short_float<F> __hmin(emu_short_float<F> a, emu_short_float<F> b) {
    if (__hisnan(a)) return __hisnan(b) ? emu_short_float<F>(__builtin_nanf("")) : b;
    return __hisnan(b) || a < b || (a == b && a.x >> 15) ? a : b;
}
EMU_SHORT emu_short_float<F> __hmax(emu_short_float<F> a, emu_short_float<F> b) {
    if (__hisnan(a)) return __hisnan(b) ? emu_short_float<F>(__builtin_nanf("")) : b;
    return __hisnan(b) || a > b || (a == b && !(a.x >> 15)) ? a : b;
}
EMU_SHORT emu_short_float<F> __hmin_nan(emu_short_float<F> a, emu_short_float<F> b) {
    return __hisnan(a) || __hisnan(b) ? emu_short_float<F>(__builtin_nanf("")) : __hmin(a, b);
}
EMU_SHORT emu_short_float<F> __hmax_nan(emu_short_float<F> a, emu_short_float<F> b) {
    return __hisnan(a) || __hisnan(b) ? emu_short_float<F>(__builtin_nanf("")) : __hmax(a, b);
}
#define EMU_SHORT1(h, f)                                                                                         \
    EMU_SHORT emu_short_float<F> h##f(emu_short_float<F> a) { return f(F::widen(a.x)); }                         \
    EMU_SHORT emu_pair<F> h##2##f(emu_pair<F> a) { return {h##f(a.x), h##f(a.y)}; }
EMU_SHORT1(h, exp) EMU_SHORT1(h, exp2) EMU_SHORT1(h, log) EMU_SHORT1(h, log2) EMU_SHORT1(h, sin) EMU_SHORT1(h, cos)
EMU_SHORT1(h, tanh) EMU_SHORT1(h, sqrt) EMU_SHORT1(h, rsqrt) EMU_SHORT1(h, ceil) EMU_SHORT1(h, floor)
EMU_SHORT1(h, trunc) EMU_SHORT1(h, rint)
#define EMU_BOTH1(name) EMU_SHORT emu_pair<F> name##2(emu_pair<F> a) { return {name(a.x), name(a.y)}; }
#define EMU_BOTH2(name, of) EMU_SHORT emu_pair<F> name(emu_pair<F> a, emu_pair<F> b) { return {of(a.x, b.x), of(a.y, b.y)}; }
EMU_BOTH1(__habs) EMU_BOTH1(__hneg)
EMU_BOTH2(__hmin2, __hmin) EMU_BOTH2(__hmax2, __hmax) EMU_BOTH2(__hmin2_nan, __hmin_nan) EMU_BOTH2(__hmax2_nan, __hmax_nan)
EMU_SHORT emu_pair<F> __hfma2(emu_pair<F> a, emu_pair<F> b, emu_pair<F> c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
EMU_SHORT emu_pair<F> __hisnan2(emu_pair<F> a) { return {__hisnan(a.x), __hisnan(a.y)}; }

EMU_LIBRARY __half __float2half(float x) { return x; }
EMU_LIBRARY float __half2float(__half x) { return x; }
EMU_LIBRARY __nv_bfloat16 __float2bfloat16(float x) { return x; }
EMU_LIBRARY float __bfloat162float(__nv_bfloat16 x) { return x; }
