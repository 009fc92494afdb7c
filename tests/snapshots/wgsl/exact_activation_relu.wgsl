@group(0) @binding(1) var<storage, read_write> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn exact_activation_relu(@builtin(workgroup_id) v117: vec3<u32>, @builtin(num_workgroups) v119: vec3<u32>, @builtin(local_invocation_index) v126: u32) {
let v147 = &v5;
let v148 = &v1;
let v47 = info_var.static_meta[1];
let v118 = v117[2];
let v49 = u32(v118);
let v120 = v119[1];
let v51 = u32(v120);
let v52 = v49 * v51;
let v121 = v119[0];
let v54 = u32(v121);
let v55 = v52 * v54;
let v122 = v117[1];
let v57 = u32(v122);
let v60 = v57 * v54;
let v61 = v55 + v60;
let v124 = v117[0];
let v63 = u32(v124);
let v64 = v61 + v63;
let v144 = u32(64);
let v67 = v64 * v144;
let v127 = v126;
let v69 = u32(v127);
let v70 = v67 + v69;
let v13 = v70 < v47;
if v13 {
let v18 = &(*v148)[v70];
let v19 = *v18;
let v20 = bitcast<u32>(v19);
let v21 = u32(2147483647);
let v22 = v20 & v21;
let v23 = u32(645922816);
let v24 = v22 < v23;
let v25 = u32(0);
let v26 = select(v20, v25, v24);
let v27 = bitcast<f32>(v26);
let v28 = f32(0.0);
let v29 = v28 > v27;
let v31 = select(v27, v28, v29);
let v32 = bitcast<u32>(v31);
let v34 = v32 & v21;
let v36 = v34 < v23;
let v38 = select(v32, v25, v36);
let v39 = bitcast<f32>(v38);
let v44 = &(*v147)[v70];
*v44 = v39;

}
return;

}
