@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_in_out(@builtin(workgroup_id) v117: vec3<u32>, @builtin(local_invocation_id) v122: vec3<u32>) {
let v124 = &v17;
let v125 = &v13;
let v126 = &v9;
let v127 = &v5;
let v128 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v118 = v117[0];
let v27 = u32(v118);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v126)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v126)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v120 = v117[1];
let v121 = u32(64);
let v50 = v120 * v121;
let v123 = v122[0];
let v52 = v50 + v123;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v62 = &(*v127)[v37];
let v63 = *v62;
let v64 = u32(v63);
let v65 = v64 / v23;
let v66 = v47 - v24;
let v67 = f32(1.0);
var<function> v114_store: f32;
let v114 = &v114_store;
*v114 = v67;
let v70 = v66 * v22;
let v71 = v70 * v21;
let v72 = v71 + v53;
let v73 = f32(0.0);
var<function> v115_store: f32;
let v115 = &v115_store;
*v115 = v73;
for(var v78: u32 = v3; v78 < v22; v78 += v30) {
let v80 = v65 * v22;
let v81 = v80 + v78;
let v85 = &(*v128)[v81];
let v86 = *v85;
let v87 = v78 * v21;
let v88 = v72 + v87;
let v92 = &(*v125)[v88];
let v93 = *v92;
let v94 = *v115;
let v95 = fma(v86, v93, v94);
*v115 = v95;

}
let v96 = *v115;
let v99 = *v114;
let v100 = v99 * v96;
*v114 = v100;
let v101 = *v114;
let v102 = v37 * v21;
let v103 = v102 + v53;
let v107 = &(*v124)[v103];
*v107 = v101;

}
return;

}
