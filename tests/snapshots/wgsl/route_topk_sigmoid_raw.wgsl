@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_raw(@builtin(workgroup_id) v555: vec3<u32>, @builtin(num_workgroups) v557: vec3<u32>, @builtin(local_invocation_index) v564: u32) {
let v594 = &v17;
let v595 = &v13;
let v596 = &v9;
let v597 = &v5;
let v598 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v556 = v555[2];
let v464 = u32(v556);
let v558 = v557[1];
let v466 = u32(v558);
let v467 = v464 * v466;
let v559 = v557[0];
let v469 = u32(v559);
let v470 = v467 * v469;
let v560 = v555[1];
let v472 = u32(v560);
let v475 = v472 * v469;
let v476 = v470 + v475;
let v562 = v555[0];
let v478 = u32(v562);
let v479 = v476 + v478;
let v590 = u32(64);
let v482 = v479 * v590;
let v565 = v564;
let v484 = u32(v565);
let v485 = v482 + v484;
let v26 = v485 < v21;
if v26 {
let v28 = v485 * v22;
let v30 = v485 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v306_store: vec4<f32>;
let v306 = &v306_store;
*v306 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v598)[v40];
let v45 = *v44;
let v46 = *v306;
let v47 = max(v46, v45);
*v306 = v47;

}
let v48 = *v306;
let v49 = v48[0];
var<function> v308_store: f32;
let v308 = &v308_store;
*v308 = v49;
let v51 = *v306;
let v52 = v51[1];
let v53 = *v308;
let v54 = max(v53, v52);
*v308 = v54;
let v55 = *v306;
let v56 = v55[2];
let v57 = *v308;
let v58 = max(v57, v56);
*v308 = v58;
let v59 = *v306;
let v60 = v59[3];
let v61 = *v308;
let v62 = max(v61, v60);
*v308 = v62;
var<function> v309_store: vec4<f32>;
let v309 = &v309_store;
*v309 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v598)[v68];
let v73 = *v72;
let v74 = *v308;
let v75 = vec4<f32>(v74);
let v76 = v73 - v75;
let v77 = exp(v76);
let v78 = *v309;
let v79 = v78 + v77;
*v309 = v79;
let v80 = f32(1.0);
let v81 = vec4<f32>(v80);
let v82 = abs(v73);
let v83 = -v82;
let v84 = exp(v83);
let v87 = v73 < v32;
let v88 = select(v81, v84, v87);
let v89 = v81 + v84;
let v90 = v88 / v89;
let v95 = &(*v595)[v68];
*v95 = v90;

}
let v96 = *v309;
var<function> v444_store: f32;
let v444 = &v444_store;
*v444 = v31;
let v314 = v96[0];
let v315 = *v444;
let v316 = v315 + v314;
*v444 = v316;
let v317 = v96[1];
let v318 = *v444;
let v319 = v318 + v317;
*v444 = v319;
let v320 = v96[2];
let v321 = *v444;
let v322 = v321 + v320;
*v444 = v322;
let v323 = v96[3];
let v324 = *v444;
let v325 = v324 + v323;
*v444 = v325;
let v326 = *v444;
let v98 = log(v326);
let v99 = *v308;
let v100 = v99 + v98;
let v105 = &(*v594)[v485];
*v105 = v100;
let v110 = u32(4294967295);
var<function> v328_store: u32;
let v328 = &v328_store;
*v328 = v110;
let v113 = u32(0);
var<function> v329_store: u32;
let v329 = &v329_store;
*v329 = v113;
for(var v118: u32 = v3; v118 < v23; v118 += v37) {
let v121 = vec4<u32>(v113);
var<function> v331_store: vec4<u32>;
let v331 = &v331_store;
*v331 = v121;
var<function> v332_store: vec4<u32>;
let v332 = &v332_store;
*v332 = v121;
var<function> v333_store: vec4<u32>;
let v333 = &v333_store;
*v333 = v121;
var<function> v334_store: vec4<u32>;
let v334 = &v334_store;
let v130 = *v333;
*v334 = v130;
let v131 = *v334;
let v133 = vec4<u32>(v113, v131[1], v131[2], v131[3]);
*v334 = v133;
let v134 = *v334;
let v135 = u32(1);
let v136 = vec4<u32>(v134[0], v135, v134[2], v134[3]);
*v334 = v136;
let v137 = *v334;
let v138 = u32(2);
let v139 = vec4<u32>(v137[0], v137[1], v138, v137[3]);
*v334 = v139;
let v140 = *v334;
let v141 = u32(3);
let v142 = vec4<u32>(v140[0], v140[1], v140[2], v141);
*v334 = v142;
let v143 = *v328;
let v144 = vec4<u32>(v143);
let v145 = *v329;
let v146 = vec4<u32>(v145);
for(var v149: u32 = v3; v149 < v22; v149 += v37) {
let v151 = u32(4);
let v152 = v149 * v151;
let v153 = u32(v152);
let v154 = vec4<u32>(v153);
let v155 = *v334;
let v156 = v155 + v154;
let v157 = v28 + v149;
let v161 = &(*v598)[v157];
let v162 = *v161;
let v163 = u32(2147483648);
let v164 = vec4<u32>(v163);
let v165 = bitcast<vec4<u32>>(v162);
let v166 = v165 == v164;
let v169 = select(v165, v121, v166);
let v170 = v169 < v164;
let v171 = v169 | v164;
let v172 = ~v169;
let v173 = select(v172, v171, v170);
let v174 = u32(2147483647);
let v175 = vec4<u32>(v174);
let v176 = v169 & v175;
let v177 = u32(2139095040);
let v178 = vec4<u32>(v177);
let v179 = v176 > v178;
let v182 = select(v173, v121, v179);
let v184 = vec4<u32>(v135);
let v185 = v182 + v184;
let v188 = v156 > v146;
let v189 = v185 == v144;
let v336 = false;
let v337 = vec4<bool>(v336);
var<function> v445_store: vec4<bool>;
let v445 = &v445_store;
*v445 = v337;
var<function> v446_store: vec4<bool>;
let v446 = &v446_store;
let v340 = *v445;
*v446 = v340;
let v341 = v189[0];
var<function> v447_store: bool;
let v447 = &v447_store;
if v341 {
let v342 = v188[0];
*v447 = v342;

} else {
*v447 = v336;

}
let v345 = *v446;
let v346 = *v447;
let v347 = vec4<bool>(v346, v345[1], v345[2], v345[3]);
*v446 = v347;
let v348 = v189[1];
var<function> v448_store: bool;
let v448 = &v448_store;
if v348 {
let v349 = v188[1];
*v448 = v349;

} else {
*v448 = v336;

}
let v352 = *v446;
let v353 = *v448;
let v354 = vec4<bool>(v352[0], v353, v352[2], v352[3]);
*v446 = v354;
let v355 = v189[2];
var<function> v449_store: bool;
let v449 = &v449_store;
if v355 {
let v356 = v188[2];
*v449 = v356;

} else {
*v449 = v336;

}
let v359 = *v446;
let v360 = *v449;
let v361 = vec4<bool>(v359[0], v359[1], v360, v359[3]);
*v446 = v361;
let v362 = v189[3];
var<function> v450_store: bool;
let v450 = &v450_store;
if v362 {
let v363 = v188[3];
*v450 = v363;

} else {
*v450 = v336;

}
let v366 = *v446;
let v367 = *v450;
let v368 = vec4<bool>(v366[0], v366[1], v366[2], v367);
*v446 = v368;
let v369 = *v446;
let v191 = v185 < v144;
var<function> v451_store: vec4<bool>;
let v451 = &v451_store;
*v451 = v337;
var<function> v452_store: vec4<bool>;
let v452 = &v452_store;
let v374 = *v451;
*v452 = v374;
let v375 = v191[0];
let v376 = true;
var<function> v453_store: bool;
let v453 = &v453_store;
if v375 {
*v453 = v376;

} else {
let v379 = v369[0];
*v453 = v379;

}
let v380 = *v452;
let v381 = *v453;
let v382 = vec4<bool>(v381, v380[1], v380[2], v380[3]);
*v452 = v382;
let v383 = v191[1];
var<function> v454_store: bool;
let v454 = &v454_store;
if v383 {
*v454 = v376;

} else {
let v387 = v369[1];
*v454 = v387;

}
let v388 = *v452;
let v389 = *v454;
let v390 = vec4<bool>(v388[0], v389, v388[2], v388[3]);
*v452 = v390;
let v391 = v191[2];
var<function> v455_store: bool;
let v455 = &v455_store;
if v391 {
*v455 = v376;

} else {
let v395 = v369[2];
*v455 = v395;

}
let v396 = *v452;
let v397 = *v455;
let v398 = vec4<bool>(v396[0], v396[1], v397, v396[3]);
*v452 = v398;
let v399 = v191[3];
var<function> v456_store: bool;
let v456 = &v456_store;
if v399 {
*v456 = v376;

} else {
let v403 = v369[3];
*v456 = v403;

}
let v404 = *v452;
let v405 = *v456;
let v406 = vec4<bool>(v404[0], v404[1], v404[2], v405);
*v452 = v406;
let v407 = *v452;
let v193 = *v331;
let v194 = v185 > v193;
var<function> v457_store: vec4<bool>;
let v457 = &v457_store;
*v457 = v337;
var<function> v458_store: vec4<bool>;
let v458 = &v458_store;
let v412 = *v457;
*v458 = v412;
let v413 = v194[0];
var<function> v459_store: bool;
let v459 = &v459_store;
if v413 {
let v414 = v407[0];
*v459 = v414;

} else {
*v459 = v336;

}
let v417 = *v458;
let v418 = *v459;
let v419 = vec4<bool>(v418, v417[1], v417[2], v417[3]);
*v458 = v419;
let v420 = v194[1];
var<function> v460_store: bool;
let v460 = &v460_store;
if v420 {
let v421 = v407[1];
*v460 = v421;

} else {
*v460 = v336;

}
let v424 = *v458;
let v425 = *v460;
let v426 = vec4<bool>(v424[0], v425, v424[2], v424[3]);
*v458 = v426;
let v427 = v194[2];
var<function> v461_store: bool;
let v461 = &v461_store;
if v427 {
let v428 = v407[2];
*v461 = v428;

} else {
*v461 = v336;

}
let v431 = *v458;
let v432 = *v461;
let v433 = vec4<bool>(v431[0], v431[1], v432, v431[3]);
*v458 = v433;
let v434 = v194[3];
var<function> v462_store: bool;
let v462 = &v462_store;
if v434 {
let v435 = v407[3];
*v462 = v435;

} else {
*v462 = v336;

}
let v438 = *v458;
let v439 = *v462;
let v440 = vec4<bool>(v438[0], v438[1], v438[2], v439);
*v458 = v440;
let v441 = *v458;
let v196 = *v331;
let v197 = select(v196, v185, v441);
*v331 = v197;
let v198 = *v332;
let v199 = select(v198, v156, v441);
*v332 = v199;

}
let v200 = *v331;
let v201 = v200[0];
var<function> v442_store: u32;
let v442 = &v442_store;
*v442 = v201;
let v203 = *v332;
let v204 = v203[0];
var<function> v443_store: u32;
let v443 = &v443_store;
*v443 = v204;
let v206 = *v331;
let v207 = v206[1];
let v208 = *v332;
let v209 = v208[1];
let v210 = *v442;
let v211 = v207 > v210;
let v213 = v207 == v210;
let v214 = *v443;
let v215 = v209 < v214;
let v216 = v213 && v215;
let v217 = v211 || v216;
let v219 = select(v210, v207, v217);
*v442 = v219;
let v220 = *v443;
let v221 = select(v220, v209, v217);
*v443 = v221;
let v222 = *v331;
let v223 = v222[2];
let v224 = *v332;
let v225 = v224[2];
let v226 = *v442;
let v227 = v223 > v226;
let v229 = v223 == v226;
let v230 = *v443;
let v231 = v225 < v230;
let v232 = v229 && v231;
let v233 = v227 || v232;
let v235 = select(v226, v223, v233);
*v442 = v235;
let v236 = *v443;
let v237 = select(v236, v225, v233);
*v443 = v237;
let v238 = *v331;
let v239 = v238[3];
let v240 = *v332;
let v241 = v240[3];
let v242 = *v442;
let v243 = v239 > v242;
let v245 = v239 == v242;
let v246 = *v443;
let v247 = v241 < v246;
let v248 = v245 && v247;
let v249 = v243 || v248;
let v251 = select(v242, v239, v249);
*v442 = v251;
let v252 = *v443;
let v253 = select(v252, v241, v249);
*v443 = v253;
let v254 = *v442;
let v256 = v254 > v113;
if v256 {
*v328 = v254;
let v258 = *v443;
*v329 = v258;
let v259 = *v443;
let v260 = u32(v259);
let v261 = u32(4);
let v262 = v260 / v261;
let v263 = v28 + v262;
let v267 = v260 % v261;
let v268 = v30 + v118;
let v272 = &(*v597)[v268];
*v272 = v259;
let v277 = &(*v595)[v263];
let v278 = *v277;
let v279 = v278[v267];
let v280 = v24 * v279;
let v285 = &(*v596)[v268];
*v285 = v280;

} else {
let v286 = u32(4);
let v287 = v22 * v286;
let v288 = u32(v287);
let v289 = v30 + v118;
let v293 = &(*v597)[v289];
*v293 = v288;
let v298 = &(*v596)[v289];
*v298 = v31;

}

}

}
return;

}
