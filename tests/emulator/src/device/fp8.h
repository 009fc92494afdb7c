// The conversions of cuda_fp8.h. The value of a code, and rounding to nearest even, are computed from the widths of the
// format's fields, in doubles, which hold every input exactly.
typedef emu_u8 __nv_fp8_storage_t;
typedef emu_u16 __nv_fp8x2_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

EMU_LIBRARY double emu_power(int exponent) { return emu_double((emu_u64)(1023 + exponent) << 52); }
EMU_LIBRARY float emu_fp8_value(emu_u32 code, __nv_fp8_interpretation_t kind) {
    int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    int mantissa = code & ((1 << mantissa_bits) - 1), exponent = (code & 0x7f) >> mantissa_bits;
    float sign = code & 0x80 ? -1.0f : 1.0f;
    if (kind == __NV_E4M3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c) return __builtin_nanf("");
    if (kind == __NV_E5M2 && (code & 0x7f) == 0x7c) return sign * __builtin_inff();
    int whole = exponent ? mantissa | 1 << mantissa_bits : mantissa;
    return sign * (float)(whole * emu_power((exponent ? exponent : 1) - bias - mantissa_bits));
}
EMU_LIBRARY __nv_fp8_storage_t emu_fp8_code(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    emu_u8 largest = kind == __NV_E4M3 ? 0x7e : 0x7b, beyond = kind == __NV_E4M3 ? 0x7f : 0x7c;
    emu_u8 sign = emu_bits(x) >> 63 ? 0x80 : 0;
    if (__builtin_isnan(x)) return 0x7f;
    double size = __builtin_fabs(x);
    int exponent = (int)(emu_bits(size) >> 52) - 1023;
    if (exponent < 1 - bias) exponent = 1 - bias;
    // Values beyond the widest range return here. Below, adding and subtracting 2^52 rounds to an integer.
    if (exponent > 20) return sign | (saturation == __NV_SATFINITE ? largest : beyond);
    double steps = size * emu_power(mantissa_bits - exponent);
    emu_u32 whole = (emu_u32)((steps + 4503599627370496.0) - 4503599627370496.0);
    emu_u32 code = ((exponent + bias - 1) << mantissa_bits) + whole;
    if (code > largest) code = saturation == __NV_SATFINITE ? largest : beyond;
    return sign | code;
}
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return emu_fp8_code(x, s, k); }
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return emu_fp8_code(x, s, k); }
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return emu_fp8_code(emu_f16::widen(x.x), s, k);
}
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return emu_fp8_code(emu_bf16::widen(x.x), s, k);
}
EMU_LIBRARY __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
    return {emu_f16::round(emu_fp8_value(code, kind))};
}
EMU_LIBRARY __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_halfraw_to_fp8({x.x}, s, k) | __nv_cvt_halfraw_to_fp8({x.y}, s, k) << 8;
}
EMU_LIBRARY __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_bfloat16raw_to_fp8({x.x}, s, k) | __nv_cvt_bfloat16raw_to_fp8({x.y}, s, k) << 8;
}
EMU_LIBRARY __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t codes, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(codes & 0xff, kind).x, __nv_cvt_fp8_to_halfraw(codes >> 8, kind).x};
}

// Encodes as E8M0: a power of two, 2^(code - 127); 0xff is NaN. Block scales ask for rounding up.
EMU_LIBRARY __nv_fp8_storage_t emu_e8m0_code(double x, __nv_saturation_t saturation, cudaRoundMode rounding) {
    if (__builtin_isnan(x)) return 0xff;
    double size = __builtin_fabs(x);
    if (__builtin_isinf(size)) return saturation == __NV_SATFINITE ? 0xfe : 0xff;
    int exponent = (int)(emu_bits(size) >> 52) - 1023;
    bool above = rounding == cudaRoundPosInf && (emu_bits(size) & 0xfffffffffffffull);
    int code = exponent + 127 + above;
    if (code < 0) return 0;
    return code <= 0xfe ? code : saturation == __NV_SATFINITE ? 0xfe : 0xff;
}
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t s, cudaRoundMode r) { return emu_e8m0_code(x, s, r); }
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t s, cudaRoundMode r) { return emu_e8m0_code(x, s, r); }
EMU_LIBRARY __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x, __nv_saturation_t s, cudaRoundMode r) {
    return emu_e8m0_code(emu_bf16::widen(x.x), s, r);
}
EMU_LIBRARY __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t code) {
    return {(emu_u16)(code == 0xff ? 0x7fff : code == 0 ? 0x0040 : code << 7)};
}
