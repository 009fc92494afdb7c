@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_raw(@builtin(workgroup_id) v584: vec3<u32>, @builtin(num_workgroups) v586: vec3<u32>, @builtin(local_invocation_index) v593: u32) {
let v623 = &v17;
let v624 = &v13;
let v625 = &v9;
let v626 = &v5;
let v627 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v585 = v584[2];
let v493 = u32(v585);
let v587 = v586[1];
let v495 = u32(v587);
let v496 = v493 * v495;
let v588 = v586[0];
let v498 = u32(v588);
let v499 = v496 * v498;
let v589 = v584[1];
let v501 = u32(v589);
let v504 = v501 * v498;
let v505 = v499 + v504;
let v591 = v584[0];
let v507 = u32(v591);
let v508 = v505 + v507;
let v619 = u32(64);
let v511 = v508 * v619;
let v594 = v593;
let v513 = u32(v594);
let v514 = v511 + v513;
let v26 = v514 < v21;
if v26 {
let v28 = v514 * v22;
let v30 = v514 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v335_store: vec4<f32>;
let v335 = &v335_store;
*v335 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v627)[v40];
let v45 = *v44;
let v46 = *v335;
let v47 = max(v46, v45);
*v335 = v47;

}
let v48 = *v335;
let v49 = v48[0];
var<function> v337_store: f32;
let v337 = &v337_store;
*v337 = v49;
let v51 = *v335;
let v52 = v51[1];
let v53 = *v337;
let v54 = max(v53, v52);
*v337 = v54;
let v55 = *v335;
let v56 = v55[2];
let v57 = *v337;
let v58 = max(v57, v56);
*v337 = v58;
let v59 = *v335;
let v60 = v59[3];
let v61 = *v337;
let v62 = max(v61, v60);
*v337 = v62;
var<function> v338_store: vec4<f32>;
let v338 = &v338_store;
*v338 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v627)[v68];
let v73 = *v72;
let v74 = *v337;
let v75 = vec4<f32>(v74);
let v76 = v73 - v75;
let v77 = bitcast<vec4<u32>>(v76);
let v78 = u32(2147483647);
let v79 = vec4<u32>(v78);
let v80 = v77 & v79;
let v81 = u32(2139095040);
let v82 = vec4<u32>(v81);
let v83 = v80 > v82;
let v84 = exp(v76);
let v85 = select(v84, v76, v83);
let v86 = *v338;
let v87 = v86 + v85;
*v338 = v87;
let v88 = f32(1.0);
let v89 = vec4<f32>(v88);
let v90 = abs(v73);
let v91 = -v90;
let v92 = bitcast<vec4<u32>>(v91);
let v95 = v92 & v79;
let v98 = v95 > v82;
let v99 = exp(v91);
let v100 = select(v99, v91, v98);
let v103 = v73 < v32;
let v104 = select(v89, v100, v103);
let v105 = v89 + v100;
let v106 = v104 / v105;
let v111 = &(*v624)[v68];
*v111 = v106;

}
let v112 = *v338;
var<function> v473_store: f32;
let v473 = &v473_store;
*v473 = v31;
let v343 = v112[0];
let v344 = *v473;
let v345 = v344 + v343;
*v473 = v345;
let v346 = v112[1];
let v347 = *v473;
let v348 = v347 + v346;
*v473 = v348;
let v349 = v112[2];
let v350 = *v473;
let v351 = v350 + v349;
*v473 = v351;
let v352 = v112[3];
let v353 = *v473;
let v354 = v353 + v352;
*v473 = v354;
let v355 = *v473;
let v114 = bitcast<u32>(v355);
let v115 = u32(2147483647);
let v116 = v114 & v115;
let v117 = u32(2139095040);
let v118 = v116 > v117;
let v119 = log(v355);
let v120 = *v337;
let v121 = v120 + v119;
let v122 = bitcast<u32>(v121);
let v123 = select(v122, v114, v118);
let v124 = u32(0);
let v125 = v114 == v124;
let v126 = u32(4286578688);
let v127 = select(v123, v126, v125);
let v128 = bitcast<f32>(v127);
let v133 = &(*v623)[v514];
*v133 = v128;
let v138 = u32(4294967295);
var<function> v357_store: u32;
let v357 = &v357_store;
*v357 = v138;
var<function> v358_store: u32;
let v358 = &v358_store;
*v358 = v124;
for(var v146: u32 = v3; v146 < v23; v146 += v37) {
let v149 = vec4<u32>(v124);
var<function> v360_store: vec4<u32>;
let v360 = &v360_store;
*v360 = v149;
var<function> v361_store: vec4<u32>;
let v361 = &v361_store;
*v361 = v149;
var<function> v362_store: vec4<u32>;
let v362 = &v362_store;
*v362 = v149;
var<function> v363_store: vec4<u32>;
let v363 = &v363_store;
let v158 = *v362;
*v363 = v158;
let v159 = *v363;
let v161 = vec4<u32>(v124, v159[1], v159[2], v159[3]);
*v363 = v161;
let v162 = *v363;
let v163 = u32(1);
let v164 = vec4<u32>(v162[0], v163, v162[2], v162[3]);
*v363 = v164;
let v165 = *v363;
let v166 = u32(2);
let v167 = vec4<u32>(v165[0], v165[1], v166, v165[3]);
*v363 = v167;
let v168 = *v363;
let v169 = u32(3);
let v170 = vec4<u32>(v168[0], v168[1], v168[2], v169);
*v363 = v170;
let v171 = *v357;
let v172 = vec4<u32>(v171);
let v173 = *v358;
let v174 = vec4<u32>(v173);
for(var v177: u32 = v3; v177 < v22; v177 += v37) {
let v179 = u32(4);
let v180 = v177 * v179;
let v181 = u32(v180);
let v182 = vec4<u32>(v181);
let v183 = *v363;
let v184 = v183 + v182;
let v185 = v28 + v177;
let v189 = &(*v627)[v185];
let v190 = *v189;
let v191 = u32(2147483648);
let v192 = vec4<u32>(v191);
let v193 = bitcast<vec4<u32>>(v190);
let v194 = v193 == v192;
let v197 = select(v193, v149, v194);
let v198 = v197 < v192;
let v199 = v197 | v192;
let v200 = ~v197;
let v201 = select(v200, v199, v198);
let v204 = vec4<u32>(v115);
let v205 = v193 & v204;
let v207 = vec4<u32>(v117);
let v208 = v205 > v207;
let v211 = select(v201, v149, v208);
let v213 = vec4<u32>(v163);
let v214 = v211 + v213;
let v217 = v184 > v174;
let v218 = v214 == v172;
let v365 = false;
let v366 = vec4<bool>(v365);
var<function> v474_store: vec4<bool>;
let v474 = &v474_store;
*v474 = v366;
var<function> v475_store: vec4<bool>;
let v475 = &v475_store;
let v369 = *v474;
*v475 = v369;
let v370 = v218[0];
var<function> v476_store: bool;
let v476 = &v476_store;
if v370 {
let v371 = v217[0];
*v476 = v371;

} else {
*v476 = v365;

}
let v374 = *v475;
let v375 = *v476;
let v376 = vec4<bool>(v375, v374[1], v374[2], v374[3]);
*v475 = v376;
let v377 = v218[1];
var<function> v477_store: bool;
let v477 = &v477_store;
if v377 {
let v378 = v217[1];
*v477 = v378;

} else {
*v477 = v365;

}
let v381 = *v475;
let v382 = *v477;
let v383 = vec4<bool>(v381[0], v382, v381[2], v381[3]);
*v475 = v383;
let v384 = v218[2];
var<function> v478_store: bool;
let v478 = &v478_store;
if v384 {
let v385 = v217[2];
*v478 = v385;

} else {
*v478 = v365;

}
let v388 = *v475;
let v389 = *v478;
let v390 = vec4<bool>(v388[0], v388[1], v389, v388[3]);
*v475 = v390;
let v391 = v218[3];
var<function> v479_store: bool;
let v479 = &v479_store;
if v391 {
let v392 = v217[3];
*v479 = v392;

} else {
*v479 = v365;

}
let v395 = *v475;
let v396 = *v479;
let v397 = vec4<bool>(v395[0], v395[1], v395[2], v396);
*v475 = v397;
let v398 = *v475;
let v220 = v214 < v172;
var<function> v480_store: vec4<bool>;
let v480 = &v480_store;
*v480 = v366;
var<function> v481_store: vec4<bool>;
let v481 = &v481_store;
let v403 = *v480;
*v481 = v403;
let v404 = v220[0];
let v405 = true;
var<function> v482_store: bool;
let v482 = &v482_store;
if v404 {
*v482 = v405;

} else {
let v408 = v398[0];
*v482 = v408;

}
let v409 = *v481;
let v410 = *v482;
let v411 = vec4<bool>(v410, v409[1], v409[2], v409[3]);
*v481 = v411;
let v412 = v220[1];
var<function> v483_store: bool;
let v483 = &v483_store;
if v412 {
*v483 = v405;

} else {
let v416 = v398[1];
*v483 = v416;

}
let v417 = *v481;
let v418 = *v483;
let v419 = vec4<bool>(v417[0], v418, v417[2], v417[3]);
*v481 = v419;
let v420 = v220[2];
var<function> v484_store: bool;
let v484 = &v484_store;
if v420 {
*v484 = v405;

} else {
let v424 = v398[2];
*v484 = v424;

}
let v425 = *v481;
let v426 = *v484;
let v427 = vec4<bool>(v425[0], v425[1], v426, v425[3]);
*v481 = v427;
let v428 = v220[3];
var<function> v485_store: bool;
let v485 = &v485_store;
if v428 {
*v485 = v405;

} else {
let v432 = v398[3];
*v485 = v432;

}
let v433 = *v481;
let v434 = *v485;
let v435 = vec4<bool>(v433[0], v433[1], v433[2], v434);
*v481 = v435;
let v436 = *v481;
let v222 = *v360;
let v223 = v214 > v222;
var<function> v486_store: vec4<bool>;
let v486 = &v486_store;
*v486 = v366;
var<function> v487_store: vec4<bool>;
let v487 = &v487_store;
let v441 = *v486;
*v487 = v441;
let v442 = v223[0];
var<function> v488_store: bool;
let v488 = &v488_store;
if v442 {
let v443 = v436[0];
*v488 = v443;

} else {
*v488 = v365;

}
let v446 = *v487;
let v447 = *v488;
let v448 = vec4<bool>(v447, v446[1], v446[2], v446[3]);
*v487 = v448;
let v449 = v223[1];
var<function> v489_store: bool;
let v489 = &v489_store;
if v449 {
let v450 = v436[1];
*v489 = v450;

} else {
*v489 = v365;

}
let v453 = *v487;
let v454 = *v489;
let v455 = vec4<bool>(v453[0], v454, v453[2], v453[3]);
*v487 = v455;
let v456 = v223[2];
var<function> v490_store: bool;
let v490 = &v490_store;
if v456 {
let v457 = v436[2];
*v490 = v457;

} else {
*v490 = v365;

}
let v460 = *v487;
let v461 = *v490;
let v462 = vec4<bool>(v460[0], v460[1], v461, v460[3]);
*v487 = v462;
let v463 = v223[3];
var<function> v491_store: bool;
let v491 = &v491_store;
if v463 {
let v464 = v436[3];
*v491 = v464;

} else {
*v491 = v365;

}
let v467 = *v487;
let v468 = *v491;
let v469 = vec4<bool>(v467[0], v467[1], v467[2], v468);
*v487 = v469;
let v470 = *v487;
let v225 = *v360;
let v226 = select(v225, v214, v470);
*v360 = v226;
let v227 = *v361;
let v228 = select(v227, v184, v470);
*v361 = v228;

}
let v229 = *v360;
let v230 = v229[0];
var<function> v471_store: u32;
let v471 = &v471_store;
*v471 = v230;
let v232 = *v361;
let v233 = v232[0];
var<function> v472_store: u32;
let v472 = &v472_store;
*v472 = v233;
let v235 = *v360;
let v236 = v235[1];
let v237 = *v361;
let v238 = v237[1];
let v239 = *v471;
let v240 = v236 > v239;
let v242 = v236 == v239;
let v243 = *v472;
let v244 = v238 < v243;
let v245 = v242 && v244;
let v246 = v240 || v245;
let v248 = select(v239, v236, v246);
*v471 = v248;
let v249 = *v472;
let v250 = select(v249, v238, v246);
*v472 = v250;
let v251 = *v360;
let v252 = v251[2];
let v253 = *v361;
let v254 = v253[2];
let v255 = *v471;
let v256 = v252 > v255;
let v258 = v252 == v255;
let v259 = *v472;
let v260 = v254 < v259;
let v261 = v258 && v260;
let v262 = v256 || v261;
let v264 = select(v255, v252, v262);
*v471 = v264;
let v265 = *v472;
let v266 = select(v265, v254, v262);
*v472 = v266;
let v267 = *v360;
let v268 = v267[3];
let v269 = *v361;
let v270 = v269[3];
let v271 = *v471;
let v272 = v268 > v271;
let v274 = v268 == v271;
let v275 = *v472;
let v276 = v270 < v275;
let v277 = v274 && v276;
let v278 = v272 || v277;
let v280 = select(v271, v268, v278);
*v471 = v280;
let v281 = *v472;
let v282 = select(v281, v270, v278);
*v472 = v282;
let v283 = *v471;
let v285 = v283 > v124;
if v285 {
*v357 = v283;
let v287 = *v472;
*v358 = v287;
let v288 = *v472;
let v289 = u32(v288);
let v290 = u32(4);
let v291 = v289 / v290;
let v292 = v28 + v291;
let v296 = v289 % v290;
let v297 = v30 + v146;
let v301 = &(*v626)[v297];
*v301 = v288;
let v306 = &(*v624)[v292];
let v307 = *v306;
let v308 = v307[v296];
let v309 = v24 * v308;
let v314 = &(*v625)[v297];
*v314 = v309;

} else {
let v315 = u32(4);
let v316 = v22 * v315;
let v317 = u32(v316);
let v318 = v30 + v146;
let v322 = &(*v626)[v318];
*v322 = v317;
let v327 = &(*v625)[v318];
*v327 = v31;

}

}

}
return;

}
