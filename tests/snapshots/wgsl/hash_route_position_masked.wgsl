@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn hash_route_position_masked(@builtin(workgroup_id) v309: vec3<u32>, @builtin(num_workgroups) v311: vec3<u32>, @builtin(local_invocation_index) v318: u32) {
let v348 = &v9;
let v349 = &v5;
let v350 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_u32[0];
let v310 = v309[2];
let v218 = u32(v310);
let v312 = v311[1];
let v220 = u32(v312);
let v221 = v218 * v220;
let v313 = v311[0];
let v223 = u32(v313);
let v224 = v221 * v223;
let v314 = v309[1];
let v226 = u32(v314);
let v229 = v226 * v223;
let v230 = v224 + v229;
let v316 = v309[0];
let v232 = u32(v316);
let v233 = v230 + v232;
let v344 = u32(64);
let v236 = v233 * v344;
let v319 = v318;
let v238 = u32(v319);
let v239 = v236 + v238;
let v18 = v239 < v13;
if v18 {
let v20 = v239 % v15;
let v21 = u32(v20);
let v22 = u32(16);
let v23 = v16 >> u32(v22);
let v24 = v16 ^ v23;
let v25 = u32(2146121005);
let v26 = v24 * v25;
let v27 = u32(15);
let v28 = v26 >> u32(v27);
let v29 = v26 ^ v28;
let v30 = u32(2221713035);
let v31 = v29 * v30;
let v33 = v31 >> u32(v22);
let v34 = v31 ^ v33;
let v35 = v21 ^ v34;
let v37 = v35 >> u32(v22);
let v38 = v35 ^ v37;
let v40 = v38 * v25;
let v42 = v40 >> u32(v27);
let v43 = v40 ^ v42;
let v45 = v43 * v30;
let v47 = v45 >> u32(v22);
let v48 = v45 ^ v47;
var<function> v203_store: u32;
let v203 = &v203_store;
*v203 = v48;
let v50 = u32(0);
var<function> v204_store: u32;
let v204 = &v204_store;
*v204 = v50;
let v54 = u32(1);
for(var v55: u32 = v3; v55 < v14; v55 += v54) {
let v60 = &(*v350)[v55];
let v61 = *v60;
let v63 = v61 != v50;
let v64 = u32(1);
let v66 = select(v50, v64, v63);
let v67 = *v204;
let v68 = v67 + v66;
*v204 = v68;

}
var<function> v206_store: array<u32, 2>= array<u32, 2>();
let v206 = &v206_store;
let v71 = u32(2);
for(var v76: u32 = v3; v76 < v71; v76 += v54) {
let v78 = u32(v14);
var<function> v208_store: u32;
let v208 = &v208_store;
*v208 = v78;
let v80 = f32(0.0);
var<function> v209_store: f32;
let v209 = &v209_store;
*v209 = v80;
let v83 = u32(v76);
let v84 = *v204;
let v85 = v83 < v84;
if v85 {
let v86 = *v203;
let v87 = u32(2654435769);
let v88 = v86 + v87;
let v90 = v88 >> u32(v22);
let v91 = v88 ^ v90;
let v93 = v91 * v25;
let v95 = v93 >> u32(v27);
let v96 = v93 ^ v95;
let v98 = v96 * v30;
let v100 = v98 >> u32(v22);
let v101 = v98 ^ v100;
*v203 = v101;
let v103 = *v204;
let v104 = v103 - v83;
let v105 = *v203;
let v106 = v105 % v104;
var<function> v210_store: u32;
let v210 = &v210_store;
*v210 = v106;
var<function> v211_store: u32;
let v211 = &v211_store;
*v211 = v3;
for(var v113: u32 = v3; v113 < v76; v113 += v54) {
let v118 = &(*v206)[v113];
let v119 = *v118;
let v120 = *v210;
let v121 = v120 >= v119;
if v121 {
let v123 = u32(1);
let v124 = v120 + v123;
*v210 = v124;
let v125 = *v211;
let v127 = v125 + v54;
*v211 = v127;

}

}
let v128 = *v211;
let v129 = v76 - v128;
for(var v132: u32 = v3; v132 < v129; v132 += v54) {
let v134 = v76 - v132;
let v136 = v134 - v54;
let v140 = &(*v206)[v136];
let v141 = *v140;
let v146 = &(*v206)[v134];
*v146 = v141;

}
let v149 = *v211;
let v151 = &(*v206)[v149];
let v152 = *v210;
*v151 = v152;
var<function> v214_store: u32;
let v214 = &v214_store;
*v214 = v50;
var<function> v215_store: u32;
let v215 = &v215_store;
*v215 = v50;
for(var v161: u32 = v3; v161 < v14; v161 += v54) {
let v166 = &(*v350)[v161];
let v167 = *v166;
let v169 = v167 != v50;
if v169 {
let v170 = *v214;
let v171 = *v210;
let v172 = v170 == v171;
let v173 = u32(v161);
let v174 = *v215;
let v175 = select(v174, v173, v172);
*v215 = v175;
let v176 = *v214;
let v177 = u32(1);
let v178 = v176 + v177;
*v214 = v178;

}

}
let v179 = *v215;
*v208 = v179;
let v180 = f32(0.5);
*v209 = v180;

}
let v183 = v239 * v71;
let v184 = v183 + v76;
let v188 = &(*v349)[v184];
let v189 = *v208;
*v188 = v189;
let v197 = &(*v348)[v184];
let v198 = *v209;
*v197 = v198;

}

}
return;

}
