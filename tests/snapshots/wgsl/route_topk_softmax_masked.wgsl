@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_masked(@builtin(workgroup_id) v682: vec3<u32>, @builtin(num_workgroups) v684: vec3<u32>, @builtin(local_invocation_index) v691: u32) {
let v721 = &v21;
let v722 = &v17;
let v723 = &v13;
let v724 = &v9;
let v725 = &v5;
let v726 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v683 = v682[2];
let v591 = u32(v683);
let v685 = v684[1];
let v593 = u32(v685);
let v594 = v591 * v593;
let v686 = v684[0];
let v596 = u32(v686);
let v597 = v594 * v596;
let v687 = v682[1];
let v599 = u32(v687);
let v602 = v599 * v596;
let v603 = v597 + v602;
let v689 = v682[0];
let v605 = u32(v689);
let v606 = v603 + v605;
let v717 = u32(64);
let v609 = v606 * v717;
let v692 = v691;
let v611 = u32(v692);
let v612 = v609 + v611;
let v30 = v612 < v25;
if v30 {
let v32 = v612 * v26;
let v34 = v612 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v427_store: vec4<f32>;
let v427 = &v427_store;
*v427 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v726)[v44];
let v49 = *v48;
let v53 = &(*v725)[v42];
let v54 = u32(0);
let v55 = vec4<u32>(v54);
let v56 = *v53;
let v57 = v56 != v55;
let v58 = select(v38, v49, v57);
let v59 = *v427;
let v60 = max(v59, v58);
*v427 = v60;

}
let v61 = *v427;
let v62 = v61[0];
var<function> v429_store: f32;
let v429 = &v429_store;
*v429 = v62;
let v64 = *v427;
let v65 = v64[1];
let v66 = *v429;
let v67 = max(v66, v65);
*v429 = v67;
let v68 = *v427;
let v69 = v68[2];
let v70 = *v429;
let v71 = max(v70, v69);
*v429 = v71;
let v72 = *v427;
let v73 = v72[3];
let v74 = *v429;
let v75 = max(v74, v73);
*v429 = v75;
var<function> v430_store: vec4<f32>;
let v430 = &v430_store;
*v430 = v36;
for(var v79: u32 = v3; v79 < v26; v79 += v41) {
let v81 = v32 + v79;
let v85 = &(*v726)[v81];
let v86 = *v85;
let v87 = *v429;
let v88 = vec4<f32>(v87);
let v89 = v86 - v88;
let v90 = exp(v89);
let v94 = &(*v725)[v79];
let v95 = u32(0);
let v96 = vec4<u32>(v95);
let v97 = *v94;
let v98 = v97 != v96;
let v99 = select(v36, v90, v98);
let v100 = *v430;
let v101 = v100 + v99;
*v430 = v101;
let v106 = &(*v722)[v81];
*v106 = v99;

}
let v107 = *v430;
var<function> v571_store: f32;
let v571 = &v571_store;
*v571 = v35;
let v435 = v107[0];
let v436 = *v571;
let v437 = v436 + v435;
*v571 = v437;
let v438 = v107[1];
let v439 = *v571;
let v440 = v439 + v438;
*v571 = v440;
let v441 = v107[2];
let v442 = *v571;
let v443 = v442 + v441;
*v571 = v443;
let v444 = v107[3];
let v445 = *v571;
let v446 = v445 + v444;
*v571 = v446;
let v447 = *v571;
for(var v111: u32 = v3; v111 < v26; v111 += v41) {
let v113 = v32 + v111;
let v117 = &(*v722)[v113];
let v118 = *v117;
let v119 = vec4<f32>(v447);
let v120 = v118 / v119;
let v124 = &(*v725)[v111];
let v125 = u32(0);
let v126 = vec4<u32>(v125);
let v127 = *v124;
let v128 = v127 != v126;
let v129 = select(v36, v120, v128);
*v117 = v129;

}
let v135 = log(v447);
let v136 = *v429;
let v137 = v136 + v135;
let v142 = &(*v721)[v612];
*v142 = v137;
let v147 = u32(4294967295);
var<function> v450_store: u32;
let v450 = &v450_store;
*v450 = v147;
let v150 = u32(0);
var<function> v451_store: u32;
let v451 = &v451_store;
*v451 = v150;
for(var v155: u32 = v3; v155 < v27; v155 += v41) {
let v158 = vec4<u32>(v150);
var<function> v453_store: vec4<u32>;
let v453 = &v453_store;
*v453 = v158;
var<function> v454_store: vec4<u32>;
let v454 = &v454_store;
*v454 = v158;
var<function> v455_store: vec4<u32>;
let v455 = &v455_store;
*v455 = v158;
var<function> v456_store: vec4<u32>;
let v456 = &v456_store;
let v167 = *v455;
*v456 = v167;
let v168 = *v456;
let v170 = vec4<u32>(v150, v168[1], v168[2], v168[3]);
*v456 = v170;
let v171 = *v456;
let v172 = u32(1);
let v173 = vec4<u32>(v171[0], v172, v171[2], v171[3]);
*v456 = v173;
let v174 = *v456;
let v175 = u32(2);
let v176 = vec4<u32>(v174[0], v174[1], v175, v174[3]);
*v456 = v176;
let v177 = *v456;
let v178 = u32(3);
let v179 = vec4<u32>(v177[0], v177[1], v177[2], v178);
*v456 = v179;
let v180 = *v450;
let v181 = vec4<u32>(v180);
let v182 = *v451;
let v183 = vec4<u32>(v182);
for(var v186: u32 = v3; v186 < v26; v186 += v41) {
let v188 = u32(4);
let v189 = v186 * v188;
let v190 = u32(v189);
let v191 = vec4<u32>(v190);
let v192 = *v456;
let v193 = v192 + v191;
let v194 = v32 + v186;
let v198 = &(*v726)[v194];
let v199 = *v198;
let v200 = u32(2147483648);
let v201 = vec4<u32>(v200);
let v202 = bitcast<vec4<u32>>(v199);
let v203 = v202 == v201;
let v206 = select(v202, v158, v203);
let v207 = v206 < v201;
let v208 = v206 | v201;
let v209 = ~v206;
let v210 = select(v209, v208, v207);
let v211 = u32(2147483647);
let v212 = vec4<u32>(v211);
let v213 = v206 & v212;
let v214 = u32(2139095040);
let v215 = vec4<u32>(v214);
let v216 = v213 > v215;
let v219 = select(v210, v158, v216);
let v221 = vec4<u32>(v172);
let v222 = v219 + v221;
let v228 = &(*v725)[v186];
let v231 = *v228;
let v232 = v231 != v158;
let v233 = select(v158, v222, v232);
let v234 = v193 > v183;
let v235 = v233 == v181;
let v458 = false;
let v459 = vec4<bool>(v458);
var<function> v572_store: vec4<bool>;
let v572 = &v572_store;
*v572 = v459;
var<function> v573_store: vec4<bool>;
let v573 = &v573_store;
let v462 = *v572;
*v573 = v462;
let v463 = v235[0];
var<function> v574_store: bool;
let v574 = &v574_store;
if v463 {
let v464 = v234[0];
*v574 = v464;

} else {
*v574 = v458;

}
let v467 = *v573;
let v468 = *v574;
let v469 = vec4<bool>(v468, v467[1], v467[2], v467[3]);
*v573 = v469;
let v470 = v235[1];
var<function> v575_store: bool;
let v575 = &v575_store;
if v470 {
let v471 = v234[1];
*v575 = v471;

} else {
*v575 = v458;

}
let v474 = *v573;
let v475 = *v575;
let v476 = vec4<bool>(v474[0], v475, v474[2], v474[3]);
*v573 = v476;
let v477 = v235[2];
var<function> v576_store: bool;
let v576 = &v576_store;
if v477 {
let v478 = v234[2];
*v576 = v478;

} else {
*v576 = v458;

}
let v481 = *v573;
let v482 = *v576;
let v483 = vec4<bool>(v481[0], v481[1], v482, v481[3]);
*v573 = v483;
let v484 = v235[3];
var<function> v577_store: bool;
let v577 = &v577_store;
if v484 {
let v485 = v234[3];
*v577 = v485;

} else {
*v577 = v458;

}
let v488 = *v573;
let v489 = *v577;
let v490 = vec4<bool>(v488[0], v488[1], v488[2], v489);
*v573 = v490;
let v491 = *v573;
let v237 = v233 < v181;
var<function> v578_store: vec4<bool>;
let v578 = &v578_store;
*v578 = v459;
var<function> v579_store: vec4<bool>;
let v579 = &v579_store;
let v496 = *v578;
*v579 = v496;
let v497 = v237[0];
let v498 = true;
var<function> v580_store: bool;
let v580 = &v580_store;
if v497 {
*v580 = v498;

} else {
let v501 = v491[0];
*v580 = v501;

}
let v502 = *v579;
let v503 = *v580;
let v504 = vec4<bool>(v503, v502[1], v502[2], v502[3]);
*v579 = v504;
let v505 = v237[1];
var<function> v581_store: bool;
let v581 = &v581_store;
if v505 {
*v581 = v498;

} else {
let v509 = v491[1];
*v581 = v509;

}
let v510 = *v579;
let v511 = *v581;
let v512 = vec4<bool>(v510[0], v511, v510[2], v510[3]);
*v579 = v512;
let v513 = v237[2];
var<function> v582_store: bool;
let v582 = &v582_store;
if v513 {
*v582 = v498;

} else {
let v517 = v491[2];
*v582 = v517;

}
let v518 = *v579;
let v519 = *v582;
let v520 = vec4<bool>(v518[0], v518[1], v519, v518[3]);
*v579 = v520;
let v521 = v237[3];
var<function> v583_store: bool;
let v583 = &v583_store;
if v521 {
*v583 = v498;

} else {
let v525 = v491[3];
*v583 = v525;

}
let v526 = *v579;
let v527 = *v583;
let v528 = vec4<bool>(v526[0], v526[1], v526[2], v527);
*v579 = v528;
let v529 = *v579;
let v239 = *v453;
let v240 = v233 > v239;
var<function> v584_store: vec4<bool>;
let v584 = &v584_store;
*v584 = v459;
var<function> v585_store: vec4<bool>;
let v585 = &v585_store;
let v534 = *v584;
*v585 = v534;
let v535 = v240[0];
var<function> v586_store: bool;
let v586 = &v586_store;
if v535 {
let v536 = v529[0];
*v586 = v536;

} else {
*v586 = v458;

}
let v539 = *v585;
let v540 = *v586;
let v541 = vec4<bool>(v540, v539[1], v539[2], v539[3]);
*v585 = v541;
let v542 = v240[1];
var<function> v587_store: bool;
let v587 = &v587_store;
if v542 {
let v543 = v529[1];
*v587 = v543;

} else {
*v587 = v458;

}
let v546 = *v585;
let v547 = *v587;
let v548 = vec4<bool>(v546[0], v547, v546[2], v546[3]);
*v585 = v548;
let v549 = v240[2];
var<function> v588_store: bool;
let v588 = &v588_store;
if v549 {
let v550 = v529[2];
*v588 = v550;

} else {
*v588 = v458;

}
let v553 = *v585;
let v554 = *v588;
let v555 = vec4<bool>(v553[0], v553[1], v554, v553[3]);
*v585 = v555;
let v556 = v240[3];
var<function> v589_store: bool;
let v589 = &v589_store;
if v556 {
let v557 = v529[3];
*v589 = v557;

} else {
*v589 = v458;

}
let v560 = *v585;
let v561 = *v589;
let v562 = vec4<bool>(v560[0], v560[1], v560[2], v561);
*v585 = v562;
let v563 = *v585;
let v242 = *v453;
let v243 = select(v242, v233, v563);
*v453 = v243;
let v244 = *v454;
let v245 = select(v244, v193, v563);
*v454 = v245;

}
let v246 = *v453;
let v247 = v246[0];
var<function> v564_store: u32;
let v564 = &v564_store;
*v564 = v247;
let v249 = *v454;
let v250 = v249[0];
var<function> v565_store: u32;
let v565 = &v565_store;
*v565 = v250;
let v252 = *v453;
let v253 = v252[1];
let v254 = *v454;
let v255 = v254[1];
let v256 = *v564;
let v257 = v253 > v256;
let v259 = v253 == v256;
let v260 = *v565;
let v261 = v255 < v260;
let v262 = v259 && v261;
let v263 = v257 || v262;
let v265 = select(v256, v253, v263);
*v564 = v265;
let v266 = *v565;
let v267 = select(v266, v255, v263);
*v565 = v267;
let v268 = *v453;
let v269 = v268[2];
let v270 = *v454;
let v271 = v270[2];
let v272 = *v564;
let v273 = v269 > v272;
let v275 = v269 == v272;
let v276 = *v565;
let v277 = v271 < v276;
let v278 = v275 && v277;
let v279 = v273 || v278;
let v281 = select(v272, v269, v279);
*v564 = v281;
let v282 = *v565;
let v283 = select(v282, v271, v279);
*v565 = v283;
let v284 = *v453;
let v285 = v284[3];
let v286 = *v454;
let v287 = v286[3];
let v288 = *v564;
let v289 = v285 > v288;
let v291 = v285 == v288;
let v292 = *v565;
let v293 = v287 < v292;
let v294 = v291 && v293;
let v295 = v289 || v294;
let v297 = select(v288, v285, v295);
*v564 = v297;
let v298 = *v565;
let v299 = select(v298, v287, v295);
*v565 = v299;
let v300 = *v564;
let v302 = v300 > v150;
if v302 {
*v450 = v300;
let v304 = *v565;
*v451 = v304;
let v305 = *v565;
let v306 = u32(v305);
let v307 = u32(4);
let v308 = v306 / v307;
let v309 = v32 + v308;
let v313 = v306 % v307;
let v314 = v34 + v155;
let v318 = &(*v724)[v314];
*v318 = v305;
let v323 = &(*v726)[v309];
let v324 = *v323;
let v325 = v324[v313];
let v330 = &(*v723)[v314];
*v330 = v325;

} else {
let v331 = u32(4);
let v332 = v26 * v331;
let v333 = u32(v332);
let v334 = v34 + v155;
let v338 = &(*v724)[v334];
*v338 = v333;
let v343 = &(*v723)[v334];
*v343 = v35;

}

}
let v345 = u32(4);
let v346 = v26 * v345;
let v347 = u32(v346);
let v348 = v34 + v27;
let v352 = &(*v723)[v34];
let v353 = *v352;
var<function> v566_store: f32;
let v566 = &v566_store;
*v566 = v353;
let v356 = v34 + v41;
for(var v358: u32 = v356; v358 < v348; v358 += v41) {
let v363 = &(*v724)[v358];
let v364 = *v363;
let v365 = v364 < v347;
if v365 {
let v369 = &(*v723)[v358];
let v370 = *v369;
let v371 = *v566;
let v372 = max(v371, v370);
*v566 = v372;

}

}
var<function> v568_store: f32;
let v568 = &v568_store;
*v568 = v35;
for(var v377: u32 = v34; v377 < v348; v377 += v41) {
let v382 = &(*v724)[v377];
let v383 = *v382;
let v384 = v383 < v347;
if v384 {
let v388 = &(*v723)[v377];
let v389 = *v388;
let v390 = *v566;
let v391 = v389 - v390;
let v392 = exp(v391);
*v388 = v392;
let v397 = *v568;
let v398 = v397 + v392;
*v568 = v398;

}

}
for(var v400: u32 = v34; v400 < v348; v400 += v41) {
let v405 = &(*v724)[v400];
let v406 = *v405;
let v407 = v406 < v347;
if v407 {
let v411 = &(*v723)[v400];
let v412 = *v411;
let v413 = *v568;
let v414 = v412 / v413;
let v415 = v28 * v414;
*v411 = v415;

}

}

}
return;

}
