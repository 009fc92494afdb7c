@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f32(@builtin(workgroup_id) v154: vec3<u32>, @builtin(num_workgroups) v156: vec3<u32>, @builtin(local_invocation_index) v163: u32) {
let v193 = &v9;
let v194 = &v5;
let v195 = &v1;
let v3 = u32(0);
let v59 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_u32[0];
let v15 = info_var.scalars_usize[1];
let v155 = v154[2];
let v63 = u32(v155);
let v157 = v156[1];
let v65 = u32(v157);
let v66 = v63 * v65;
let v158 = v156[0];
let v68 = u32(v158);
let v69 = v66 * v68;
let v159 = v154[1];
let v71 = u32(v159);
let v74 = v71 * v68;
let v75 = v69 + v74;
let v161 = v154[0];
let v77 = u32(v161);
let v78 = v75 + v77;
let v189 = u32(64);
let v81 = v78 * v189;
let v164 = v163;
let v83 = u32(v164);
let v84 = v81 + v83;
let v18 = v84 < v59;
if v18 {
let v20 = v84 / v13;
let v22 = v84 % v13;
let v23 = f32(0.0);
let v24 = vec4<f32>(v23);
var<function> v60_store: vec4<f32>;
let v60 = &v60_store;
*v60 = v24;
let v27 = u32(1);
for(var v28: u32 = v3; v28 < v15; v28 += v27) {
let v30 = v20 * v15;
let v31 = v30 + v28;
let v35 = &(*v195)[v31];
let v36 = *v35;
let v37 = v36 < v14;
if v37 {
let v38 = u32(v36);
let v39 = v38 * v13;
let v40 = v39 + v22;
let v44 = &(*v194)[v40];
let v45 = *v44;
let v46 = f32(1.0);
let v47 = vec4<f32>(v46);
let v48 = *v60;
let v49 = fma(v47, v45, v48);
*v60 = v49;

}

}
let v50 = *v60;
let v55 = &(*v193)[v84];
*v55 = v50;

}
return;

}
