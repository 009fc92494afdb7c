@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_dw_sum(@builtin(workgroup_id) v111: vec3<u32>, @builtin(num_workgroups) v113: vec3<u32>, @builtin(local_invocation_index) v120: u32) {
let v141 = &v5;
let v142 = &v1;
let v3 = u32(0);
let v39 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v112 = v111[2];
let v43 = u32(v112);
let v114 = v113[1];
let v45 = u32(v114);
let v46 = v43 * v45;
let v115 = v113[0];
let v48 = u32(v115);
let v49 = v46 * v48;
let v116 = v111[1];
let v51 = u32(v116);
let v54 = v51 * v48;
let v55 = v49 + v54;
let v118 = v111[0];
let v57 = u32(v118);
let v58 = v55 + v57;
let v138 = u32(64);
let v61 = v58 * v138;
let v121 = v120;
let v63 = u32(v121);
let v64 = v61 + v63;
let v12 = v64 < v39;
if v12 {
let v13 = f32(0.0);
let v14 = vec4<f32>(v13);
var<function> v40_store: vec4<f32>;
let v40 = &v40_store;
*v40 = v14;
let v17 = u32(1);
for(var v18: u32 = v3; v18 < v9; v18 += v17) {
let v21 = v18 * v39;
let v23 = v21 + v64;
let v27 = &(*v142)[v23];
let v28 = *v27;
let v29 = *v40;
let v30 = v29 + v28;
*v40 = v30;

}
let v35 = &(*v141)[v64];
let v36 = *v40;
*v35 = v36;

}
return;

}
