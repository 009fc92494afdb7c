@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_sorted_in_out(@builtin(workgroup_id) v110: vec3<u32>, @builtin(local_invocation_id) v115: vec3<u32>) {
let v117 = &v17;
let v118 = &v13;
let v119 = &v9;
let v120 = &v5;
let v121 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v111 = v110[0];
let v27 = u32(v111);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v119)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v119)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v113 = v110[1];
let v114 = u32(64);
let v50 = v113 * v114;
let v116 = v115[0];
let v52 = v50 + v116;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v59 = v47 - v24;
let v60 = f32(1.0);
var<function> v107_store: f32;
let v107 = &v107_store;
*v107 = v60;
let v63 = v59 * v22;
let v64 = v63 * v21;
let v65 = v64 + v53;
let v66 = f32(0.0);
var<function> v108_store: f32;
let v108 = &v108_store;
*v108 = v66;
for(var v71: u32 = v3; v71 < v22; v71 += v30) {
let v73 = v37 * v22;
let v74 = v73 + v71;
let v78 = &(*v121)[v74];
let v79 = *v78;
let v80 = v71 * v21;
let v81 = v65 + v80;
let v85 = &(*v118)[v81];
let v86 = *v85;
let v87 = *v108;
let v88 = fma(v79, v86, v87);
*v108 = v88;

}
let v89 = *v108;
let v92 = *v107;
let v93 = v92 * v89;
*v107 = v93;
let v94 = *v107;
let v95 = v37 * v21;
let v96 = v95 + v53;
let v100 = &(*v117)[v96];
*v100 = v94;

}
return;

}
