@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn hash_route_content_f32(@builtin(workgroup_id) v356: vec3<u32>, @builtin(num_workgroups) v358: vec3<u32>, @builtin(local_invocation_index) v365: u32) {
let v395 = &v9;
let v396 = &v5;
let v397 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_u32[0];
let v357 = v356[2];
let v265 = u32(v357);
let v359 = v358[1];
let v267 = u32(v359);
let v268 = v265 * v267;
let v360 = v358[0];
let v270 = u32(v360);
let v271 = v268 * v270;
let v361 = v356[1];
let v273 = u32(v361);
let v276 = v273 * v270;
let v277 = v271 + v276;
let v363 = v356[0];
let v279 = u32(v363);
let v280 = v277 + v279;
let v391 = u32(64);
let v283 = v280 * v391;
let v366 = v365;
let v285 = u32(v366);
let v286 = v283 + v285;
let v18 = v286 < v13;
if v18 {
let v20 = u32(0);
let v21 = vec4<u32>(v20);
var<function> v249_store: vec4<u32>;
let v249 = &v249_store;
*v249 = v21;
var<function> v250_store: vec4<u32>;
let v250 = &v250_store;
let v24 = *v249;
*v250 = v24;
let v25 = *v250;
let v27 = vec4<u32>(v20, v25[1], v25[2], v25[3]);
*v250 = v27;
let v28 = *v250;
let v29 = u32(1);
let v30 = vec4<u32>(v28[0], v29, v28[2], v28[3]);
*v250 = v30;
let v31 = *v250;
let v32 = u32(2);
let v33 = vec4<u32>(v31[0], v31[1], v32, v31[3]);
*v250 = v33;
let v34 = *v250;
let v35 = u32(3);
let v36 = vec4<u32>(v34[0], v34[1], v34[2], v35);
*v250 = v36;
let v37 = u32(2654435769);
let v38 = vec4<u32>(v37);
let v39 = *v250;
let v40 = v39 * v38;
var<function> v251_store: vec4<u32>;
let v251 = &v251_store;
*v251 = v40;
var<function> v252_store: vec4<u32>;
let v252 = &v252_store;
*v252 = v21;
let v46 = u32(1);
for(var v47: u32 = v3; v47 < v15; v47 += v46) {
let v49 = v286 * v15;
let v50 = v49 + v47;
let v54 = &(*v397)[v50];
let v55 = *v54;
let v56 = bitcast<vec4<u32>>(v55);
let v57 = u32(2147483647);
let v58 = vec4<u32>(v57);
let v59 = v56 & v58;
let v60 = u32(8388608);
let v61 = vec4<u32>(v60);
let v62 = v59 < v61;
let v63 = u32(2139095040);
let v64 = vec4<u32>(v63);
let v65 = v59 > v64;
let v68 = select(v56, v21, v62);
let v69 = u32(2143289344);
let v70 = vec4<u32>(v69);
let v71 = select(v68, v70, v65);
let v72 = *v251;
let v73 = v71 + v72;
let v74 = u32(16);
let v75 = vec4<u32>(v74);
let v76 = v73 >> vec4<u32>(v75);
let v77 = v73 ^ v76;
let v78 = u32(2146121005);
let v79 = vec4<u32>(v78);
let v80 = v77 * v79;
let v81 = u32(15);
let v82 = vec4<u32>(v81);
let v83 = v80 >> vec4<u32>(v82);
let v84 = v80 ^ v83;
let v85 = u32(2221713035);
let v86 = vec4<u32>(v85);
let v87 = v84 * v86;
let v90 = v87 >> vec4<u32>(v75);
let v91 = v87 ^ v90;
let v92 = *v252;
let v93 = v92 + v91;
*v252 = v93;
let v94 = u32(2027808484);
let v95 = vec4<u32>(v94);
let v96 = *v251;
let v97 = v96 + v95;
*v251 = v97;

}
let v98 = *v252;
let v99 = v98[0];
var<function> v254_store: u32;
let v254 = &v254_store;
*v254 = v99;
let v101 = *v252;
let v102 = v101[1];
let v103 = *v254;
let v104 = v103 + v102;
*v254 = v104;
let v105 = *v252;
let v106 = v105[2];
let v107 = *v254;
let v108 = v107 + v106;
*v254 = v108;
let v109 = *v252;
let v110 = v109[3];
let v111 = *v254;
let v112 = v111 + v110;
*v254 = v112;
let v113 = u32(16);
let v114 = v16 >> u32(v113);
let v115 = v16 ^ v114;
let v116 = u32(2146121005);
let v117 = v115 * v116;
let v118 = u32(15);
let v119 = v117 >> u32(v118);
let v120 = v117 ^ v119;
let v121 = u32(2221713035);
let v122 = v120 * v121;
let v124 = v122 >> u32(v113);
let v125 = v122 ^ v124;
let v126 = *v254;
let v127 = v126 ^ v125;
let v129 = v127 >> u32(v113);
let v130 = v127 ^ v129;
let v132 = v130 * v116;
let v134 = v132 >> u32(v118);
let v135 = v132 ^ v134;
let v137 = v135 * v121;
let v139 = v137 >> u32(v113);
let v140 = v137 ^ v139;
var<function> v255_store: u32;
let v255 = &v255_store;
*v255 = v140;
let v142 = u32(v14);
var<function> v256_store: array<u32, 2>= array<u32, 2>();
let v256 = &v256_store;
let v145 = u32(2);
for(var v150: u32 = v3; v150 < v145; v150 += v46) {
var<function> v258_store: u32;
let v258 = &v258_store;
*v258 = v142;
let v154 = f32(0.0);
var<function> v259_store: f32;
let v259 = &v259_store;
*v259 = v154;
let v157 = u32(v150);
let v158 = v157 < v142;
if v158 {
let v159 = *v255;
let v161 = v159 + v37;
let v163 = v161 >> u32(v113);
let v164 = v161 ^ v163;
let v166 = v164 * v116;
let v168 = v166 >> u32(v118);
let v169 = v166 ^ v168;
let v171 = v169 * v121;
let v173 = v171 >> u32(v113);
let v174 = v171 ^ v173;
*v255 = v174;
let v176 = v142 - v157;
let v177 = *v255;
let v178 = v177 % v176;
var<function> v260_store: u32;
let v260 = &v260_store;
*v260 = v178;
var<function> v261_store: u32;
let v261 = &v261_store;
*v261 = v3;
for(var v185: u32 = v3; v185 < v150; v185 += v46) {
let v190 = &(*v256)[v185];
let v191 = *v190;
let v192 = *v260;
let v193 = v192 >= v191;
if v193 {
let v196 = v192 + v29;
*v260 = v196;
let v197 = *v261;
let v199 = v197 + v46;
*v261 = v199;

}

}
let v200 = *v261;
let v201 = v150 - v200;
for(var v204: u32 = v3; v204 < v201; v204 += v46) {
let v206 = v150 - v204;
let v208 = v206 - v46;
let v212 = &(*v256)[v208];
let v213 = *v212;
let v218 = &(*v256)[v206];
*v218 = v213;

}
let v221 = *v261;
let v223 = &(*v256)[v221];
let v224 = *v260;
*v223 = v224;
let v225 = *v260;
*v258 = v225;
let v226 = f32(0.5);
*v259 = v226;

}
let v229 = v286 * v145;
let v230 = v229 + v150;
let v234 = &(*v396)[v230];
let v235 = *v258;
*v234 = v235;
let v243 = &(*v395)[v230];
let v244 = *v259;
*v243 = v244;

}

}
return;

}
