@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_bias(@builtin(workgroup_id) v654: vec3<u32>, @builtin(num_workgroups) v656: vec3<u32>, @builtin(local_invocation_index) v663: u32) {
let v693 = &v21;
let v694 = &v17;
let v695 = &v13;
let v696 = &v9;
let v697 = &v5;
let v698 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v655 = v654[2];
let v563 = u32(v655);
let v657 = v656[1];
let v565 = u32(v657);
let v566 = v563 * v565;
let v658 = v656[0];
let v568 = u32(v658);
let v569 = v566 * v568;
let v659 = v654[1];
let v571 = u32(v659);
let v574 = v571 * v568;
let v575 = v569 + v574;
let v661 = v654[0];
let v577 = u32(v661);
let v578 = v575 + v577;
let v689 = u32(64);
let v581 = v578 * v689;
let v664 = v663;
let v583 = u32(v664);
let v584 = v581 + v583;
let v30 = v584 < v25;
if v30 {
let v32 = v584 * v26;
let v34 = v584 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v400_store: vec4<f32>;
let v400 = &v400_store;
*v400 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v698)[v44];
let v49 = *v48;
let v50 = *v400;
let v51 = max(v50, v49);
*v400 = v51;

}
let v52 = *v400;
let v53 = v52[0];
var<function> v402_store: f32;
let v402 = &v402_store;
*v402 = v53;
let v55 = *v400;
let v56 = v55[1];
let v57 = *v402;
let v58 = max(v57, v56);
*v402 = v58;
let v59 = *v400;
let v60 = v59[2];
let v61 = *v402;
let v62 = max(v61, v60);
*v402 = v62;
let v63 = *v400;
let v64 = v63[3];
let v65 = *v402;
let v66 = max(v65, v64);
*v402 = v66;
var<function> v403_store: vec4<f32>;
let v403 = &v403_store;
*v403 = v36;
for(var v70: u32 = v3; v70 < v26; v70 += v41) {
let v72 = v32 + v70;
let v76 = &(*v698)[v72];
let v77 = *v76;
let v78 = *v402;
let v79 = vec4<f32>(v78);
let v80 = v77 - v79;
let v81 = exp(v80);
let v82 = *v403;
let v83 = v82 + v81;
*v403 = v83;
let v84 = f32(1.0);
let v85 = vec4<f32>(v84);
let v86 = abs(v77);
let v87 = -v86;
let v88 = exp(v87);
let v91 = v77 < v36;
let v92 = select(v85, v88, v91);
let v93 = v85 + v88;
let v94 = v92 / v93;
let v99 = &(*v694)[v72];
*v99 = v94;

}
let v100 = *v403;
var<function> v543_store: f32;
let v543 = &v543_store;
*v543 = v35;
let v408 = v100[0];
let v409 = *v543;
let v410 = v409 + v408;
*v543 = v410;
let v411 = v100[1];
let v412 = *v543;
let v413 = v412 + v411;
*v543 = v413;
let v414 = v100[2];
let v415 = *v543;
let v416 = v415 + v414;
*v543 = v416;
let v417 = v100[3];
let v418 = *v543;
let v419 = v418 + v417;
*v543 = v419;
let v420 = *v543;
let v102 = log(v420);
let v103 = *v402;
let v104 = v103 + v102;
let v109 = &(*v693)[v584];
*v109 = v104;
let v114 = u32(4294967295);
var<function> v422_store: u32;
let v422 = &v422_store;
*v422 = v114;
let v117 = u32(0);
var<function> v423_store: u32;
let v423 = &v423_store;
*v423 = v117;
for(var v122: u32 = v3; v122 < v27; v122 += v41) {
let v125 = vec4<u32>(v117);
var<function> v425_store: vec4<u32>;
let v425 = &v425_store;
*v425 = v125;
var<function> v426_store: vec4<u32>;
let v426 = &v426_store;
*v426 = v125;
var<function> v427_store: vec4<u32>;
let v427 = &v427_store;
*v427 = v125;
var<function> v428_store: vec4<u32>;
let v428 = &v428_store;
let v134 = *v427;
*v428 = v134;
let v135 = *v428;
let v137 = vec4<u32>(v117, v135[1], v135[2], v135[3]);
*v428 = v137;
let v138 = *v428;
let v139 = u32(1);
let v140 = vec4<u32>(v138[0], v139, v138[2], v138[3]);
*v428 = v140;
let v141 = *v428;
let v142 = u32(2);
let v143 = vec4<u32>(v141[0], v141[1], v142, v141[3]);
*v428 = v143;
let v144 = *v428;
let v145 = u32(3);
let v146 = vec4<u32>(v144[0], v144[1], v144[2], v145);
*v428 = v146;
let v147 = *v422;
let v148 = vec4<u32>(v147);
let v149 = *v423;
let v150 = vec4<u32>(v149);
for(var v153: u32 = v3; v153 < v26; v153 += v41) {
let v155 = u32(4);
let v156 = v153 * v155;
let v157 = u32(v156);
let v158 = vec4<u32>(v157);
let v159 = *v428;
let v160 = v159 + v158;
let v161 = v32 + v153;
let v165 = &(*v694)[v161];
let v166 = *v165;
let v170 = &(*v697)[v153];
let v171 = *v170;
let v172 = v166 + v171;
let v173 = u32(2147483648);
let v174 = vec4<u32>(v173);
let v175 = bitcast<vec4<u32>>(v172);
let v176 = v175 == v174;
let v179 = select(v175, v125, v176);
let v180 = v179 < v174;
let v181 = v179 | v174;
let v182 = ~v179;
let v183 = select(v182, v181, v180);
let v184 = u32(2147483647);
let v185 = vec4<u32>(v184);
let v186 = v179 & v185;
let v187 = u32(2139095040);
let v188 = vec4<u32>(v187);
let v189 = v186 > v188;
let v192 = select(v183, v125, v189);
let v194 = vec4<u32>(v139);
let v195 = v192 + v194;
let v198 = v160 > v150;
let v199 = v195 == v148;
let v430 = false;
let v431 = vec4<bool>(v430);
var<function> v544_store: vec4<bool>;
let v544 = &v544_store;
*v544 = v431;
var<function> v545_store: vec4<bool>;
let v545 = &v545_store;
let v434 = *v544;
*v545 = v434;
let v435 = v199[0];
var<function> v546_store: bool;
let v546 = &v546_store;
if v435 {
let v436 = v198[0];
*v546 = v436;

} else {
*v546 = v430;

}
let v439 = *v545;
let v440 = *v546;
let v441 = vec4<bool>(v440, v439[1], v439[2], v439[3]);
*v545 = v441;
let v442 = v199[1];
var<function> v547_store: bool;
let v547 = &v547_store;
if v442 {
let v443 = v198[1];
*v547 = v443;

} else {
*v547 = v430;

}
let v446 = *v545;
let v447 = *v547;
let v448 = vec4<bool>(v446[0], v447, v446[2], v446[3]);
*v545 = v448;
let v449 = v199[2];
var<function> v548_store: bool;
let v548 = &v548_store;
if v449 {
let v450 = v198[2];
*v548 = v450;

} else {
*v548 = v430;

}
let v453 = *v545;
let v454 = *v548;
let v455 = vec4<bool>(v453[0], v453[1], v454, v453[3]);
*v545 = v455;
let v456 = v199[3];
var<function> v549_store: bool;
let v549 = &v549_store;
if v456 {
let v457 = v198[3];
*v549 = v457;

} else {
*v549 = v430;

}
let v460 = *v545;
let v461 = *v549;
let v462 = vec4<bool>(v460[0], v460[1], v460[2], v461);
*v545 = v462;
let v463 = *v545;
let v201 = v195 < v148;
var<function> v550_store: vec4<bool>;
let v550 = &v550_store;
*v550 = v431;
var<function> v551_store: vec4<bool>;
let v551 = &v551_store;
let v468 = *v550;
*v551 = v468;
let v469 = v201[0];
let v470 = true;
var<function> v552_store: bool;
let v552 = &v552_store;
if v469 {
*v552 = v470;

} else {
let v473 = v463[0];
*v552 = v473;

}
let v474 = *v551;
let v475 = *v552;
let v476 = vec4<bool>(v475, v474[1], v474[2], v474[3]);
*v551 = v476;
let v477 = v201[1];
var<function> v553_store: bool;
let v553 = &v553_store;
if v477 {
*v553 = v470;

} else {
let v481 = v463[1];
*v553 = v481;

}
let v482 = *v551;
let v483 = *v553;
let v484 = vec4<bool>(v482[0], v483, v482[2], v482[3]);
*v551 = v484;
let v485 = v201[2];
var<function> v554_store: bool;
let v554 = &v554_store;
if v485 {
*v554 = v470;

} else {
let v489 = v463[2];
*v554 = v489;

}
let v490 = *v551;
let v491 = *v554;
let v492 = vec4<bool>(v490[0], v490[1], v491, v490[3]);
*v551 = v492;
let v493 = v201[3];
var<function> v555_store: bool;
let v555 = &v555_store;
if v493 {
*v555 = v470;

} else {
let v497 = v463[3];
*v555 = v497;

}
let v498 = *v551;
let v499 = *v555;
let v500 = vec4<bool>(v498[0], v498[1], v498[2], v499);
*v551 = v500;
let v501 = *v551;
let v203 = *v425;
let v204 = v195 > v203;
var<function> v556_store: vec4<bool>;
let v556 = &v556_store;
*v556 = v431;
var<function> v557_store: vec4<bool>;
let v557 = &v557_store;
let v506 = *v556;
*v557 = v506;
let v507 = v204[0];
var<function> v558_store: bool;
let v558 = &v558_store;
if v507 {
let v508 = v501[0];
*v558 = v508;

} else {
*v558 = v430;

}
let v511 = *v557;
let v512 = *v558;
let v513 = vec4<bool>(v512, v511[1], v511[2], v511[3]);
*v557 = v513;
let v514 = v204[1];
var<function> v559_store: bool;
let v559 = &v559_store;
if v514 {
let v515 = v501[1];
*v559 = v515;

} else {
*v559 = v430;

}
let v518 = *v557;
let v519 = *v559;
let v520 = vec4<bool>(v518[0], v519, v518[2], v518[3]);
*v557 = v520;
let v521 = v204[2];
var<function> v560_store: bool;
let v560 = &v560_store;
if v521 {
let v522 = v501[2];
*v560 = v522;

} else {
*v560 = v430;

}
let v525 = *v557;
let v526 = *v560;
let v527 = vec4<bool>(v525[0], v525[1], v526, v525[3]);
*v557 = v527;
let v528 = v204[3];
var<function> v561_store: bool;
let v561 = &v561_store;
if v528 {
let v529 = v501[3];
*v561 = v529;

} else {
*v561 = v430;

}
let v532 = *v557;
let v533 = *v561;
let v534 = vec4<bool>(v532[0], v532[1], v532[2], v533);
*v557 = v534;
let v535 = *v557;
let v206 = *v425;
let v207 = select(v206, v195, v535);
*v425 = v207;
let v208 = *v426;
let v209 = select(v208, v160, v535);
*v426 = v209;

}
let v210 = *v425;
let v211 = v210[0];
var<function> v536_store: u32;
let v536 = &v536_store;
*v536 = v211;
let v213 = *v426;
let v214 = v213[0];
var<function> v537_store: u32;
let v537 = &v537_store;
*v537 = v214;
let v216 = *v425;
let v217 = v216[1];
let v218 = *v426;
let v219 = v218[1];
let v220 = *v536;
let v221 = v217 > v220;
let v223 = v217 == v220;
let v224 = *v537;
let v225 = v219 < v224;
let v226 = v223 && v225;
let v227 = v221 || v226;
let v229 = select(v220, v217, v227);
*v536 = v229;
let v230 = *v537;
let v231 = select(v230, v219, v227);
*v537 = v231;
let v232 = *v425;
let v233 = v232[2];
let v234 = *v426;
let v235 = v234[2];
let v236 = *v536;
let v237 = v233 > v236;
let v239 = v233 == v236;
let v240 = *v537;
let v241 = v235 < v240;
let v242 = v239 && v241;
let v243 = v237 || v242;
let v245 = select(v236, v233, v243);
*v536 = v245;
let v246 = *v537;
let v247 = select(v246, v235, v243);
*v537 = v247;
let v248 = *v425;
let v249 = v248[3];
let v250 = *v426;
let v251 = v250[3];
let v252 = *v536;
let v253 = v249 > v252;
let v255 = v249 == v252;
let v256 = *v537;
let v257 = v251 < v256;
let v258 = v255 && v257;
let v259 = v253 || v258;
let v261 = select(v252, v249, v259);
*v536 = v261;
let v262 = *v537;
let v263 = select(v262, v251, v259);
*v537 = v263;
let v264 = *v536;
let v266 = v264 > v117;
if v266 {
*v422 = v264;
let v268 = *v537;
*v423 = v268;
let v269 = *v537;
let v270 = u32(v269);
let v271 = u32(4);
let v272 = v270 / v271;
let v273 = v32 + v272;
let v277 = v270 % v271;
let v278 = v34 + v122;
let v282 = &(*v696)[v278];
*v282 = v269;
let v287 = &(*v698)[v273];
let v288 = *v287;
let v289 = v288[v277];
let v291 = min(v289, v35);
let v292 = abs(v289);
let v293 = -v292;
let v294 = exp(v293);
let v295 = f32(1.0);
let v296 = v295 + v294;
let v297 = log(v296);
let v298 = v291 - v297;
let v303 = &(*v695)[v278];
*v303 = v298;

} else {
let v304 = u32(4);
let v305 = v26 * v304;
let v306 = u32(v305);
let v307 = v34 + v122;
let v311 = &(*v696)[v307];
*v311 = v306;
let v316 = &(*v695)[v307];
*v316 = v35;

}

}
let v318 = u32(4);
let v319 = v26 * v318;
let v320 = u32(v319);
let v321 = v34 + v27;
let v325 = &(*v695)[v34];
let v326 = *v325;
var<function> v538_store: f32;
let v538 = &v538_store;
*v538 = v326;
let v329 = v34 + v41;
for(var v331: u32 = v329; v331 < v321; v331 += v41) {
let v336 = &(*v696)[v331];
let v337 = *v336;
let v338 = v337 < v320;
if v338 {
let v342 = &(*v695)[v331];
let v343 = *v342;
let v344 = *v538;
let v345 = max(v344, v343);
*v538 = v345;

}

}
var<function> v540_store: f32;
let v540 = &v540_store;
*v540 = v35;
for(var v350: u32 = v34; v350 < v321; v350 += v41) {
let v355 = &(*v696)[v350];
let v356 = *v355;
let v357 = v356 < v320;
if v357 {
let v361 = &(*v695)[v350];
let v362 = *v361;
let v363 = *v538;
let v364 = v362 - v363;
let v365 = exp(v364);
*v361 = v365;
let v370 = *v540;
let v371 = v370 + v365;
*v540 = v371;

}

}
for(var v373: u32 = v34; v373 < v321; v373 += v41) {
let v378 = &(*v696)[v373];
let v379 = *v378;
let v380 = v379 < v320;
if v380 {
let v384 = &(*v695)[v373];
let v385 = *v384;
let v386 = *v540;
let v387 = v385 / v386;
let v388 = v28 * v387;
*v384 = v388;

}

}

}
return;

}
