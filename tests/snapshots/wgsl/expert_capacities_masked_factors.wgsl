var<workgroup> shared_v19: array<u32, 272>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_u32: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn expert_capacities_masked_factors(@builtin(local_invocation_id) v215: vec3<u32>) {
let v219 = &v9;
let v220 = &v5;
let v221 = &v1;
let v3 = u32(0);
let v201 = info_var.static_meta[2];
let v13 = info_var.scalars_u32[0];
let v15 = info_var.scalars_u32[2];
let v216 = v215[0];
let v18 = u32(v216);
let v202 = &shared_v19;
let v23 = u32(0);
var<function> v203_store: u32;
let v203 = &v203_store;
*v203 = v23;
var<function> v204_store: u32;
let v204 = &v204_store;
*v204 = v23;
let v29 = u32(256);
for(var v30: u32 = v18; v30 < v201; v30 += v29) {
let v32 = u32(v201);
let v33 = f32(v13);
let v37 = &(*v220)[v30];
let v38 = *v37;
let v39 = v33 * v38;
let v40 = f32(0.0);
let v41 = f32(2147483648.0);
let v42 = clamp(v39, v40, v41);
let v43 = ceil(v42);
let v44 = u32(v43);
let v45 = v44 + v32;
let v46 = u32(1);
let v47 = v45 - v46;
let v48 = v47 / v32;
let v49 = max(v48, v15);
let v50 = min(v49, v13);
let v54 = &(*v221)[v30];
let v55 = *v54;
let v57 = v55 != v23;
let v59 = select(v23, v50, v57);
let v63 = &(*v219)[v30];
*v63 = v59;
let v65 = select(v50, v23, v57);
let v66 = *v203;
let v67 = v66 + v65;
*v203 = v67;
let v70 = select(v23, v46, v57);
let v71 = *v204;
let v72 = v71 + v70;
*v204 = v72;

}
let v78 = &(*v202)[v18];
let v79 = *v203;
*v78 = v79;
workgroupBarrier();
let v80 = u32(16);
let v81 = v18 < v80;
if v81 {
let v83 = v18 * v80;
var<function> v206_store: u32;
let v206 = &v206_store;
*v206 = v23;
let v88 = v83 + v80;
let v90 = min(v88, v29);
let v91 = u32(1);
for(var v92: u32 = v83; v92 < v90; v92 += v91) {
let v97 = &(*v202)[v92];
let v98 = *v97;
let v99 = *v206;
let v100 = v99 + v98;
*v206 = v100;

}
let v102 = v29 + v18;
let v106 = &(*v202)[v102];
let v107 = *v206;
*v106 = v107;

}
workgroupBarrier();
var<function> v208_store: u32;
let v208 = &v208_store;
*v208 = v23;
let v113 = u32(1);
for(var v114: u32 = v3; v114 < v80; v114 += v113) {
let v117 = v29 + v114;
let v121 = &(*v202)[v117];
let v122 = *v121;
let v123 = *v208;
let v124 = v123 + v122;
*v208 = v124;

}
let v131 = *v204;
*v78 = v131;
workgroupBarrier();
if v81 {
let v135 = v18 * v80;
var<function> v210_store: u32;
let v210 = &v210_store;
*v210 = v23;
let v140 = v135 + v80;
let v142 = min(v140, v29);
for(var v144: u32 = v135; v144 < v142; v144 += v113) {
let v149 = &(*v202)[v144];
let v150 = *v149;
let v151 = *v210;
let v152 = v151 + v150;
*v210 = v152;

}
let v154 = v29 + v18;
let v158 = &(*v202)[v154];
let v159 = *v210;
*v158 = v159;

}
workgroupBarrier();
var<function> v212_store: u32;
let v212 = &v212_store;
*v212 = v23;
for(var v166: u32 = v3; v166 < v80; v166 += v113) {
let v169 = v29 + v166;
let v173 = &(*v202)[v169];
let v174 = *v173;
let v175 = *v212;
let v176 = v175 + v174;
*v212 = v176;

}
let v177 = *v212;
let v178 = u32(1);
let v179 = max(v177, v178);
let v180 = *v208;
let v181 = v180 / v179;
for(var v183: u32 = v18; v183 < v201; v183 += v29) {
let v188 = &(*v221)[v183];
let v189 = *v188;
let v191 = v189 != v23;
if v191 {
let v195 = &(*v219)[v183];
let v196 = *v195;
let v197 = v196 + v181;
*v195 = v197;

}

}
return;

}
