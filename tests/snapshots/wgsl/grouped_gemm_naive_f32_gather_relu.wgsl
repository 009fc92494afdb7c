@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_relu(@builtin(workgroup_id) v125: vec3<u32>, @builtin(local_invocation_id) v130: vec3<u32>) {
let v133 = &v17;
let v134 = &v13;
let v135 = &v9;
let v136 = &v5;
let v137 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v126 = v125[0];
let v27 = u32(v126);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v135)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v135)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v128 = v125[1];
let v129 = u32(64);
let v50 = v128 * v129;
let v131 = v130[0];
let v52 = v50 + v131;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v62 = &(*v136)[v37];
let v63 = *v62;
let v64 = u32(v63);
let v65 = v64 / v23;
let v66 = v47 - v24;
let v67 = f32(1.0);
var<function> v122_store: f32;
let v122 = &v122_store;
*v122 = v67;
let v70 = v66 * v21;
let v76 = v70 + v53;
let v77 = v76 * v22;
let v78 = f32(0.0);
var<function> v123_store: f32;
let v123 = &v123_store;
*v123 = v78;
for(var v83: u32 = v3; v83 < v22; v83 += v30) {
let v85 = v65 * v22;
let v86 = v85 + v83;
let v90 = &(*v137)[v86];
let v91 = *v90;
let v94 = v77 + v83;
let v98 = &(*v134)[v94];
let v99 = *v98;
let v100 = *v123;
let v101 = fma(v91, v99, v100);
*v123 = v101;

}
let v102 = *v123;
let v105 = v102 < v78;
let v106 = select(v102, v78, v105);
let v107 = *v122;
let v108 = v107 * v106;
*v122 = v108;
let v109 = *v122;
let v110 = v37 * v21;
let v111 = v110 + v53;
let v115 = &(*v133)[v111];
*v115 = v109;

}
return;

}
