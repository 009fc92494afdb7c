@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax(@builtin(workgroup_id) v662: vec3<u32>, @builtin(num_workgroups) v664: vec3<u32>, @builtin(local_invocation_index) v671: u32) {
let v701 = &v17;
let v702 = &v13;
let v703 = &v9;
let v704 = &v5;
let v705 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v663 = v662[2];
let v571 = u32(v663);
let v665 = v664[1];
let v573 = u32(v665);
let v574 = v571 * v573;
let v666 = v664[0];
let v576 = u32(v666);
let v577 = v574 * v576;
let v667 = v662[1];
let v579 = u32(v667);
let v582 = v579 * v576;
let v583 = v577 + v582;
let v669 = v662[0];
let v585 = u32(v669);
let v586 = v583 + v585;
let v697 = u32(64);
let v589 = v586 * v697;
let v672 = v671;
let v591 = u32(v672);
let v592 = v589 + v591;
let v26 = v592 < v21;
if v26 {
let v28 = v592 * v22;
let v30 = v592 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v407_store: vec4<f32>;
let v407 = &v407_store;
*v407 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v705)[v40];
let v45 = *v44;
let v46 = *v407;
let v47 = max(v46, v45);
*v407 = v47;

}
let v48 = *v407;
let v49 = v48[0];
var<function> v409_store: f32;
let v409 = &v409_store;
*v409 = v49;
let v51 = *v407;
let v52 = v51[1];
let v53 = *v409;
let v54 = max(v53, v52);
*v409 = v54;
let v55 = *v407;
let v56 = v55[2];
let v57 = *v409;
let v58 = max(v57, v56);
*v409 = v58;
let v59 = *v407;
let v60 = v59[3];
let v61 = *v409;
let v62 = max(v61, v60);
*v409 = v62;
var<function> v410_store: vec4<f32>;
let v410 = &v410_store;
*v410 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v705)[v68];
let v73 = *v72;
let v74 = *v409;
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
let v86 = *v410;
let v87 = v86 + v85;
*v410 = v87;
let v92 = &(*v702)[v68];
*v92 = v85;

}
let v93 = *v410;
var<function> v551_store: f32;
let v551 = &v551_store;
*v551 = v31;
let v415 = v93[0];
let v416 = *v551;
let v417 = v416 + v415;
*v551 = v417;
let v418 = v93[1];
let v419 = *v551;
let v420 = v419 + v418;
*v551 = v420;
let v421 = v93[2];
let v422 = *v551;
let v423 = v422 + v421;
*v551 = v423;
let v424 = v93[3];
let v425 = *v551;
let v426 = v425 + v424;
*v551 = v426;
let v427 = *v551;
for(var v97: u32 = v3; v97 < v22; v97 += v37) {
let v99 = v28 + v97;
let v103 = &(*v702)[v99];
let v104 = *v103;
let v105 = vec4<f32>(v427);
let v106 = v104 / v105;
*v103 = v106;

}
let v112 = bitcast<u32>(v427);
let v113 = u32(2147483647);
let v114 = v112 & v113;
let v115 = u32(2139095040);
let v116 = v114 > v115;
let v117 = log(v427);
let v118 = *v409;
let v119 = v118 + v117;
let v120 = bitcast<u32>(v119);
let v121 = select(v120, v112, v116);
let v122 = u32(0);
let v123 = v112 == v122;
let v124 = u32(4286578688);
let v125 = select(v121, v124, v123);
let v126 = bitcast<f32>(v125);
let v131 = &(*v701)[v592];
*v131 = v126;
let v136 = u32(4294967295);
var<function> v430_store: u32;
let v430 = &v430_store;
*v430 = v136;
var<function> v431_store: u32;
let v431 = &v431_store;
*v431 = v122;
for(var v144: u32 = v3; v144 < v23; v144 += v37) {
let v147 = vec4<u32>(v122);
var<function> v433_store: vec4<u32>;
let v433 = &v433_store;
*v433 = v147;
var<function> v434_store: vec4<u32>;
let v434 = &v434_store;
*v434 = v147;
var<function> v435_store: vec4<u32>;
let v435 = &v435_store;
*v435 = v147;
var<function> v436_store: vec4<u32>;
let v436 = &v436_store;
let v156 = *v435;
*v436 = v156;
let v157 = *v436;
let v159 = vec4<u32>(v122, v157[1], v157[2], v157[3]);
*v436 = v159;
let v160 = *v436;
let v161 = u32(1);
let v162 = vec4<u32>(v160[0], v161, v160[2], v160[3]);
*v436 = v162;
let v163 = *v436;
let v164 = u32(2);
let v165 = vec4<u32>(v163[0], v163[1], v164, v163[3]);
*v436 = v165;
let v166 = *v436;
let v167 = u32(3);
let v168 = vec4<u32>(v166[0], v166[1], v166[2], v167);
*v436 = v168;
let v169 = *v430;
let v170 = vec4<u32>(v169);
let v171 = *v431;
let v172 = vec4<u32>(v171);
for(var v175: u32 = v3; v175 < v22; v175 += v37) {
let v177 = u32(4);
let v178 = v175 * v177;
let v179 = u32(v178);
let v180 = vec4<u32>(v179);
let v181 = *v436;
let v182 = v181 + v180;
let v183 = v28 + v175;
let v187 = &(*v705)[v183];
let v188 = *v187;
let v189 = u32(2147483648);
let v190 = vec4<u32>(v189);
let v191 = bitcast<vec4<u32>>(v188);
let v192 = v191 == v190;
let v195 = select(v191, v147, v192);
let v196 = v195 < v190;
let v197 = v195 | v190;
let v198 = ~v195;
let v199 = select(v198, v197, v196);
let v202 = vec4<u32>(v113);
let v203 = v191 & v202;
let v205 = vec4<u32>(v115);
let v206 = v203 > v205;
let v209 = select(v199, v147, v206);
let v211 = vec4<u32>(v161);
let v212 = v209 + v211;
let v215 = v182 > v172;
let v216 = v212 == v170;
let v438 = false;
let v439 = vec4<bool>(v438);
var<function> v552_store: vec4<bool>;
let v552 = &v552_store;
*v552 = v439;
var<function> v553_store: vec4<bool>;
let v553 = &v553_store;
let v442 = *v552;
*v553 = v442;
let v443 = v216[0];
var<function> v554_store: bool;
let v554 = &v554_store;
if v443 {
let v444 = v215[0];
*v554 = v444;

} else {
*v554 = v438;

}
let v447 = *v553;
let v448 = *v554;
let v449 = vec4<bool>(v448, v447[1], v447[2], v447[3]);
*v553 = v449;
let v450 = v216[1];
var<function> v555_store: bool;
let v555 = &v555_store;
if v450 {
let v451 = v215[1];
*v555 = v451;

} else {
*v555 = v438;

}
let v454 = *v553;
let v455 = *v555;
let v456 = vec4<bool>(v454[0], v455, v454[2], v454[3]);
*v553 = v456;
let v457 = v216[2];
var<function> v556_store: bool;
let v556 = &v556_store;
if v457 {
let v458 = v215[2];
*v556 = v458;

} else {
*v556 = v438;

}
let v461 = *v553;
let v462 = *v556;
let v463 = vec4<bool>(v461[0], v461[1], v462, v461[3]);
*v553 = v463;
let v464 = v216[3];
var<function> v557_store: bool;
let v557 = &v557_store;
if v464 {
let v465 = v215[3];
*v557 = v465;

} else {
*v557 = v438;

}
let v468 = *v553;
let v469 = *v557;
let v470 = vec4<bool>(v468[0], v468[1], v468[2], v469);
*v553 = v470;
let v471 = *v553;
let v218 = v212 < v170;
var<function> v558_store: vec4<bool>;
let v558 = &v558_store;
*v558 = v439;
var<function> v559_store: vec4<bool>;
let v559 = &v559_store;
let v476 = *v558;
*v559 = v476;
let v477 = v218[0];
let v478 = true;
var<function> v560_store: bool;
let v560 = &v560_store;
if v477 {
*v560 = v478;

} else {
let v481 = v471[0];
*v560 = v481;

}
let v482 = *v559;
let v483 = *v560;
let v484 = vec4<bool>(v483, v482[1], v482[2], v482[3]);
*v559 = v484;
let v485 = v218[1];
var<function> v561_store: bool;
let v561 = &v561_store;
if v485 {
*v561 = v478;

} else {
let v489 = v471[1];
*v561 = v489;

}
let v490 = *v559;
let v491 = *v561;
let v492 = vec4<bool>(v490[0], v491, v490[2], v490[3]);
*v559 = v492;
let v493 = v218[2];
var<function> v562_store: bool;
let v562 = &v562_store;
if v493 {
*v562 = v478;

} else {
let v497 = v471[2];
*v562 = v497;

}
let v498 = *v559;
let v499 = *v562;
let v500 = vec4<bool>(v498[0], v498[1], v499, v498[3]);
*v559 = v500;
let v501 = v218[3];
var<function> v563_store: bool;
let v563 = &v563_store;
if v501 {
*v563 = v478;

} else {
let v505 = v471[3];
*v563 = v505;

}
let v506 = *v559;
let v507 = *v563;
let v508 = vec4<bool>(v506[0], v506[1], v506[2], v507);
*v559 = v508;
let v509 = *v559;
let v220 = *v433;
let v221 = v212 > v220;
var<function> v564_store: vec4<bool>;
let v564 = &v564_store;
*v564 = v439;
var<function> v565_store: vec4<bool>;
let v565 = &v565_store;
let v514 = *v564;
*v565 = v514;
let v515 = v221[0];
var<function> v566_store: bool;
let v566 = &v566_store;
if v515 {
let v516 = v509[0];
*v566 = v516;

} else {
*v566 = v438;

}
let v519 = *v565;
let v520 = *v566;
let v521 = vec4<bool>(v520, v519[1], v519[2], v519[3]);
*v565 = v521;
let v522 = v221[1];
var<function> v567_store: bool;
let v567 = &v567_store;
if v522 {
let v523 = v509[1];
*v567 = v523;

} else {
*v567 = v438;

}
let v526 = *v565;
let v527 = *v567;
let v528 = vec4<bool>(v526[0], v527, v526[2], v526[3]);
*v565 = v528;
let v529 = v221[2];
var<function> v568_store: bool;
let v568 = &v568_store;
if v529 {
let v530 = v509[2];
*v568 = v530;

} else {
*v568 = v438;

}
let v533 = *v565;
let v534 = *v568;
let v535 = vec4<bool>(v533[0], v533[1], v534, v533[3]);
*v565 = v535;
let v536 = v221[3];
var<function> v569_store: bool;
let v569 = &v569_store;
if v536 {
let v537 = v509[3];
*v569 = v537;

} else {
*v569 = v438;

}
let v540 = *v565;
let v541 = *v569;
let v542 = vec4<bool>(v540[0], v540[1], v540[2], v541);
*v565 = v542;
let v543 = *v565;
let v223 = *v433;
let v224 = select(v223, v212, v543);
*v433 = v224;
let v225 = *v434;
let v226 = select(v225, v182, v543);
*v434 = v226;

}
let v227 = *v433;
let v228 = v227[0];
var<function> v544_store: u32;
let v544 = &v544_store;
*v544 = v228;
let v230 = *v434;
let v231 = v230[0];
var<function> v545_store: u32;
let v545 = &v545_store;
*v545 = v231;
let v233 = *v433;
let v234 = v233[1];
let v235 = *v434;
let v236 = v235[1];
let v237 = *v544;
let v238 = v234 > v237;
let v240 = v234 == v237;
let v241 = *v545;
let v242 = v236 < v241;
let v243 = v240 && v242;
let v244 = v238 || v243;
let v246 = select(v237, v234, v244);
*v544 = v246;
let v247 = *v545;
let v248 = select(v247, v236, v244);
*v545 = v248;
let v249 = *v433;
let v250 = v249[2];
let v251 = *v434;
let v252 = v251[2];
let v253 = *v544;
let v254 = v250 > v253;
let v256 = v250 == v253;
let v257 = *v545;
let v258 = v252 < v257;
let v259 = v256 && v258;
let v260 = v254 || v259;
let v262 = select(v253, v250, v260);
*v544 = v262;
let v263 = *v545;
let v264 = select(v263, v252, v260);
*v545 = v264;
let v265 = *v433;
let v266 = v265[3];
let v267 = *v434;
let v268 = v267[3];
let v269 = *v544;
let v270 = v266 > v269;
let v272 = v266 == v269;
let v273 = *v545;
let v274 = v268 < v273;
let v275 = v272 && v274;
let v276 = v270 || v275;
let v278 = select(v269, v266, v276);
*v544 = v278;
let v279 = *v545;
let v280 = select(v279, v268, v276);
*v545 = v280;
let v281 = *v544;
let v283 = v281 > v122;
if v283 {
*v430 = v281;
let v285 = *v545;
*v431 = v285;
let v286 = *v545;
let v287 = u32(v286);
let v288 = u32(4);
let v289 = v287 / v288;
let v290 = v28 + v289;
let v294 = v287 % v288;
let v295 = v30 + v144;
let v299 = &(*v704)[v295];
*v299 = v286;
let v304 = &(*v705)[v290];
let v305 = *v304;
let v306 = v305[v294];
let v311 = &(*v703)[v295];
*v311 = v306;

} else {
let v312 = u32(4);
let v313 = v22 * v312;
let v314 = u32(v313);
let v315 = v30 + v144;
let v319 = &(*v704)[v315];
*v319 = v314;
let v324 = &(*v703)[v315];
*v324 = v31;

}

}
let v326 = u32(4);
let v327 = v22 * v326;
let v328 = u32(v327);
let v329 = v30 + v23;
let v333 = &(*v703)[v30];
let v334 = *v333;
var<function> v546_store: f32;
let v546 = &v546_store;
*v546 = v334;
let v337 = v30 + v37;
for(var v339: u32 = v337; v339 < v329; v339 += v37) {
let v344 = &(*v704)[v339];
let v345 = *v344;
let v346 = v345 < v328;
if v346 {
let v350 = &(*v703)[v339];
let v351 = *v350;
let v352 = *v546;
let v353 = max(v352, v351);
*v546 = v353;

}

}
var<function> v548_store: f32;
let v548 = &v548_store;
*v548 = v31;
for(var v358: u32 = v30; v358 < v329; v358 += v37) {
let v363 = &(*v704)[v358];
let v364 = *v363;
let v365 = v364 < v328;
if v365 {
let v369 = &(*v703)[v358];
let v370 = *v369;
let v371 = *v546;
let v372 = v370 - v371;
let v373 = exp(v372);
*v369 = v373;
let v378 = *v548;
let v379 = v378 + v373;
*v548 = v379;

}

}
for(var v381: u32 = v30; v381 < v329; v381 += v37) {
let v386 = &(*v704)[v381];
let v387 = *v386;
let v388 = v387 < v328;
if v388 {
let v392 = &(*v703)[v381];
let v393 = *v392;
let v394 = *v548;
let v395 = v393 / v394;
let v396 = v24 * v395;
*v392 = v396;

}

}

}
return;

}
