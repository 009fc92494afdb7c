@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_raw(@builtin(workgroup_id) v583: vec3<u32>, @builtin(num_workgroups) v585: vec3<u32>, @builtin(local_invocation_index) v592: u32) {
let v622 = &v17;
let v623 = &v13;
let v624 = &v9;
let v625 = &v5;
let v626 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v584 = v583[2];
let v492 = u32(v584);
let v586 = v585[1];
let v494 = u32(v586);
let v495 = v492 * v494;
let v587 = v585[0];
let v497 = u32(v587);
let v498 = v495 * v497;
let v588 = v583[1];
let v500 = u32(v588);
let v503 = v500 * v497;
let v504 = v498 + v503;
let v590 = v583[0];
let v506 = u32(v590);
let v507 = v504 + v506;
let v618 = u32(64);
let v510 = v507 * v618;
let v593 = v592;
let v512 = u32(v593);
let v513 = v510 + v512;
let v26 = v513 < v21;
if v26 {
let v28 = v513 * v22;
let v30 = v513 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v333_store: vec4<f32>;
let v333 = &v333_store;
*v333 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v626)[v40];
let v45 = *v44;
let v46 = *v333;
let v47 = max(v46, v45);
*v333 = v47;

}
let v48 = *v333;
let v49 = v48[0];
var<function> v335_store: f32;
let v335 = &v335_store;
*v335 = v49;
let v51 = *v333;
let v52 = v51[1];
let v53 = *v335;
let v54 = max(v53, v52);
*v335 = v54;
let v55 = *v333;
let v56 = v55[2];
let v57 = *v335;
let v58 = max(v57, v56);
*v335 = v58;
let v59 = *v333;
let v60 = v59[3];
let v61 = *v335;
let v62 = max(v61, v60);
*v335 = v62;
var<function> v336_store: vec4<f32>;
let v336 = &v336_store;
*v336 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v626)[v68];
let v73 = *v72;
let v74 = *v335;
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
let v86 = *v336;
let v87 = v86 + v85;
*v336 = v87;
let v92 = &(*v623)[v68];
*v92 = v85;

}
let v93 = *v336;
var<function> v472_store: f32;
let v472 = &v472_store;
*v472 = v31;
let v341 = v93[0];
let v342 = *v472;
let v343 = v342 + v341;
*v472 = v343;
let v344 = v93[1];
let v345 = *v472;
let v346 = v345 + v344;
*v472 = v346;
let v347 = v93[2];
let v348 = *v472;
let v349 = v348 + v347;
*v472 = v349;
let v350 = v93[3];
let v351 = *v472;
let v352 = v351 + v350;
*v472 = v352;
let v353 = *v472;
for(var v97: u32 = v3; v97 < v22; v97 += v37) {
let v99 = v28 + v97;
let v103 = &(*v623)[v99];
let v104 = *v103;
let v105 = vec4<f32>(v353);
let v106 = v104 / v105;
*v103 = v106;

}
let v112 = bitcast<u32>(v353);
let v113 = u32(2147483647);
let v114 = v112 & v113;
let v115 = u32(2139095040);
let v116 = v114 > v115;
let v117 = log(v353);
let v118 = *v335;
let v119 = v118 + v117;
let v120 = bitcast<u32>(v119);
let v121 = select(v120, v112, v116);
let v122 = u32(0);
let v123 = v112 == v122;
let v124 = u32(4286578688);
let v125 = select(v121, v124, v123);
let v126 = bitcast<f32>(v125);
let v131 = &(*v622)[v513];
*v131 = v126;
let v136 = u32(4294967295);
var<function> v356_store: u32;
let v356 = &v356_store;
*v356 = v136;
var<function> v357_store: u32;
let v357 = &v357_store;
*v357 = v122;
for(var v144: u32 = v3; v144 < v23; v144 += v37) {
let v147 = vec4<u32>(v122);
var<function> v359_store: vec4<u32>;
let v359 = &v359_store;
*v359 = v147;
var<function> v360_store: vec4<u32>;
let v360 = &v360_store;
*v360 = v147;
var<function> v361_store: vec4<u32>;
let v361 = &v361_store;
*v361 = v147;
var<function> v362_store: vec4<u32>;
let v362 = &v362_store;
let v156 = *v361;
*v362 = v156;
let v157 = *v362;
let v159 = vec4<u32>(v122, v157[1], v157[2], v157[3]);
*v362 = v159;
let v160 = *v362;
let v161 = u32(1);
let v162 = vec4<u32>(v160[0], v161, v160[2], v160[3]);
*v362 = v162;
let v163 = *v362;
let v164 = u32(2);
let v165 = vec4<u32>(v163[0], v163[1], v164, v163[3]);
*v362 = v165;
let v166 = *v362;
let v167 = u32(3);
let v168 = vec4<u32>(v166[0], v166[1], v166[2], v167);
*v362 = v168;
let v169 = *v356;
let v170 = vec4<u32>(v169);
let v171 = *v357;
let v172 = vec4<u32>(v171);
for(var v175: u32 = v3; v175 < v22; v175 += v37) {
let v177 = u32(4);
let v178 = v175 * v177;
let v179 = u32(v178);
let v180 = vec4<u32>(v179);
let v181 = *v362;
let v182 = v181 + v180;
let v183 = v28 + v175;
let v187 = &(*v626)[v183];
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
let v364 = false;
let v365 = vec4<bool>(v364);
var<function> v473_store: vec4<bool>;
let v473 = &v473_store;
*v473 = v365;
var<function> v474_store: vec4<bool>;
let v474 = &v474_store;
let v368 = *v473;
*v474 = v368;
let v369 = v216[0];
var<function> v475_store: bool;
let v475 = &v475_store;
if v369 {
let v370 = v215[0];
*v475 = v370;

} else {
*v475 = v364;

}
let v373 = *v474;
let v374 = *v475;
let v375 = vec4<bool>(v374, v373[1], v373[2], v373[3]);
*v474 = v375;
let v376 = v216[1];
var<function> v476_store: bool;
let v476 = &v476_store;
if v376 {
let v377 = v215[1];
*v476 = v377;

} else {
*v476 = v364;

}
let v380 = *v474;
let v381 = *v476;
let v382 = vec4<bool>(v380[0], v381, v380[2], v380[3]);
*v474 = v382;
let v383 = v216[2];
var<function> v477_store: bool;
let v477 = &v477_store;
if v383 {
let v384 = v215[2];
*v477 = v384;

} else {
*v477 = v364;

}
let v387 = *v474;
let v388 = *v477;
let v389 = vec4<bool>(v387[0], v387[1], v388, v387[3]);
*v474 = v389;
let v390 = v216[3];
var<function> v478_store: bool;
let v478 = &v478_store;
if v390 {
let v391 = v215[3];
*v478 = v391;

} else {
*v478 = v364;

}
let v394 = *v474;
let v395 = *v478;
let v396 = vec4<bool>(v394[0], v394[1], v394[2], v395);
*v474 = v396;
let v397 = *v474;
let v218 = v212 < v170;
var<function> v479_store: vec4<bool>;
let v479 = &v479_store;
*v479 = v365;
var<function> v480_store: vec4<bool>;
let v480 = &v480_store;
let v402 = *v479;
*v480 = v402;
let v403 = v218[0];
let v404 = true;
var<function> v481_store: bool;
let v481 = &v481_store;
if v403 {
*v481 = v404;

} else {
let v407 = v397[0];
*v481 = v407;

}
let v408 = *v480;
let v409 = *v481;
let v410 = vec4<bool>(v409, v408[1], v408[2], v408[3]);
*v480 = v410;
let v411 = v218[1];
var<function> v482_store: bool;
let v482 = &v482_store;
if v411 {
*v482 = v404;

} else {
let v415 = v397[1];
*v482 = v415;

}
let v416 = *v480;
let v417 = *v482;
let v418 = vec4<bool>(v416[0], v417, v416[2], v416[3]);
*v480 = v418;
let v419 = v218[2];
var<function> v483_store: bool;
let v483 = &v483_store;
if v419 {
*v483 = v404;

} else {
let v423 = v397[2];
*v483 = v423;

}
let v424 = *v480;
let v425 = *v483;
let v426 = vec4<bool>(v424[0], v424[1], v425, v424[3]);
*v480 = v426;
let v427 = v218[3];
var<function> v484_store: bool;
let v484 = &v484_store;
if v427 {
*v484 = v404;

} else {
let v431 = v397[3];
*v484 = v431;

}
let v432 = *v480;
let v433 = *v484;
let v434 = vec4<bool>(v432[0], v432[1], v432[2], v433);
*v480 = v434;
let v435 = *v480;
let v220 = *v359;
let v221 = v212 > v220;
var<function> v485_store: vec4<bool>;
let v485 = &v485_store;
*v485 = v365;
var<function> v486_store: vec4<bool>;
let v486 = &v486_store;
let v440 = *v485;
*v486 = v440;
let v441 = v221[0];
var<function> v487_store: bool;
let v487 = &v487_store;
if v441 {
let v442 = v435[0];
*v487 = v442;

} else {
*v487 = v364;

}
let v445 = *v486;
let v446 = *v487;
let v447 = vec4<bool>(v446, v445[1], v445[2], v445[3]);
*v486 = v447;
let v448 = v221[1];
var<function> v488_store: bool;
let v488 = &v488_store;
if v448 {
let v449 = v435[1];
*v488 = v449;

} else {
*v488 = v364;

}
let v452 = *v486;
let v453 = *v488;
let v454 = vec4<bool>(v452[0], v453, v452[2], v452[3]);
*v486 = v454;
let v455 = v221[2];
var<function> v489_store: bool;
let v489 = &v489_store;
if v455 {
let v456 = v435[2];
*v489 = v456;

} else {
*v489 = v364;

}
let v459 = *v486;
let v460 = *v489;
let v461 = vec4<bool>(v459[0], v459[1], v460, v459[3]);
*v486 = v461;
let v462 = v221[3];
var<function> v490_store: bool;
let v490 = &v490_store;
if v462 {
let v463 = v435[3];
*v490 = v463;

} else {
*v490 = v364;

}
let v466 = *v486;
let v467 = *v490;
let v468 = vec4<bool>(v466[0], v466[1], v466[2], v467);
*v486 = v468;
let v469 = *v486;
let v223 = *v359;
let v224 = select(v223, v212, v469);
*v359 = v224;
let v225 = *v360;
let v226 = select(v225, v182, v469);
*v360 = v226;

}
let v227 = *v359;
let v228 = v227[0];
var<function> v470_store: u32;
let v470 = &v470_store;
*v470 = v228;
let v230 = *v360;
let v231 = v230[0];
var<function> v471_store: u32;
let v471 = &v471_store;
*v471 = v231;
let v233 = *v359;
let v234 = v233[1];
let v235 = *v360;
let v236 = v235[1];
let v237 = *v470;
let v238 = v234 > v237;
let v240 = v234 == v237;
let v241 = *v471;
let v242 = v236 < v241;
let v243 = v240 && v242;
let v244 = v238 || v243;
let v246 = select(v237, v234, v244);
*v470 = v246;
let v247 = *v471;
let v248 = select(v247, v236, v244);
*v471 = v248;
let v249 = *v359;
let v250 = v249[2];
let v251 = *v360;
let v252 = v251[2];
let v253 = *v470;
let v254 = v250 > v253;
let v256 = v250 == v253;
let v257 = *v471;
let v258 = v252 < v257;
let v259 = v256 && v258;
let v260 = v254 || v259;
let v262 = select(v253, v250, v260);
*v470 = v262;
let v263 = *v471;
let v264 = select(v263, v252, v260);
*v471 = v264;
let v265 = *v359;
let v266 = v265[3];
let v267 = *v360;
let v268 = v267[3];
let v269 = *v470;
let v270 = v266 > v269;
let v272 = v266 == v269;
let v273 = *v471;
let v274 = v268 < v273;
let v275 = v272 && v274;
let v276 = v270 || v275;
let v278 = select(v269, v266, v276);
*v470 = v278;
let v279 = *v471;
let v280 = select(v279, v268, v276);
*v471 = v280;
let v281 = *v470;
let v283 = v281 > v122;
if v283 {
*v356 = v281;
let v285 = *v471;
*v357 = v285;
let v286 = *v471;
let v287 = u32(v286);
let v288 = u32(4);
let v289 = v287 / v288;
let v290 = v28 + v289;
let v294 = v287 % v288;
let v295 = v30 + v144;
let v299 = &(*v625)[v295];
*v299 = v286;
let v304 = &(*v623)[v290];
let v305 = *v304;
let v306 = v305[v294];
let v307 = v24 * v306;
let v312 = &(*v624)[v295];
*v312 = v307;

} else {
let v313 = u32(4);
let v314 = v22 * v313;
let v315 = u32(v314);
let v316 = v30 + v144;
let v320 = &(*v625)[v316];
*v320 = v315;
let v325 = &(*v624)[v316];
*v325 = v31;

}

}

}
return;

}
