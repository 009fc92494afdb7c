@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn dispatch_f32_weighted(@builtin(workgroup_id) v167: vec3<u32>, @builtin(num_workgroups) v169: vec3<u32>, @builtin(local_invocation_index) v176: u32) {
let v206 = &v17;
let v207 = &v13;
let v208 = &v9;
let v209 = &v5;
let v210 = &v1;
let v73 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v168 = v167[2];
let v76 = u32(v168);
let v170 = v169[1];
let v78 = u32(v170);
let v79 = v76 * v78;
let v171 = v169[0];
let v81 = u32(v171);
let v82 = v79 * v81;
let v172 = v167[1];
let v84 = u32(v172);
let v87 = v84 * v81;
let v88 = v82 + v87;
let v174 = v167[0];
let v90 = u32(v174);
let v91 = v88 + v90;
let v202 = u32(64);
let v94 = v91 * v202;
let v177 = v176;
let v96 = u32(v177);
let v97 = v94 + v96;
let v26 = v97 < v73;
if v26 {
let v28 = v97 / v21;
let v30 = v97 % v21;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
var<function> v74_store: vec4<f32>;
let v74 = &v74_store;
*v74 = v32;
let v37 = &(*v209)[v22];
let v38 = *v37;
let v39 = u32(v38);
let v40 = v28 < v39;
if v40 {
let v44 = &(*v210)[v28];
let v45 = *v44;
let v46 = u32(v45);
let v50 = &(*v208)[v46];
let v51 = *v50;
let v52 = vec4<f32>(v51);
let v53 = v46 / v23;
let v54 = v53 * v21;
let v55 = v54 + v30;
let v59 = &(*v207)[v55];
let v60 = *v59;
let v61 = v52 * v60;
*v74 = v61;

}
let v62 = *v74;
let v67 = &(*v206)[v97];
*v67 = v62;

}
return;

}
