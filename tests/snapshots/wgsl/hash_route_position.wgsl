@group(0) @binding(1) var<storage, read_write> v5: array<f32>;
@group(0) @binding(0) var<storage, read_write> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn hash_route_position(@builtin(workgroup_id) v253: vec3<u32>, @builtin(num_workgroups) v255: vec3<u32>, @builtin(local_invocation_index) v262: u32) {
let v292 = &v5;
let v293 = &v1;
let v3 = u32(0);
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v12 = info_var.scalars_u32[0];
let v254 = v253[2];
let v162 = u32(v254);
let v256 = v255[1];
let v164 = u32(v256);
let v165 = v162 * v164;
let v257 = v255[0];
let v167 = u32(v257);
let v168 = v165 * v167;
let v258 = v253[1];
let v170 = u32(v258);
let v173 = v170 * v167;
let v174 = v168 + v173;
let v260 = v253[0];
let v176 = u32(v260);
let v177 = v174 + v176;
let v288 = u32(64);
let v180 = v177 * v288;
let v263 = v262;
let v182 = u32(v263);
let v183 = v180 + v182;
let v14 = v183 < v9;
if v14 {
let v16 = v183 % v11;
let v17 = u32(v16);
let v18 = u32(16);
let v19 = v12 >> u32(v18);
let v20 = v12 ^ v19;
let v21 = u32(2146121005);
let v22 = v20 * v21;
let v23 = u32(15);
let v24 = v22 >> u32(v23);
let v25 = v22 ^ v24;
let v26 = u32(2221713035);
let v27 = v25 * v26;
let v29 = v27 >> u32(v18);
let v30 = v27 ^ v29;
let v31 = v17 ^ v30;
let v33 = v31 >> u32(v18);
let v34 = v31 ^ v33;
let v36 = v34 * v21;
let v38 = v36 >> u32(v23);
let v39 = v36 ^ v38;
let v41 = v39 * v26;
let v43 = v41 >> u32(v18);
let v44 = v41 ^ v43;
var<function> v152_store: u32;
let v152 = &v152_store;
*v152 = v44;
let v46 = u32(v10);
var<function> v153_store: array<u32, 2>= array<u32, 2>();
let v153 = &v153_store;
let v49 = u32(2);
let v53 = u32(1);
for(var v54: u32 = v3; v54 < v49; v54 += v53) {
var<function> v155_store: u32;
let v155 = &v155_store;
*v155 = v46;
let v58 = f32(0.0);
var<function> v156_store: f32;
let v156 = &v156_store;
*v156 = v58;
let v61 = u32(v54);
let v62 = v61 < v46;
if v62 {
let v63 = *v152;
let v64 = u32(2654435769);
let v65 = v63 + v64;
let v67 = v65 >> u32(v18);
let v68 = v65 ^ v67;
let v70 = v68 * v21;
let v72 = v70 >> u32(v23);
let v73 = v70 ^ v72;
let v75 = v73 * v26;
let v77 = v75 >> u32(v18);
let v78 = v75 ^ v77;
*v152 = v78;
let v80 = v46 - v61;
let v81 = *v152;
let v82 = v81 % v80;
var<function> v157_store: u32;
let v157 = &v157_store;
*v157 = v82;
var<function> v158_store: u32;
let v158 = &v158_store;
*v158 = v3;
for(var v89: u32 = v3; v89 < v54; v89 += v53) {
let v94 = &(*v153)[v89];
let v95 = *v94;
let v96 = *v157;
let v97 = v96 >= v95;
if v97 {
let v99 = u32(1);
let v100 = v96 + v99;
*v157 = v100;
let v101 = *v158;
let v103 = v101 + v53;
*v158 = v103;

}

}
let v104 = *v158;
let v105 = v54 - v104;
for(var v108: u32 = v3; v108 < v105; v108 += v53) {
let v110 = v54 - v108;
let v112 = v110 - v53;
let v116 = &(*v153)[v112];
let v117 = *v116;
let v122 = &(*v153)[v110];
*v122 = v117;

}
let v125 = *v158;
let v127 = &(*v153)[v125];
let v128 = *v157;
*v127 = v128;
let v129 = *v157;
*v155 = v129;
let v130 = f32(0.5);
*v156 = v130;

}
let v133 = v183 * v49;
let v134 = v133 + v54;
let v138 = &(*v293)[v134];
let v139 = *v155;
*v138 = v139;
let v147 = &(*v292)[v134];
let v148 = *v156;
*v147 = v148;

}

}
return;

}
