@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_masked(@builtin(workgroup_id) v703: vec3<u32>, @builtin(num_workgroups) v705: vec3<u32>, @builtin(local_invocation_index) v712: u32) {
let v742 = &v21;
let v743 = &v17;
let v744 = &v13;
let v745 = &v9;
let v746 = &v5;
let v747 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v704 = v703[2];
let v612 = u32(v704);
let v706 = v705[1];
let v614 = u32(v706);
let v615 = v612 * v614;
let v707 = v705[0];
let v617 = u32(v707);
let v618 = v615 * v617;
let v708 = v703[1];
let v620 = u32(v708);
let v623 = v620 * v617;
let v624 = v618 + v623;
let v710 = v703[0];
let v626 = u32(v710);
let v627 = v624 + v626;
let v738 = u32(64);
let v630 = v627 * v738;
let v713 = v712;
let v632 = u32(v713);
let v633 = v630 + v632;
let v30 = v633 < v25;
if v30 {
let v32 = v633 * v26;
let v34 = v633 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v448_store: vec4<f32>;
let v448 = &v448_store;
*v448 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v747)[v44];
let v49 = *v48;
let v53 = &(*v746)[v42];
let v54 = u32(0);
let v55 = vec4<u32>(v54);
let v56 = *v53;
let v57 = v56 != v55;
let v58 = select(v38, v49, v57);
let v59 = *v448;
let v60 = max(v59, v58);
*v448 = v60;

}
let v61 = *v448;
let v62 = v61[0];
var<function> v450_store: f32;
let v450 = &v450_store;
*v450 = v62;
let v64 = *v448;
let v65 = v64[1];
let v66 = *v450;
let v67 = max(v66, v65);
*v450 = v67;
let v68 = *v448;
let v69 = v68[2];
let v70 = *v450;
let v71 = max(v70, v69);
*v450 = v71;
let v72 = *v448;
let v73 = v72[3];
let v74 = *v450;
let v75 = max(v74, v73);
*v450 = v75;
var<function> v451_store: vec4<f32>;
let v451 = &v451_store;
*v451 = v36;
for(var v79: u32 = v3; v79 < v26; v79 += v41) {
let v81 = v32 + v79;
let v85 = &(*v747)[v81];
let v86 = *v85;
let v87 = *v450;
let v88 = vec4<f32>(v87);
let v89 = v86 - v88;
let v90 = bitcast<vec4<u32>>(v89);
let v91 = u32(2147483647);
let v92 = vec4<u32>(v91);
let v93 = v90 & v92;
let v94 = u32(2139095040);
let v95 = vec4<u32>(v94);
let v96 = v93 > v95;
let v97 = exp(v89);
let v98 = select(v97, v89, v96);
let v102 = &(*v746)[v79];
let v103 = u32(0);
let v104 = vec4<u32>(v103);
let v105 = *v102;
let v106 = v105 != v104;
let v107 = select(v36, v98, v106);
let v108 = *v451;
let v109 = v108 + v107;
*v451 = v109;
let v114 = &(*v743)[v81];
*v114 = v107;

}
let v115 = *v451;
var<function> v592_store: f32;
let v592 = &v592_store;
*v592 = v35;
let v456 = v115[0];
let v457 = *v592;
let v458 = v457 + v456;
*v592 = v458;
let v459 = v115[1];
let v460 = *v592;
let v461 = v460 + v459;
*v592 = v461;
let v462 = v115[2];
let v463 = *v592;
let v464 = v463 + v462;
*v592 = v464;
let v465 = v115[3];
let v466 = *v592;
let v467 = v466 + v465;
*v592 = v467;
let v468 = *v592;
for(var v119: u32 = v3; v119 < v26; v119 += v41) {
let v121 = v32 + v119;
let v125 = &(*v743)[v121];
let v126 = *v125;
let v127 = vec4<f32>(v468);
let v128 = v126 / v127;
let v132 = &(*v746)[v119];
let v133 = u32(0);
let v134 = vec4<u32>(v133);
let v135 = *v132;
let v136 = v135 != v134;
let v137 = select(v36, v128, v136);
*v125 = v137;

}
let v143 = bitcast<u32>(v468);
let v144 = u32(2147483647);
let v145 = v143 & v144;
let v146 = u32(2139095040);
let v147 = v145 > v146;
let v148 = log(v468);
let v149 = *v450;
let v150 = v149 + v148;
let v151 = bitcast<u32>(v150);
let v152 = select(v151, v143, v147);
let v153 = u32(0);
let v154 = v143 == v153;
let v155 = u32(4286578688);
let v156 = select(v152, v155, v154);
let v157 = bitcast<f32>(v156);
let v162 = &(*v742)[v633];
*v162 = v157;
let v167 = u32(4294967295);
var<function> v471_store: u32;
let v471 = &v471_store;
*v471 = v167;
var<function> v472_store: u32;
let v472 = &v472_store;
*v472 = v153;
for(var v175: u32 = v3; v175 < v27; v175 += v41) {
let v178 = vec4<u32>(v153);
var<function> v474_store: vec4<u32>;
let v474 = &v474_store;
*v474 = v178;
var<function> v475_store: vec4<u32>;
let v475 = &v475_store;
*v475 = v178;
var<function> v476_store: vec4<u32>;
let v476 = &v476_store;
*v476 = v178;
var<function> v477_store: vec4<u32>;
let v477 = &v477_store;
let v187 = *v476;
*v477 = v187;
let v188 = *v477;
let v190 = vec4<u32>(v153, v188[1], v188[2], v188[3]);
*v477 = v190;
let v191 = *v477;
let v192 = u32(1);
let v193 = vec4<u32>(v191[0], v192, v191[2], v191[3]);
*v477 = v193;
let v194 = *v477;
let v195 = u32(2);
let v196 = vec4<u32>(v194[0], v194[1], v195, v194[3]);
*v477 = v196;
let v197 = *v477;
let v198 = u32(3);
let v199 = vec4<u32>(v197[0], v197[1], v197[2], v198);
*v477 = v199;
let v200 = *v471;
let v201 = vec4<u32>(v200);
let v202 = *v472;
let v203 = vec4<u32>(v202);
for(var v206: u32 = v3; v206 < v26; v206 += v41) {
let v208 = u32(4);
let v209 = v206 * v208;
let v210 = u32(v209);
let v211 = vec4<u32>(v210);
let v212 = *v477;
let v213 = v212 + v211;
let v214 = v32 + v206;
let v218 = &(*v747)[v214];
let v219 = *v218;
let v220 = u32(2147483648);
let v221 = vec4<u32>(v220);
let v222 = bitcast<vec4<u32>>(v219);
let v223 = v222 == v221;
let v226 = select(v222, v178, v223);
let v227 = v226 < v221;
let v228 = v226 | v221;
let v229 = ~v226;
let v230 = select(v229, v228, v227);
let v233 = vec4<u32>(v144);
let v234 = v222 & v233;
let v236 = vec4<u32>(v146);
let v237 = v234 > v236;
let v240 = select(v230, v178, v237);
let v242 = vec4<u32>(v192);
let v243 = v240 + v242;
let v249 = &(*v746)[v206];
let v252 = *v249;
let v253 = v252 != v178;
let v254 = select(v178, v243, v253);
let v255 = v213 > v203;
let v256 = v254 == v201;
let v479 = false;
let v480 = vec4<bool>(v479);
var<function> v593_store: vec4<bool>;
let v593 = &v593_store;
*v593 = v480;
var<function> v594_store: vec4<bool>;
let v594 = &v594_store;
let v483 = *v593;
*v594 = v483;
let v484 = v256[0];
var<function> v595_store: bool;
let v595 = &v595_store;
if v484 {
let v485 = v255[0];
*v595 = v485;

} else {
*v595 = v479;

}
let v488 = *v594;
let v489 = *v595;
let v490 = vec4<bool>(v489, v488[1], v488[2], v488[3]);
*v594 = v490;
let v491 = v256[1];
var<function> v596_store: bool;
let v596 = &v596_store;
if v491 {
let v492 = v255[1];
*v596 = v492;

} else {
*v596 = v479;

}
let v495 = *v594;
let v496 = *v596;
let v497 = vec4<bool>(v495[0], v496, v495[2], v495[3]);
*v594 = v497;
let v498 = v256[2];
var<function> v597_store: bool;
let v597 = &v597_store;
if v498 {
let v499 = v255[2];
*v597 = v499;

} else {
*v597 = v479;

}
let v502 = *v594;
let v503 = *v597;
let v504 = vec4<bool>(v502[0], v502[1], v503, v502[3]);
*v594 = v504;
let v505 = v256[3];
var<function> v598_store: bool;
let v598 = &v598_store;
if v505 {
let v506 = v255[3];
*v598 = v506;

} else {
*v598 = v479;

}
let v509 = *v594;
let v510 = *v598;
let v511 = vec4<bool>(v509[0], v509[1], v509[2], v510);
*v594 = v511;
let v512 = *v594;
let v258 = v254 < v201;
var<function> v599_store: vec4<bool>;
let v599 = &v599_store;
*v599 = v480;
var<function> v600_store: vec4<bool>;
let v600 = &v600_store;
let v517 = *v599;
*v600 = v517;
let v518 = v258[0];
let v519 = true;
var<function> v601_store: bool;
let v601 = &v601_store;
if v518 {
*v601 = v519;

} else {
let v522 = v512[0];
*v601 = v522;

}
let v523 = *v600;
let v524 = *v601;
let v525 = vec4<bool>(v524, v523[1], v523[2], v523[3]);
*v600 = v525;
let v526 = v258[1];
var<function> v602_store: bool;
let v602 = &v602_store;
if v526 {
*v602 = v519;

} else {
let v530 = v512[1];
*v602 = v530;

}
let v531 = *v600;
let v532 = *v602;
let v533 = vec4<bool>(v531[0], v532, v531[2], v531[3]);
*v600 = v533;
let v534 = v258[2];
var<function> v603_store: bool;
let v603 = &v603_store;
if v534 {
*v603 = v519;

} else {
let v538 = v512[2];
*v603 = v538;

}
let v539 = *v600;
let v540 = *v603;
let v541 = vec4<bool>(v539[0], v539[1], v540, v539[3]);
*v600 = v541;
let v542 = v258[3];
var<function> v604_store: bool;
let v604 = &v604_store;
if v542 {
*v604 = v519;

} else {
let v546 = v512[3];
*v604 = v546;

}
let v547 = *v600;
let v548 = *v604;
let v549 = vec4<bool>(v547[0], v547[1], v547[2], v548);
*v600 = v549;
let v550 = *v600;
let v260 = *v474;
let v261 = v254 > v260;
var<function> v605_store: vec4<bool>;
let v605 = &v605_store;
*v605 = v480;
var<function> v606_store: vec4<bool>;
let v606 = &v606_store;
let v555 = *v605;
*v606 = v555;
let v556 = v261[0];
var<function> v607_store: bool;
let v607 = &v607_store;
if v556 {
let v557 = v550[0];
*v607 = v557;

} else {
*v607 = v479;

}
let v560 = *v606;
let v561 = *v607;
let v562 = vec4<bool>(v561, v560[1], v560[2], v560[3]);
*v606 = v562;
let v563 = v261[1];
var<function> v608_store: bool;
let v608 = &v608_store;
if v563 {
let v564 = v550[1];
*v608 = v564;

} else {
*v608 = v479;

}
let v567 = *v606;
let v568 = *v608;
let v569 = vec4<bool>(v567[0], v568, v567[2], v567[3]);
*v606 = v569;
let v570 = v261[2];
var<function> v609_store: bool;
let v609 = &v609_store;
if v570 {
let v571 = v550[2];
*v609 = v571;

} else {
*v609 = v479;

}
let v574 = *v606;
let v575 = *v609;
let v576 = vec4<bool>(v574[0], v574[1], v575, v574[3]);
*v606 = v576;
let v577 = v261[3];
var<function> v610_store: bool;
let v610 = &v610_store;
if v577 {
let v578 = v550[3];
*v610 = v578;

} else {
*v610 = v479;

}
let v581 = *v606;
let v582 = *v610;
let v583 = vec4<bool>(v581[0], v581[1], v581[2], v582);
*v606 = v583;
let v584 = *v606;
let v263 = *v474;
let v264 = select(v263, v254, v584);
*v474 = v264;
let v265 = *v475;
let v266 = select(v265, v213, v584);
*v475 = v266;

}
let v267 = *v474;
let v268 = v267[0];
var<function> v585_store: u32;
let v585 = &v585_store;
*v585 = v268;
let v270 = *v475;
let v271 = v270[0];
var<function> v586_store: u32;
let v586 = &v586_store;
*v586 = v271;
let v273 = *v474;
let v274 = v273[1];
let v275 = *v475;
let v276 = v275[1];
let v277 = *v585;
let v278 = v274 > v277;
let v280 = v274 == v277;
let v281 = *v586;
let v282 = v276 < v281;
let v283 = v280 && v282;
let v284 = v278 || v283;
let v286 = select(v277, v274, v284);
*v585 = v286;
let v287 = *v586;
let v288 = select(v287, v276, v284);
*v586 = v288;
let v289 = *v474;
let v290 = v289[2];
let v291 = *v475;
let v292 = v291[2];
let v293 = *v585;
let v294 = v290 > v293;
let v296 = v290 == v293;
let v297 = *v586;
let v298 = v292 < v297;
let v299 = v296 && v298;
let v300 = v294 || v299;
let v302 = select(v293, v290, v300);
*v585 = v302;
let v303 = *v586;
let v304 = select(v303, v292, v300);
*v586 = v304;
let v305 = *v474;
let v306 = v305[3];
let v307 = *v475;
let v308 = v307[3];
let v309 = *v585;
let v310 = v306 > v309;
let v312 = v306 == v309;
let v313 = *v586;
let v314 = v308 < v313;
let v315 = v312 && v314;
let v316 = v310 || v315;
let v318 = select(v309, v306, v316);
*v585 = v318;
let v319 = *v586;
let v320 = select(v319, v308, v316);
*v586 = v320;
let v321 = *v585;
let v323 = v321 > v153;
if v323 {
*v471 = v321;
let v325 = *v586;
*v472 = v325;
let v326 = *v586;
let v327 = u32(v326);
let v328 = u32(4);
let v329 = v327 / v328;
let v330 = v32 + v329;
let v334 = v327 % v328;
let v335 = v34 + v175;
let v339 = &(*v745)[v335];
*v339 = v326;
let v344 = &(*v747)[v330];
let v345 = *v344;
let v346 = v345[v334];
let v351 = &(*v744)[v335];
*v351 = v346;

} else {
let v352 = u32(4);
let v353 = v26 * v352;
let v354 = u32(v353);
let v355 = v34 + v175;
let v359 = &(*v745)[v355];
*v359 = v354;
let v364 = &(*v744)[v355];
*v364 = v35;

}

}
let v366 = u32(4);
let v367 = v26 * v366;
let v368 = u32(v367);
let v369 = v34 + v27;
let v373 = &(*v744)[v34];
let v374 = *v373;
var<function> v587_store: f32;
let v587 = &v587_store;
*v587 = v374;
let v377 = v34 + v41;
for(var v379: u32 = v377; v379 < v369; v379 += v41) {
let v384 = &(*v745)[v379];
let v385 = *v384;
let v386 = v385 < v368;
if v386 {
let v390 = &(*v744)[v379];
let v391 = *v390;
let v392 = *v587;
let v393 = max(v392, v391);
*v587 = v393;

}

}
var<function> v589_store: f32;
let v589 = &v589_store;
*v589 = v35;
for(var v398: u32 = v34; v398 < v369; v398 += v41) {
let v403 = &(*v745)[v398];
let v404 = *v403;
let v405 = v404 < v368;
if v405 {
let v409 = &(*v744)[v398];
let v410 = *v409;
let v411 = *v587;
let v412 = v410 - v411;
let v413 = exp(v412);
*v409 = v413;
let v418 = *v589;
let v419 = v418 + v413;
*v589 = v419;

}

}
for(var v421: u32 = v34; v421 < v369; v421 += v41) {
let v426 = &(*v745)[v421];
let v427 = *v426;
let v428 = v427 < v368;
if v428 {
let v432 = &(*v744)[v421];
let v433 = *v432;
let v434 = *v589;
let v435 = v433 / v434;
let v436 = v28 * v435;
*v432 = v436;

}

}

}
return;

}
