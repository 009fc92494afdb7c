@group(0) @binding(5) var<storage, read_write> v21: array<u32>;
@group(0) @binding(4) var<storage, read_write> v17: array<u32>;
@group(0) @binding(3) var<storage, read_write> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<u32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_scatter(@builtin(workgroup_id) v389: vec3<u32>, @builtin(num_workgroups) v391: vec3<u32>, @builtin(local_invocation_index) v398: u32) {
let v419 = &v21;
let v420 = &v17;
let v421 = &v13;
let v422 = &v9;
let v423 = &v5;
let v424 = &v1;
let v3 = u32(0);
let v310 = info_var.static_meta[2];
let v313 = info_var.static_meta[5];
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_usize[3];
let v390 = v389[2];
let v321 = u32(v390);
let v392 = v391[1];
let v323 = u32(v392);
let v324 = v321 * v323;
let v393 = v391[0];
let v326 = u32(v393);
let v327 = v324 * v326;
let v394 = v389[1];
let v329 = u32(v394);
let v332 = v329 * v326;
let v333 = v327 + v332;
let v396 = v389[0];
let v335 = u32(v396);
let v336 = v333 + v335;
let v397 = u32(64);
let v416 = u32(64);
let v339 = v336 * v416;
let v399 = v398;
let v341 = u32(v399);
let v342 = v339 + v341;
let v30 = v26 * v27;
let v31 = v342 < v30;
if v31 {
let v33 = v342 % v26;
let v35 = v342 / v26;
let v36 = v35 * v28;
let v37 = u32(4);
let v38 = v36 / v37;
let v40 = v28 / v37;
let v41 = v38 + v40;
let v43 = v25 / v37;
let v44 = min(v41, v43);
let v45 = v33 * v27;
let v46 = v45 + v35;
let v50 = &(*v423)[v46];
let v51 = *v50;
var<function> v314_store: u32;
let v314 = &v314_store;
*v314 = v51;
let v53 = u32(1);
for(var v54: u32 = v38; v54 < v44; v54 += v53) {
let v59 = &(*v424)[v54];
let v60 = *v59;
let v61 = v60[0];
let v62 = u32(v61);
let v64 = v26 - v53;
let v65 = min(v62, v64);
let v66 = v65 == v33;
if v66 {
let v68 = v54 * v37;
let v71 = u32(v68);
let v72 = *v314;
let v73 = u32(v72);
let v77 = &(*v421)[v73];
*v77 = v71;
let v80 = v33 < v64;
let v82 = u32(4294967295);
let v83 = select(v82, v72, v80);
let v87 = &(*v420)[v68];
*v87 = v83;
let v89 = u32(1);
let v90 = v72 + v89;
*v314 = v90;

}
let v91 = v60[1];
let v92 = u32(v91);
let v95 = min(v92, v64);
let v96 = v95 == v33;
if v96 {
let v98 = v54 * v37;
let v100 = v98 + v53;
let v101 = u32(v100);
let v102 = *v314;
let v103 = u32(v102);
let v107 = &(*v421)[v103];
*v107 = v101;
let v110 = v33 < v64;
let v112 = u32(4294967295);
let v113 = select(v112, v102, v110);
let v117 = &(*v420)[v100];
*v117 = v113;
let v119 = u32(1);
let v120 = v102 + v119;
*v314 = v120;

}
let v121 = v60[2];
let v122 = u32(v121);
let v125 = min(v122, v64);
let v126 = v125 == v33;
if v126 {
let v128 = v54 * v37;
let v129 = u32(2);
let v130 = v128 + v129;
let v131 = u32(v130);
let v132 = *v314;
let v133 = u32(v132);
let v137 = &(*v421)[v133];
*v137 = v131;
let v140 = v33 < v64;
let v142 = u32(4294967295);
let v143 = select(v142, v132, v140);
let v147 = &(*v420)[v130];
*v147 = v143;
let v149 = u32(1);
let v150 = v132 + v149;
*v314 = v150;

}
let v151 = v60[3];
let v152 = u32(v151);
let v155 = min(v152, v64);
let v156 = v155 == v33;
if v156 {
let v158 = v54 * v37;
let v159 = u32(3);
let v160 = v158 + v159;
let v161 = u32(v160);
let v162 = *v314;
let v163 = u32(v162);
let v167 = &(*v421)[v163];
*v167 = v161;
let v170 = v33 < v64;
let v172 = u32(4294967295);
let v173 = select(v172, v162, v170);
let v177 = &(*v420)[v160];
*v177 = v173;
let v179 = u32(1);
let v180 = v162 + v179;
*v314 = v180;

}

}
let v182 = v26 - v53;
let v184 = u32(3);
let v185 = v313 / v184;
var<function> v316_store: u32;
let v316 = &v316_store;
*v316 = v185;
let v187 = v33 < v182;
if v187 {
let v189 = v33 + v53;
let v193 = &(*v422)[v189];
let v194 = *v193;
let v198 = &(*v422)[v33];
let v199 = *v198;
let v200 = v194 - v199;
let v202 = v200 + v397;
let v203 = u32(1);
let v204 = v202 - v203;
let v206 = v204 / v397;
let v207 = u32(v206);
*v316 = v207;

}
let v208 = *v316;
let v209 = v35 < v208;
if v209 {
var<function> v317_store: u32;
let v317 = &v317_store;
*v317 = v3;
for(var v215: u32 = v3; v215 < v33; v215 += v53) {
let v218 = v215 + v53;
let v222 = &(*v422)[v218];
let v223 = *v222;
let v227 = &(*v422)[v215];
let v228 = *v227;
let v229 = v223 - v228;
let v231 = v229 + v397;
let v232 = u32(1);
let v233 = v231 - v232;
let v235 = v233 / v397;
let v236 = u32(v235);
let v237 = *v317;
let v238 = v237 + v236;
*v317 = v238;

}
let v240 = *v317;
let v241 = *v316;
let v242 = v240 + v241;
let v243 = min(v242, v185);
let v244 = select(v185, v243, v187);
let v246 = v240 + v35;
for(var v247: u32 = v246; v247 < v244; v247 += v27) {
let v252 = &(*v422)[v33];
let v253 = *v252;
let v255 = v247 - v240;
let v256 = u32(v255);
let v258 = v256 * v397;
let v259 = v253 + v258;
let v262 = v310 - v53;
let v264 = v247 * v184;
let v265 = u32(v33);
let v269 = &(*v419)[v264];
*v269 = v265;
let v270 = v33 < v262;
if v270 {
let v272 = v264 + v53;
let v276 = &(*v419)[v272];
*v276 = v259;
let v278 = v259 + v397;
let v280 = v33 + v53;
let v284 = &(*v422)[v280];
let v285 = *v284;
let v286 = min(v278, v285);
let v287 = u32(2);
let v288 = v264 + v287;
let v292 = &(*v419)[v288];
*v292 = v286;

} else {
let v294 = v264 + v53;
let v298 = &(*v419)[v294];
let v299 = u32(0);
*v298 = v299;
let v300 = u32(2);
let v301 = v264 + v300;
let v305 = &(*v419)[v301];
*v305 = v299;

}

}

}

}
return;

}
