@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax(@builtin(workgroup_id) v641: vec3<u32>, @builtin(num_workgroups) v643: vec3<u32>, @builtin(local_invocation_index) v650: u32) {
let v680 = &v17;
let v681 = &v13;
let v682 = &v9;
let v683 = &v5;
let v684 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v642 = v641[2];
let v550 = u32(v642);
let v644 = v643[1];
let v552 = u32(v644);
let v553 = v550 * v552;
let v645 = v643[0];
let v555 = u32(v645);
let v556 = v553 * v555;
let v646 = v641[1];
let v558 = u32(v646);
let v561 = v558 * v555;
let v562 = v556 + v561;
let v648 = v641[0];
let v564 = u32(v648);
let v565 = v562 + v564;
let v676 = u32(64);
let v568 = v565 * v676;
let v651 = v650;
let v570 = u32(v651);
let v571 = v568 + v570;
let v26 = v571 < v21;
if v26 {
let v28 = v571 * v22;
let v30 = v571 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v386_store: vec4<f32>;
let v386 = &v386_store;
*v386 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v684)[v40];
let v45 = *v44;
let v46 = *v386;
let v47 = max(v46, v45);
*v386 = v47;

}
let v48 = *v386;
let v49 = v48[0];
var<function> v388_store: f32;
let v388 = &v388_store;
*v388 = v49;
let v51 = *v386;
let v52 = v51[1];
let v53 = *v388;
let v54 = max(v53, v52);
*v388 = v54;
let v55 = *v386;
let v56 = v55[2];
let v57 = *v388;
let v58 = max(v57, v56);
*v388 = v58;
let v59 = *v386;
let v60 = v59[3];
let v61 = *v388;
let v62 = max(v61, v60);
*v388 = v62;
var<function> v389_store: vec4<f32>;
let v389 = &v389_store;
*v389 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v684)[v68];
let v73 = *v72;
let v74 = *v388;
let v75 = vec4<f32>(v74);
let v76 = v73 - v75;
let v77 = exp(v76);
let v78 = *v389;
let v79 = v78 + v77;
*v389 = v79;
let v84 = &(*v681)[v68];
*v84 = v77;

}
let v85 = *v389;
var<function> v530_store: f32;
let v530 = &v530_store;
*v530 = v31;
let v394 = v85[0];
let v395 = *v530;
let v396 = v395 + v394;
*v530 = v396;
let v397 = v85[1];
let v398 = *v530;
let v399 = v398 + v397;
*v530 = v399;
let v400 = v85[2];
let v401 = *v530;
let v402 = v401 + v400;
*v530 = v402;
let v403 = v85[3];
let v404 = *v530;
let v405 = v404 + v403;
*v530 = v405;
let v406 = *v530;
for(var v89: u32 = v3; v89 < v22; v89 += v37) {
let v91 = v28 + v89;
let v95 = &(*v681)[v91];
let v96 = *v95;
let v97 = vec4<f32>(v406);
let v98 = v96 / v97;
*v95 = v98;

}
let v104 = log(v406);
let v105 = *v388;
let v106 = v105 + v104;
let v111 = &(*v680)[v571];
*v111 = v106;
let v116 = u32(4294967295);
var<function> v409_store: u32;
let v409 = &v409_store;
*v409 = v116;
let v119 = u32(0);
var<function> v410_store: u32;
let v410 = &v410_store;
*v410 = v119;
for(var v124: u32 = v3; v124 < v23; v124 += v37) {
let v127 = vec4<u32>(v119);
var<function> v412_store: vec4<u32>;
let v412 = &v412_store;
*v412 = v127;
var<function> v413_store: vec4<u32>;
let v413 = &v413_store;
*v413 = v127;
var<function> v414_store: vec4<u32>;
let v414 = &v414_store;
*v414 = v127;
var<function> v415_store: vec4<u32>;
let v415 = &v415_store;
let v136 = *v414;
*v415 = v136;
let v137 = *v415;
let v139 = vec4<u32>(v119, v137[1], v137[2], v137[3]);
*v415 = v139;
let v140 = *v415;
let v141 = u32(1);
let v142 = vec4<u32>(v140[0], v141, v140[2], v140[3]);
*v415 = v142;
let v143 = *v415;
let v144 = u32(2);
let v145 = vec4<u32>(v143[0], v143[1], v144, v143[3]);
*v415 = v145;
let v146 = *v415;
let v147 = u32(3);
let v148 = vec4<u32>(v146[0], v146[1], v146[2], v147);
*v415 = v148;
let v149 = *v409;
let v150 = vec4<u32>(v149);
let v151 = *v410;
let v152 = vec4<u32>(v151);
for(var v155: u32 = v3; v155 < v22; v155 += v37) {
let v157 = u32(4);
let v158 = v155 * v157;
let v159 = u32(v158);
let v160 = vec4<u32>(v159);
let v161 = *v415;
let v162 = v161 + v160;
let v163 = v28 + v155;
let v167 = &(*v684)[v163];
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
let v417 = false;
let v418 = vec4<bool>(v417);
var<function> v531_store: vec4<bool>;
let v531 = &v531_store;
*v531 = v418;
var<function> v532_store: vec4<bool>;
let v532 = &v532_store;
let v421 = *v531;
*v532 = v421;
let v422 = v195[0];
var<function> v533_store: bool;
let v533 = &v533_store;
if v422 {
let v423 = v194[0];
*v533 = v423;

} else {
*v533 = v417;

}
let v426 = *v532;
let v427 = *v533;
let v428 = vec4<bool>(v427, v426[1], v426[2], v426[3]);
*v532 = v428;
let v429 = v195[1];
var<function> v534_store: bool;
let v534 = &v534_store;
if v429 {
let v430 = v194[1];
*v534 = v430;

} else {
*v534 = v417;

}
let v433 = *v532;
let v434 = *v534;
let v435 = vec4<bool>(v433[0], v434, v433[2], v433[3]);
*v532 = v435;
let v436 = v195[2];
var<function> v535_store: bool;
let v535 = &v535_store;
if v436 {
let v437 = v194[2];
*v535 = v437;

} else {
*v535 = v417;

}
let v440 = *v532;
let v441 = *v535;
let v442 = vec4<bool>(v440[0], v440[1], v441, v440[3]);
*v532 = v442;
let v443 = v195[3];
var<function> v536_store: bool;
let v536 = &v536_store;
if v443 {
let v444 = v194[3];
*v536 = v444;

} else {
*v536 = v417;

}
let v447 = *v532;
let v448 = *v536;
let v449 = vec4<bool>(v447[0], v447[1], v447[2], v448);
*v532 = v449;
let v450 = *v532;
let v197 = v191 < v150;
var<function> v537_store: vec4<bool>;
let v537 = &v537_store;
*v537 = v418;
var<function> v538_store: vec4<bool>;
let v538 = &v538_store;
let v455 = *v537;
*v538 = v455;
let v456 = v197[0];
let v457 = true;
var<function> v539_store: bool;
let v539 = &v539_store;
if v456 {
*v539 = v457;

} else {
let v460 = v450[0];
*v539 = v460;

}
let v461 = *v538;
let v462 = *v539;
let v463 = vec4<bool>(v462, v461[1], v461[2], v461[3]);
*v538 = v463;
let v464 = v197[1];
var<function> v540_store: bool;
let v540 = &v540_store;
if v464 {
*v540 = v457;

} else {
let v468 = v450[1];
*v540 = v468;

}
let v469 = *v538;
let v470 = *v540;
let v471 = vec4<bool>(v469[0], v470, v469[2], v469[3]);
*v538 = v471;
let v472 = v197[2];
var<function> v541_store: bool;
let v541 = &v541_store;
if v472 {
*v541 = v457;

} else {
let v476 = v450[2];
*v541 = v476;

}
let v477 = *v538;
let v478 = *v541;
let v479 = vec4<bool>(v477[0], v477[1], v478, v477[3]);
*v538 = v479;
let v480 = v197[3];
var<function> v542_store: bool;
let v542 = &v542_store;
if v480 {
*v542 = v457;

} else {
let v484 = v450[3];
*v542 = v484;

}
let v485 = *v538;
let v486 = *v542;
let v487 = vec4<bool>(v485[0], v485[1], v485[2], v486);
*v538 = v487;
let v488 = *v538;
let v199 = *v412;
let v200 = v191 > v199;
var<function> v543_store: vec4<bool>;
let v543 = &v543_store;
*v543 = v418;
var<function> v544_store: vec4<bool>;
let v544 = &v544_store;
let v493 = *v543;
*v544 = v493;
let v494 = v200[0];
var<function> v545_store: bool;
let v545 = &v545_store;
if v494 {
let v495 = v488[0];
*v545 = v495;

} else {
*v545 = v417;

}
let v498 = *v544;
let v499 = *v545;
let v500 = vec4<bool>(v499, v498[1], v498[2], v498[3]);
*v544 = v500;
let v501 = v200[1];
var<function> v546_store: bool;
let v546 = &v546_store;
if v501 {
let v502 = v488[1];
*v546 = v502;

} else {
*v546 = v417;

}
let v505 = *v544;
let v506 = *v546;
let v507 = vec4<bool>(v505[0], v506, v505[2], v505[3]);
*v544 = v507;
let v508 = v200[2];
var<function> v547_store: bool;
let v547 = &v547_store;
if v508 {
let v509 = v488[2];
*v547 = v509;

} else {
*v547 = v417;

}
let v512 = *v544;
let v513 = *v547;
let v514 = vec4<bool>(v512[0], v512[1], v513, v512[3]);
*v544 = v514;
let v515 = v200[3];
var<function> v548_store: bool;
let v548 = &v548_store;
if v515 {
let v516 = v488[3];
*v548 = v516;

} else {
*v548 = v417;

}
let v519 = *v544;
let v520 = *v548;
let v521 = vec4<bool>(v519[0], v519[1], v519[2], v520);
*v544 = v521;
let v522 = *v544;
let v202 = *v412;
let v203 = select(v202, v191, v522);
*v412 = v203;
let v204 = *v413;
let v205 = select(v204, v162, v522);
*v413 = v205;

}
let v206 = *v412;
let v207 = v206[0];
var<function> v523_store: u32;
let v523 = &v523_store;
*v523 = v207;
let v209 = *v413;
let v210 = v209[0];
var<function> v524_store: u32;
let v524 = &v524_store;
*v524 = v210;
let v212 = *v412;
let v213 = v212[1];
let v214 = *v413;
let v215 = v214[1];
let v216 = *v523;
let v217 = v213 > v216;
let v219 = v213 == v216;
let v220 = *v524;
let v221 = v215 < v220;
let v222 = v219 && v221;
let v223 = v217 || v222;
let v225 = select(v216, v213, v223);
*v523 = v225;
let v226 = *v524;
let v227 = select(v226, v215, v223);
*v524 = v227;
let v228 = *v412;
let v229 = v228[2];
let v230 = *v413;
let v231 = v230[2];
let v232 = *v523;
let v233 = v229 > v232;
let v235 = v229 == v232;
let v236 = *v524;
let v237 = v231 < v236;
let v238 = v235 && v237;
let v239 = v233 || v238;
let v241 = select(v232, v229, v239);
*v523 = v241;
let v242 = *v524;
let v243 = select(v242, v231, v239);
*v524 = v243;
let v244 = *v412;
let v245 = v244[3];
let v246 = *v413;
let v247 = v246[3];
let v248 = *v523;
let v249 = v245 > v248;
let v251 = v245 == v248;
let v252 = *v524;
let v253 = v247 < v252;
let v254 = v251 && v253;
let v255 = v249 || v254;
let v257 = select(v248, v245, v255);
*v523 = v257;
let v258 = *v524;
let v259 = select(v258, v247, v255);
*v524 = v259;
let v260 = *v523;
let v262 = v260 > v119;
if v262 {
*v409 = v260;
let v264 = *v524;
*v410 = v264;
let v265 = *v524;
let v266 = u32(v265);
let v267 = u32(4);
let v268 = v266 / v267;
let v269 = v28 + v268;
let v273 = v266 % v267;
let v274 = v30 + v124;
let v278 = &(*v683)[v274];
*v278 = v265;
let v283 = &(*v684)[v269];
let v284 = *v283;
let v285 = v284[v273];
let v290 = &(*v682)[v274];
*v290 = v285;

} else {
let v291 = u32(4);
let v292 = v22 * v291;
let v293 = u32(v292);
let v294 = v30 + v124;
let v298 = &(*v683)[v294];
*v298 = v293;
let v303 = &(*v682)[v294];
*v303 = v31;

}

}
let v305 = u32(4);
let v306 = v22 * v305;
let v307 = u32(v306);
let v308 = v30 + v23;
let v312 = &(*v682)[v30];
let v313 = *v312;
var<function> v525_store: f32;
let v525 = &v525_store;
*v525 = v313;
let v316 = v30 + v37;
for(var v318: u32 = v316; v318 < v308; v318 += v37) {
let v323 = &(*v683)[v318];
let v324 = *v323;
let v325 = v324 < v307;
if v325 {
let v329 = &(*v682)[v318];
let v330 = *v329;
let v331 = *v525;
let v332 = max(v331, v330);
*v525 = v332;

}

}
var<function> v527_store: f32;
let v527 = &v527_store;
*v527 = v31;
for(var v337: u32 = v30; v337 < v308; v337 += v37) {
let v342 = &(*v683)[v337];
let v343 = *v342;
let v344 = v343 < v307;
if v344 {
let v348 = &(*v682)[v337];
let v349 = *v348;
let v350 = *v525;
let v351 = v349 - v350;
let v352 = exp(v351);
*v348 = v352;
let v357 = *v527;
let v358 = v357 + v352;
*v527 = v358;

}

}
for(var v360: u32 = v30; v360 < v308; v360 += v37) {
let v365 = &(*v683)[v360];
let v366 = *v365;
let v367 = v366 < v307;
if v367 {
let v371 = &(*v682)[v360];
let v372 = *v371;
let v373 = *v527;
let v374 = v372 / v373;
let v375 = v24 * v374;
*v371 = v375;

}

}

}
return;

}
