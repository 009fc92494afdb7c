@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_relu(@builtin(workgroup_id) v123: vec3<u32>, @builtin(local_invocation_id) v128: vec3<u32>) {
let v131 = &v17;
let v132 = &v13;
let v133 = &v9;
let v134 = &v5;
let v135 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v124 = v123[0];
let v27 = u32(v124);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v133)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v133)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v126 = v123[1];
let v127 = u32(64);
let v50 = v126 * v127;
let v129 = v128[0];
let v52 = v50 + v129;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v62 = &(*v134)[v37];
let v63 = *v62;
let v64 = u32(v63);
let v65 = v64 / v23;
let v66 = f32(1.0);
var<function> v120_store: f32;
let v120 = &v120_store;
*v120 = v66;
let v69 = v47 - v24;
let v70 = v69 * v21;
let v76 = v70 + v53;
let v77 = f32(0.0);
var<function> v121_store: f32;
let v121 = &v121_store;
*v121 = v77;
for(var v82: u32 = v3; v82 < v22; v82 += v30) {
let v84 = v65 * v22;
let v85 = v84 + v82;
let v89 = &(*v135)[v85];
let v90 = *v89;
let v91 = v76 * v22;
let v92 = v91 + v82;
let v96 = &(*v132)[v92];
let v97 = *v96;
let v98 = *v121;
let v99 = fma(v90, v97, v98);
*v121 = v99;

}
let v100 = *v121;
let v103 = v100 < v77;
let v104 = select(v100, v77, v103);
let v105 = *v120;
let v106 = v105 * v104;
*v120 = v106;
let v107 = *v120;
let v108 = v37 * v21;
let v109 = v108 + v53;
let v113 = &(*v131)[v109];
*v113 = v107;

}
return;

}
