@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid(@builtin(workgroup_id) v643: vec3<u32>, @builtin(num_workgroups) v645: vec3<u32>, @builtin(local_invocation_index) v652: u32) {
let v682 = &v17;
let v683 = &v13;
let v684 = &v9;
let v685 = &v5;
let v686 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v644 = v643[2];
let v552 = u32(v644);
let v646 = v645[1];
let v554 = u32(v646);
let v555 = v552 * v554;
let v647 = v645[0];
let v557 = u32(v647);
let v558 = v555 * v557;
let v648 = v643[1];
let v560 = u32(v648);
let v563 = v560 * v557;
let v564 = v558 + v563;
let v650 = v643[0];
let v566 = u32(v650);
let v567 = v564 + v566;
let v678 = u32(64);
let v570 = v567 * v678;
let v653 = v652;
let v572 = u32(v653);
let v573 = v570 + v572;
let v26 = v573 < v21;
if v26 {
let v28 = v573 * v22;
let v30 = v573 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v389_store: vec4<f32>;
let v389 = &v389_store;
*v389 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v686)[v40];
let v45 = *v44;
let v46 = *v389;
let v47 = max(v46, v45);
*v389 = v47;

}
let v48 = *v389;
let v49 = v48[0];
var<function> v391_store: f32;
let v391 = &v391_store;
*v391 = v49;
let v51 = *v389;
let v52 = v51[1];
let v53 = *v391;
let v54 = max(v53, v52);
*v391 = v54;
let v55 = *v389;
let v56 = v55[2];
let v57 = *v391;
let v58 = max(v57, v56);
*v391 = v58;
let v59 = *v389;
let v60 = v59[3];
let v61 = *v391;
let v62 = max(v61, v60);
*v391 = v62;
var<function> v392_store: vec4<f32>;
let v392 = &v392_store;
*v392 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v686)[v68];
let v73 = *v72;
let v74 = *v391;
let v75 = vec4<f32>(v74);
let v76 = v73 - v75;
let v77 = exp(v76);
let v78 = *v392;
let v79 = v78 + v77;
*v392 = v79;
let v80 = f32(1.0);
let v81 = vec4<f32>(v80);
let v82 = abs(v73);
let v83 = -v82;
let v84 = exp(v83);
let v87 = v73 < v32;
let v88 = select(v81, v84, v87);
let v89 = v81 + v84;
let v90 = v88 / v89;
let v95 = &(*v683)[v68];
*v95 = v90;

}
let v96 = *v392;
var<function> v532_store: f32;
let v532 = &v532_store;
*v532 = v31;
let v397 = v96[0];
let v398 = *v532;
let v399 = v398 + v397;
*v532 = v399;
let v400 = v96[1];
let v401 = *v532;
let v402 = v401 + v400;
*v532 = v402;
let v403 = v96[2];
let v404 = *v532;
let v405 = v404 + v403;
*v532 = v405;
let v406 = v96[3];
let v407 = *v532;
let v408 = v407 + v406;
*v532 = v408;
let v409 = *v532;
let v98 = log(v409);
let v99 = *v391;
let v100 = v99 + v98;
let v105 = &(*v682)[v573];
*v105 = v100;
let v110 = u32(4294967295);
var<function> v411_store: u32;
let v411 = &v411_store;
*v411 = v110;
let v113 = u32(0);
var<function> v412_store: u32;
let v412 = &v412_store;
*v412 = v113;
for(var v118: u32 = v3; v118 < v23; v118 += v37) {
let v121 = vec4<u32>(v113);
var<function> v414_store: vec4<u32>;
let v414 = &v414_store;
*v414 = v121;
var<function> v415_store: vec4<u32>;
let v415 = &v415_store;
*v415 = v121;
var<function> v416_store: vec4<u32>;
let v416 = &v416_store;
*v416 = v121;
var<function> v417_store: vec4<u32>;
let v417 = &v417_store;
let v130 = *v416;
*v417 = v130;
let v131 = *v417;
let v133 = vec4<u32>(v113, v131[1], v131[2], v131[3]);
*v417 = v133;
let v134 = *v417;
let v135 = u32(1);
let v136 = vec4<u32>(v134[0], v135, v134[2], v134[3]);
*v417 = v136;
let v137 = *v417;
let v138 = u32(2);
let v139 = vec4<u32>(v137[0], v137[1], v138, v137[3]);
*v417 = v139;
let v140 = *v417;
let v141 = u32(3);
let v142 = vec4<u32>(v140[0], v140[1], v140[2], v141);
*v417 = v142;
let v143 = *v411;
let v144 = vec4<u32>(v143);
let v145 = *v412;
let v146 = vec4<u32>(v145);
for(var v149: u32 = v3; v149 < v22; v149 += v37) {
let v151 = u32(4);
let v152 = v149 * v151;
let v153 = u32(v152);
let v154 = vec4<u32>(v153);
let v155 = *v417;
let v156 = v155 + v154;
let v157 = v28 + v149;
let v161 = &(*v686)[v157];
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
let v419 = false;
let v420 = vec4<bool>(v419);
var<function> v533_store: vec4<bool>;
let v533 = &v533_store;
*v533 = v420;
var<function> v534_store: vec4<bool>;
let v534 = &v534_store;
let v423 = *v533;
*v534 = v423;
let v424 = v189[0];
var<function> v535_store: bool;
let v535 = &v535_store;
if v424 {
let v425 = v188[0];
*v535 = v425;

} else {
*v535 = v419;

}
let v428 = *v534;
let v429 = *v535;
let v430 = vec4<bool>(v429, v428[1], v428[2], v428[3]);
*v534 = v430;
let v431 = v189[1];
var<function> v536_store: bool;
let v536 = &v536_store;
if v431 {
let v432 = v188[1];
*v536 = v432;

} else {
*v536 = v419;

}
let v435 = *v534;
let v436 = *v536;
let v437 = vec4<bool>(v435[0], v436, v435[2], v435[3]);
*v534 = v437;
let v438 = v189[2];
var<function> v537_store: bool;
let v537 = &v537_store;
if v438 {
let v439 = v188[2];
*v537 = v439;

} else {
*v537 = v419;

}
let v442 = *v534;
let v443 = *v537;
let v444 = vec4<bool>(v442[0], v442[1], v443, v442[3]);
*v534 = v444;
let v445 = v189[3];
var<function> v538_store: bool;
let v538 = &v538_store;
if v445 {
let v446 = v188[3];
*v538 = v446;

} else {
*v538 = v419;

}
let v449 = *v534;
let v450 = *v538;
let v451 = vec4<bool>(v449[0], v449[1], v449[2], v450);
*v534 = v451;
let v452 = *v534;
let v191 = v185 < v144;
var<function> v539_store: vec4<bool>;
let v539 = &v539_store;
*v539 = v420;
var<function> v540_store: vec4<bool>;
let v540 = &v540_store;
let v457 = *v539;
*v540 = v457;
let v458 = v191[0];
let v459 = true;
var<function> v541_store: bool;
let v541 = &v541_store;
if v458 {
*v541 = v459;

} else {
let v462 = v452[0];
*v541 = v462;

}
let v463 = *v540;
let v464 = *v541;
let v465 = vec4<bool>(v464, v463[1], v463[2], v463[3]);
*v540 = v465;
let v466 = v191[1];
var<function> v542_store: bool;
let v542 = &v542_store;
if v466 {
*v542 = v459;

} else {
let v470 = v452[1];
*v542 = v470;

}
let v471 = *v540;
let v472 = *v542;
let v473 = vec4<bool>(v471[0], v472, v471[2], v471[3]);
*v540 = v473;
let v474 = v191[2];
var<function> v543_store: bool;
let v543 = &v543_store;
if v474 {
*v543 = v459;

} else {
let v478 = v452[2];
*v543 = v478;

}
let v479 = *v540;
let v480 = *v543;
let v481 = vec4<bool>(v479[0], v479[1], v480, v479[3]);
*v540 = v481;
let v482 = v191[3];
var<function> v544_store: bool;
let v544 = &v544_store;
if v482 {
*v544 = v459;

} else {
let v486 = v452[3];
*v544 = v486;

}
let v487 = *v540;
let v488 = *v544;
let v489 = vec4<bool>(v487[0], v487[1], v487[2], v488);
*v540 = v489;
let v490 = *v540;
let v193 = *v414;
let v194 = v185 > v193;
var<function> v545_store: vec4<bool>;
let v545 = &v545_store;
*v545 = v420;
var<function> v546_store: vec4<bool>;
let v546 = &v546_store;
let v495 = *v545;
*v546 = v495;
let v496 = v194[0];
var<function> v547_store: bool;
let v547 = &v547_store;
if v496 {
let v497 = v490[0];
*v547 = v497;

} else {
*v547 = v419;

}
let v500 = *v546;
let v501 = *v547;
let v502 = vec4<bool>(v501, v500[1], v500[2], v500[3]);
*v546 = v502;
let v503 = v194[1];
var<function> v548_store: bool;
let v548 = &v548_store;
if v503 {
let v504 = v490[1];
*v548 = v504;

} else {
*v548 = v419;

}
let v507 = *v546;
let v508 = *v548;
let v509 = vec4<bool>(v507[0], v508, v507[2], v507[3]);
*v546 = v509;
let v510 = v194[2];
var<function> v549_store: bool;
let v549 = &v549_store;
if v510 {
let v511 = v490[2];
*v549 = v511;

} else {
*v549 = v419;

}
let v514 = *v546;
let v515 = *v549;
let v516 = vec4<bool>(v514[0], v514[1], v515, v514[3]);
*v546 = v516;
let v517 = v194[3];
var<function> v550_store: bool;
let v550 = &v550_store;
if v517 {
let v518 = v490[3];
*v550 = v518;

} else {
*v550 = v419;

}
let v521 = *v546;
let v522 = *v550;
let v523 = vec4<bool>(v521[0], v521[1], v521[2], v522);
*v546 = v523;
let v524 = *v546;
let v196 = *v414;
let v197 = select(v196, v185, v524);
*v414 = v197;
let v198 = *v415;
let v199 = select(v198, v156, v524);
*v415 = v199;

}
let v200 = *v414;
let v201 = v200[0];
var<function> v525_store: u32;
let v525 = &v525_store;
*v525 = v201;
let v203 = *v415;
let v204 = v203[0];
var<function> v526_store: u32;
let v526 = &v526_store;
*v526 = v204;
let v206 = *v414;
let v207 = v206[1];
let v208 = *v415;
let v209 = v208[1];
let v210 = *v525;
let v211 = v207 > v210;
let v213 = v207 == v210;
let v214 = *v526;
let v215 = v209 < v214;
let v216 = v213 && v215;
let v217 = v211 || v216;
let v219 = select(v210, v207, v217);
*v525 = v219;
let v220 = *v526;
let v221 = select(v220, v209, v217);
*v526 = v221;
let v222 = *v414;
let v223 = v222[2];
let v224 = *v415;
let v225 = v224[2];
let v226 = *v525;
let v227 = v223 > v226;
let v229 = v223 == v226;
let v230 = *v526;
let v231 = v225 < v230;
let v232 = v229 && v231;
let v233 = v227 || v232;
let v235 = select(v226, v223, v233);
*v525 = v235;
let v236 = *v526;
let v237 = select(v236, v225, v233);
*v526 = v237;
let v238 = *v414;
let v239 = v238[3];
let v240 = *v415;
let v241 = v240[3];
let v242 = *v525;
let v243 = v239 > v242;
let v245 = v239 == v242;
let v246 = *v526;
let v247 = v241 < v246;
let v248 = v245 && v247;
let v249 = v243 || v248;
let v251 = select(v242, v239, v249);
*v525 = v251;
let v252 = *v526;
let v253 = select(v252, v241, v249);
*v526 = v253;
let v254 = *v525;
let v256 = v254 > v113;
if v256 {
*v411 = v254;
let v258 = *v526;
*v412 = v258;
let v259 = *v526;
let v260 = u32(v259);
let v261 = u32(4);
let v262 = v260 / v261;
let v263 = v28 + v262;
let v267 = v260 % v261;
let v268 = v30 + v118;
let v272 = &(*v685)[v268];
*v272 = v259;
let v277 = &(*v686)[v263];
let v278 = *v277;
let v279 = v278[v267];
let v281 = min(v279, v31);
let v282 = abs(v279);
let v283 = -v282;
let v284 = exp(v283);
let v285 = f32(1.0);
let v286 = v285 + v284;
let v287 = log(v286);
let v288 = v281 - v287;
let v293 = &(*v684)[v268];
*v293 = v288;

} else {
let v294 = u32(4);
let v295 = v22 * v294;
let v296 = u32(v295);
let v297 = v30 + v118;
let v301 = &(*v685)[v297];
*v301 = v296;
let v306 = &(*v684)[v297];
*v306 = v31;

}

}
let v308 = u32(4);
let v309 = v22 * v308;
let v310 = u32(v309);
let v311 = v30 + v23;
let v315 = &(*v684)[v30];
let v316 = *v315;
var<function> v527_store: f32;
let v527 = &v527_store;
*v527 = v316;
let v319 = v30 + v37;
for(var v321: u32 = v319; v321 < v311; v321 += v37) {
let v326 = &(*v685)[v321];
let v327 = *v326;
let v328 = v327 < v310;
if v328 {
let v332 = &(*v684)[v321];
let v333 = *v332;
let v334 = *v527;
let v335 = max(v334, v333);
*v527 = v335;

}

}
var<function> v529_store: f32;
let v529 = &v529_store;
*v529 = v31;
for(var v340: u32 = v30; v340 < v311; v340 += v37) {
let v345 = &(*v685)[v340];
let v346 = *v345;
let v347 = v346 < v310;
if v347 {
let v351 = &(*v684)[v340];
let v352 = *v351;
let v353 = *v527;
let v354 = v352 - v353;
let v355 = exp(v354);
*v351 = v355;
let v360 = *v529;
let v361 = v360 + v355;
*v529 = v361;

}

}
for(var v363: u32 = v30; v363 < v311; v363 += v37) {
let v368 = &(*v685)[v363];
let v369 = *v368;
let v370 = v369 < v310;
if v370 {
let v374 = &(*v684)[v363];
let v375 = *v374;
let v376 = *v529;
let v377 = v375 / v376;
let v378 = v24 * v377;
*v374 = v378;

}

}

}
return;

}
