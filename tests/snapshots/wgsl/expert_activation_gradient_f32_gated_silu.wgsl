@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f32_gated_silu(@builtin(workgroup_id) v204: vec3<u32>, @builtin(num_workgroups) v206: vec3<u32>, @builtin(local_invocation_index) v213: u32) {
let v245 = &v13;
let v246 = &v9;
let v247 = &v5;
let v248 = &v1;
let v109 = info_var.static_meta[1];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v205 = v204[2];
let v113 = u32(v205);
let v207 = v206[1];
let v115 = u32(v207);
let v116 = v113 * v115;
let v208 = v206[0];
let v118 = u32(v208);
let v119 = v116 * v118;
let v209 = v204[1];
let v121 = u32(v209);
let v124 = v121 * v118;
let v125 = v119 + v124;
let v211 = v204[0];
let v127 = u32(v211);
let v128 = v125 + v127;
let v239 = u32(64);
let v131 = v128 * v239;
let v214 = v213;
let v133 = u32(v214);
let v134 = v131 + v133;
let v21 = v134 < v109;
if v21 {
let v23 = v134 / v18;
let v24 = v23 * v18;
let v25 = u32(2);
let v26 = v24 * v25;
let v28 = v134 % v18;
let v29 = v26 + v28;
let v33 = &(*v246)[v17];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v23 < v35;
if v36 {
let v41 = &(*v247)[v134];
let v42 = *v41;
let v46 = &(*v248)[v29];
let v47 = *v46;
let v50 = f32(1.0);
let v51 = vec4<f32>(v50);
let v52 = -v47;
let v53 = exp(v52);
let v54 = v51 + v53;
let v55 = v47 / v54;
let v65 = v51 / v54;
let v66 = v47 * v65;
let v67 = v51 - v65;
let v244 = fma(v66, v67, v65);
let v70 = v42 * v244;
let v71 = v29 + v18;
let v75 = &(*v248)[v71];
let v76 = *v75;
let v77 = v70 * v76;
let v81 = &(*v245)[v29];
*v81 = v77;
let v82 = v42 * v55;
let v87 = &(*v245)[v71];
*v87 = v82;

} else {
let v89 = f32(0.0);
let v90 = vec4<f32>(v89);
let v97 = &(*v245)[v29];
*v97 = v90;
let v102 = v29 + v18;
let v106 = &(*v245)[v102];
*v106 = v90;

}

}
return;

}
