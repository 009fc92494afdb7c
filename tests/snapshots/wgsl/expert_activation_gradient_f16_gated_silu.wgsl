enable f16;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f16_gated_silu(@builtin(workgroup_id) v211: vec3<u32>, @builtin(num_workgroups) v213: vec3<u32>, @builtin(local_invocation_index) v220: u32) {
let v252 = &v13;
let v253 = &v9;
let v254 = &v5;
let v255 = &v1;
let v116 = info_var.static_meta[1];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v212 = v211[2];
let v120 = u32(v212);
let v214 = v213[1];
let v122 = u32(v214);
let v123 = v120 * v122;
let v215 = v213[0];
let v125 = u32(v215);
let v126 = v123 * v125;
let v216 = v211[1];
let v128 = u32(v216);
let v131 = v128 * v125;
let v132 = v126 + v131;
let v218 = v211[0];
let v134 = u32(v218);
let v135 = v132 + v134;
let v246 = u32(64);
let v138 = v135 * v246;
let v221 = v220;
let v140 = u32(v221);
let v141 = v138 + v140;
let v21 = v141 < v116;
if v21 {
let v23 = v141 / v18;
let v24 = v23 * v18;
let v25 = u32(2);
let v26 = v24 * v25;
let v28 = v141 % v18;
let v29 = v26 + v28;
let v33 = &(*v253)[v17];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v23 < v35;
if v36 {
let v41 = &(*v254)[v141];
let v42 = *v41;
let v43 = vec4<f32>(v42);
let v47 = &(*v255)[v29];
let v48 = *v47;
let v49 = vec4<f32>(v48);
let v52 = f32(1.0);
let v53 = vec4<f32>(v52);
let v54 = -v49;
let v55 = exp(v54);
let v56 = v53 + v55;
let v57 = v49 / v56;
let v67 = v53 / v56;
let v68 = v49 * v67;
let v69 = v53 - v67;
let v251 = fma(v68, v69, v67);
let v72 = v43 * v251;
let v73 = v29 + v18;
let v77 = &(*v255)[v73];
let v78 = *v77;
let v79 = vec4<f32>(v78);
let v80 = v72 * v79;
let v81 = vec4<f16>(v80);
let v85 = &(*v252)[v29];
*v85 = v81;
let v86 = v43 * v57;
let v87 = vec4<f16>(v86);
let v92 = &(*v252)[v73];
*v92 = v87;

} else {
let v94 = f32(0.0);
let v95 = vec4<f32>(v94);
let v96 = vec4<f16>(v95);
let v103 = &(*v252)[v29];
*v103 = v96;
let v109 = v29 + v18;
let v113 = &(*v252)[v109];
*v113 = v96;

}

}
return;

}
