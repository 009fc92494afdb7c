@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn attention_statistics_of_lse_unit_f32(@builtin(workgroup_id) v196: vec3<u32>, @builtin(num_workgroups) v198: vec3<u32>, @builtin(local_invocation_index) v205: u32) {
let v253 = &v9;
let v254 = &v5;
let v255 = &v1;
let v54 = info_var.static_meta[0];
let v197 = v196[2];
let v59 = u32(v197);
let v199 = v198[1];
let v61 = u32(v199);
let v62 = v59 * v61;
let v200 = v198[0];
let v64 = u32(v200);
let v65 = v62 * v64;
let v201 = v196[1];
let v67 = u32(v201);
let v70 = v67 * v64;
let v71 = v65 + v70;
let v203 = v196[0];
let v73 = u32(v203);
let v74 = v71 + v73;
let v247 = u32(64);
let v77 = v74 * v247;
let v206 = v205;
let v79 = u32(v206);
let v80 = v77 + v79;
let v15 = v80 < v54;
if v15 {
let v19 = f32(0.0);
var<function> v57_store: f32;
let v57 = &v57_store;
*v57 = v19;
let v26 = &(*v254)[v80];
let v27 = *v26;
let v28 = *v57;
let v29 = v28 - v27;
*v57 = v29;
let v34 = &(*v255)[v80];
let v35 = *v34;
let v37 = u32(2);
let v38 = v37 * v80;
let v42 = &(*v253)[v38];
*v42 = v35;
let v46 = u32(1);
let v47 = v38 + v46;
let v51 = &(*v253)[v47];
let v52 = *v57;
*v51 = v52;

}
return;

}
