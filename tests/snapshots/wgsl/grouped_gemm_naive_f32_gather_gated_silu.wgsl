@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_gated_silu(@builtin(workgroup_id) v161: vec3<u32>, @builtin(local_invocation_id) v166: vec3<u32>) {
let v169 = &v17;
let v170 = &v13;
let v171 = &v9;
let v172 = &v5;
let v173 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v162 = v161[0];
let v27 = u32(v162);
let v28 = u32(2);
let v29 = v28 * v27;
let v30 = u32(1);
let v31 = v29 + v30;
let v35 = &(*v171)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v45 = &(*v171)[v29];
let v46 = *v45;
let v47 = u32(v46);
let v164 = v161[1];
let v165 = u32(64);
let v50 = v164 * v165;
let v167 = v166[0];
let v52 = v50 + v167;
let v53 = u32(v52);
let v54 = v47 >= v24;
let v55 = v47 < v25;
let v56 = v54 && v55;
let v57 = v53 < v21;
let v58 = v56 && v57;
if v58 {
let v62 = &(*v172)[v37];
let v63 = *v62;
let v64 = u32(v63);
let v65 = v64 / v23;
let v66 = f32(1.0);
var<function> v156_store: f32;
let v156 = &v156_store;
*v156 = v66;
let v69 = v47 - v24;
let v70 = v69 * v21;
let v72 = v70 * v28;
let v75 = v72 + v21;
let v76 = v75 + v53;
let v77 = f32(0.0);
var<function> v157_store: f32;
let v157 = &v157_store;
*v157 = v77;
for(var v82: u32 = v3; v82 < v22; v82 += v30) {
let v84 = v65 * v22;
let v85 = v84 + v82;
let v89 = &(*v173)[v85];
let v90 = *v89;
let v91 = v76 * v22;
let v92 = v91 + v82;
let v96 = &(*v170)[v92];
let v97 = *v96;
let v98 = *v157;
let v99 = fma(v90, v97, v98);
*v157 = v99;

}
let v100 = *v156;
let v101 = *v157;
let v102 = v100 * v101;
*v156 = v102;
let v110 = v72 + v53;
var<function> v159_store: f32;
let v159 = &v159_store;
*v159 = v77;
for(var v116: u32 = v3; v116 < v22; v116 += v30) {
let v118 = v65 * v22;
let v119 = v118 + v116;
let v123 = &(*v173)[v119];
let v124 = *v123;
let v125 = v110 * v22;
let v126 = v125 + v116;
let v130 = &(*v170)[v126];
let v131 = *v130;
let v132 = *v159;
let v133 = fma(v124, v131, v132);
*v159 = v133;

}
let v134 = *v159;
let v137 = -v134;
let v138 = exp(v137);
let v139 = v66 + v138;
let v140 = v134 / v139;
let v141 = *v156;
let v142 = v141 * v140;
*v156 = v142;
let v143 = *v156;
let v144 = v37 * v21;
let v145 = v144 + v53;
let v149 = &(*v169)[v145];
*v149 = v143;

}
return;

}
