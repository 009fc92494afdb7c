@group(0) @binding(4) var<storage, read_write> v17: array<u32>;
@group(0) @binding(3) var<storage, read_write> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_scatter(@builtin(workgroup_id) v250: vec3<u32>, @builtin(num_workgroups) v252: vec3<u32>, @builtin(local_invocation_index) v259: u32) {
let v280 = &v17;
let v281 = &v13;
let v282 = &v9;
let v283 = &v5;
let v284 = &v1;
let v3 = u32(0);
let v174 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_u32[0];
let v251 = v250[2];
let v182 = u32(v251);
let v253 = v252[1];
let v184 = u32(v253);
let v185 = v182 * v184;
let v254 = v252[0];
let v187 = u32(v254);
let v188 = v185 * v187;
let v255 = v250[1];
let v190 = u32(v255);
let v193 = v190 * v187;
let v194 = v188 + v193;
let v257 = v250[0];
let v196 = u32(v257);
let v197 = v194 + v196;
let v277 = u32(64);
let v200 = v197 * v277;
let v260 = v259;
let v202 = u32(v260);
let v203 = v200 + v202;
let v26 = v21 * v22;
let v27 = v203 < v26;
if v27 {
let v29 = v203 % v21;
let v31 = v203 / v21;
let v32 = u32(256);
let v33 = v31 * v32;
let v35 = v33 + v32;
let v36 = min(v35, v23);
let v37 = v29 * v22;
let v38 = v37 + v31;
let v42 = &(*v283)[v38];
let v43 = *v42;
let v44 = u32(v43);
var<function> v175_store: u32;
let v175 = &v175_store;
*v175 = v44;
let v46 = u32(1);
for(var v47: u32 = v33; v47 < v36; v47 += v46) {
let v52 = &(*v284)[v47];
let v53 = *v52;
let v54 = u32(v53);
let v56 = v21 - v46;
let v57 = min(v54, v56);
let v58 = v57 == v29;
if v58 {
let v59 = u32(v47);
let v62 = *v175;
let v64 = &(*v281)[v62];
*v64 = v59;
let v67 = v62 + v46;
*v175 = v67;

}

}
let v69 = v31 == v3;
if v69 {
let v71 = v21 - v46;
let v73 = u32(2);
let v74 = v174 / v73;
var<function> v177_store: u32;
let v177 = &v177_store;
*v177 = v3;
for(var v80: u32 = v3; v80 < v29; v80 += v46) {
let v83 = v80 + v46;
let v87 = &(*v282)[v83];
let v88 = *v87;
let v92 = &(*v282)[v80];
let v93 = *v92;
let v94 = v88 - v93;
let v95 = v94 + v24;
let v96 = u32(1);
let v97 = v95 - v96;
let v98 = v97 / v24;
let v99 = u32(v98);
let v100 = *v177;
let v101 = v100 + v99;
*v177 = v101;

}
let v102 = v29 < v71;
if v102 {
let v104 = v29 + v46;
let v108 = &(*v282)[v104];
let v109 = *v108;
let v113 = &(*v282)[v29];
let v114 = *v113;
let v115 = v109 - v114;
let v116 = v115 + v24;
let v117 = u32(1);
let v118 = v116 - v117;
let v119 = v118 / v24;
let v120 = u32(0);
for(var v122: u32 = v120; v122 < v119; v122 += v117) {
let v124 = u32(v122);
let v125 = *v177;
let v126 = v125 + v124;
let v127 = u32(v29);
let v129 = v73 * v126;
let v133 = &(*v280)[v129];
*v133 = v127;
let v139 = v122 * v24;
let v140 = v114 + v139;
let v144 = v129 + v46;
let v148 = &(*v280)[v144];
*v148 = v140;

}

} else {
let v149 = *v177;
for(var v151: u32 = v149; v151 < v74; v151 += v46) {
let v153 = u32(v71);
let v155 = v73 * v151;
let v159 = &(*v280)[v155];
*v159 = v153;
let v163 = v155 + v46;
let v167 = &(*v280)[v163];
let v168 = u32(0);
*v167 = v168;

}

}

}

}
return;

}
