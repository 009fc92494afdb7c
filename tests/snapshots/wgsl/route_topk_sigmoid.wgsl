@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid(@builtin(workgroup_id) v672: vec3<u32>, @builtin(num_workgroups) v674: vec3<u32>, @builtin(local_invocation_index) v681: u32) {
let v711 = &v17;
let v712 = &v13;
let v713 = &v9;
let v714 = &v5;
let v715 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_f32[0];
let v673 = v672[2];
let v581 = u32(v673);
let v675 = v674[1];
let v583 = u32(v675);
let v584 = v581 * v583;
let v676 = v674[0];
let v586 = u32(v676);
let v587 = v584 * v586;
let v677 = v672[1];
let v589 = u32(v677);
let v592 = v589 * v586;
let v593 = v587 + v592;
let v679 = v672[0];
let v595 = u32(v679);
let v596 = v593 + v595;
let v707 = u32(64);
let v599 = v596 * v707;
let v682 = v681;
let v601 = u32(v682);
let v602 = v599 + v601;
let v26 = v602 < v21;
if v26 {
let v28 = v602 * v22;
let v30 = v602 * v23;
let v31 = f32(0.0);
let v32 = vec4<f32>(v31);
let v33 = f32(-3.4028234663852886e38);
let v34 = vec4<f32>(v33);
var<function> v418_store: vec4<f32>;
let v418 = &v418_store;
*v418 = v34;
let v37 = u32(1);
for(var v38: u32 = v3; v38 < v22; v38 += v37) {
let v40 = v28 + v38;
let v44 = &(*v715)[v40];
let v45 = *v44;
let v46 = *v418;
let v47 = max(v46, v45);
*v418 = v47;

}
let v48 = *v418;
let v49 = v48[0];
var<function> v420_store: f32;
let v420 = &v420_store;
*v420 = v49;
let v51 = *v418;
let v52 = v51[1];
let v53 = *v420;
let v54 = max(v53, v52);
*v420 = v54;
let v55 = *v418;
let v56 = v55[2];
let v57 = *v420;
let v58 = max(v57, v56);
*v420 = v58;
let v59 = *v418;
let v60 = v59[3];
let v61 = *v420;
let v62 = max(v61, v60);
*v420 = v62;
var<function> v421_store: vec4<f32>;
let v421 = &v421_store;
*v421 = v32;
for(var v66: u32 = v3; v66 < v22; v66 += v37) {
let v68 = v28 + v66;
let v72 = &(*v715)[v68];
let v73 = *v72;
let v74 = *v420;
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
let v86 = *v421;
let v87 = v86 + v85;
*v421 = v87;
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
let v111 = &(*v712)[v68];
*v111 = v106;

}
let v112 = *v421;
var<function> v561_store: f32;
let v561 = &v561_store;
*v561 = v31;
let v426 = v112[0];
let v427 = *v561;
let v428 = v427 + v426;
*v561 = v428;
let v429 = v112[1];
let v430 = *v561;
let v431 = v430 + v429;
*v561 = v431;
let v432 = v112[2];
let v433 = *v561;
let v434 = v433 + v432;
*v561 = v434;
let v435 = v112[3];
let v436 = *v561;
let v437 = v436 + v435;
*v561 = v437;
let v438 = *v561;
let v114 = bitcast<u32>(v438);
let v115 = u32(2147483647);
let v116 = v114 & v115;
let v117 = u32(2139095040);
let v118 = v116 > v117;
let v119 = log(v438);
let v120 = *v420;
let v121 = v120 + v119;
let v122 = bitcast<u32>(v121);
let v123 = select(v122, v114, v118);
let v124 = u32(0);
let v125 = v114 == v124;
let v126 = u32(4286578688);
let v127 = select(v123, v126, v125);
let v128 = bitcast<f32>(v127);
let v133 = &(*v711)[v602];
*v133 = v128;
let v138 = u32(4294967295);
var<function> v440_store: u32;
let v440 = &v440_store;
*v440 = v138;
var<function> v441_store: u32;
let v441 = &v441_store;
*v441 = v124;
for(var v146: u32 = v3; v146 < v23; v146 += v37) {
let v149 = vec4<u32>(v124);
var<function> v443_store: vec4<u32>;
let v443 = &v443_store;
*v443 = v149;
var<function> v444_store: vec4<u32>;
let v444 = &v444_store;
*v444 = v149;
var<function> v445_store: vec4<u32>;
let v445 = &v445_store;
*v445 = v149;
var<function> v446_store: vec4<u32>;
let v446 = &v446_store;
let v158 = *v445;
*v446 = v158;
let v159 = *v446;
let v161 = vec4<u32>(v124, v159[1], v159[2], v159[3]);
*v446 = v161;
let v162 = *v446;
let v163 = u32(1);
let v164 = vec4<u32>(v162[0], v163, v162[2], v162[3]);
*v446 = v164;
let v165 = *v446;
let v166 = u32(2);
let v167 = vec4<u32>(v165[0], v165[1], v166, v165[3]);
*v446 = v167;
let v168 = *v446;
let v169 = u32(3);
let v170 = vec4<u32>(v168[0], v168[1], v168[2], v169);
*v446 = v170;
let v171 = *v440;
let v172 = vec4<u32>(v171);
let v173 = *v441;
let v174 = vec4<u32>(v173);
for(var v177: u32 = v3; v177 < v22; v177 += v37) {
let v179 = u32(4);
let v180 = v177 * v179;
let v181 = u32(v180);
let v182 = vec4<u32>(v181);
let v183 = *v446;
let v184 = v183 + v182;
let v185 = v28 + v177;
let v189 = &(*v715)[v185];
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
let v448 = false;
let v449 = vec4<bool>(v448);
var<function> v562_store: vec4<bool>;
let v562 = &v562_store;
*v562 = v449;
var<function> v563_store: vec4<bool>;
let v563 = &v563_store;
let v452 = *v562;
*v563 = v452;
let v453 = v218[0];
var<function> v564_store: bool;
let v564 = &v564_store;
if v453 {
let v454 = v217[0];
*v564 = v454;

} else {
*v564 = v448;

}
let v457 = *v563;
let v458 = *v564;
let v459 = vec4<bool>(v458, v457[1], v457[2], v457[3]);
*v563 = v459;
let v460 = v218[1];
var<function> v565_store: bool;
let v565 = &v565_store;
if v460 {
let v461 = v217[1];
*v565 = v461;

} else {
*v565 = v448;

}
let v464 = *v563;
let v465 = *v565;
let v466 = vec4<bool>(v464[0], v465, v464[2], v464[3]);
*v563 = v466;
let v467 = v218[2];
var<function> v566_store: bool;
let v566 = &v566_store;
if v467 {
let v468 = v217[2];
*v566 = v468;

} else {
*v566 = v448;

}
let v471 = *v563;
let v472 = *v566;
let v473 = vec4<bool>(v471[0], v471[1], v472, v471[3]);
*v563 = v473;
let v474 = v218[3];
var<function> v567_store: bool;
let v567 = &v567_store;
if v474 {
let v475 = v217[3];
*v567 = v475;

} else {
*v567 = v448;

}
let v478 = *v563;
let v479 = *v567;
let v480 = vec4<bool>(v478[0], v478[1], v478[2], v479);
*v563 = v480;
let v481 = *v563;
let v220 = v214 < v172;
var<function> v568_store: vec4<bool>;
let v568 = &v568_store;
*v568 = v449;
var<function> v569_store: vec4<bool>;
let v569 = &v569_store;
let v486 = *v568;
*v569 = v486;
let v487 = v220[0];
let v488 = true;
var<function> v570_store: bool;
let v570 = &v570_store;
if v487 {
*v570 = v488;

} else {
let v491 = v481[0];
*v570 = v491;

}
let v492 = *v569;
let v493 = *v570;
let v494 = vec4<bool>(v493, v492[1], v492[2], v492[3]);
*v569 = v494;
let v495 = v220[1];
var<function> v571_store: bool;
let v571 = &v571_store;
if v495 {
*v571 = v488;

} else {
let v499 = v481[1];
*v571 = v499;

}
let v500 = *v569;
let v501 = *v571;
let v502 = vec4<bool>(v500[0], v501, v500[2], v500[3]);
*v569 = v502;
let v503 = v220[2];
var<function> v572_store: bool;
let v572 = &v572_store;
if v503 {
*v572 = v488;

} else {
let v507 = v481[2];
*v572 = v507;

}
let v508 = *v569;
let v509 = *v572;
let v510 = vec4<bool>(v508[0], v508[1], v509, v508[3]);
*v569 = v510;
let v511 = v220[3];
var<function> v573_store: bool;
let v573 = &v573_store;
if v511 {
*v573 = v488;

} else {
let v515 = v481[3];
*v573 = v515;

}
let v516 = *v569;
let v517 = *v573;
let v518 = vec4<bool>(v516[0], v516[1], v516[2], v517);
*v569 = v518;
let v519 = *v569;
let v222 = *v443;
let v223 = v214 > v222;
var<function> v574_store: vec4<bool>;
let v574 = &v574_store;
*v574 = v449;
var<function> v575_store: vec4<bool>;
let v575 = &v575_store;
let v524 = *v574;
*v575 = v524;
let v525 = v223[0];
var<function> v576_store: bool;
let v576 = &v576_store;
if v525 {
let v526 = v519[0];
*v576 = v526;

} else {
*v576 = v448;

}
let v529 = *v575;
let v530 = *v576;
let v531 = vec4<bool>(v530, v529[1], v529[2], v529[3]);
*v575 = v531;
let v532 = v223[1];
var<function> v577_store: bool;
let v577 = &v577_store;
if v532 {
let v533 = v519[1];
*v577 = v533;

} else {
*v577 = v448;

}
let v536 = *v575;
let v537 = *v577;
let v538 = vec4<bool>(v536[0], v537, v536[2], v536[3]);
*v575 = v538;
let v539 = v223[2];
var<function> v578_store: bool;
let v578 = &v578_store;
if v539 {
let v540 = v519[2];
*v578 = v540;

} else {
*v578 = v448;

}
let v543 = *v575;
let v544 = *v578;
let v545 = vec4<bool>(v543[0], v543[1], v544, v543[3]);
*v575 = v545;
let v546 = v223[3];
var<function> v579_store: bool;
let v579 = &v579_store;
if v546 {
let v547 = v519[3];
*v579 = v547;

} else {
*v579 = v448;

}
let v550 = *v575;
let v551 = *v579;
let v552 = vec4<bool>(v550[0], v550[1], v550[2], v551);
*v575 = v552;
let v553 = *v575;
let v225 = *v443;
let v226 = select(v225, v214, v553);
*v443 = v226;
let v227 = *v444;
let v228 = select(v227, v184, v553);
*v444 = v228;

}
let v229 = *v443;
let v230 = v229[0];
var<function> v554_store: u32;
let v554 = &v554_store;
*v554 = v230;
let v232 = *v444;
let v233 = v232[0];
var<function> v555_store: u32;
let v555 = &v555_store;
*v555 = v233;
let v235 = *v443;
let v236 = v235[1];
let v237 = *v444;
let v238 = v237[1];
let v239 = *v554;
let v240 = v236 > v239;
let v242 = v236 == v239;
let v243 = *v555;
let v244 = v238 < v243;
let v245 = v242 && v244;
let v246 = v240 || v245;
let v248 = select(v239, v236, v246);
*v554 = v248;
let v249 = *v555;
let v250 = select(v249, v238, v246);
*v555 = v250;
let v251 = *v443;
let v252 = v251[2];
let v253 = *v444;
let v254 = v253[2];
let v255 = *v554;
let v256 = v252 > v255;
let v258 = v252 == v255;
let v259 = *v555;
let v260 = v254 < v259;
let v261 = v258 && v260;
let v262 = v256 || v261;
let v264 = select(v255, v252, v262);
*v554 = v264;
let v265 = *v555;
let v266 = select(v265, v254, v262);
*v555 = v266;
let v267 = *v443;
let v268 = v267[3];
let v269 = *v444;
let v270 = v269[3];
let v271 = *v554;
let v272 = v268 > v271;
let v274 = v268 == v271;
let v275 = *v555;
let v276 = v270 < v275;
let v277 = v274 && v276;
let v278 = v272 || v277;
let v280 = select(v271, v268, v278);
*v554 = v280;
let v281 = *v555;
let v282 = select(v281, v270, v278);
*v555 = v282;
let v283 = *v554;
let v285 = v283 > v124;
if v285 {
*v440 = v283;
let v287 = *v555;
*v441 = v287;
let v288 = *v555;
let v289 = u32(v288);
let v290 = u32(4);
let v291 = v289 / v290;
let v292 = v28 + v291;
let v296 = v289 % v290;
let v297 = v30 + v146;
let v301 = &(*v714)[v297];
*v301 = v288;
let v306 = &(*v715)[v292];
let v307 = *v306;
let v308 = v307[v296];
let v310 = min(v308, v31);
let v311 = abs(v308);
let v312 = -v311;
let v313 = exp(v312);
let v314 = f32(1.0);
let v315 = v314 + v313;
let v316 = log(v315);
let v317 = v310 - v316;
let v322 = &(*v713)[v297];
*v322 = v317;

} else {
let v323 = u32(4);
let v324 = v22 * v323;
let v325 = u32(v324);
let v326 = v30 + v146;
let v330 = &(*v714)[v326];
*v330 = v325;
let v335 = &(*v713)[v326];
*v335 = v31;

}

}
let v337 = u32(4);
let v338 = v22 * v337;
let v339 = u32(v338);
let v340 = v30 + v23;
let v344 = &(*v713)[v30];
let v345 = *v344;
var<function> v556_store: f32;
let v556 = &v556_store;
*v556 = v345;
let v348 = v30 + v37;
for(var v350: u32 = v348; v350 < v340; v350 += v37) {
let v355 = &(*v714)[v350];
let v356 = *v355;
let v357 = v356 < v339;
if v357 {
let v361 = &(*v713)[v350];
let v362 = *v361;
let v363 = *v556;
let v364 = max(v363, v362);
*v556 = v364;

}

}
var<function> v558_store: f32;
let v558 = &v558_store;
*v558 = v31;
for(var v369: u32 = v30; v369 < v340; v369 += v37) {
let v374 = &(*v714)[v369];
let v375 = *v374;
let v376 = v375 < v339;
if v376 {
let v380 = &(*v713)[v369];
let v381 = *v380;
let v382 = *v556;
let v383 = v381 - v382;
let v384 = exp(v383);
*v380 = v384;
let v389 = *v558;
let v390 = v389 + v384;
*v558 = v390;

}

}
for(var v392: u32 = v30; v392 < v340; v392 += v37) {
let v397 = &(*v714)[v392];
let v398 = *v397;
let v399 = v398 < v339;
if v399 {
let v403 = &(*v713)[v392];
let v404 = *v403;
let v405 = *v558;
let v406 = v404 / v405;
let v407 = v24 * v406;
*v403 = v407;

}

}

}
return;

}
