enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn hash_route_content_f16(@builtin(workgroup_id) v357: vec3<u32>, @builtin(num_workgroups) v359: vec3<u32>, @builtin(local_invocation_index) v366: u32) {
let v396 = &v9;
let v397 = &v5;
let v398 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_u32[0];
let v358 = v357[2];
let v266 = u32(v358);
let v360 = v359[1];
let v268 = u32(v360);
let v269 = v266 * v268;
let v361 = v359[0];
let v271 = u32(v361);
let v272 = v269 * v271;
let v362 = v357[1];
let v274 = u32(v362);
let v277 = v274 * v271;
let v278 = v272 + v277;
let v364 = v357[0];
let v280 = u32(v364);
let v281 = v278 + v280;
let v392 = u32(64);
let v284 = v281 * v392;
let v367 = v366;
let v286 = u32(v367);
let v287 = v284 + v286;
let v18 = v287 < v13;
if v18 {
let v20 = u32(0);
let v21 = vec4<u32>(v20);
var<function> v250_store: vec4<u32>;
let v250 = &v250_store;
*v250 = v21;
var<function> v251_store: vec4<u32>;
let v251 = &v251_store;
let v24 = *v250;
*v251 = v24;
let v25 = *v251;
let v27 = vec4<u32>(v20, v25[1], v25[2], v25[3]);
*v251 = v27;
let v28 = *v251;
let v29 = u32(1);
let v30 = vec4<u32>(v28[0], v29, v28[2], v28[3]);
*v251 = v30;
let v31 = *v251;
let v32 = u32(2);
let v33 = vec4<u32>(v31[0], v31[1], v32, v31[3]);
*v251 = v33;
let v34 = *v251;
let v35 = u32(3);
let v36 = vec4<u32>(v34[0], v34[1], v34[2], v35);
*v251 = v36;
let v37 = u32(2654435769);
let v38 = vec4<u32>(v37);
let v39 = *v251;
let v40 = v39 * v38;
var<function> v252_store: vec4<u32>;
let v252 = &v252_store;
*v252 = v40;
var<function> v253_store: vec4<u32>;
let v253 = &v253_store;
*v253 = v21;
let v46 = u32(1);
for(var v47: u32 = v3; v47 < v15; v47 += v46) {
let v49 = v287 * v15;
let v50 = v49 + v47;
let v54 = &(*v398)[v50];
let v55 = *v54;
let v56 = vec4<f32>(v55);
let v57 = bitcast<vec4<u32>>(v56);
let v58 = u32(2147483647);
let v59 = vec4<u32>(v58);
let v60 = v57 & v59;
let v61 = u32(8388608);
let v62 = vec4<u32>(v61);
let v63 = v60 < v62;
let v64 = u32(2139095040);
let v65 = vec4<u32>(v64);
let v66 = v60 > v65;
let v69 = select(v57, v21, v63);
let v70 = u32(2143289344);
let v71 = vec4<u32>(v70);
let v72 = select(v69, v71, v66);
let v73 = *v252;
let v74 = v72 + v73;
let v75 = u32(16);
let v76 = vec4<u32>(v75);
let v77 = v74 >> vec4<u32>(v76);
let v78 = v74 ^ v77;
let v79 = u32(2146121005);
let v80 = vec4<u32>(v79);
let v81 = v78 * v80;
let v82 = u32(15);
let v83 = vec4<u32>(v82);
let v84 = v81 >> vec4<u32>(v83);
let v85 = v81 ^ v84;
let v86 = u32(2221713035);
let v87 = vec4<u32>(v86);
let v88 = v85 * v87;
let v91 = v88 >> vec4<u32>(v76);
let v92 = v88 ^ v91;
let v93 = *v253;
let v94 = v93 + v92;
*v253 = v94;
let v95 = u32(2027808484);
let v96 = vec4<u32>(v95);
let v97 = *v252;
let v98 = v97 + v96;
*v252 = v98;

}
let v99 = *v253;
let v100 = v99[0];
var<function> v255_store: u32;
let v255 = &v255_store;
*v255 = v100;
let v102 = *v253;
let v103 = v102[1];
let v104 = *v255;
let v105 = v104 + v103;
*v255 = v105;
let v106 = *v253;
let v107 = v106[2];
let v108 = *v255;
let v109 = v108 + v107;
*v255 = v109;
let v110 = *v253;
let v111 = v110[3];
let v112 = *v255;
let v113 = v112 + v111;
*v255 = v113;
let v114 = u32(16);
let v115 = v16 >> u32(v114);
let v116 = v16 ^ v115;
let v117 = u32(2146121005);
let v118 = v116 * v117;
let v119 = u32(15);
let v120 = v118 >> u32(v119);
let v121 = v118 ^ v120;
let v122 = u32(2221713035);
let v123 = v121 * v122;
let v125 = v123 >> u32(v114);
let v126 = v123 ^ v125;
let v127 = *v255;
let v128 = v127 ^ v126;
let v130 = v128 >> u32(v114);
let v131 = v128 ^ v130;
let v133 = v131 * v117;
let v135 = v133 >> u32(v119);
let v136 = v133 ^ v135;
let v138 = v136 * v122;
let v140 = v138 >> u32(v114);
let v141 = v138 ^ v140;
var<function> v256_store: u32;
let v256 = &v256_store;
*v256 = v141;
let v143 = u32(v14);
var<function> v257_store: array<u32, 2>= array<u32, 2>();
let v257 = &v257_store;
let v146 = u32(2);
for(var v151: u32 = v3; v151 < v146; v151 += v46) {
var<function> v259_store: u32;
let v259 = &v259_store;
*v259 = v143;
let v155 = f32(0.0);
var<function> v260_store: f32;
let v260 = &v260_store;
*v260 = v155;
let v158 = u32(v151);
let v159 = v158 < v143;
if v159 {
let v160 = *v256;
let v162 = v160 + v37;
let v164 = v162 >> u32(v114);
let v165 = v162 ^ v164;
let v167 = v165 * v117;
let v169 = v167 >> u32(v119);
let v170 = v167 ^ v169;
let v172 = v170 * v122;
let v174 = v172 >> u32(v114);
let v175 = v172 ^ v174;
*v256 = v175;
let v177 = v143 - v158;
let v178 = *v256;
let v179 = v178 % v177;
var<function> v261_store: u32;
let v261 = &v261_store;
*v261 = v179;
var<function> v262_store: u32;
let v262 = &v262_store;
*v262 = v3;
for(var v186: u32 = v3; v186 < v151; v186 += v46) {
let v191 = &(*v257)[v186];
let v192 = *v191;
let v193 = *v261;
let v194 = v193 >= v192;
if v194 {
let v197 = v193 + v29;
*v261 = v197;
let v198 = *v262;
let v200 = v198 + v46;
*v262 = v200;

}

}
let v201 = *v262;
let v202 = v151 - v201;
for(var v205: u32 = v3; v205 < v202; v205 += v46) {
let v207 = v151 - v205;
let v209 = v207 - v46;
let v213 = &(*v257)[v209];
let v214 = *v213;
let v219 = &(*v257)[v207];
*v219 = v214;

}
let v222 = *v262;
let v224 = &(*v257)[v222];
let v225 = *v261;
*v224 = v225;
let v226 = *v261;
*v259 = v226;
let v227 = f32(0.5);
*v260 = v227;

}
let v230 = v287 * v146;
let v231 = v230 + v151;
let v235 = &(*v397)[v231];
let v236 = *v259;
*v235 = v236;
let v244 = &(*v396)[v231];
let v245 = *v260;
*v244 = v245;

}

}
return;

}
