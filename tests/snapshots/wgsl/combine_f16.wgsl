enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn combine_f16(@builtin(workgroup_id) v156: vec3<u32>, @builtin(num_workgroups) v158: vec3<u32>, @builtin(local_invocation_index) v165: u32) {
let v195 = &v9;
let v196 = &v5;
let v197 = &v1;
let v3 = u32(0);
let v61 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_u32[0];
let v15 = info_var.scalars_usize[1];
let v157 = v156[2];
let v65 = u32(v157);
let v159 = v158[1];
let v67 = u32(v159);
let v68 = v65 * v67;
let v160 = v158[0];
let v70 = u32(v160);
let v71 = v68 * v70;
let v161 = v156[1];
let v73 = u32(v161);
let v76 = v73 * v70;
let v77 = v71 + v76;
let v163 = v156[0];
let v79 = u32(v163);
let v80 = v77 + v79;
let v191 = u32(64);
let v83 = v80 * v191;
let v166 = v165;
let v85 = u32(v166);
let v86 = v83 + v85;
let v18 = v86 < v61;
if v18 {
let v20 = v86 / v13;
let v22 = v86 % v13;
let v23 = f32(0.0);
let v24 = vec4<f32>(v23);
var<function> v62_store: vec4<f32>;
let v62 = &v62_store;
*v62 = v24;
let v27 = u32(1);
for(var v28: u32 = v3; v28 < v15; v28 += v27) {
let v30 = v20 * v15;
let v31 = v30 + v28;
let v35 = &(*v197)[v31];
let v36 = *v35;
let v37 = v36 < v14;
if v37 {
let v38 = u32(v36);
let v39 = v38 * v13;
let v40 = v39 + v22;
let v44 = &(*v196)[v40];
let v45 = *v44;
let v46 = vec4<f32>(v45);
let v47 = f32(1.0);
let v48 = vec4<f32>(v47);
let v49 = *v62;
let v50 = fma(v48, v46, v49);
*v62 = v50;

}

}
let v51 = *v62;
let v52 = vec4<f16>(v51);
let v57 = &(*v195)[v86];
*v57 = v52;

}
return;

}
