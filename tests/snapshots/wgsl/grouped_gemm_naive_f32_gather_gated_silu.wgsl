@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_gated_silu(@builtin(workgroup_id) v164: vec3<u32>, @builtin(local_invocation_id) v169: vec3<u32>) {
let v172 = &v17;
let v173 = &v13;
let v174 = &v9;
let v175 = &v5;
let v176 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v165 = v164[0];
let v27 = u32(v165);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v174)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v174)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v167 = v164[1];
let v168 = u32(64);
let v50 = v167 * v168;
let v170 = v169[0];
let v52 = v50 + v170;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v62 = &(*v175)[v37];
let v63 = *v62;
let v64 = u32(v63);
let v65 = v64 / v23;
let v66 = v47 - v24;
let v67 = f32(1.0);
var<function> v159_store: f32;
let v159 = &v159_store;
*v159 = v67;
let v70 = v66 * v21;
let v72 = v70 * v28;
let v75 = v72 + v21;
let v76 = v75 + v53;
let v77 = v76 * v22;
let v78 = f32(0.0);
var<function> v160_store: f32;
let v160 = &v160_store;
*v160 = v78;
for(var v83: u32 = v3; v83 < v22; v83 += v30) {
let v85 = v65 * v22;
let v86 = v85 + v83;
let v90 = &(*v176)[v86];
let v91 = *v90;
let v94 = v77 + v83;
let v98 = &(*v173)[v94];
let v99 = *v98;
let v100 = *v160;
let v101 = fma(v91, v99, v100);
*v160 = v101;

}
let v102 = *v159;
let v103 = *v160;
let v104 = v102 * v103;
*v159 = v104;
let v111 = v72 + v53;
let v112 = v111 * v22;
var<function> v162_store: f32;
let v162 = &v162_store;
*v162 = v78;
for(var v118: u32 = v3; v118 < v22; v118 += v30) {
let v120 = v65 * v22;
let v121 = v120 + v118;
let v125 = &(*v176)[v121];
let v126 = *v125;
let v129 = v112 + v118;
let v133 = &(*v173)[v129];
let v134 = *v133;
let v135 = *v162;
let v136 = fma(v126, v134, v135);
*v162 = v136;

}
let v137 = *v162;
let v140 = -v137;
let v141 = exp(v140);
let v142 = v67 + v141;
let v143 = v137 / v142;
let v144 = *v159;
let v145 = v144 * v143;
*v159 = v145;
let v146 = *v159;
let v147 = v37 * v21;
let v148 = v147 + v53;
let v152 = &(*v172)[v148];
*v152 = v146;

}
return;

}
