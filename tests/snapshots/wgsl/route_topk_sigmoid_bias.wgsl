@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_bias(@builtin(workgroup_id) v683: vec3<u32>, @builtin(num_workgroups) v685: vec3<u32>, @builtin(local_invocation_index) v692: u32) {
let v722 = &v21;
let v723 = &v17;
let v724 = &v13;
let v725 = &v9;
let v726 = &v5;
let v727 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v684 = v683[2];
let v592 = u32(v684);
let v686 = v685[1];
let v594 = u32(v686);
let v595 = v592 * v594;
let v687 = v685[0];
let v597 = u32(v687);
let v598 = v595 * v597;
let v688 = v683[1];
let v600 = u32(v688);
let v603 = v600 * v597;
let v604 = v598 + v603;
let v690 = v683[0];
let v606 = u32(v690);
let v607 = v604 + v606;
let v718 = u32(64);
let v610 = v607 * v718;
let v693 = v692;
let v612 = u32(v693);
let v613 = v610 + v612;
let v30 = v613 < v25;
if v30 {
let v32 = v613 * v26;
let v34 = v613 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v429_store: vec4<f32>;
let v429 = &v429_store;
*v429 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v727)[v44];
let v49 = *v48;
let v50 = *v429;
let v51 = max(v50, v49);
*v429 = v51;

}
let v52 = *v429;
let v53 = v52[0];
var<function> v431_store: f32;
let v431 = &v431_store;
*v431 = v53;
let v55 = *v429;
let v56 = v55[1];
let v57 = *v431;
let v58 = max(v57, v56);
*v431 = v58;
let v59 = *v429;
let v60 = v59[2];
let v61 = *v431;
let v62 = max(v61, v60);
*v431 = v62;
let v63 = *v429;
let v64 = v63[3];
let v65 = *v431;
let v66 = max(v65, v64);
*v431 = v66;
var<function> v432_store: vec4<f32>;
let v432 = &v432_store;
*v432 = v36;
for(var v70: u32 = v3; v70 < v26; v70 += v41) {
let v72 = v32 + v70;
let v76 = &(*v727)[v72];
let v77 = *v76;
let v78 = *v431;
let v79 = vec4<f32>(v78);
let v80 = v77 - v79;
let v81 = bitcast<vec4<u32>>(v80);
let v82 = u32(2147483647);
let v83 = vec4<u32>(v82);
let v84 = v81 & v83;
let v85 = u32(2139095040);
let v86 = vec4<u32>(v85);
let v87 = v84 > v86;
let v88 = exp(v80);
let v89 = select(v88, v80, v87);
let v90 = *v432;
let v91 = v90 + v89;
*v432 = v91;
let v92 = f32(1.0);
let v93 = vec4<f32>(v92);
let v94 = abs(v77);
let v95 = -v94;
let v96 = bitcast<vec4<u32>>(v95);
let v99 = v96 & v83;
let v102 = v99 > v86;
let v103 = exp(v95);
let v104 = select(v103, v95, v102);
let v107 = v77 < v36;
let v108 = select(v93, v104, v107);
let v109 = v93 + v104;
let v110 = v108 / v109;
let v115 = &(*v723)[v72];
*v115 = v110;

}
let v116 = *v432;
var<function> v572_store: f32;
let v572 = &v572_store;
*v572 = v35;
let v437 = v116[0];
let v438 = *v572;
let v439 = v438 + v437;
*v572 = v439;
let v440 = v116[1];
let v441 = *v572;
let v442 = v441 + v440;
*v572 = v442;
let v443 = v116[2];
let v444 = *v572;
let v445 = v444 + v443;
*v572 = v445;
let v446 = v116[3];
let v447 = *v572;
let v448 = v447 + v446;
*v572 = v448;
let v449 = *v572;
let v118 = bitcast<u32>(v449);
let v119 = u32(2147483647);
let v120 = v118 & v119;
let v121 = u32(2139095040);
let v122 = v120 > v121;
let v123 = log(v449);
let v124 = *v431;
let v125 = v124 + v123;
let v126 = bitcast<u32>(v125);
let v127 = select(v126, v118, v122);
let v128 = u32(0);
let v129 = v118 == v128;
let v130 = u32(4286578688);
let v131 = select(v127, v130, v129);
let v132 = bitcast<f32>(v131);
let v137 = &(*v722)[v613];
*v137 = v132;
let v142 = u32(4294967295);
var<function> v451_store: u32;
let v451 = &v451_store;
*v451 = v142;
var<function> v452_store: u32;
let v452 = &v452_store;
*v452 = v128;
for(var v150: u32 = v3; v150 < v27; v150 += v41) {
let v153 = vec4<u32>(v128);
var<function> v454_store: vec4<u32>;
let v454 = &v454_store;
*v454 = v153;
var<function> v455_store: vec4<u32>;
let v455 = &v455_store;
*v455 = v153;
var<function> v456_store: vec4<u32>;
let v456 = &v456_store;
*v456 = v153;
var<function> v457_store: vec4<u32>;
let v457 = &v457_store;
let v162 = *v456;
*v457 = v162;
let v163 = *v457;
let v165 = vec4<u32>(v128, v163[1], v163[2], v163[3]);
*v457 = v165;
let v166 = *v457;
let v167 = u32(1);
let v168 = vec4<u32>(v166[0], v167, v166[2], v166[3]);
*v457 = v168;
let v169 = *v457;
let v170 = u32(2);
let v171 = vec4<u32>(v169[0], v169[1], v170, v169[3]);
*v457 = v171;
let v172 = *v457;
let v173 = u32(3);
let v174 = vec4<u32>(v172[0], v172[1], v172[2], v173);
*v457 = v174;
let v175 = *v451;
let v176 = vec4<u32>(v175);
let v177 = *v452;
let v178 = vec4<u32>(v177);
for(var v181: u32 = v3; v181 < v26; v181 += v41) {
let v183 = u32(4);
let v184 = v181 * v183;
let v185 = u32(v184);
let v186 = vec4<u32>(v185);
let v187 = *v457;
let v188 = v187 + v186;
let v189 = v32 + v181;
let v193 = &(*v723)[v189];
let v194 = *v193;
let v198 = &(*v726)[v181];
let v199 = *v198;
let v200 = v194 + v199;
let v201 = u32(2147483648);
let v202 = vec4<u32>(v201);
let v203 = bitcast<vec4<u32>>(v200);
let v204 = v203 == v202;
let v207 = select(v203, v153, v204);
let v208 = v207 < v202;
let v209 = v207 | v202;
let v210 = ~v207;
let v211 = select(v210, v209, v208);
let v214 = vec4<u32>(v119);
let v215 = v203 & v214;
let v217 = vec4<u32>(v121);
let v218 = v215 > v217;
let v221 = select(v211, v153, v218);
let v223 = vec4<u32>(v167);
let v224 = v221 + v223;
let v227 = v188 > v178;
let v228 = v224 == v176;
let v459 = false;
let v460 = vec4<bool>(v459);
var<function> v573_store: vec4<bool>;
let v573 = &v573_store;
*v573 = v460;
var<function> v574_store: vec4<bool>;
let v574 = &v574_store;
let v463 = *v573;
*v574 = v463;
let v464 = v228[0];
var<function> v575_store: bool;
let v575 = &v575_store;
if v464 {
let v465 = v227[0];
*v575 = v465;

} else {
*v575 = v459;

}
let v468 = *v574;
let v469 = *v575;
let v470 = vec4<bool>(v469, v468[1], v468[2], v468[3]);
*v574 = v470;
let v471 = v228[1];
var<function> v576_store: bool;
let v576 = &v576_store;
if v471 {
let v472 = v227[1];
*v576 = v472;

} else {
*v576 = v459;

}
let v475 = *v574;
let v476 = *v576;
let v477 = vec4<bool>(v475[0], v476, v475[2], v475[3]);
*v574 = v477;
let v478 = v228[2];
var<function> v577_store: bool;
let v577 = &v577_store;
if v478 {
let v479 = v227[2];
*v577 = v479;

} else {
*v577 = v459;

}
let v482 = *v574;
let v483 = *v577;
let v484 = vec4<bool>(v482[0], v482[1], v483, v482[3]);
*v574 = v484;
let v485 = v228[3];
var<function> v578_store: bool;
let v578 = &v578_store;
if v485 {
let v486 = v227[3];
*v578 = v486;

} else {
*v578 = v459;

}
let v489 = *v574;
let v490 = *v578;
let v491 = vec4<bool>(v489[0], v489[1], v489[2], v490);
*v574 = v491;
let v492 = *v574;
let v230 = v224 < v176;
var<function> v579_store: vec4<bool>;
let v579 = &v579_store;
*v579 = v460;
var<function> v580_store: vec4<bool>;
let v580 = &v580_store;
let v497 = *v579;
*v580 = v497;
let v498 = v230[0];
let v499 = true;
var<function> v581_store: bool;
let v581 = &v581_store;
if v498 {
*v581 = v499;

} else {
let v502 = v492[0];
*v581 = v502;

}
let v503 = *v580;
let v504 = *v581;
let v505 = vec4<bool>(v504, v503[1], v503[2], v503[3]);
*v580 = v505;
let v506 = v230[1];
var<function> v582_store: bool;
let v582 = &v582_store;
if v506 {
*v582 = v499;

} else {
let v510 = v492[1];
*v582 = v510;

}
let v511 = *v580;
let v512 = *v582;
let v513 = vec4<bool>(v511[0], v512, v511[2], v511[3]);
*v580 = v513;
let v514 = v230[2];
var<function> v583_store: bool;
let v583 = &v583_store;
if v514 {
*v583 = v499;

} else {
let v518 = v492[2];
*v583 = v518;

}
let v519 = *v580;
let v520 = *v583;
let v521 = vec4<bool>(v519[0], v519[1], v520, v519[3]);
*v580 = v521;
let v522 = v230[3];
var<function> v584_store: bool;
let v584 = &v584_store;
if v522 {
*v584 = v499;

} else {
let v526 = v492[3];
*v584 = v526;

}
let v527 = *v580;
let v528 = *v584;
let v529 = vec4<bool>(v527[0], v527[1], v527[2], v528);
*v580 = v529;
let v530 = *v580;
let v232 = *v454;
let v233 = v224 > v232;
var<function> v585_store: vec4<bool>;
let v585 = &v585_store;
*v585 = v460;
var<function> v586_store: vec4<bool>;
let v586 = &v586_store;
let v535 = *v585;
*v586 = v535;
let v536 = v233[0];
var<function> v587_store: bool;
let v587 = &v587_store;
if v536 {
let v537 = v530[0];
*v587 = v537;

} else {
*v587 = v459;

}
let v540 = *v586;
let v541 = *v587;
let v542 = vec4<bool>(v541, v540[1], v540[2], v540[3]);
*v586 = v542;
let v543 = v233[1];
var<function> v588_store: bool;
let v588 = &v588_store;
if v543 {
let v544 = v530[1];
*v588 = v544;

} else {
*v588 = v459;

}
let v547 = *v586;
let v548 = *v588;
let v549 = vec4<bool>(v547[0], v548, v547[2], v547[3]);
*v586 = v549;
let v550 = v233[2];
var<function> v589_store: bool;
let v589 = &v589_store;
if v550 {
let v551 = v530[2];
*v589 = v551;

} else {
*v589 = v459;

}
let v554 = *v586;
let v555 = *v589;
let v556 = vec4<bool>(v554[0], v554[1], v555, v554[3]);
*v586 = v556;
let v557 = v233[3];
var<function> v590_store: bool;
let v590 = &v590_store;
if v557 {
let v558 = v530[3];
*v590 = v558;

} else {
*v590 = v459;

}
let v561 = *v586;
let v562 = *v590;
let v563 = vec4<bool>(v561[0], v561[1], v561[2], v562);
*v586 = v563;
let v564 = *v586;
let v235 = *v454;
let v236 = select(v235, v224, v564);
*v454 = v236;
let v237 = *v455;
let v238 = select(v237, v188, v564);
*v455 = v238;

}
let v239 = *v454;
let v240 = v239[0];
var<function> v565_store: u32;
let v565 = &v565_store;
*v565 = v240;
let v242 = *v455;
let v243 = v242[0];
var<function> v566_store: u32;
let v566 = &v566_store;
*v566 = v243;
let v245 = *v454;
let v246 = v245[1];
let v247 = *v455;
let v248 = v247[1];
let v249 = *v565;
let v250 = v246 > v249;
let v252 = v246 == v249;
let v253 = *v566;
let v254 = v248 < v253;
let v255 = v252 && v254;
let v256 = v250 || v255;
let v258 = select(v249, v246, v256);
*v565 = v258;
let v259 = *v566;
let v260 = select(v259, v248, v256);
*v566 = v260;
let v261 = *v454;
let v262 = v261[2];
let v263 = *v455;
let v264 = v263[2];
let v265 = *v565;
let v266 = v262 > v265;
let v268 = v262 == v265;
let v269 = *v566;
let v270 = v264 < v269;
let v271 = v268 && v270;
let v272 = v266 || v271;
let v274 = select(v265, v262, v272);
*v565 = v274;
let v275 = *v566;
let v276 = select(v275, v264, v272);
*v566 = v276;
let v277 = *v454;
let v278 = v277[3];
let v279 = *v455;
let v280 = v279[3];
let v281 = *v565;
let v282 = v278 > v281;
let v284 = v278 == v281;
let v285 = *v566;
let v286 = v280 < v285;
let v287 = v284 && v286;
let v288 = v282 || v287;
let v290 = select(v281, v278, v288);
*v565 = v290;
let v291 = *v566;
let v292 = select(v291, v280, v288);
*v566 = v292;
let v293 = *v565;
let v295 = v293 > v128;
if v295 {
*v451 = v293;
let v297 = *v566;
*v452 = v297;
let v298 = *v566;
let v299 = u32(v298);
let v300 = u32(4);
let v301 = v299 / v300;
let v302 = v32 + v301;
let v306 = v299 % v300;
let v307 = v34 + v150;
let v311 = &(*v725)[v307];
*v311 = v298;
let v316 = &(*v727)[v302];
let v317 = *v316;
let v318 = v317[v306];
let v320 = min(v318, v35);
let v321 = abs(v318);
let v322 = -v321;
let v323 = exp(v322);
let v324 = f32(1.0);
let v325 = v324 + v323;
let v326 = log(v325);
let v327 = v320 - v326;
let v332 = &(*v724)[v307];
*v332 = v327;

} else {
let v333 = u32(4);
let v334 = v26 * v333;
let v335 = u32(v334);
let v336 = v34 + v150;
let v340 = &(*v725)[v336];
*v340 = v335;
let v345 = &(*v724)[v336];
*v345 = v35;

}

}
let v347 = u32(4);
let v348 = v26 * v347;
let v349 = u32(v348);
let v350 = v34 + v27;
let v354 = &(*v724)[v34];
let v355 = *v354;
var<function> v567_store: f32;
let v567 = &v567_store;
*v567 = v355;
let v358 = v34 + v41;
for(var v360: u32 = v358; v360 < v350; v360 += v41) {
let v365 = &(*v725)[v360];
let v366 = *v365;
let v367 = v366 < v349;
if v367 {
let v371 = &(*v724)[v360];
let v372 = *v371;
let v373 = *v567;
let v374 = max(v373, v372);
*v567 = v374;

}

}
var<function> v569_store: f32;
let v569 = &v569_store;
*v569 = v35;
for(var v379: u32 = v34; v379 < v350; v379 += v41) {
let v384 = &(*v725)[v379];
let v385 = *v384;
let v386 = v385 < v349;
if v386 {
let v390 = &(*v724)[v379];
let v391 = *v390;
let v392 = *v567;
let v393 = v391 - v392;
let v394 = exp(v393);
*v390 = v394;
let v399 = *v569;
let v400 = v399 + v394;
*v569 = v400;

}

}
for(var v402: u32 = v34; v402 < v350; v402 += v41) {
let v407 = &(*v725)[v402];
let v408 = *v407;
let v409 = v408 < v349;
if v409 {
let v413 = &(*v724)[v402];
let v414 = *v413;
let v415 = *v569;
let v416 = v414 / v415;
let v417 = v28 * v416;
*v413 = v417;

}

}

}
return;

}
