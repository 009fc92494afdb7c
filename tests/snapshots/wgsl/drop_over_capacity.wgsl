var<workgroup> shared_v55: array<u32, 272>;
@group(0) @binding(4) var<storage, read_write> v17: array<u32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn drop_over_capacity(@builtin(local_invocation_id) v388: vec3<u32>, @builtin(workgroup_id) v394: vec3<u32>, @builtin(num_workgroups) v396: vec3<u32>) {
let v403 = &v17;
let v404 = &v13;
let v405 = &v9;
let v406 = &v5;
let v407 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v395 = v394[2];
let v371 = u32(v395);
let v397 = v396[1];
let v373 = u32(v397);
let v374 = v371 * v373;
let v398 = v396[0];
let v376 = u32(v398);
let v377 = v374 * v376;
let v399 = v394[1];
let v379 = u32(v399);
let v382 = v379 * v376;
let v383 = v377 + v382;
let v401 = v394[0];
let v385 = u32(v401);
let v386 = v383 + v385;
let v24 = u32(1);
let v387 = u32(0);
var<function> v348_store: u32;
let v348 = &v348_store;
*v348 = v22;
var<function> v349_store: u32;
let v349 = &v349_store;
*v349 = v22;
let v31 = v386 <= v21;
if v31 {
let v35 = &(*v406)[v386];
let v36 = *v35;
let v37 = u32(v36);
*v348 = v37;

}
let v38 = v386 < v21;
if v38 {
let v40 = v386 + v24;
let v44 = &(*v406)[v40];
let v45 = *v44;
let v46 = u32(v45);
*v349 = v46;

}
let v48 = v21 - v24;
let v49 = min(v386, v48);
let v53 = &(*v404)[v49];
let v54 = *v53;
let v350 = &shared_v55;
var<function> v351_store: u32;
let v351 = &v351_store;
*v351 = v387;
let v63 = u32(31);
let v64 = u32(1);
for(var v65: u32 = v387; v65 < v63; v65 += v64) {
let v67 = u32(30);
let v68 = v67 - v65;
let v70 = v64 << u32(v68);
let v71 = *v351;
let v72 = v71 | v70;
var<function> v353_store: u32;
let v353 = &v353_store;
*v353 = v387;
let v389 = v388[0];
let v77 = u32(v389);
let v78 = *v348;
let v79 = v78 + v77;
let v80 = *v349;
let v81 = u32(256);
for(var v82: u32 = v79; v82 < v80; v82 += v81) {
let v87 = &(*v407)[v82];
let v88 = *v87;
let v89 = u32(v88);
let v93 = &(*v405)[v89];
let v94 = *v93;
let v95 = u32(2147483647);
let v96 = v94 & v95;
let v97 = v96 >= v72;
let v100 = select(v387, v64, v97);
let v101 = *v353;
let v102 = v101 + v100;
*v353 = v102;

}
let v108 = &(*v350)[v77];
let v109 = *v353;
*v108 = v109;
workgroupBarrier();
let v110 = u32(16);
let v111 = v77 < v110;
if v111 {
let v113 = v77 * v110;
var<function> v355_store: u32;
let v355 = &v355_store;
*v355 = v387;
let v118 = v113 + v110;
let v120 = min(v118, v81);
for(var v122: u32 = v113; v122 < v120; v122 += v24) {
let v127 = &(*v350)[v122];
let v128 = *v127;
let v129 = *v355;
let v130 = v129 + v128;
*v355 = v130;

}
let v132 = v81 + v77;
let v136 = &(*v350)[v132];
let v137 = *v355;
*v136 = v137;

}
workgroupBarrier();
var<function> v357_store: u32;
let v357 = &v357_store;
*v357 = v387;
for(var v144: u32 = v3; v144 < v110; v144 += v24) {
let v147 = v81 + v144;
let v151 = &(*v350)[v147];
let v152 = *v151;
let v153 = *v357;
let v154 = v153 + v152;
*v357 = v154;

}
let v155 = *v357;
let v156 = v155 >= v54;
let v157 = *v351;
let v158 = select(v157, v72, v156);
*v351 = v158;

}
let v159 = *v351;
let v161 = v159 + v64;
var<function> v359_store: u32;
let v359 = &v359_store;
*v359 = v387;
let v391 = v388[0];
let v166 = u32(v391);
let v167 = *v348;
let v168 = v167 + v166;
let v169 = *v349;
let v170 = u32(256);
for(var v171: u32 = v168; v171 < v169; v171 += v170) {
let v176 = &(*v407)[v171];
let v177 = *v176;
let v178 = u32(v177);
let v182 = &(*v405)[v178];
let v183 = *v182;
let v184 = u32(2147483647);
let v185 = v183 & v184;
let v186 = v185 >= v161;
let v189 = select(v387, v64, v186);
let v190 = *v359;
let v191 = v190 + v189;
*v359 = v191;

}
let v197 = &(*v350)[v166];
let v198 = *v359;
*v197 = v198;
workgroupBarrier();
let v199 = u32(16);
let v200 = v166 < v199;
if v200 {
let v202 = v166 * v199;
var<function> v361_store: u32;
let v361 = &v361_store;
*v361 = v387;
let v207 = v202 + v199;
let v209 = min(v207, v170);
for(var v211: u32 = v202; v211 < v209; v211 += v24) {
let v216 = &(*v350)[v211];
let v217 = *v216;
let v218 = *v361;
let v219 = v218 + v217;
*v361 = v219;

}
let v221 = v170 + v166;
let v225 = &(*v350)[v221];
let v226 = *v361;
*v225 = v226;

}
workgroupBarrier();
var<function> v363_store: u32;
let v363 = &v363_store;
*v363 = v387;
for(var v233: u32 = v3; v233 < v199; v233 += v24) {
let v236 = v170 + v233;
let v240 = &(*v350)[v236];
let v241 = *v240;
let v242 = *v363;
let v243 = v242 + v241;
*v363 = v243;

}
let v246 = *v349;
let v247 = *v348;
let v248 = v246 - v247;
let v250 = v248 + v170;
let v252 = v250 - v24;
let v254 = v252 / v170;
let v255 = v166 * v254;
let v257 = v247 + v255;
let v259 = min(v257, v246);
let v260 = v259 + v254;
let v262 = min(v260, v246);
var<function> v365_store: u32;
let v365 = &v365_store;
let v264 = *v363;
*v365 = v264;
var<function> v366_store: u32;
let v366 = &v366_store;
*v366 = v387;
for(var v269: u32 = v259; v269 < v262; v269 += v24) {
let v274 = &(*v407)[v269];
let v275 = *v274;
let v276 = u32(v275);
let v280 = &(*v405)[v276];
let v281 = *v280;
let v282 = u32(2147483647);
let v283 = v281 & v282;
let v284 = *v351;
let v285 = v283 == v284;
let v288 = select(v387, v64, v285);
let v289 = *v366;
let v290 = v289 + v288;
*v366 = v290;

}
let v295 = *v366;
*v197 = v295;
workgroupBarrier();
for(var v298: u32 = v3; v298 < v166; v298 += v24) {
let v303 = &(*v350)[v298];
let v304 = *v303;
let v305 = *v365;
let v306 = v305 + v304;
*v365 = v306;

}
for(var v308: u32 = v259; v308 < v262; v308 += v24) {
let v313 = &(*v407)[v308];
let v314 = *v313;
let v315 = u32(v314);
let v319 = &(*v405)[v315];
let v320 = *v319;
let v321 = u32(2147483647);
let v322 = v320 & v321;
let v323 = *v351;
let v324 = v322 == v323;
let v326 = v322 > v323;
let v327 = *v365;
let v328 = v327 < v54;
let v329 = v324 && v328;
let v330 = v326 || v329;
let v333 = select(v387, v64, v324);
let v335 = v327 + v333;
*v365 = v335;
let v336 = select(v21, v386, v330);
let v337 = u32(v336);
let v341 = &(*v403)[v315];
*v341 = v337;

}
return;

}
