var<workgroup> shared_v19: array<u32, 272>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_u32: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn expert_capacities_masked_factors(@builtin(local_invocation_id) v216: vec3<u32>) {
let v220 = &v9;
let v221 = &v5;
let v222 = &v1;
let v3 = u32(0);
let v202 = info_var.static_meta[2];
let v13 = info_var.scalars_u32[0];
let v15 = info_var.scalars_u32[2];
let v217 = v216[0];
let v18 = u32(v217);
let v203 = &shared_v19;
let v23 = u32(0);
var<function> v204_store: u32;
let v204 = &v204_store;
*v204 = v23;
var<function> v205_store: u32;
let v205 = &v205_store;
*v205 = v23;
let v29 = u32(256);
for(var v30: u32 = v18; v30 < v202; v30 += v29) {
let v32 = u32(v202);
let v33 = f32(v13);
let v37 = &(*v221)[v30];
let v38 = *v37;
let v39 = v33 * v38;
let v40 = v13 * v32;
let v41 = f32(v40);
let v42 = f32(0.0);
let v43 = clamp(v39, v42, v41);
let v44 = ceil(v43);
let v45 = u32(v44);
let v46 = v45 + v32;
let v47 = u32(1);
let v48 = v46 - v47;
let v49 = v48 / v32;
let v50 = max(v49, v15);
let v51 = min(v50, v13);
let v55 = &(*v222)[v30];
let v56 = *v55;
let v58 = v56 != v23;
let v60 = select(v23, v51, v58);
let v64 = &(*v220)[v30];
*v64 = v60;
let v66 = select(v51, v23, v58);
let v67 = *v204;
let v68 = v67 + v66;
*v204 = v68;
let v71 = select(v23, v47, v58);
let v72 = *v205;
let v73 = v72 + v71;
*v205 = v73;

}
let v79 = &(*v203)[v18];
let v80 = *v204;
*v79 = v80;
workgroupBarrier();
let v81 = u32(16);
let v82 = v18 < v81;
if v82 {
let v84 = v18 * v81;
var<function> v207_store: u32;
let v207 = &v207_store;
*v207 = v23;
let v89 = v84 + v81;
let v91 = min(v89, v29);
let v92 = u32(1);
for(var v93: u32 = v84; v93 < v91; v93 += v92) {
let v98 = &(*v203)[v93];
let v99 = *v98;
let v100 = *v207;
let v101 = v100 + v99;
*v207 = v101;

}
let v103 = v29 + v18;
let v107 = &(*v203)[v103];
let v108 = *v207;
*v107 = v108;

}
workgroupBarrier();
var<function> v209_store: u32;
let v209 = &v209_store;
*v209 = v23;
let v114 = u32(1);
for(var v115: u32 = v3; v115 < v81; v115 += v114) {
let v118 = v29 + v115;
let v122 = &(*v203)[v118];
let v123 = *v122;
let v124 = *v209;
let v125 = v124 + v123;
*v209 = v125;

}
let v132 = *v205;
*v79 = v132;
workgroupBarrier();
if v82 {
let v136 = v18 * v81;
var<function> v211_store: u32;
let v211 = &v211_store;
*v211 = v23;
let v141 = v136 + v81;
let v143 = min(v141, v29);
for(var v145: u32 = v136; v145 < v143; v145 += v114) {
let v150 = &(*v203)[v145];
let v151 = *v150;
let v152 = *v211;
let v153 = v152 + v151;
*v211 = v153;

}
let v155 = v29 + v18;
let v159 = &(*v203)[v155];
let v160 = *v211;
*v159 = v160;

}
workgroupBarrier();
var<function> v213_store: u32;
let v213 = &v213_store;
*v213 = v23;
for(var v167: u32 = v3; v167 < v81; v167 += v114) {
let v170 = v29 + v167;
let v174 = &(*v203)[v170];
let v175 = *v174;
let v176 = *v213;
let v177 = v176 + v175;
*v213 = v177;

}
let v178 = *v213;
let v179 = u32(1);
let v180 = max(v178, v179);
let v181 = *v209;
let v182 = v181 / v180;
for(var v184: u32 = v18; v184 < v202; v184 += v29) {
let v189 = &(*v222)[v184];
let v190 = *v189;
let v192 = v190 != v23;
if v192 {
let v196 = &(*v220)[v184];
let v197 = *v196;
let v198 = v197 + v182;
*v196 = v198;

}

}
return;

}
