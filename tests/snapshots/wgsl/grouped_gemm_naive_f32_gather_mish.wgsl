@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_mish(@builtin(workgroup_id) v144: vec3<u32>, @builtin(local_invocation_id) v148: vec3<u32>) {
let v151 = &v17;
let v152 = &v13;
let v153 = &v9;
let v154 = &v5;
let v155 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v145 = v144[0];
let v30 = u32(v145);
let v31 = u32(3);
let v32 = v30 * v31;
let v36 = &(*v153)[v32];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v32 + v39;
let v44 = &(*v153)[v40];
let v45 = *v44;
let v46 = u32(v45);
let v146 = v144[1];
let v147 = u32(64);
let v57 = v146 * v147;
let v149 = v148[0];
let v59 = v57 + v149;
let v60 = u32(v59);
let v61 = v38 >= v27;
let v62 = v38 < v28;
let v63 = v61 && v62;
let v64 = v60 < v21;
let v65 = v63 && v64;
if v65 {
let v69 = &(*v154)[v46];
let v70 = *v69;
let v71 = u32(v70);
let v72 = v71 / v23;
let v73 = v72 * v22;
let v74 = f32(1.0);
var<function> v140_store: f32;
let v140 = &v140_store;
*v140 = v74;
let v77 = v38 - v27;
let v78 = v77 * v21;
let v84 = v78 + v60;
let v85 = v84 * v22;
let v86 = f32(0.0);
var<function> v141_store: f32;
let v141 = &v141_store;
*v141 = v86;
for(var v91: u32 = v3; v91 < v22; v91 += v39) {
let v93 = v73 + v91;
let v97 = &(*v155)[v93];
let v98 = *v97;
let v101 = v85 + v91;
let v105 = &(*v152)[v101];
let v106 = *v105;
let v107 = *v141;
let v108 = fma(v98, v106, v107);
*v141 = v108;

}
var<function> v143_store: f32;
let v143 = &v143_store;
let v110 = *v141;
*v143 = v110;
let v111 = *v143;
let v114 = f32(20.0);
let v115 = v111 < v114;
let v116 = select(v114, v111, v115);
let v117 = exp(v116);
let v118 = f32(2.0);
let v119 = v117 + v118;
let v120 = v117 * v119;
let v121 = v111 * v120;
let v123 = v120 + v118;
let v124 = v121 / v123;
let v125 = *v140;
let v126 = v125 * v124;
*v140 = v126;
let v127 = *v140;
let v128 = v46 * v21;
let v129 = v128 + v60;
let v133 = &(*v151)[v129];
*v133 = v127;

}
return;

}
