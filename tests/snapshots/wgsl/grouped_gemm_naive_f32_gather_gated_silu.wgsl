@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_gated_silu(@builtin(workgroup_id) v177: vec3<u32>, @builtin(local_invocation_id) v181: vec3<u32>) {
let v184 = &v17;
let v185 = &v13;
let v186 = &v9;
let v187 = &v5;
let v188 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v178 = v177[0];
let v30 = u32(v178);
let v31 = u32(3);
let v32 = v30 * v31;
let v36 = &(*v186)[v32];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v32 + v39;
let v44 = &(*v186)[v40];
let v45 = *v44;
let v46 = u32(v45);
let v47 = u32(2);
let v179 = v177[1];
let v180 = u32(64);
let v57 = v179 * v180;
let v182 = v181[0];
let v59 = v57 + v182;
let v60 = u32(v59);
let v61 = v38 >= v27;
let v62 = v38 < v28;
let v63 = v61 && v62;
let v64 = v60 < v21;
let v65 = v63 && v64;
if v65 {
let v69 = &(*v187)[v46];
let v70 = *v69;
let v71 = u32(v70);
let v72 = v71 / v23;
let v73 = v72 * v22;
let v74 = f32(1.0);
var<function> v170_store: f32;
let v170 = &v170_store;
*v170 = v74;
let v77 = v38 - v27;
let v78 = v77 * v21;
let v80 = v78 * v47;
let v83 = v80 + v21;
let v84 = v83 + v60;
let v85 = v84 * v22;
let v86 = f32(0.0);
var<function> v171_store: f32;
let v171 = &v171_store;
*v171 = v86;
for(var v91: u32 = v3; v91 < v22; v91 += v39) {
let v93 = v73 + v91;
let v97 = &(*v188)[v93];
let v98 = *v97;
let v101 = v85 + v91;
let v105 = &(*v185)[v101];
let v106 = *v105;
let v107 = *v171;
let v108 = fma(v98, v106, v107);
*v171 = v108;

}
var<function> v173_store: f32;
let v173 = &v173_store;
let v110 = *v171;
*v173 = v110;
let v111 = *v170;
let v112 = *v173;
let v113 = v111 * v112;
*v170 = v113;
let v121 = v80 + v60;
let v122 = v121 * v22;
var<function> v174_store: f32;
let v174 = &v174_store;
*v174 = v86;
for(var v128: u32 = v3; v128 < v22; v128 += v39) {
let v130 = v73 + v128;
let v134 = &(*v188)[v130];
let v135 = *v134;
let v138 = v122 + v128;
let v142 = &(*v185)[v138];
let v143 = *v142;
let v144 = *v174;
let v145 = fma(v135, v143, v144);
*v174 = v145;

}
var<function> v176_store: f32;
let v176 = &v176_store;
let v147 = *v174;
*v176 = v147;
let v148 = *v176;
let v151 = -v148;
let v152 = exp(v151);
let v153 = v74 + v152;
let v154 = v148 / v153;
let v155 = *v170;
let v156 = v155 * v154;
*v170 = v156;
let v157 = *v170;
let v158 = v46 * v21;
let v159 = v158 + v60;
let v163 = &(*v184)[v159];
*v163 = v157;

}
return;

}
