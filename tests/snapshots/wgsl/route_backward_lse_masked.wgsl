@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_lse_masked(@builtin(workgroup_id) v187: vec3<u32>, @builtin(num_workgroups) v189: vec3<u32>, @builtin(local_invocation_index) v196: u32) {
let v235 = &v17;
let v236 = &v13;
let v237 = &v9;
let v238 = &v5;
let v239 = &v1;
let v71 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v188 = v187[2];
let v73 = u32(v188);
let v190 = v189[1];
let v75 = u32(v190);
let v76 = v73 * v75;
let v191 = v189[0];
let v78 = u32(v191);
let v79 = v76 * v78;
let v192 = v187[1];
let v81 = u32(v192);
let v84 = v81 * v78;
let v85 = v79 + v84;
let v194 = v187[0];
let v87 = u32(v194);
let v88 = v85 + v87;
let v230 = u32(64);
let v91 = v88 * v230;
let v197 = v196;
let v93 = u32(v197);
let v94 = v91 + v93;
let v24 = v94 < v71;
if v24 {
let v26 = v94 / v21;
let v31 = &(*v239)[v94];
let v32 = *v31;
let v36 = &(*v237)[v26];
let v37 = *v36;
let v38 = vec4<f32>(v37);
let v39 = v32 - v38;
let v40 = exp(v39);
let v42 = v94 % v21;
let v46 = &(*v236)[v26];
let v47 = *v46;
let v48 = vec4<f32>(v47);
let v49 = v40 * v48;
let v50 = f32(0.0);
let v51 = vec4<f32>(v50);
let v55 = &(*v238)[v42];
let v56 = u32(0);
let v57 = vec4<u32>(v56);
let v58 = *v55;
let v59 = v58 != v57;
let v60 = select(v51, v49, v59);
let v65 = &(*v235)[v94];
*v65 = v60;

}
return;

}
