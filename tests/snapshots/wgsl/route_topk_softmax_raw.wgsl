@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_raw(@builtin(workgroup_id) v562: vec3<u32>, @builtin(num_workgroups) v564: vec3<u32>, @builtin(local_invocation_index) v571: u32) {
let v601 = &v17;
let v602 = &v13;
let v603 = &v9;
let v604 = &v5;
let v605 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v563 = v562[2];
let v471 = u32(v563);
let v565 = v564[1];
let v473 = u32(v565);
let v474 = v471 * v473;
let v566 = v564[0];
let v476 = u32(v566);
let v477 = v474 * v476;
let v567 = v562[1];
let v479 = u32(v567);
let v482 = v479 * v476;
let v483 = v477 + v482;
let v569 = v562[0];
let v485 = u32(v569);
let v486 = v483 + v485;
let v597 = u32(64);
let v489 = v486 * v597;
let v572 = v571;
let v491 = u32(v572);
let v492 = v489 + v491;
let v26 = v492 < v21;
if v26 {
let v28 = v492 * v22;
let v30 = v492 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v312_store: vec4<f32>;
let v312 = &v312_store;
*v312 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v605)[v40];
let v45 = *v44;
let v46 = *v312;
let v47 = max(v46, v45);
*v312 = v47;

}
let v48 = *v312;
let v49 = v48[0];
var<function> v314_store: f32;
let v314 = &v314_store;
*v314 = v49;
let v51 = *v312;
let v52 = v51[1];
let v53 = *v314;
let v54 = max(v53, v52);
*v314 = v54;
let v55 = *v312;
let v56 = v55[2];
let v57 = *v314;
let v58 = max(v57, v56);
*v314 = v58;
let v59 = *v312;
let v60 = v59[3];
let v61 = *v314;
let v62 = max(v61, v60);
*v314 = v62;
var<function> v315_store: vec4<f32>;
let v315 = &v315_store;
*v315 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v605)[v68];
let v73 = *v72;
let v74 = *v314;
let v75 = vec4<f32>(v74);
let v76 = v73 - v75;
let v77 = exp(v76);
let v78 = *v315;
let v79 = v78 + v77;
*v315 = v79;
let v84 = &(*v602)[v68];
*v84 = v77;

}
let v85 = *v315;
var<function> v451_store: f32;
let v451 = &v451_store;
*v451 = v31;
let v320 = v85[0];
let v321 = *v451;
let v322 = v321 + v320;
*v451 = v322;
let v323 = v85[1];
let v324 = *v451;
let v325 = v324 + v323;
*v451 = v325;
let v326 = v85[2];
let v327 = *v451;
let v328 = v327 + v326;
*v451 = v328;
let v329 = v85[3];
let v330 = *v451;
let v331 = v330 + v329;
*v451 = v331;
let v332 = *v451;
for(var v89: u32 = v3; v89 < v22; v89 += v37) {
let v91 = v28 + v89;
let v95 = &(*v602)[v91];
let v96 = *v95;
let v97 = vec4<f32>(v332);
let v98 = v96 / v97;
*v95 = v98;

}
let v104 = log(v332);
let v105 = *v314;
let v106 = v105 + v104;
let v111 = &(*v601)[v492];
*v111 = v106;
let v116 = u32(4294967295);
var<function> v335_store: u32;
let v335 = &v335_store;
*v335 = v116;
let v119 = u32(0);
var<function> v336_store: u32;
let v336 = &v336_store;
*v336 = v119;
for(var v124: u32 = v3; v124 < v23; v124 += v37) {
let v127 = vec4<u32>(v119);
var<function> v338_store: vec4<u32>;
let v338 = &v338_store;
*v338 = v127;
var<function> v339_store: vec4<u32>;
let v339 = &v339_store;
*v339 = v127;
var<function> v340_store: vec4<u32>;
let v340 = &v340_store;
*v340 = v127;
var<function> v341_store: vec4<u32>;
let v341 = &v341_store;
let v136 = *v340;
*v341 = v136;
let v137 = *v341;
let v139 = vec4<u32>(v119, v137[1], v137[2], v137[3]);
*v341 = v139;
let v140 = *v341;
let v141 = u32(1);
let v142 = vec4<u32>(v140[0], v141, v140[2], v140[3]);
*v341 = v142;
let v143 = *v341;
let v144 = u32(2);
let v145 = vec4<u32>(v143[0], v143[1], v144, v143[3]);
*v341 = v145;
let v146 = *v341;
let v147 = u32(3);
let v148 = vec4<u32>(v146[0], v146[1], v146[2], v147);
*v341 = v148;
let v149 = *v335;
let v150 = vec4<u32>(v149);
let v151 = *v336;
let v152 = vec4<u32>(v151);
for(var v155: u32 = v3; v155 < v22; v155 += v37) {
let v157 = u32(4);
let v158 = v155 * v157;
let v159 = u32(v158);
let v160 = vec4<u32>(v159);
let v161 = *v341;
let v162 = v161 + v160;
let v163 = v28 + v155;
let v167 = &(*v605)[v163];
let v168 = *v167;
let v169 = u32(2147483648);
let v170 = vec4<u32>(v169);
let v171 = bitcast<vec4<u32>>(v168);
let v172 = v171 == v170;
let v175 = select(v171, v127, v172);
let v176 = v175 < v170;
let v177 = v175 | v170;
let v178 = ~v175;
let v179 = select(v178, v177, v176);
let v180 = u32(2147483647);
let v181 = vec4<u32>(v180);
let v182 = v175 & v181;
let v183 = u32(2139095040);
let v184 = vec4<u32>(v183);
let v185 = v182 > v184;
let v188 = select(v179, v127, v185);
let v190 = vec4<u32>(v141);
let v191 = v188 + v190;
let v194 = v162 > v152;
let v195 = v191 == v150;
let v343 = false;
let v344 = vec4<bool>(v343);
var<function> v452_store: vec4<bool>;
let v452 = &v452_store;
*v452 = v344;
var<function> v453_store: vec4<bool>;
let v453 = &v453_store;
let v347 = *v452;
*v453 = v347;
let v348 = v195[0];
var<function> v454_store: bool;
let v454 = &v454_store;
if v348 {
let v349 = v194[0];
*v454 = v349;

} else {
*v454 = v343;

}
let v352 = *v453;
let v353 = *v454;
let v354 = vec4<bool>(v353, v352[1], v352[2], v352[3]);
*v453 = v354;
let v355 = v195[1];
var<function> v455_store: bool;
let v455 = &v455_store;
if v355 {
let v356 = v194[1];
*v455 = v356;

} else {
*v455 = v343;

}
let v359 = *v453;
let v360 = *v455;
let v361 = vec4<bool>(v359[0], v360, v359[2], v359[3]);
*v453 = v361;
let v362 = v195[2];
var<function> v456_store: bool;
let v456 = &v456_store;
if v362 {
let v363 = v194[2];
*v456 = v363;

} else {
*v456 = v343;

}
let v366 = *v453;
let v367 = *v456;
let v368 = vec4<bool>(v366[0], v366[1], v367, v366[3]);
*v453 = v368;
let v369 = v195[3];
var<function> v457_store: bool;
let v457 = &v457_store;
if v369 {
let v370 = v194[3];
*v457 = v370;

} else {
*v457 = v343;

}
let v373 = *v453;
let v374 = *v457;
let v375 = vec4<bool>(v373[0], v373[1], v373[2], v374);
*v453 = v375;
let v376 = *v453;
let v197 = v191 < v150;
var<function> v458_store: vec4<bool>;
let v458 = &v458_store;
*v458 = v344;
var<function> v459_store: vec4<bool>;
let v459 = &v459_store;
let v381 = *v458;
*v459 = v381;
let v382 = v197[0];
let v383 = true;
var<function> v460_store: bool;
let v460 = &v460_store;
if v382 {
*v460 = v383;

} else {
let v386 = v376[0];
*v460 = v386;

}
let v387 = *v459;
let v388 = *v460;
let v389 = vec4<bool>(v388, v387[1], v387[2], v387[3]);
*v459 = v389;
let v390 = v197[1];
var<function> v461_store: bool;
let v461 = &v461_store;
if v390 {
*v461 = v383;

} else {
let v394 = v376[1];
*v461 = v394;

}
let v395 = *v459;
let v396 = *v461;
let v397 = vec4<bool>(v395[0], v396, v395[2], v395[3]);
*v459 = v397;
let v398 = v197[2];
var<function> v462_store: bool;
let v462 = &v462_store;
if v398 {
*v462 = v383;

} else {
let v402 = v376[2];
*v462 = v402;

}
let v403 = *v459;
let v404 = *v462;
let v405 = vec4<bool>(v403[0], v403[1], v404, v403[3]);
*v459 = v405;
let v406 = v197[3];
var<function> v463_store: bool;
let v463 = &v463_store;
if v406 {
*v463 = v383;

} else {
let v410 = v376[3];
*v463 = v410;

}
let v411 = *v459;
let v412 = *v463;
let v413 = vec4<bool>(v411[0], v411[1], v411[2], v412);
*v459 = v413;
let v414 = *v459;
let v199 = *v338;
let v200 = v191 > v199;
var<function> v464_store: vec4<bool>;
let v464 = &v464_store;
*v464 = v344;
var<function> v465_store: vec4<bool>;
let v465 = &v465_store;
let v419 = *v464;
*v465 = v419;
let v420 = v200[0];
var<function> v466_store: bool;
let v466 = &v466_store;
if v420 {
let v421 = v414[0];
*v466 = v421;

} else {
*v466 = v343;

}
let v424 = *v465;
let v425 = *v466;
let v426 = vec4<bool>(v425, v424[1], v424[2], v424[3]);
*v465 = v426;
let v427 = v200[1];
var<function> v467_store: bool;
let v467 = &v467_store;
if v427 {
let v428 = v414[1];
*v467 = v428;

} else {
*v467 = v343;

}
let v431 = *v465;
let v432 = *v467;
let v433 = vec4<bool>(v431[0], v432, v431[2], v431[3]);
*v465 = v433;
let v434 = v200[2];
var<function> v468_store: bool;
let v468 = &v468_store;
if v434 {
let v435 = v414[2];
*v468 = v435;

} else {
*v468 = v343;

}
let v438 = *v465;
let v439 = *v468;
let v440 = vec4<bool>(v438[0], v438[1], v439, v438[3]);
*v465 = v440;
let v441 = v200[3];
var<function> v469_store: bool;
let v469 = &v469_store;
if v441 {
let v442 = v414[3];
*v469 = v442;

} else {
*v469 = v343;

}
let v445 = *v465;
let v446 = *v469;
let v447 = vec4<bool>(v445[0], v445[1], v445[2], v446);
*v465 = v447;
let v448 = *v465;
let v202 = *v338;
let v203 = select(v202, v191, v448);
*v338 = v203;
let v204 = *v339;
let v205 = select(v204, v162, v448);
*v339 = v205;

}
let v206 = *v338;
let v207 = v206[0];
var<function> v449_store: u32;
let v449 = &v449_store;
*v449 = v207;
let v209 = *v339;
let v210 = v209[0];
var<function> v450_store: u32;
let v450 = &v450_store;
*v450 = v210;
let v212 = *v338;
let v213 = v212[1];
let v214 = *v339;
let v215 = v214[1];
let v216 = *v449;
let v217 = v213 > v216;
let v219 = v213 == v216;
let v220 = *v450;
let v221 = v215 < v220;
let v222 = v219 && v221;
let v223 = v217 || v222;
let v225 = select(v216, v213, v223);
*v449 = v225;
let v226 = *v450;
let v227 = select(v226, v215, v223);
*v450 = v227;
let v228 = *v338;
let v229 = v228[2];
let v230 = *v339;
let v231 = v230[2];
let v232 = *v449;
let v233 = v229 > v232;
let v235 = v229 == v232;
let v236 = *v450;
let v237 = v231 < v236;
let v238 = v235 && v237;
let v239 = v233 || v238;
let v241 = select(v232, v229, v239);
*v449 = v241;
let v242 = *v450;
let v243 = select(v242, v231, v239);
*v450 = v243;
let v244 = *v338;
let v245 = v244[3];
let v246 = *v339;
let v247 = v246[3];
let v248 = *v449;
let v249 = v245 > v248;
let v251 = v245 == v248;
let v252 = *v450;
let v253 = v247 < v252;
let v254 = v251 && v253;
let v255 = v249 || v254;
let v257 = select(v248, v245, v255);
*v449 = v257;
let v258 = *v450;
let v259 = select(v258, v247, v255);
*v450 = v259;
let v260 = *v449;
let v262 = v260 > v119;
if v262 {
*v335 = v260;
let v264 = *v450;
*v336 = v264;
let v265 = *v450;
let v266 = u32(v265);
let v267 = u32(4);
let v268 = v266 / v267;
let v269 = v28 + v268;
let v273 = v266 % v267;
let v274 = v30 + v124;
let v278 = &(*v604)[v274];
*v278 = v265;
let v283 = &(*v602)[v269];
let v284 = *v283;
let v285 = v284[v273];
let v286 = v24 * v285;
let v291 = &(*v603)[v274];
*v291 = v286;

} else {
let v292 = u32(4);
let v293 = v22 * v292;
let v294 = u32(v293);
let v295 = v30 + v124;
let v299 = &(*v604)[v295];
*v299 = v294;
let v304 = &(*v603)[v295];
*v304 = v31;

}

}

}
return;

}
