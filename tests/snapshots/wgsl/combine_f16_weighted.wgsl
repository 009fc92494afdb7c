enable f16;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f16_weighted(@builtin(workgroup_id) v165: vec3<u32>, @builtin(num_workgroups) v167: vec3<u32>, @builtin(local_invocation_index) v174: u32) {
let v204 = &v13;
let v205 = &v9;
let v206 = &v5;
let v207 = &v1;
let v3 = u32(0);
let v70 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
let v166 = v165[2];
let v74 = u32(v166);
let v168 = v167[1];
let v76 = u32(v168);
let v77 = v74 * v76;
let v169 = v167[0];
let v79 = u32(v169);
let v80 = v77 * v79;
let v170 = v165[1];
let v82 = u32(v170);
let v85 = v82 * v79;
let v86 = v80 + v85;
let v172 = v165[0];
let v88 = u32(v172);
let v89 = v86 + v88;
let v200 = u32(64);
let v92 = v89 * v200;
let v175 = v174;
let v94 = u32(v175);
let v95 = v92 + v94;
let v22 = v95 < v70;
if v22 {
let v24 = v95 / v17;
let v26 = v95 % v17;
let v27 = f32(0.0);
let v28 = vec4<f32>(v27);
var<function> v71_store: vec4<f32>;
let v71 = &v71_store;
*v71 = v28;
let v31 = u32(1);
for(var v32: u32 = v3; v32 < v19; v32 += v31) {
let v34 = v24 * v19;
let v35 = v34 + v32;
let v39 = &(*v207)[v35];
let v40 = *v39;
let v41 = v40 < v18;
if v41 {
let v42 = u32(v40);
let v43 = v42 * v17;
let v44 = v43 + v26;
let v48 = &(*v205)[v44];
let v49 = *v48;
let v50 = vec4<f32>(v49);
let v54 = &(*v206)[v35];
let v55 = *v54;
let v56 = vec4<f32>(v55);
let v57 = *v71;
let v58 = fma(v56, v50, v57);
*v71 = v58;

}

}
let v59 = *v71;
let v60 = vec4<f16>(v59);
let v65 = &(*v204)[v95];
*v65 = v60;

}
return;

}
