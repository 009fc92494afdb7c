// Complex numbers, as in cuComplex.h.
struct __align__(8) cuFloatComplex { float x, y; };
struct __align__(16) cuDoubleComplex { double x, y; };
#define EMU_COMPLEX(T, R, f)                                                                                          \
    EMU_LIBRARY T make_##T(R x, R y) { return {x, y}; }                                                               \
    EMU_LIBRARY R cuCreal##f(T a) { return a.x; }                                                                     \
    EMU_LIBRARY R cuCimag##f(T a) { return a.y; }                                                                     \
    EMU_LIBRARY T cuConj##f(T a) { return {a.x, -a.y}; }                                                              \
    EMU_LIBRARY T cuCadd##f(T a, T b) { return {a.x + b.x, a.y + b.y}; }                                              \
    EMU_LIBRARY T cuCsub##f(T a, T b) { return {a.x - b.x, a.y - b.y}; }                                              \
    EMU_LIBRARY T cuCmul##f(T a, T b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }                      \
    EMU_LIBRARY T cuCdiv##f(T a, T b) {                                                                               \
        R scale = fabs(b.x) + fabs(b.y), inverse = (R)1 / scale;                                                      \
        R ax = a.x * inverse, ay = a.y * inverse, bx = b.x * inverse, by = b.y * inverse;                             \
        R size = (R)1 / (bx * bx + by * by);                                                                          \
        return {(ax * bx + ay * by) * size, (ay * bx - ax * by) * size};                                              \
    }
EMU_COMPLEX(cuFloatComplex, float, f)
EMU_COMPLEX(cuDoubleComplex, double, )
