@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 6>, scalars_f32: array<f32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_choices_sigmoid_raw(@builtin(workgroup_id) v487: vec3<u32>, @builtin(num_workgroups) v489: vec3<u32>, @builtin(local_invocation_index) v496: u32) {
let v517 = &v13;
let v518 = &v9;
let v519 = &v5;
let v520 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v20 = info_var.scalars_usize[3];
let v21 = info_var.scalars_usize[4];
let v22 = info_var.scalars_f32[0];
let v488 = v487[2];
let v419 = u32(v488);
let v490 = v489[1];
let v421 = u32(v490);
let v422 = v419 * v421;
let v491 = v489[0];
let v424 = u32(v491);
let v425 = v422 * v424;
let v492 = v487[1];
let v427 = u32(v492);
let v430 = v427 * v424;
let v431 = v425 + v430;
let v494 = v487[0];
let v433 = u32(v494);
let v434 = v431 + v433;
let v514 = u32(64);
let v437 = v434 * v514;
let v497 = v496;
let v439 = u32(v497);
let v440 = v437 + v439;
let v24 = v440 < v17;
if v24 {
let v26 = v440 * v18;
let v28 = v440 * v19;
let v31 = u32(1);
let v33 = u32(4294967295);
var<function> v281_store: u32;
let v281 = &v281_store;
*v281 = v33;
let v36 = u32(0);
var<function> v282_store: u32;
let v282 = &v282_store;
*v282 = v36;
let v40 = v20 > v3;
if v40 {
let v41 = v28 + v20;
let v43 = v41 - v31;
let v47 = &(*v518)[v43];
let v48 = *v47;
*v282 = v48;
var<function> v283_store: u32;
let v283 = &v283_store;
*v283 = v36;
let v52 = u32(4);
let v53 = v18 * v52;
let v54 = u32(v53);
let v55 = *v282;
let v56 = v55 < v54;
if v56 {
let v58 = u32(v55);
let v60 = v58 / v52;
let v61 = v26 + v60;
let v65 = &(*v520)[v61];
let v66 = *v65;
let v67 = u32(2147483648);
let v68 = vec4<u32>(v67);
let v69 = bitcast<vec4<u32>>(v66);
let v70 = v69 == v68;
let v72 = vec4<u32>(v36);
let v73 = select(v69, v72, v70);
let v74 = v73 < v68;
let v75 = v73 | v68;
let v76 = ~v73;
let v77 = select(v76, v75, v74);
let v79 = u32(2147483647);
let v80 = vec4<u32>(v79);
let v81 = v69 & v80;
let v82 = u32(2139095040);
let v83 = vec4<u32>(v82);
let v84 = v81 > v83;
let v87 = select(v77, v72, v84);
let v88 = u32(1);
let v89 = vec4<u32>(v88);
let v90 = v87 + v89;
let v94 = v58 % v52;
let v95 = v90[v94];
*v283 = v95;

}
let v96 = *v283;
*v281 = v96;

}
for(var v98: u32 = v20; v98 < v21; v98 += v31) {
let v101 = vec4<u32>(v36);
var<function> v285_store: vec4<u32>;
let v285 = &v285_store;
*v285 = v101;
var<function> v286_store: vec4<u32>;
let v286 = &v286_store;
*v286 = v101;
var<function> v287_store: vec4<u32>;
let v287 = &v287_store;
*v287 = v101;
var<function> v288_store: vec4<u32>;
let v288 = &v288_store;
let v110 = *v287;
*v288 = v110;
let v111 = *v288;
let v113 = vec4<u32>(v36, v111[1], v111[2], v111[3]);
*v288 = v113;
let v114 = *v288;
let v115 = u32(1);
let v116 = vec4<u32>(v114[0], v115, v114[2], v114[3]);
*v288 = v116;
let v117 = *v288;
let v118 = u32(2);
let v119 = vec4<u32>(v117[0], v117[1], v118, v117[3]);
*v288 = v119;
let v120 = *v288;
let v121 = u32(3);
let v122 = vec4<u32>(v120[0], v120[1], v120[2], v121);
*v288 = v122;
let v123 = *v281;
let v124 = vec4<u32>(v123);
let v125 = *v282;
let v126 = vec4<u32>(v125);
for(var v129: u32 = v3; v129 < v18; v129 += v31) {
let v131 = u32(4);
let v132 = v129 * v131;
let v133 = u32(v132);
let v134 = vec4<u32>(v133);
let v135 = *v288;
let v136 = v135 + v134;
let v137 = v26 + v129;
let v141 = &(*v520)[v137];
let v142 = *v141;
let v143 = u32(2147483648);
let v144 = vec4<u32>(v143);
let v145 = bitcast<vec4<u32>>(v142);
let v146 = v145 == v144;
let v149 = select(v145, v101, v146);
let v150 = v149 < v144;
let v151 = v149 | v144;
let v152 = ~v149;
let v153 = select(v152, v151, v150);
let v155 = u32(2147483647);
let v156 = vec4<u32>(v155);
let v157 = v145 & v156;
let v158 = u32(2139095040);
let v159 = vec4<u32>(v158);
let v160 = v157 > v159;
let v163 = select(v153, v101, v160);
let v165 = vec4<u32>(v115);
let v166 = v163 + v165;
let v169 = v136 > v126;
let v170 = v166 == v124;
let v290 = false;
let v291 = vec4<bool>(v290);
var<function> v400_store: vec4<bool>;
let v400 = &v400_store;
*v400 = v291;
var<function> v401_store: vec4<bool>;
let v401 = &v401_store;
let v294 = *v400;
*v401 = v294;
let v295 = v170[0];
var<function> v402_store: bool;
let v402 = &v402_store;
if v295 {
let v296 = v169[0];
*v402 = v296;

} else {
*v402 = v290;

}
let v299 = *v401;
let v300 = *v402;
let v301 = vec4<bool>(v300, v299[1], v299[2], v299[3]);
*v401 = v301;
let v302 = v170[1];
var<function> v403_store: bool;
let v403 = &v403_store;
if v302 {
let v303 = v169[1];
*v403 = v303;

} else {
*v403 = v290;

}
let v306 = *v401;
let v307 = *v403;
let v308 = vec4<bool>(v306[0], v307, v306[2], v306[3]);
*v401 = v308;
let v309 = v170[2];
var<function> v404_store: bool;
let v404 = &v404_store;
if v309 {
let v310 = v169[2];
*v404 = v310;

} else {
*v404 = v290;

}
let v313 = *v401;
let v314 = *v404;
let v315 = vec4<bool>(v313[0], v313[1], v314, v313[3]);
*v401 = v315;
let v316 = v170[3];
var<function> v405_store: bool;
let v405 = &v405_store;
if v316 {
let v317 = v169[3];
*v405 = v317;

} else {
*v405 = v290;

}
let v320 = *v401;
let v321 = *v405;
let v322 = vec4<bool>(v320[0], v320[1], v320[2], v321);
*v401 = v322;
let v323 = *v401;
let v172 = v166 < v124;
var<function> v406_store: vec4<bool>;
let v406 = &v406_store;
*v406 = v291;
var<function> v407_store: vec4<bool>;
let v407 = &v407_store;
let v328 = *v406;
*v407 = v328;
let v329 = v172[0];
let v330 = true;
var<function> v408_store: bool;
let v408 = &v408_store;
if v329 {
*v408 = v330;

} else {
let v333 = v323[0];
*v408 = v333;

}
let v334 = *v407;
let v335 = *v408;
let v336 = vec4<bool>(v335, v334[1], v334[2], v334[3]);
*v407 = v336;
let v337 = v172[1];
var<function> v409_store: bool;
let v409 = &v409_store;
if v337 {
*v409 = v330;

} else {
let v341 = v323[1];
*v409 = v341;

}
let v342 = *v407;
let v343 = *v409;
let v344 = vec4<bool>(v342[0], v343, v342[2], v342[3]);
*v407 = v344;
let v345 = v172[2];
var<function> v410_store: bool;
let v410 = &v410_store;
if v345 {
*v410 = v330;

} else {
let v349 = v323[2];
*v410 = v349;

}
let v350 = *v407;
let v351 = *v410;
let v352 = vec4<bool>(v350[0], v350[1], v351, v350[3]);
*v407 = v352;
let v353 = v172[3];
var<function> v411_store: bool;
let v411 = &v411_store;
if v353 {
*v411 = v330;

} else {
let v357 = v323[3];
*v411 = v357;

}
let v358 = *v407;
let v359 = *v411;
let v360 = vec4<bool>(v358[0], v358[1], v358[2], v359);
*v407 = v360;
let v361 = *v407;
let v174 = *v285;
let v175 = v166 > v174;
var<function> v412_store: vec4<bool>;
let v412 = &v412_store;
*v412 = v291;
var<function> v413_store: vec4<bool>;
let v413 = &v413_store;
let v366 = *v412;
*v413 = v366;
let v367 = v175[0];
var<function> v414_store: bool;
let v414 = &v414_store;
if v367 {
let v368 = v361[0];
*v414 = v368;

} else {
*v414 = v290;

}
let v371 = *v413;
let v372 = *v414;
let v373 = vec4<bool>(v372, v371[1], v371[2], v371[3]);
*v413 = v373;
let v374 = v175[1];
var<function> v415_store: bool;
let v415 = &v415_store;
if v374 {
let v375 = v361[1];
*v415 = v375;

} else {
*v415 = v290;

}
let v378 = *v413;
let v379 = *v415;
let v380 = vec4<bool>(v378[0], v379, v378[2], v378[3]);
*v413 = v380;
let v381 = v175[2];
var<function> v416_store: bool;
let v416 = &v416_store;
if v381 {
let v382 = v361[2];
*v416 = v382;

} else {
*v416 = v290;

}
let v385 = *v413;
let v386 = *v416;
let v387 = vec4<bool>(v385[0], v385[1], v386, v385[3]);
*v413 = v387;
let v388 = v175[3];
var<function> v417_store: bool;
let v417 = &v417_store;
if v388 {
let v389 = v361[3];
*v417 = v389;

} else {
*v417 = v290;

}
let v392 = *v413;
let v393 = *v417;
let v394 = vec4<bool>(v392[0], v392[1], v392[2], v393);
*v413 = v394;
let v395 = *v413;
let v177 = *v285;
let v178 = select(v177, v166, v395);
*v285 = v178;
let v179 = *v286;
let v180 = select(v179, v136, v395);
*v286 = v180;

}
let v181 = *v285;
let v182 = v181[0];
var<function> v396_store: u32;
let v396 = &v396_store;
*v396 = v182;
let v184 = *v286;
let v185 = v184[0];
var<function> v397_store: u32;
let v397 = &v397_store;
*v397 = v185;
let v187 = *v285;
let v188 = v187[1];
let v189 = *v286;
let v190 = v189[1];
let v191 = *v396;
let v192 = v188 > v191;
let v194 = v188 == v191;
let v195 = *v397;
let v196 = v190 < v195;
let v197 = v194 && v196;
let v198 = v192 || v197;
let v200 = select(v191, v188, v198);
*v396 = v200;
let v201 = *v397;
let v202 = select(v201, v190, v198);
*v397 = v202;
let v203 = *v285;
let v204 = v203[2];
let v205 = *v286;
let v206 = v205[2];
let v207 = *v396;
let v208 = v204 > v207;
let v210 = v204 == v207;
let v211 = *v397;
let v212 = v206 < v211;
let v213 = v210 && v212;
let v214 = v208 || v213;
let v216 = select(v207, v204, v214);
*v396 = v216;
let v217 = *v397;
let v218 = select(v217, v206, v214);
*v397 = v218;
let v219 = *v285;
let v220 = v219[3];
let v221 = *v286;
let v222 = v221[3];
let v223 = *v396;
let v224 = v220 > v223;
let v226 = v220 == v223;
let v227 = *v397;
let v228 = v222 < v227;
let v229 = v226 && v228;
let v230 = v224 || v229;
let v232 = select(v223, v220, v230);
*v396 = v232;
let v233 = *v397;
let v234 = select(v233, v222, v230);
*v397 = v234;
let v235 = *v396;
*v281 = v235;
let v236 = *v397;
*v282 = v236;
let v237 = v28 + v98;
let v238 = u32(4);
let v239 = v18 * v238;
let v240 = u32(v239);
var<function> v398_store: u32;
let v398 = &v398_store;
*v398 = v240;
let v242 = f32(0.0);
var<function> v399_store: f32;
let v399 = &v399_store;
*v399 = v242;
let v245 = *v396;
let v247 = v245 > v36;
if v247 {
let v248 = *v397;
*v398 = v248;
let v249 = *v397;
let v250 = u32(v249);
let v252 = v250 / v238;
let v253 = v26 + v252;
let v257 = v250 % v238;
let v261 = &(*v519)[v253];
let v262 = *v261;
let v263 = v262[v257];
let v264 = v22 * v263;
*v399 = v264;

}
let v268 = &(*v518)[v237];
let v269 = *v398;
*v268 = v269;
let v273 = &(*v517)[v237];
let v274 = *v399;
*v273 = v274;

}

}
return;

}
