@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f32_weighted(@builtin(workgroup_id) v163: vec3<u32>, @builtin(num_workgroups) v165: vec3<u32>, @builtin(local_invocation_index) v172: u32) {
let v202 = &v13;
let v203 = &v9;
let v204 = &v5;
let v205 = &v1;
let v3 = u32(0);
let v68 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
let v164 = v163[2];
let v72 = u32(v164);
let v166 = v165[1];
let v74 = u32(v166);
let v75 = v72 * v74;
let v167 = v165[0];
let v77 = u32(v167);
let v78 = v75 * v77;
let v168 = v163[1];
let v80 = u32(v168);
let v83 = v80 * v77;
let v84 = v78 + v83;
let v170 = v163[0];
let v86 = u32(v170);
let v87 = v84 + v86;
let v198 = u32(64);
let v90 = v87 * v198;
let v173 = v172;
let v92 = u32(v173);
let v93 = v90 + v92;
let v22 = v93 < v68;
if v22 {
let v24 = v93 / v17;
let v26 = v93 % v17;
let v27 = f32(0.0);
let v28 = vec4<f32>(v27);
var<function> v69_store: vec4<f32>;
let v69 = &v69_store;
*v69 = v28;
let v31 = u32(1);
for(var v32: u32 = v3; v32 < v19; v32 += v31) {
let v34 = v24 * v19;
let v35 = v34 + v32;
let v39 = &(*v205)[v35];
let v40 = *v39;
let v41 = v40 < v18;
if v41 {
let v42 = u32(v40);
let v43 = v42 * v17;
let v44 = v43 + v26;
let v48 = &(*v203)[v44];
let v49 = *v48;
let v53 = &(*v204)[v35];
let v54 = *v53;
let v55 = vec4<f32>(v54);
let v56 = *v69;
let v57 = fma(v55, v49, v56);
*v69 = v57;

}

}
let v58 = *v69;
let v63 = &(*v202)[v93];
*v63 = v58;

}
return;

}
